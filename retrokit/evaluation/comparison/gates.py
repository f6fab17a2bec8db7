"""Gates on an evaluation, for continuous integration: least values, no large drop, and not worse than the first.

An undefined metric fails its gate, and so does a result that lacks a metric which others of its task have.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from retrokit.core.errors import GateFailed, UsageError, out_of_range
from retrokit.core.notices import harmless, notice
from retrokit.evaluation.comparison.comparison import FAILED, PASSED, UNTESTED, Evaluation, Gate
from retrokit.evaluation.result import known


def verdicts(gates: Sequence[Gate]) -> dict[str, int]:
    """The number of gates that passed, failed and were untested; without those that are 0."""
    counts = Counter(gate.verdict for gate in gates)
    return {verdict: counts[verdict] for verdict in (PASSED, FAILED, UNTESTED) if counts[verdict]}


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
    evaluation: Evaluation, least: Sequence[tuple[str, float]], fail_if_worse: bool, max_drop: float | None = None
) -> list[Gate]:
    """The gates on all results and systems: no result is under a ``least`` value; no system has fallen significantly,
    and by more than ``max_drop``, behind the stored baseline; none is significantly worse than the first of its task.
    Significance is by the corrected p."""
    gates = list(_under(evaluation, least))
    gates += _fallen(evaluation, max_drop) if max_drop is not None else ()
    return [*gates, *(_worse(evaluation) if fail_if_worse else ())]


def check_gates(gates: Sequence[Gate]) -> None:
    """Raise :class:`GateFailed` if a gate does not hold, or :class:`UsageError` for ``fail_if_worse`` if nothing is
    tested."""
    compared = [gate for gate in gates if gate.setting == "fail_if_worse"]
    untested = list(dict.fromkeys(gate.message for gate in compared if gate.verdict == UNTESTED))
    if compared and all(gate.verdict == UNTESTED for gate in compared):
        raise UsageError(f"`fail_if_worse=` compares nothing here: {', '.join(untested)}")
    for reason in untested:
        notice(f"`fail_if_worse=`: there is {reason}, which is left out")
    if failures := [harmless(gate.message) for gate in gates if gate.verdict == FAILED]:
        raise GateFailed("\n".join(failures))


def _under(evaluation: Evaluation, least: Sequence[tuple[str, float]]) -> Iterator[Gate]:
    measured = {(result.task, metric) for result in evaluation.results for metric in result.metrics}
    for result in evaluation.results:
        for metric, limit in least:
            if (result.task, metric) not in measured:
                continue
            value, failure = result.metrics.get(metric), ""
            if value is None:
                failure = f"has no {metric}"
            elif math.isnan(value):
                failure = f"{metric} is undefined"
            elif value < limit:
                failure = f"{metric} = {value:.4f} is under {limit:g}"
            message = f"{result.name} on {result.task}: {failure}" if failure else ""
            about = (result.task, result.name, metric, f"at least {limit:g}", known(value))
            yield Gate("fail_under", *about, FAILED if failure else PASSED, message)


def _fallen(evaluation: Evaluation, most: float) -> Iterator[Gate]:
    for change in evaluation.changes:
        name, failure = f"{change.system} on {change.task}: {change.metric}", ""
        drop, visible = change.before - change.after, change.visible
        if change.fails(most):
            failure = f"{name} = {change.after:.4f} where the baseline has {change.before:.4f}, and may lose {most:g}"
        elif drop > most:
            notice(f"{name} is {drop:.4f} lower than the baseline, which may be chance")
        if visible is not None and visible > most:
            text = f"a drop of {visible:.4f} is found four times in five, one of {most:g} less often"
            notice(f"{name}: {text}; more queries would tell")
        about = (change.task, change.system, change.metric, f"at most {most:g} below the stored baseline")
        yield Gate("max_drop", *about, known(change.after), FAILED if failure else PASSED, failure)


def _worse(evaluation: Evaluation) -> Iterator[Gate]:
    for task in evaluation.tasks:
        metric = evaluation.gated_metric(task, evaluation.main_metric(task))
        first, *others = evaluation.systems_on(task)
        tests = {c.result: c for c in evaluation.comparisons if (c.task, c.metric) == (task, metric)}
        for system in (first, *others):
            value, test = known(system.metrics.get(metric)), tests.get(system.name)
            verdict, message = PASSED, ""
            if value is None:
                verdict, message = FAILED, f"{system.name} on {task}: {metric} is undefined"
            elif test is None:
                verdict = UNTESTED
                message = f"no test of {metric} on {task}" if others else f"one system alone on {task}"
            elif test.significant and test.test.difference < 0:
                difference = f"{metric} is {-test.test.difference:.4f} worse than {test.baseline}"
                verdict, message = FAILED, f"{system.name} on {task}: {difference} (p = {test.corrected_p:.3g})"
            if system is not first or value is None or not others:
                about = (task, system.name, metric, f"not significantly worse than {first.name}", value)
                yield Gate("fail_if_worse", *about, verdict, message)
