"""Stored baselines, and gates for continuous integration: least values, no large drop, not worse than the first.

A baseline file has the metrics of each system and task with their values per item (or resampled), so that nothing of
the past is computed again. A task is identified by the digest of its data. An undefined metric fails its gate, and so
does a result that lacks a metric which others of its task have.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from xml.etree import ElementTree

from retrokit.core.errors import DataError, GateFailed, UsageError
from retrokit.core.files import named, writing
from retrokit.core.notices import harmless, notice
from retrokit.core.sheet import grouped
from retrokit.core.version import __version__
from retrokit.data.jsonl import checked, read_json, write_json
from retrokit.evaluation.comparison.comparison import (
    FAILED,
    PASSED,
    UNTESTED,
    BaselineChange,
    Evaluation,
    Gate,
    corrected,
    tested,
)
from retrokit.evaluation.comparison.results_folder import library_versions, plain
from retrokit.evaluation.comparison.systems import System, prompts_of
from retrokit.evaluation.result import known
from retrokit.evaluation.settings import GateSettings
from retrokit.ranking.retrieval import IDLE

_NO_XML = re.compile("[\ufffe\uffff]")
_EXPECTED = "a baseline that `save_baseline=` of an evaluation has written"


def save_baseline(evaluation: Evaluation, path: str) -> None:
    """Write all systems of ``evaluation`` to the file ``path``. Raises :class:`DataError` if it cannot be written."""
    systems, digests = [], {task: evaluation.digests[task]() for task in evaluation.tasks}
    for system in evaluation.systems:
        shown = evaluation.shown.get(system.task, ())
        metrics = {system.first.main_metric, evaluation.leading_metric(system.task), *shown}
        results = [plain(result.without({*result.metrics} - metrics)) for result in system.results]
        about = {"seeds": system.seeds, "trained_with": system.trained_with, "distinction": system.distinction}
        systems.append({"data": digests[system.task], **about, "results": results})
    made_with = {"retrokit": __version__, "libraries": library_versions()}
    write_json(path, {**made_with, "systems": systems}, kind="baseline")


@dataclass(frozen=True)
class Baseline:
    """Systems that were stored in the file ``path``, each with the digest of its task's data, and the versions of the
    libraries at that time, by name."""

    path: str
    systems: Sequence[tuple[str | None, System]]
    libraries: Mapping[str, str]

    def measured_on(self, task: str, data: str | None) -> list[System]:
        """The systems measured on ``data`` of that digest, or on ``task`` if the data have none. Raises
        :class:`UsageError` if none was."""
        same = []
        for digest, system in self.systems:
            if digest == data and (data is not None or system.task == task):
                same.append(system)
        if same:
            return same
        tasks = dict.fromkeys(system.task for _, system in self.systems)
        if task in tasks:
            raise UsageError(f"{named(self.path)}: was measured on other data of {task}; store a new baseline")
        raise UsageError(f"{named(self.path)}: contains no baseline on {task}; it contains {', '.join(tasks)}")

    def check_metric(self, metric: str, systems: Sequence[System]) -> None:
        """Raise :class:`DataError` if none of the stored ``systems`` has the metric."""
        stored = dict.fromkeys(name for system in systems for name in system.metrics)
        if metric not in stored:
            raise DataError(self.path, f"has no {metric}; it has {', '.join(stored)}; store a new baseline")

    def compared(self, evaluation: Evaluation) -> Evaluation:
        """The evaluation with the changes of each system since the stored one of its name, or the only one on its task.
        A notice names libraries of another version. Raises :class:`UsageError` for a task or a system without a
        counterpart, or other data."""
        self._report_libraries()
        digests = {task: evaluation.digests[task]() for task in evaluation.tasks}
        changes = []
        for system in evaluation.systems:
            before = self._counterpart(system, digests[system.task])
            by_prompts = prompts_of([before, system])
            if len(by_prompts) > 1:
                notice(f"{named(self.path)}: {system.name} has other prompts: {', now '.join(by_prompts)}")
            metric = evaluation.leading_metric(system.task)
            changes.append(
                BaselineChange(
                    system.task,
                    metric,
                    before.name,
                    system.name,
                    before=before.metrics.get(metric, math.nan),
                    after=system.metrics.get(metric, math.nan),
                    comparison=tested(before, system, metric),
                )
            )
        comparisons = iter(corrected([change.comparison for change in changes if change.comparison is not None]))
        for number, change in enumerate(changes):
            if change.comparison is not None:
                changes[number] = replace(change, comparison=next(comparisons))
        return replace(evaluation, changes=changes)

    def _report_libraries(self) -> None:
        """Report libraries of another version."""
        installed = library_versions()
        others = []
        for name, version in self.libraries.items():
            now = installed.get(name, version)
            if now != version:
                others.append(f"{name} {version}, now {now}")
        if others:
            notice(f"{named(self.path)}: was measured with {'; '.join(others)}")

    def _counterpart(self, system: System, data: str | None) -> System:
        """The stored system of the same name, or the only one on the task. Raises :class:`UsageError` if there is
        none."""
        candidates = self.measured_on(system.task, data)
        for candidate in candidates:
            if candidate.name == system.name:
                return candidate
        if len(candidates) > 1:
            names = ", ".join(candidate.name for candidate in candidates)
            where = f"{named(self.path)}: contains several systems on {system.task}"
            raise UsageError(f"{where}, and none is {system.name}: {names}")
        return candidates[0]


def read_baseline(path: str) -> Baseline:
    """What :func:`save_baseline` has written. Raises :class:`DataError` if it cannot be read, or is something else."""
    content = read_json(path, _EXPECTED, {"systems": [{"data": str | None}], "libraries": dict[str, str]})
    systems = [(entry["data"], checked(System, entry, path, _EXPECTED)) for entry in content["systems"]]
    if not systems or not all(system.results for _, system in systems):
        raise DataError(path, f"is not {_EXPECTED}: there is no result")
    return Baseline(path, systems, content["libraries"])


def verdicts(gates: Sequence[Gate]) -> str:
    """How many gates passed, failed and were untested, in words; without those that are 0."""
    counts = Counter(gate.verdict for gate in gates)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in (PASSED, FAILED, UNTESTED) if counts[verdict])


def gates_of(evaluation: Evaluation, settings: GateSettings) -> list[Gate]:
    """The gates on all results and systems: no result is under a value of ``fail_under``; no system has fallen
    significantly, and by more than ``max_drop``, behind the stored baseline; none is significantly worse than the first
    of its task; each reranker changes the order of some query.
    Significance is by the corrected p."""
    gates = list(_under(evaluation, settings.minimums))
    if settings.max_drop is not None:
        gates += _fallen(evaluation, settings.max_drop)
    if settings.fail_if_idle:
        gates += _idle(evaluation)
    if settings.fail_if_worse:
        gates += _worse(evaluation)
    return gates


def write_gates(evaluation: Evaluation, settings: GateSettings) -> None:
    """Write the files that ``settings`` name: the gates as JUnit's XML, and the baseline if no gate failed and
    ``fail_if_worse`` compared something. Raises :class:`DataError` if one cannot be written."""
    if settings.junit is not None:
        from retrokit.evaluation.comparison.names import for_machines  # with all registries

        write_junit(for_machines(evaluation).gates, settings.junit)
    if settings.save_baseline is None:
        return
    if any(gate.verdict == FAILED for gate in evaluation.gates):
        notice(f"{settings.save_baseline}: not changed, because a gate failed")
    elif not _compares_nothing(evaluation.gates):
        save_baseline(evaluation, settings.save_baseline)


def _compares_nothing(gates: Sequence[Gate]) -> bool:
    return {gate.verdict for gate in gates if gate.setting == "fail_if_worse"} == {UNTESTED}


def check_gates(gates: Sequence[Gate]) -> None:
    """Raise :class:`GateFailed` if a gate does not hold, or :class:`UsageError` for ``fail_if_worse`` if nothing is
    tested."""
    untested = [gate.message for gate in gates if (gate.setting, gate.verdict) == ("fail_if_worse", UNTESTED)]
    untested = list(dict.fromkeys(untested))
    if _compares_nothing(gates):
        raise UsageError(f"`fail_if_worse=` compares nothing here: {', '.join(untested)}")
    for reason in untested:
        notice(f"`fail_if_worse=`: there is {reason}, which is left out")
    if failures := [harmless(gate.message) for gate in gates if gate.verdict == FAILED]:
        raise GateFailed("\n".join(failures))


def _under(evaluation: Evaluation, least: Sequence[tuple[str, float]]) -> Iterator[Gate]:
    measured = {(result.task, metric) for result in evaluation.results for metric in result.metrics}
    for result, (metric, limit) in product(evaluation.results, least):
        if (result.task, metric) in measured:
            value = result.metrics.get(metric)
            failure = _failure_under(metric, value, limit)
            yield Gate(
                "fail_under",
                task=result.task,
                system=result.name,
                metric=metric,
                asked=f"at least {limit:g}",
                value=known(value),
                verdict=FAILED if failure else PASSED,
                message=f"{result.name} on {result.task}: {failure}" if failure else "",
            )


def _failure_under(metric: str, value: float | None, limit: float) -> str:
    """Why a value fails the limit; empty: it does not."""
    if value is None:
        return f"has no {metric}"
    if math.isnan(value):
        return f"{metric} is undefined"
    return f"{metric} = {value:.4f} is under {limit:g}" if value < limit else ""


def _fallen(evaluation: Evaluation, most: float) -> Iterator[Gate]:
    from retrokit.evaluation.comparison.names import for_people  # with all registries

    for change, shown in zip(evaluation.changes, for_people(evaluation).changes, strict=True):
        name, failure = f"{change.system} on {change.task}: {change.metric}", ""
        short_name = f"{shown.system} on {change.task}: {change.metric}"
        drop, visible = change.before - change.after, change.visible
        if change.fails(most):
            failure = f"{name} fell from {change.before:.4f} to {change.after:.4f}; allowed drop {most:g}"
        elif drop > most:
            notice(f"{short_name} is {drop:.4f} lower than the baseline, which may be chance")
        if not failure and visible is not None and visible > most:
            text = f"80% power needs a drop of {visible:.4f}, more than {most:g}"
            notice(f"{short_name}: {text}; add queries")
        yield Gate(
            "max_drop",
            task=change.task,
            system=change.system,
            metric=change.metric,
            asked=f"at most {most:g} below the stored baseline",
            value=known(change.after),
            verdict=FAILED if failure else PASSED,
            message=failure,
        )


def _idle(evaluation: Evaluation) -> Iterator[Gate]:
    for result in evaluation.results:
        if result.counts.get("reranked_pairs"):
            problem = f"{result.name} on {result.task}: the reranker changes the order of no query"
            is_idle = IDLE in result.counts
            yield Gate(
                "fail_if_idle",
                task=result.task,
                system=result.name,
                metric=result.main_metric,
                asked="changes the order of some query",
                value=None,
                verdict=FAILED if is_idle else PASSED,
                message=problem if is_idle else "",
            )


def _worse(evaluation: Evaluation) -> Iterator[Gate]:
    for task in evaluation.tasks:
        metric = evaluation.gated_metric(task, evaluation.main_metric(task))
        first, *others = evaluation.systems_on(task)
        tests = evaluation.tests_on(task, metric)
        untested = f"no test of {metric} on {task}" if others else f"one system alone on {task}"
        for system in (first, *others):
            value, test = known(system.metrics.get(metric)), tests.get(system.name)
            verdict, message = PASSED, ""
            if value is None:
                verdict, message = FAILED, f"{system.name} on {task}: {metric} is undefined"
            elif system is first and others:
                continue
            elif test is None:
                verdict, message = UNTESTED, untested
            elif test.significant and test.test.difference < 0:
                difference = f"{metric} is {-test.test.difference:.4f} worse than {test.baseline}"
                verdict, message = FAILED, f"{system.name} on {task}: {difference} (p = {test.corrected_p:.3g})"
            yield Gate(
                "fail_if_worse",
                task=task,
                system=system.name,
                metric=metric,
                asked=f"not significantly worse than {first.name}",
                value=value,
                verdict=verdict,
                message=message,
            )


def write_junit(gates: Sequence[Gate], path: str) -> None:
    """Write ``path`` as JUnit's XML: a suite a task, a case a gate, whose class is the system. Raises
    :class:`DataError` if it cannot be written."""
    root = ElementTree.Element("testsuites", _counts(gates))
    for task, of_task in grouped(gates, "task").items():
        suite = ElementTree.SubElement(root, "testsuite", {"name": _in_xml(task), **_counts(of_task)})
        for gate in of_task:
            attributes = {"classname": _in_xml(gate.system), "name": _in_xml(f"{gate.metric} {gate.asked}")}
            case = ElementTree.SubElement(suite, "testcase", attributes)
            if gate.verdict != PASSED:
                tag = "failure" if gate.verdict == FAILED else "skipped"
                ElementTree.SubElement(case, tag, {"message": _in_xml(gate.message)})
    ElementTree.indent(root)
    with writing(path) as stream:
        stream.write('<?xml version="1.0" encoding="utf-8"?>\n')
        stream.write(f"{ElementTree.tostring(root, encoding='unicode')}\n")


def _counts(gates: Sequence[Gate]) -> dict[str, str]:
    counts = Counter(gate.verdict for gate in gates)
    return {
        "tests": str(len(gates)),
        "failures": str(counts[FAILED]),
        "errors": "0",
        "skipped": str(counts[UNTESTED]),
    }


def _in_xml(text: str) -> str:
    return _NO_XML.sub(lambda match: match[0].encode("unicode_escape").decode(), harmless(text))
