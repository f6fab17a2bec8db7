"""Several encoders, similarities and tasks in one go, and how each differs from the first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from retrokit import encoders, similarities
from retrokit.encoders.encoder import Encoder
from retrokit.errors import GateFailed, UsageError
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.result import Result, Task
from retrokit.metrics.bootstrap import paired_bootstrap
from retrokit.metrics.significance import PairedTest, paired_t_test
from retrokit.notices import notice
from retrokit.registry import parse_all
from retrokit.similarities.base import Similarity

SIGNIFICANCE = 0.05
T_TEST, BOOTSTRAP = "paired t-test", "paired bootstrap"


@dataclass(frozen=True)
class Comparison:
    """How ``result`` differs from ``baseline`` in one metric over the same queries, texts or pairs.

    ``method`` names the test: a paired t-test where the metric is a mean, a paired bootstrap where it is not.
    """

    task: str
    metric: str
    baseline: str
    result: str
    method: str
    test: PairedTest

    @property
    def significantly_worse(self) -> bool:
        """Whether the difference is negative and p < 0.05."""
        return self.test.difference < 0 and self.test.p < SIGNIFICANCE

    def to_json(self) -> dict[str, Any]:
        """Plain values for strict JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Evaluation:
    """All results, the comparisons of each task's results with its first one, and the metrics to show by task."""

    results: list[Result]
    comparisons: list[Comparison]
    shown: dict[str, list[str]]

    def main_metric(self, task: str) -> str:
        """The metric that decides on ``task``."""
        return next(result.main_metric for result in self.results if result.task == task)


def evaluate(
    encoder_specs: Sequence[str],
    task_specs: Sequence[str],
    similarity_specs: Sequence[str] = (),
    metrics: Sequence[str] = (),
    also: Sequence[str] = (),
    precision: str = "auto",
    dims: int | None = None,
    device: str | None = None,
) -> Evaluation:
    """Evaluate every encoder under every similarity on every task.

    Without ``similarity_specs`` each encoder scores with its own. Each task computes those of ``metrics`` that it
    measures; its usual ones without ``metrics``, and the ones it shows where it measures none of them. ``also`` names
    more to compute, which are not compared.

    Raises:
        UsageError: wrong names (all of them in one message), metrics that no task measures, or dims.
        DataError: a task's files.
    """
    requests = [(encoders.registry, spec) for spec in encoder_specs]
    requests += [(tasks, spec) for spec in task_specs]
    requests += [(similarities.registry, spec) for spec in similarity_specs]
    parse_all(requests)
    loaded: list[Task] = [tasks.create(spec) for spec in task_specs]
    for name in dict.fromkeys([*metrics, *also]):
        _check_metric(loaded, name)
    shown = {task.spec: [m for m in metrics if _measures(task, m)] or list(task.shown_metrics) for task in loaded}
    for task in loaded:
        notice(task.describe())
    results = []
    for spec in encoder_specs:
        encoder = encoders.registry.create(spec, device=device)
        chosen = [_similarity(encoder, name) for name in similarity_specs] or [encoder.similarity]
        for task in loaded:
            usual = shown[task.spec] if metrics else task.default_metrics
            names = list(dict.fromkeys([*usual, *(name for name in also if _measures(task, name))]))
            results += task.evaluate(encoder, chosen, names, precision, dims)
    results.sort(key=lambda result: [task.spec for task in loaded].index(result.task))
    return Evaluation(results, compare(results, shown), shown)


def _measures(task: Task, metric: str) -> bool:
    try:
        task.check_metrics([metric])
    except UsageError:
        return False
    return True


def _check_metric(tasks: Sequence[Task], metric: str) -> None:
    """Raise :class:`UsageError`, with what each task says of it, for a metric that no task measures."""
    problems = []
    for task in tasks:
        try:
            task.check_metrics([metric])
            return
        except UsageError as error:
            problems.append(str(error))
    raise UsageError("\n".join(dict.fromkeys(problems)))


def _similarity(encoder: Encoder, spec: str) -> Similarity:
    """The similarity of that spec; the encoder's own where it is the same, for that one has learned something."""
    made: Similarity = similarities.registry.create(spec)
    return encoder.similarity if encoder.similarity.spec == made.spec else made


def compare(results: Sequence[Result], metrics: Mapping[str, Sequence[str]]) -> list[Comparison]:
    """Compare each task's results with its first one in the task's ``metrics``, and always in its main one.

    A metric that is neither a mean over items nor can be computed on items drawn anew has no test, and is left out.
    """
    comparisons = []
    for task in dict.fromkeys(result.task for result in results):
        first, *others = [result for result in results if result.task == task]
        for other in others:
            for metric in dict.fromkeys([first.main_metric, *metrics.get(task, ())]):
                tested = _tested(first, other, metric)
                if tested is not None:
                    comparisons.append(Comparison(task, metric, first.name, other.name, *tested))
    return comparisons


def _tested(first: Result, other: Result, metric: str) -> tuple[str, PairedTest] | None:
    if metric in first.per_query:
        return T_TEST, paired_t_test(first.per_query[metric], other.per_query[metric])
    if metric in first.resampled:
        a, b = first.resampled[metric], other.resampled[metric]
        return BOOTSTRAP, paired_bootstrap(a.value, b.value, a.items)
    return None


def parse_gate(text: str) -> tuple[str, float]:
    """``ndcg@10=0.64`` as a metric and its least value.

    Raises:
        UsageError: another form.
    """
    metric, _, value = text.partition("=")
    try:
        least = float(value)
    except ValueError:
        least = math.nan
    if not metric or not math.isfinite(least):
        raise UsageError(f"--fail-under {text}: expected METRIC=VALUE, as in ndcg@10=0.64")
    return metric.strip(), least


def check_gates(evaluation: Evaluation, fail_under: Sequence[tuple[str, float]], fail_if_worse: bool) -> None:
    """Raise :class:`GateFailed` if a result lies under a least value, or is significantly worse than the first."""
    failures = [
        f"{result.name} on {result.task}: {metric} = {result.metrics[metric]:.4f} is under {least:g}"
        for result in evaluation.results
        for metric, least in fail_under
        if metric in result.metrics and result.metrics[metric] < least
    ]
    if fail_if_worse:
        failures += [
            f"{comparison.result} on {comparison.task}: {comparison.metric} is {-comparison.test.difference:.4f} worse "
            f"than {comparison.baseline} (p = {comparison.test.p:.3g})"
            for comparison in evaluation.comparisons
            if comparison.significantly_worse and comparison.metric == evaluation.main_metric(comparison.task)
        ]
    if failures:
        raise GateFailed("\n".join(failures))
