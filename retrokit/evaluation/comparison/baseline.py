"""A stored baseline: what systems reached, in a file, and how far a later one has fallen behind it.

The file has the metrics of each system and task with their values per item (or resampled), so that nothing of the past
is computed again. A task is identified by the digest of its data.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from retrokit.core.errors import DataError, UsageError
from retrokit.core.files import named
from retrokit.core.notices import notice
from retrokit.core.version import __version__
from retrokit.data.jsonl import checked, read_json, write_json
from retrokit.evaluation.comparison.comparison import BaselineChange, Evaluation, corrected, tested
from retrokit.evaluation.comparison.results_folder import library_versions, plain
from retrokit.evaluation.comparison.systems import System

FORMAT = 1
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
    write_json(path, {"format": FORMAT, **made_with, "systems": systems})


@dataclass(frozen=True)
class Baseline:
    """Systems that were stored in the file ``path``, each with the digest of its task's data, and the versions of the
    libraries at that time, by name."""

    path: str
    systems: Sequence[tuple[str | None, System]]
    libraries: Mapping[str, str]

    def measured_on(self, task: str, data: str | None) -> list[System]:
        """The systems measured on ``task``, on ``data`` of that digest. Raises :class:`UsageError` if none was."""
        of_task = [(digest, own) for digest, own in self.systems if own.task == task or (data and digest == data)]
        if not of_task:
            there = ", ".join(dict.fromkeys(system.task for _, system in self.systems)) or "nothing"
            raise UsageError(f"{named(self.path)}: holds no baseline on {task}; it holds {there}")
        same = [system for digest, system in of_task if digest == data]
        if not same:
            raise UsageError(f"{named(self.path)}: was measured on other data of {task}; store a new baseline")
        return same

    def compared(self, evaluation: Evaluation) -> Evaluation:
        """The evaluation with the changes of each system since the stored one of its name, or the only one on its task.
        A notice names libraries of another version. Raises :class:`UsageError` for a task or a system without a
        counterpart, or other data."""
        now_installed = library_versions()
        then_and_now = [(name, then, now_installed.get(name, then)) for name, then in self.libraries.items()]
        if others := [f"{name} {then}, now {now}" for name, then, now in then_and_now if then != now]:
            notice(f"{named(self.path)}: was measured with {'; '.join(others)}")
        changes = []
        digests = {task: evaluation.digests[task]() for task in evaluation.tasks}
        for system in evaluation.systems:
            same = self.measured_on(system.task, digests[system.task])
            by_name = [candidate for candidate in same if candidate.name == system.name]
            if not by_name and len(same) > 1:
                names = ", ".join(candidate.name for candidate in same)
                where = f"{named(self.path)}: holds several systems on {system.task}"
                raise UsageError(f"{where}, and none is {system.name}: {names}")
            before, metric = (by_name or same)[0], evaluation.leading_metric(system.task)
            then, now = (side.metrics.get(metric, math.nan) for side in (before, system))
            test = tested(before, system, metric)
            changes.append(BaselineChange(system.task, metric, before.name, system.name, then, now, test))
        known = iter(corrected([change.comparison for change in changes if change.comparison is not None]))
        return replace(
            evaluation, changes=[replace(one, comparison=next(known)) if one.comparison else one for one in changes]
        )


def read_baseline(path: str) -> Baseline:
    """What :func:`save_baseline` has written. Raises :class:`DataError` if it cannot be read, or is something else."""
    stored = {"format": int, "systems": list[dict[str, Any]], "libraries?": dict[str, str]}  # which older files lack
    content = read_json(path, _EXPECTED, stored)
    systems = [(entry.get("data"), checked(System, entry, path, _EXPECTED)) for entry in content["systems"]]
    if content["format"] != FORMAT or not all(system.results for _, system in systems):
        raise DataError(path, f"is not {_EXPECTED}")
    return Baseline(path, systems, content.get("libraries", {}))
