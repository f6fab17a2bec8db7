"""Gates on an evaluation, for continuous integration: least values, no large drop, and not worse than the first.

What cannot be looked at does not pass: an undefined metric fails its gate, and so does a result that lacks a metric
which others of its task have.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from retrokit.core.errors import GateFailed, UsageError, out_of_range
from retrokit.core.notices import harmless, notice
from retrokit.evaluation.comparison.comparison import FAILED, PASSED, UNTESTED, Evaluation, Gate
from retrokit.evaluation.result import known


def verdicts(gates: Sequence[Gate]) -> dict[str, int]:
    """How many gates passed, failed and were untested: what there is."""
    counted = Counter(gate.verdict for gate in gates)
    return {verdict: counted[verdict] for verdict in (PASSED, FAILED, UNTESTED) if counted[verdict]}


def parse_gate(text: str) -> tuple[str, float]:
    """``ndcg@10=0.64`` as a metric and its least value. Raises :class:`UsageError` for another form."""
    metric, _, value = text.partition("=")
    try:
        least = float(value)
    except ValueError:
        least = math.nan
    if not metric or out_of_range(least):
        raise UsageError(f"`fail_under=` {text}: expected METRIC=VALUE, as in ndcg@10=0.64")
    return metric.strip(), least


def gates_of(
    evaluation: Evaluation,
    fail_under: Sequence[tuple[str, float]],
    fail_if_worse: bool,
    max_drop: float | None = None,
) -> list[Gate]:
    """The gates on all results and systems: no result lies under a least value; no system has fallen significantly, and
    by more than ``max_drop``, behind the stored baseline; none is significantly worse than the first of its task. What
    is significant goes by the corrected p."""
    gates = list(_under(evaluation, fail_under))
    if max_drop is not None:
        gates += _fallen(evaluation, max_drop)
    return [*gates, *(_worse(evaluation) if fail_if_worse else ())]


def check_gates(gates: Sequence[Gate]) -> None:
    """Raise :class:`GateFailed` if a gate does not hold, or :class:`UsageError` for ``fail_if_worse`` where nothing is
    tested."""
    compared = [gate for gate in gates if gate.setting == "fail_if_worse"]
    untested = list(dict.fromkeys(gate.message for gate in compared if gate.verdict == UNTESTED))
    if compared and all(gate.verdict == UNTESTED for gate in compared):
        raise UsageError(f"`fail_if_worse=` compares nothing here: {', '.join(untested)}")
    for reason in untested:
        notice(f"`fail_if_worse=`: there is {reason}, which is left out")
    failures = [harmless(gate.message) for gate in gates if gate.verdict == FAILED]
    if failures:
        raise GateFailed("\n".join(failures))


def _under(evaluation: Evaluation, fail_under: Sequence[tuple[str, float]]) -> Iterator[Gate]:
    measured = {(result.task, metric) for result in evaluation.results for metric in result.metrics}
    for result in evaluation.results:
        named = f"{result.name} on {result.task}:"
        for metric, least in fail_under:
            if (result.task, metric) not in measured:
                continue
            value, failure = result.metrics.get(metric), ""
            if value is None:
                failure = f"{named} has no {metric}"
            elif math.isnan(value):
                failure = f"{named} {metric} is undefined"
            elif value < least:
                failure = f"{named} {metric} = {value:.4f} is under {least:g}"
            about = (result.task, result.name, metric, f"at least {least:g}", known(value))
            yield Gate("fail_under", *about, FAILED if failure else PASSED, failure)


def _fallen(evaluation: Evaluation, most: float) -> Iterator[Gate]:
    for change in evaluation.changes:
        named = f"{change.system} on {change.task}: {change.metric}"
        failure = ""
        if change.fails(most):
            failure = f"{named} = {change.after:.4f} where the baseline has {change.before:.4f}, and may lose {most:g}"
        elif change.before - change.after > most:
            notice(f"{named} is {change.before - change.after:.4f} lower than the baseline, which may be chance")
        if change.visible is not None and change.visible > most:
            text = f"a drop of {change.visible:.4f} is found four times in five, one of {most:g} less often"
            notice(f"{named}: {text}; more queries would tell")
        about = (
            change.task,
            change.system,
            change.metric,
            f"at most {most:g} below the stored baseline",
            known(change.after),
        )
        yield Gate("max_drop", *about, FAILED if failure else PASSED, failure)


def _worse(evaluation: Evaluation) -> Iterator[Gate]:
    for task in evaluation.tasks:
        metric = evaluation.gated_metric(task, evaluation.main_metric(task))
        first, *others = evaluation.systems_on(task)
        tested = {
            comparison.result: comparison
            for comparison in evaluation.comparisons
            if (comparison.task, comparison.metric) == (task, metric)
        }
        requirement = f"not significantly worse than {first.name}"
        for system in (first, *others):
            value = known(system.metrics.get(metric))
            test, verdict, message = tested.get(system.name), PASSED, ""
            if value is None:
                verdict, message = FAILED, f"{system.name} on {task}: {metric} is undefined"
            elif test is not None and test.significantly_worse:
                difference = f"{metric} is {-test.test.difference:.4f} worse than {test.baseline}"
                verdict, message = FAILED, f"{system.name} on {task}: {difference} (p = {test.corrected_p:.3g})"
            elif test is None:
                verdict = UNTESTED
                message = f"no test of {metric} on {task}" if others else f"one system alone on {task}"
            if system is not first or value is None or not others:
                yield Gate("fail_if_worse", task, system.name, metric, requirement, value, verdict, message)
