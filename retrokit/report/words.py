"""The results of an evaluation in sentences."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from retrokit.core.sheet import grouped
from retrokit.evaluation.comparison.comparison import Comparison, Evaluation
from retrokit.evaluation.comparison.systems import System
from retrokit.evaluation.result import known
from retrokit.report.evaluation import value_of

MOST_TASKS = 4
"""Tasks that have a sentence each; of more, the sentences are about all of them."""
UNSURE = "no difference that this data can show"


@dataclass(frozen=True)
class Standing:
    """Who leads on a task in its leading metric.

    Attributes:
        ranked: the systems that have a value, the best first.
        rival: the first row, or where the best is that, the second best; ``None`` without another system.
        over_rival: how the best differs from it, as in the table of tests; ``None`` without a test.
    """

    task: str
    metric: str
    first: System
    ranked: list[System]
    rival: System | None
    over_rival: Comparison | None

    @property
    def best(self) -> System:
        """The system with the highest value."""
        return self.ranked[0]


def standing_on(evaluation: Evaluation, task: str) -> Standing | None:
    """Who leads on ``task``; ``None`` where no system has a value there, or their scores have no common scale."""
    (first, *_), metric = evaluation.systems_on(task), evaluation.leading_metric(task)
    measured = [system for system in evaluation.systems_on(task) if known(system.metrics.get(metric)) is not None]
    results = [result for system in measured for result in system.results]
    if not measured or any(metric in result.own_scale for result in results):
        return None
    best, *others = ranked = sorted(measured, key=lambda system: -system.metrics[metric])
    tests = evaluation.tests_on(task, metric)
    if best is not first:
        return Standing(task, metric, first, ranked, first, tests.get(best.name))
    if not others:
        return Standing(task, metric, first, ranked, None, None)
    return Standing(task, metric, first, ranked, others[0], _reversed(tests.get(others[0].name)))


def _reversed(comparison: Comparison | None) -> Comparison | None:
    """How the first row differs from the other."""
    if comparison is None:
        return None
    test = comparison.test
    return replace(comparison, test=replace(test, difference=-test.difference, low=-test.high, high=-test.low))


def sentences(evaluation: Evaluation) -> Iterator[str]:
    """The best system of each task with its test; texts seen in training; then missing results."""
    standings = [standing for task in evaluation.tasks if (standing := standing_on(evaluation, task)) is not None]
    if len(standings) > MOST_TASKS:
        yield from _on_many(standings)
    else:
        yield from map(_on_one, standings)
    yield from _over_tasks(evaluation)
    yield from (f"{text}." for overlap in evaluation.overlaps if (text := overlap.warning()))
    yield from _holes(evaluation)


def conclusion(evaluation: Evaluation) -> str:
    """An evaluation in sentences."""
    return " ".join(sentences(evaluation))


def _on_one(standing: Standing) -> str:
    best, metric, rival = standing.best, standing.metric, standing.rival
    value = value_of(best, metric)
    if rival is None:
        return f"On {standing.task}, {best.name} reaches {metric} {value}; nothing is compared with it."
    which = "the first row" if rival is standing.first else "the next"
    text = f"On {standing.task}, {best.name} is best in {metric} ({value}): above {which}, "
    value = value_of(rival, metric, absent="no value")
    return f"{text}{rival.name} ({value}), {difference_in_words(standing.over_rival)}."


def difference_in_words(comparison: Comparison | None) -> str:
    """How far a system is above another, and whether that is more than chance."""
    if comparison is None:
        return "which nothing tests"
    verdict = "more than chance" if comparison.significant else UNSURE
    test = comparison.test
    interval = f"95% interval {test.low:+.4f} to {test.high:+.4f}"
    return f"by {test.difference:+.4f} ({interval}, corrected p = {comparison.corrected_p:.2g}: {verdict})"


def _on_many(standings: Sequence[Standing]) -> Iterator[str]:
    for name, count in Counter(standing.best.name for standing in standings).most_common():
        led = sum(standing.best.name == name and standing.best is standing.first for standing in standings)
        sure = sum(standing.best.name == name and _is_surely_ahead(standing) for standing in standings)
        text = f"{name} is best on {count} of {len(standings)} tasks"
        if led < count:
            text += f", on {sure} of them above the first row by more than chance (corrected p < 0.05)"
        yield f"{text}."


def _is_surely_ahead(standing: Standing) -> bool:
    """Whether the best is above the first row by more than chance."""
    test = standing.over_rival
    return standing.rival is standing.first and test is not None and test.significant


def _over_tasks(evaluation: Evaluation) -> Iterator[str]:
    for metric, group in groupby(evaluation.over_tasks, key=lambda entry: entry.metric):
        entries = list(group)
        tasks = max(len(entry.tasks) for entry in entries)
        full = [entry for entry in entries if len(entry.tasks) == tasks]
        if len(full) < 2:
            continue
        best, first = max(full, key=lambda entry: entry.mean), entries[0]
        text = f"Over {tasks} tasks, {best.system} has the highest mean {metric} ({best.mean:.4f})"
        if best is not first and best.comparison is not None:
            text += f", above {first.system} ({first.mean:.4f}) {difference_in_words(best.comparison)}"
        yield f"{text}."


def _holes(evaluation: Evaluation) -> Iterator[str]:
    for name, group in grouped(evaluation.systems, "name").items():
        measured = {system.task for system in group}
        missing = [task for task in evaluation.tasks if task not in measured]
        if missing:
            rest = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
            yield f"{name} has no result on {', '.join(missing[:5])}{rest}."
