"""How systems differ from the first one, on each task and over tasks, and whether it is more than chance.

A metric that is a mean over items is tested by a paired t-test (MAG, Q.1) and by a randomisation test, any other by a
paired bootstrap. Over tasks, the tasks are the items, and seeds are averaged before anything is tested (MAG, Q.1). All
tests of one metric are corrected together by Holm's method.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from retrokit.core.frames import frame
from retrokit.core.notices import notice
from retrokit.core.sheet import Column, digits, grouped
from retrokit.data.jsonl import restored
from retrokit.data.records import PrintedRecord, plain
from retrokit.evaluation.comparison.near_misses import ROW, near_miss_rows
from retrokit.evaluation.comparison.systems import System, comparable, led_by, precisions_of, prompts_of, systems_of
from retrokit.evaluation.comparison.trained import Training
from retrokit.evaluation.result import Result, known, settled
from retrokit.metrics.names import leading_metric
from retrokit.metrics.ranking import ranks
from retrokit.metrics.significance import PairedTest, alike, holm, paired_bootstrap, paired_t_test, randomisation_test

if TYPE_CHECKING:
    from pandas import DataFrame

    from retrokit.data.beir import RetrievalData
    from retrokit.data.overlap import Overlap
    from retrokit.evaluation.comparison.correlations import Correlation


SIGNIFICANCE = 0.05
PASSED, FAILED, UNTESTED = "passed", "failed", "untested"
T_TEST, BOOTSTRAP = "paired t-test", "paired bootstrap"
# A drop of 1.96 + 0.84 standard errors is found significant (p < 0.05, two-sided) four times in five.
_POWER = 2.802
_MARGIN = 1.96  # standard errors in half a 95% interval


@dataclass(frozen=True)
class Comparison:
    """How the system ``result`` differs from ``baseline`` in one metric over the same items: queries, texts, pairs,
    tasks.

    Attributes:
        method: names the test: a paired t-test where the metric is a mean, a paired bootstrap where it is not.
        randomisation_p: p of the randomisation test; ``None`` where the metric is no mean.
        corrected_p: the larger of the two p, corrected by Holm over all comparisons in the metric.
        precisions: of the baseline and the result, if they differ.
    """

    task: Annotated[str, Column("task")]
    metric: Annotated[str, Column("metric")]
    baseline: str
    result: Annotated[str, Column("system")]
    method: Annotated[str, Column("test")]
    test: Annotated[
        PairedTest,
        Column("difference", attrgetter("starred")),
        Column("95% interval", attrgetter("interval")),
        Column("p", ".2g", "p"),
    ]
    randomisation_p: Annotated[float | None, Column("randomisation p", ".2g")] = None
    corrected_p: Annotated[float, Column("Holm p", ".2g")] = 1.0
    precisions: tuple[str, str] | None = None

    @property
    def starred(self) -> str:
        """The difference, with a star where it is significant."""
        return f"{self.test.difference:+.4f}{'*' if self.significant else ' '}"

    @property
    def interval(self) -> str:
        """The 95% interval of the difference."""
        return f"{self.test.low:+.4f} … {self.test.high:+.4f}"

    @property
    def p(self) -> float:
        """The larger p of the tests, not corrected."""
        return self.test.p if self.randomisation_p is None else max(self.test.p, self.randomisation_p)

    @property
    def significant(self) -> bool:
        """Whether the corrected p is below 0.05."""
        return self.corrected_p < SIGNIFICANCE


@dataclass(frozen=True)
class BaselineChange:
    """A system against the one that was stored, in the main metric of a task, or the first of those that are shown.

    Attributes:
        before, after: the metric, then and now; NaN where it is undefined.
        comparison: the paired test; ``None`` where there is none.
    """

    derived: ClassVar = ("visible",)

    task: Annotated[str, Column("task")]
    metric: Annotated[str, Column("metric")]
    baseline: Annotated[str, Column("baseline")]
    system: Annotated[str, Column("system")]
    before: Annotated[float, Column("before", ".4f")]
    after: Annotated[float, Column("after", ".4f")]
    comparison: Annotated[
        Comparison | None,
        Column("difference", attribute="starred"),
        Column("95% interval", attribute="interval"),
        Column("Holm p", ".2g", "corrected_p"),
        Column("visible", lambda change: digits(change.visible)),
    ]

    @property
    def visible(self) -> float | None:
        """The smallest drop that as many items show with a power of 80%; ``None`` without a test or a spread."""
        width = self.comparison.test.high - self.comparison.test.low if self.comparison else 0.0
        return _POWER * width / (2 * _MARGIN) if width > 0 else None

    def fails(self, most: float) -> bool:
        """Whether it has fallen by more than ``most``, and by more than chance; what cannot be tested does."""
        if not (math.isfinite(self.before) and math.isfinite(self.after)):
            return True
        chance = self.comparison is not None and not self.comparison.significant
        return self.before - self.after > most and not chance


@dataclass(frozen=True)
class Gate:
    """What a setting requires of one system on one task, and the verdict.

    Attributes:
        setting: ``fail_under``, ``max_drop``, ``fail_if_idle`` or ``fail_if_worse``.
        asked: the requirement on ``metric``, in words: the same in every run with the same settings.
        value: the metric; ``None`` where there is none, or it is undefined.
        verdict: ``passed``, ``failed`` or ``untested``.
        message: why it failed or was not tested, in a line; empty if it passed.
    """

    setting: str
    task: Annotated[str, Column("task")]
    system: Annotated[str, Column("system")]
    metric: Annotated[str, Column("metric")]
    asked: Annotated[str, Column("required")]
    value: Annotated[float | None, Column("value", ".4f")]
    verdict: Annotated[str, Column("verdict")] = PASSED
    message: str = ""


@dataclass(frozen=True)
class OverTasks:
    """One system over the tasks of one main metric (MAG, Table 30): their ``mean``, the sample SD
    (``deviation``) between them, and the comparison with the first system, which has none."""

    system: str
    metric: str
    tasks: tuple[str, ...]
    mean: float
    deviation: float
    comparison: Comparison | None


@dataclass(frozen=True)
class Evaluation(PrintedRecord):
    """All results and what follows from them.

    Attributes:
        systems: the rows of each task: results, averaged over seeds.
        comparisons: of each task's systems with its first one.
        over_tasks: systems over the tasks that have one main metric.
        shown: the metrics to show, by task.
        digests: functions that return the digest of each task's data, or ``None``.
        changes: since a stored baseline.
        explanations: the queries that changed most.
        gate_metric: the metric of gates on the tasks that have it.
        keys: all that each result of a folder depends on.
        overlaps: texts of the tasks in the training data of encoders.
        near_misses: rows of :func:`near_miss_rows`, where a gate is tested.
    """

    results: list[Result]
    systems: list[System]
    comparisons: list[Comparison]
    over_tasks: list[OverTasks]
    shown: dict[str, list[str]]
    is_cross: bool = False
    correlations: list[Correlation] = field(default_factory=list)
    digests: Mapping[str, Callable[[], str | None]] = field(default_factory=dict)
    changes: Sequence[BaselineChange] = ()
    explanations: Sequence[Explanation] = ()
    gate_metric: str | None = None
    gates: Sequence[Gate] = ()
    keys: Sequence[Mapping[str, Any]] = ()
    overlaps: Sequence[Overlap] = ()
    near_misses: Sequence[Mapping[str, Any]] = ()

    @property
    def tasks(self) -> list[str]:
        """The tasks' specs, in order."""
        return list(dict.fromkeys(result.task for result in self.results))

    def main_metric(self, task: str) -> str:
        """The metric that decides on ``task``."""
        return next(result.main_metric for result in self.results if result.task == task)

    def gated_metric(self, task: str, usual: str) -> str:
        """What gates look at on ``task``: the metric that is named for them, where the task has it, else ``usual``."""
        named = any(result.task == task and self.gate_metric in result.metrics for result in self.results)
        return self.gate_metric if self.gate_metric is not None and named else usual

    def leading_metric(self, task: str) -> str:
        """The metric that leads ``task``: the metric named for gates, else the main one, or the first of those shown
        where it is none of them."""
        first = self.systems_on(task)[0].first
        return self.gated_metric(task, leading_metric(first.main_metric, self.shown.get(task, ())))

    def systems_on(self, task: str) -> list[System]:
        """The rows of one task; the first is what the others are compared with."""
        return [system for system in self.systems if system.task == task]

    def tests_on(self, task: str, metric: str) -> dict[str, Comparison]:
        """How each system of a task but its first one differs from that in the metric, by its name."""
        return {test.result: test for test in self.comparisons if (test.task, test.metric) == (task, metric)}

    def part(self, tasks: Collection[str]) -> Evaluation:
        """What is about these ``tasks``, without gates and changes."""
        results, systems, comparisons = (
            [entry for entry in entries if entry.task in tasks]
            for entries in (self.results, self.systems, self.comparisons)
        )
        over_tasks = [entry for entry in self.over_tasks if {*entry.tasks} <= {*tasks}]
        parts: dict[str, Any] = {"results": results, "systems": systems, "comparisons": comparisons}
        return replace(self, **parts, over_tasks=over_tasks, changes=(), gates=())

    def to_frame(self) -> DataFrame:
        """A row per system and metric on each task, then one per system over tasks, with the comparison, if any; then
        one per correlation, whose items are the systems."""
        return frame(_rows(self), TABLE)

    def to_json(self, with_queries: bool = False) -> dict[str, Any]:
        """Plain values for strict JSON; ``with_queries``: the values of every query too."""
        return {
            "results": [result.to_json(with_queries) for result in self.results],
            "seeds": [_seeds_json(system) for system in self.systems if len(system.results) > 1],
            **{name: plain(getattr(self, name)) for name in _PRINTED},
            "data": {task: digest() for task, digest in self.digests.items()},
            "trained_with": {
                result.encoder: system.trained_with
                for system in self.systems
                if system.trained_with
                for result in system.results
            },
            "cross": [cross.to_json() for cross in cross_of(self)] if self.is_cross else [],
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Evaluation:
        """What :meth:`to_json` gave; its tests are taken as they are."""
        plain = restored(_json_types(), plain)
        results = [Result.from_json(result) for result in plain["results"]]
        main_metrics: dict[str, str] = {}
        for result in results:
            metric = main_metrics.setdefault(result.task, result.main_metric)
            if metric not in result.metrics:
                raise ValueError(f"{result.name} on {result.task} has no {metric}, its main metric")
        trainings = {
            f"{encoder} {similarity}": Training(None, " ".join([*group["encoders"], *group["similarities"]]), seed)
            for group in plain["seeds"]
            for encoder, similarity, seed in zip(group["encoders"], group["similarities"], group["seeds"], strict=True)
        }
        trained = plain["trained_with"]
        return cls(
            results,
            [
                replace(system, trained_with=trained.get(system.first.encoder))
                for system in systems_of(results, trainings)
            ],
            plain["comparisons"],
            plain["over_tasks"],
            plain["shown"],
            bool(plain["cross"]),
            plain["correlations"],
            {task: partial(str, digest) for task, digest in plain["data"].items() if digest},
            changes=plain["changes"],
            overlaps=plain["overlaps"],
            explanations=plain["explanations"],
            gates=plain["gates"],
            near_misses=plain["near_misses"],
        )


_PRINTED = (
    *("comparisons", "explanations", "changes", "gates", "near_misses", "overlaps", "over_tasks", "correlations"),
    "shown",
)
"""Fields of an evaluation that are printed as they are."""


def _json_types() -> dict[str, Any]:
    """What is read of the JSON of an evaluation."""
    from retrokit.data.overlap import Overlap
    from retrokit.evaluation.comparison.correlations import Correlation

    return {
        "results": list[dict[str, Any]],
        "seeds": [{"encoders": list[str], "similarities": list[str], "seeds": list[str]}],
        "trained_with": dict[str, str | None],
        "comparisons": list[Comparison],
        "over_tasks": list[OverTasks],
        "shown": dict[str, list[str]],
        "cross": list,
        "correlations": list[Correlation],
        "data": dict[str, str | None],
        "changes": list[BaselineChange],
        "overlaps": list[Overlap],
        "explanations": list[Explanation],
        "gates": list[Gate],
        "near_misses": [ROW],
    }


def _seeds_json(system: System) -> dict[str, Any]:
    return {
        "task": system.task,
        "name": system.name,
        "encoders": [result.encoder for result in system.results],
        "similarity": system.similarity,
        "similarities": [result.similarity for result in system.results],
        "seeds": list(system.seeds),
        "metrics": {
            metric: {"mean": known(value), "deviation": known(system.deviation(metric))}
            for metric, value in system.metrics.items()
        },
    }


TABLE = (
    *("task", "encoder", "similarity", "trained_with", "seeds", "metric", "value", "deviation"),
    *("baseline", "difference", "low", "high", "items", "test", "p", "randomisation_p", "corrected_p", "precision"),
)
"""The columns of :meth:`Evaluation.to_frame`."""


def _rows(evaluation: Evaluation) -> Iterator[dict[str, Any]]:
    tests = {(c.task, c.result, c.metric): c for c in evaluation.comparisons}
    about = {system.name: _system_row(system) for system in evaluation.systems}
    for system in evaluation.systems:
        for metric, value in system.metrics.items():
            cells = {"metric": metric, "value": known(value), "deviation": known(system.deviation(metric))}
            yield {**_system_row(system), **cells, **_comparison_row(tests.get((system.task, system.name, metric)))}
    for average in evaluation.over_tasks:
        cells = {"metric": average.metric, "value": average.mean, "deviation": average.deviation}
        task = {"task": f"mean of {len(average.tasks)} tasks"}
        yield {**about[average.system], **task, **cells, **_comparison_row(average.comparison)}
    for correlation in evaluation.correlations:
        cells = {"metric": f"spearman({correlation.first}, {correlation.second})", "value": correlation.spearman}
        yield {"task": correlation.data_set, **cells, "items": correlation.systems}


def _system_row(system: System) -> dict[str, Any]:
    names = ("task", "encoder", "similarity", "trained_with", "precision")
    return {**{name: getattr(system, name) for name in names}, "seeds": len(system.results)}


def _comparison_row(comparison: Comparison | None) -> dict[str, Any]:
    if comparison is None:
        return {}
    values = {name: getattr(comparison, name) for name in ("baseline", "randomisation_p", "corrected_p")}
    test = {name: getattr(comparison.test, name) for name in ("difference", "low", "high", "p")}
    return {**values, **test, "test": comparison.method, "items": comparison.test.queries}


def evaluation_of(
    results: Sequence[Result],
    shown: Mapping[str, Sequence[str]],
    trainings: Mapping[str, Training | None],
    is_cross: bool = False,
    correlate: bool = False,
    baseline_system: str | None = None,
    gate_metric: str | None = None,
) -> Evaluation:
    """All that follows from ``results``; ``trainings`` says how their encoders came about, by spec.

    The system of the name ``baseline_system`` comes first on each task, and is what the others are compared with.
    ``gate_metric`` is compared next to the metrics ``shown``. Raises :class:`UsageError` if there is no such system.
    """
    results = [settled(result) for result in results]
    if baseline_system is not None:
        results = led_by(baseline_system, results, systems_of(results, trainings))
    systems = systems_of(results, trainings)
    comparisons = []
    for task, of_task in grouped(systems, "task").items():
        metrics = [of_task[0].first.main_metric, *shown.get(task, ())]
        if gate_metric is not None:
            metrics.append(gate_metric)
        comparisons += _compared_with_first(of_task, list(dict.fromkeys(metrics)))
    if len(by_prompts := prompts_of(systems)) > 1:
        sides = "; ".join(f"{', '.join(names)}: {prompts}" for prompts, names in by_prompts.items())
        notice(f"the compared systems have different prompts: {sides}")
    evaluation = Evaluation(
        results,
        systems,
        corrected(comparisons),
        _over_tasks(systems),
        {task: list(names) for task, names in shown.items()},
        is_cross,
        gate_metric=gate_metric,
        near_misses=near_miss_rows(systems),
    )
    if not correlate:
        return evaluation
    from retrokit.evaluation.comparison.correlations import correlations

    return replace(evaluation, correlations=correlations(systems))


def _compared_with_first(systems: Sequence[System], metrics: Sequence[str]) -> list[Comparison]:
    """The tests of the other systems of a task against the first one, not corrected."""
    first, *others = systems
    comparisons = []
    for other, metric in product(others, metrics):
        comparison = tested(first, other, metric)
        if comparison is not None:
            comparisons.append(replace(comparison, precisions=_precisions([first], [other])))
    return comparisons


def tested(first: System, other: System, metric: str) -> Comparison | None:
    """How ``other`` differs from ``first`` in a metric, not corrected; ``None`` for one on the scale of the scores, or
    that is neither a mean over items nor can be resampled."""
    if not comparable(first, other, metric):
        return None
    names = (first.task, metric, first.name, other.name)
    a, b = first.per_item(metric), other.per_item(metric)
    if a is not None and b is not None:
        return Comparison(*names, T_TEST, paired_t_test(a, b), randomisation_test(a, b))
    of_first, of_other = first.draws(metric), other.draws(metric)
    if of_first is not None and of_other is not None and alike([of_first, of_other]):
        return Comparison(*names, BOOTSTRAP, paired_bootstrap(of_first, of_other))
    return None


def _precisions(baseline: Sequence[System], result: Sequence[System]) -> tuple[str, str] | None:
    """What both were computed in, on one task or over several, if that differs."""
    if not precisions_of([*baseline, *result]):
        return None
    a, b = (
        " and ".join(dict.fromkeys(system.precision for system in side if system.precision))
        for side in (baseline, result)
    )
    return (a, b) if a and b and a != b else None


def corrected(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons with Holm's correction over those in the same metric."""
    p_values: dict[str, list[float]] = {}
    for comparison in comparisons:
        p_values.setdefault(comparison.metric, []).append(comparison.p)
    corrected = {metric: iter(holm(values)) for metric, values in p_values.items()}
    return [replace(comparison, corrected_p=next(corrected[comparison.metric])) for comparison in comparisons]


def _over_tasks(systems: Sequence[System]) -> list[OverTasks]:
    """Each system over the tasks of one main metric that it shares with the first one, if there are two or more."""
    averages = []
    for metric, of_metric in grouped(systems, "first.main_metric").items():
        averages += _over_tasks_of(of_metric, metric)
    return averages


def _on_shared_tasks(systems: Sequence[System], metric: str, baseline: str) -> dict[str, list[System]]:
    """The systems by name, the baseline first, on the tasks where it has the metric as they do; two tasks or more."""
    systems = [system for system in systems if math.isfinite(system.metrics[metric])]
    tasks = [system.task for system in systems if system.name == baseline]
    shared = [system for system in systems if system.task in tasks]
    by_name: dict[str, list[System]] = {baseline: [], **grouped(shared, "name")}
    return {name: of_name for name, of_name in by_name.items() if len({system.task for system in of_name}) > 1}


def _over_tasks_of(systems: Sequence[System], metric: str) -> list[OverTasks]:
    """The systems over the tasks of one main metric."""
    baseline = systems[0].name
    by_name = _on_shared_tasks(systems, metric, baseline)
    values: dict[str, dict[str, float]] = {}
    comparisons = []
    for name, of_name in by_name.items():
        values[name] = {system.task: system.metrics[metric] for system in of_name}
        if name != baseline:
            comparisons.append(
                Comparison(
                    f"mean of {len(values[name])} tasks",
                    metric,
                    baseline,
                    name,
                    T_TEST,
                    paired_t_test(values[baseline], values[name]),
                    randomisation_test(values[baseline], values[name]),
                    precisions=_precisions(by_name[baseline], of_name),
                )
            )
    by_result = {comparison.result: comparison for comparison in corrected(comparisons)}
    averages = []
    for name, by_task in values.items():
        mean = statistics.fmean(by_task.values())
        deviation = statistics.stdev(by_task.values())
        averages.append(OverTasks(name, metric, tuple(by_task), mean, deviation, by_result.get(name)))
    return averages


@dataclass(frozen=True)
class Cross:
    """One task's main ``metric`` by encoder (``rows``) and similarity (``columns``). ``cells`` lacks pairs that were
    not scored, such as a learned similarity on an encoder that has not learned it."""

    task: str
    metric: str
    rows: list[str]
    trained_with: list[str | None]
    columns: list[str]
    cells: dict[tuple[str, str], System]

    def value(self, row: str, column: str) -> float | None:
        """The metric of an encoder under a similarity; ``None`` if it was not scored, or is undefined."""
        system = self.cells.get((row, column))
        return known(system.metrics[self.metric]) if system is not None else None

    def labels(self) -> list[str]:
        """Names of the rows: the training similarity if only one row has it, else with the encoder."""
        names = [trained or "" for trained in self.trained_with]
        return [
            name if name and names.count(name) == 1 else f"{row} ({name or 'not a run'})"
            for name, row in zip(names, self.rows, strict=True)
        ]

    def to_json(self) -> dict[str, Any]:
        """Plain values for strict JSON; a cell that was not scored is null."""
        encoders = []
        for row, trained in zip(self.rows, self.trained_with, strict=True):
            values = [self.value(row, column) for column in self.columns]
            cells = [self.cells.get((row, column)) for column in self.columns]
            deviations = [known(system.deviation(self.metric)) if system else None for system in cells]
            encoders.append({"encoder": row, "trained_with": trained, "values": values, "deviations": deviations})
        return {"task": self.task, "metric": self.metric, "similarities": self.columns, "encoders": encoders}


def cross_of(evaluation: Evaluation) -> list[Cross]:
    """One table for each task, encoders and similarities in the order in which they were evaluated."""
    tables = []
    for task in evaluation.tasks:
        systems = evaluation.systems_on(task)
        trained = {system.encoder: system.trained_with for system in systems}
        columns = list(dict.fromkeys(system.similarity for system in systems))
        cells = {(system.encoder, system.similarity): system for system in systems}
        tables.append(Cross(task, evaluation.main_metric(task), list(trained), list(trained.values()), columns, cells))
    return tables


MOST_DOCUMENTS = 5
"""Relevant documents of a query that are shown, those whose rank changed most."""


@dataclass(frozen=True)
class MovedDocument:
    """A relevant document of a query: its grade and text, and its rank in both systems, from 1; ``None``: not found."""

    id: str
    grade: int
    before: int | None
    after: int | None
    text: str


@dataclass(frozen=True)
class MovedQuery:
    """A query whose ``metric`` differs between two systems, with its relevant documents, ``others`` of which are left
    out here."""

    id: str
    query: str
    before: float
    after: float
    documents: list[MovedDocument]
    others: int


@dataclass(frozen=True)
class Explanation:
    """How ``system`` differs from ``baseline`` on a task, in one metric: ``better``, ``worse`` and ``equal`` queries,
    and those that changed most."""

    task: str
    metric: str
    baseline: str
    system: str
    better: int
    worse: int
    equal: int
    queries: list[MovedQuery]


def explanations(
    results: Sequence[Result], data: Mapping[str, RetrievalData], shown: Mapping[str, Sequence[str]], count: int
) -> list[Explanation]:
    """The ``count`` queries that changed most between the first result of a task and each other one, by task of
    ``data``; of equal differences the first in the data."""
    entries = []
    for task, task_data in data.items():
        first, *others = [result for result in results if result.task == task]
        metric = leading_metric(first.main_metric, shown[task])
        for other in others:
            before, after = first.per_query[metric], other.per_query[metric]
            change = {query: after[query] - before[query] for query in task_data.query_ids}
            moved = []
            for query in sorted(filter(change.get, change), key=lambda query: -abs(change[query]))[:count]:
                documents = _moved_documents(task_data, query, first, other)
                moved.append(
                    MovedQuery(
                        query,
                        task_data.queries_by_id[query],
                        before=before[query],
                        after=after[query],
                        documents=documents[:MOST_DOCUMENTS],
                        others=len(documents[MOST_DOCUMENTS:]),
                    )
                )
            counts = counted(change.values())
            entries.append(Explanation(first.task, metric, first.name, other.name, *counts, moved))
    return entries


def _moved_documents(data: RetrievalData, query: str, first: Result, other: Result) -> list[MovedDocument]:
    """The relevant documents of a query, those first whose reciprocal rank changed most."""
    before, after = ranks(first.run.get(query, {})), ranks(other.run.get(query, {}))
    documents = []
    for id, grade in data.qrels[query].items():
        if grade >= data.level and id in data.documents_by_id:
            documents.append(MovedDocument(id, grade, before.get(id), after.get(id), data.documents_by_id[id]))
    return sorted(documents, key=_movement, reverse=True)


def _movement(document: MovedDocument) -> float:
    """The difference of its reciprocal ranks."""
    return abs(1 / (document.before or 10**9) - 1 / (document.after or 10**9))


def counted(change: Collection[float]) -> tuple[int, int, int]:
    """The number of values above 0, below 0 and neither."""
    better, worse = (sum(sign * value > 0 for value in change) for sign in (1, -1))
    return better, worse, len(change) - better - worse
