"""``retrokit.json``, the description of a model folder, an encoder's or a verifier's, and of its checkpoints."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, fields, replace
from numbers import Real
from pathlib import Path
from typing import Any

from retrokit.core.errors import DataError, UsageError
from retrokit.data.jsonl import read_json, write_json

RUN_FILE = "retrokit.json"
TRAINING, FINISHED = "training", "finished"


_DESCRIBED = {
    **{"status": str, "similarity": str, "encoder?": str, "verifier?": str, "files?": list[str]},
    **{"steps?": int, "step?": int, "similarity_chosen_by?": dict[str, Any]},
    "identity?": {"data?": list[str], "encoder?": str},
    "outcome?": {"steps": int, "evaluations?": [{"step": int, "evaluation": dict[str, float | None]}]},
    "made_for?": {"encoder": str, "fingerprint": str, "in_folder": bool},
    "calibration?": {"threshold": Real},
}
"""What is read of a description."""


@dataclass(frozen=True)
class Run:
    """The description of a model folder.

    Attributes:
        status: ``training``, or ``finished`` once the model is in place.
        similarity: spec of the similarity that it is trained with.
        encoder: spec of the encoder that it began with.
        identity: what decides the result: options, digests of data, the number of processes.
        steps: planned optimizer steps.
        step: of a checkpoint, the step at which it was written.
        outcome: of a finished run: ``steps``, ``best_step`` and more.
        files: names of the model's files at the top; ``None`` in a folder of a version that did not list them.
        verifier: spec of a verifier.
        made_for: the encoder of a finished verifier: ``encoder``, ``fingerprint`` and ``in_folder``.
        calibration: ``threshold`` of a calibrated verifier, with its evidence.
        similarity_chosen_by: why ``auto`` became the similarity.
        notes: all else, for people: versions, configuration, data, the state of the repository.
    """

    status: str
    similarity: str
    encoder: str = ""
    identity: dict[str, Any] = field(default_factory=dict)
    steps: int | None = None
    step: int | None = None
    outcome: dict[str, Any] | None = None
    files: list[str] | None = None
    verifier: str | None = None
    made_for: dict[str, Any] | None = None
    calibration: dict[str, Any] | None = None
    similarity_chosen_by: dict[str, Any] | None = None
    notes: dict[str, Any] = field(default_factory=dict)

    def finished(self, folder: str | Path) -> Run:
        """Itself; raises :class:`UsageError` about ``folder`` while it is in training."""
        if self.status != FINISHED:
            raise UsageError(f"{folder}: its training is not finished; rerun the same command with `resume=`")
        return self


def is_run(folder: str | Path) -> bool:
    """Whether a run's description lies in the folder."""
    return os.path.isfile(os.path.join(folder, RUN_FILE))


def checkpoints_in(folder: Path) -> list[Path]:
    """The checkpoints that a run has written into ``folder``, in the order of their steps. A copy with another name, a
    file or a link is the user's."""
    checkpoints = []
    for path in folder.glob("checkpoint-*"):
        is_named = re.fullmatch("checkpoint-(0|[1-9][0-9]*)", path.name)
        if is_named and path.is_dir() and not path.is_symlink():
            checkpoints.append(path)
    return sorted(checkpoints, key=step_of)


def step_of(checkpoint: Path) -> int:
    """The step at which a checkpoint was written, from its name."""
    return int(checkpoint.name.rpartition("-")[2])


def read_run(folder: str | Path, *needed: str, what: str = "retrokit run") -> Run:
    """The description of the run in ``folder``, which should be a ``what``, with the fields that are ``needed``.

    Raises:
        UsageError: there is no run.
        DataError: the description is damaged, another program's, or lacks a needed field.
    """
    path = Path(folder, RUN_FILE)
    if not is_run(folder):
        lacks = f"has no {RUN_FILE}" if path.parent.exists() else "does not exist"
        raise UsageError(f"{folder} is not a {what}: it {lacks}")
    described = read_json(path, "the description of a run", _DESCRIBED)
    if described["status"] not in (TRAINING, FINISHED):
        raise DataError(path, f"status is {described['status']!r}; expected {TRAINING} or {FINISHED}")
    for name in described.get("files", ()):
        if name in ("", ".", "..") or not {"/", "\\", "\0"}.isdisjoint(name):
            raise DataError(path, f"'files' has {name[:60]!r}; expected names of files in the folder")
    if lacking := [name for name in needed if name not in described]:
        raise DataError(path, f"is not the description of a {what}: no field {lacking[0]!r}")
    known = {field.name: described.pop(field.name) for field in fields(Run) if field.name in described}
    return Run(**known, notes={name: value for name, value in described.items() if name not in ("kind", "version")})


def write_run(run: Run, folder: str | Path) -> None:
    """Write the description, whole or not at all; raises :class:`DataError`."""
    known = {field.name: getattr(run, field.name) for field in fields(run) if field.name != "notes"}
    described = {**{name: value for name, value in known.items() if value is not None}, **run.notes}
    write_json(Path(folder, RUN_FILE), described, indent=2, kind="run")


def add_to_run(folder: str | Path, **entries: Any) -> None:
    """Update entries of the description of the run in ``folder``."""
    write_run(replace(read_run(folder), **entries), folder)
