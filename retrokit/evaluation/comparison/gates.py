"""Gates on an evaluation, for continuous integration: least values, and not worse than the first.

What cannot be looked at does not pass: an undefined metric fails its gate, and so does a result that lacks a metric
which others of its task have.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from retrokit.errors import GateFailed, UsageError, out_of_range
from retrokit.evaluation.comparison.comparison import Evaluation
from retrokit.notices import notice


def parse_gate(text: str) -> tuple[str, float]:
    """``ndcg@10=0.64`` as a metric and its least value. Raises :class:`UsageError` for another form."""
    metric, _, value = text.partition("=")
    try:
        least = float(value)
    except ValueError:
        least = math.nan
    if not metric or out_of_range(least):
        raise UsageError(f"`fail_under` {text}: expected METRIC=VALUE, as in ndcg@10=0.64")
    return metric.strip(), least


def check_gates(
    evaluation: Evaluation,
    fail_under: Sequence[tuple[str, float]],
    fail_if_worse: bool,
    max_drop: float | None = None,
) -> None:
    """Raise :class:`GateFailed` if a result lies under a least value, or a system is significantly worse than the
    first, by the corrected p, or has fallen significantly, and by more than ``max_drop``, behind the stored baseline.
    Raises :class:`UsageError` for ``fail_if_worse`` where no main metric is tested."""
    failures = list(_under(evaluation, fail_under))
    if max_drop is not None:
        failures += _fallen(evaluation, max_drop)
    if fail_if_worse:
        failures += _worse(evaluation)
    if failures:
        raise GateFailed("\n".join(failures))


def _under(evaluation: Evaluation, fail_under: Sequence[tuple[str, float]]) -> Iterator[str]:
    measured = {(result.task, metric) for result in evaluation.results for metric in result.metrics}
    for result in evaluation.results:
        named = f"{result.name} on {result.task}:"
        for metric, least in fail_under:
            value = result.metrics.get(metric)
            if value is None:
                if (result.task, metric) in measured:
                    yield f"{named} has no {metric}"
            elif math.isnan(value):
                yield f"{named} {metric} is undefined"
            elif value < least:
                yield f"{named} {metric} = {value:.4f} is under {least:g}"


def _fallen(evaluation: Evaluation, most: float) -> Iterator[str]:
    for one in evaluation.changes:
        named = f"{one.system} on {one.task}: {one.metric}"
        if one.fails(most):
            yield f"{named} = {one.after:.4f} where the baseline has {one.before:.4f}, and may lose {most:g}"
        elif one.before - one.after > most:
            notice(f"{named} is {one.before - one.after:.4f} lower than the baseline, which may be chance")
        if one.visible is not None and one.visible > most:
            found = f"a drop of {one.visible:.4f} is found four times in five, one of {most:g} less often"
            notice(f"{named}: {found}; more queries would tell")


def _worse(evaluation: Evaluation) -> list[str]:
    failures, untested = [], []
    for task in evaluation.tasks:
        metric = evaluation.main_metric(task)
        systems = evaluation.systems_on(task)
        undefined = [system.name for system in systems if math.isnan(system.metrics[metric])]
        tested = [one for one in evaluation.comparisons if (one.task, one.metric) == (task, metric)]
        failures += [f"{name} on {task}: {metric} is undefined" for name in undefined]
        failures += [
            f"{one.result} on {task}: {metric} is {-one.test.difference:.4f} worse than {one.baseline} "
            f"(p = {one.corrected_p:.3g})"
            for one in tested
            if one.significantly_worse
        ]
        if not tested and not undefined:
            untested.append(f"no test of {metric} on {task}" if len(systems) > 1 else f"one system alone on {task}")
    if len(untested) == len(evaluation.tasks):
        raise UsageError(f"`fail_if_worse` compares nothing here: {', '.join(untested)}")
    for reason in untested:
        notice(f"`fail_if_worse`: there is {reason}, which is left out")
    return failures
