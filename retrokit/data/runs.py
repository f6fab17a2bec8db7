"""``retrokit.json``, the description of a model folder, an encoder's or a verifier's, and of its checkpoints."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from numbers import Real
from pathlib import Path
from typing import Annotated, Any, Literal

from retrokit.core.errors import DataError, UsageError
from retrokit.data.jsonl import COUNT, FILE_NAME, checked, fields_of, read_json, read_jsonl, write_json

RUN_FILE, METRICS_FILE = "retrokit.json", "metrics.jsonl"
TRAINING: Literal["training"] = "training"
FINISHED: Literal["finished"] = "finished"

_EVALUATED = {"step": int, "evaluation": dict[str, float | None]}
_IDENTITY = {
    **{"encoder?": str, "loss?": str | None},
    **dict.fromkeys(("data?", "augment?", "data_digests?"), list[str]),
    "holdout?": float | None,
    "seed?": COUNT,
}
_OUTCOME = {"steps": int, "best_step?": int | None, "metric?": str, "gain?": float | None, "evaluations?": [_EVALUATED]}
_MADE_FOR = {"encoder": str, "fingerprint": str, "in_folder": bool, "begins_with?": str}
_NOTES = {
    "retrokit?": str,
    "versions?": dict[str, str],
    "processor?": str,
    "configuration?": dict[str, Any],
    "data?": [{"name": str, "digest": str}],
    "git?": dict[str, Any] | None,
}
"""What is read of the objects in a description, which have further fields."""


_METRICS = {
    "step": COUNT,
    **dict.fromkeys(("seconds?", "epoch?", "loss?", "gamma_query?", "gamma_document?"), Real),
    **dict.fromkeys(("evaluation?", "norms?"), dict[str, float | None]),
    "baseline?": {"similarity": str, "evaluation": dict[str, float | None]},
}
"""What is read of a line of ``metrics.jsonl``."""


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
        files: names of the model's files at the top; ``None`` in a verifier's folder and in training.
        verifier: spec of a verifier.
        made_for: the encoder of a finished verifier: ``encoder``, ``fingerprint`` and ``in_folder``.
        calibration: ``threshold`` of a calibrated verifier, with its evidence.
        similarity_chosen_by: why ``auto`` became the similarity.
        notes: all else, for people: versions, configuration, data, the state of the repository.
    """

    status: Literal["training", "finished"]
    similarity: str
    encoder: str = ""
    identity: Annotated[dict[str, Any], _IDENTITY] = field(default_factory=dict)
    steps: Annotated[int | None, COUNT] = None
    step: Annotated[int | None, COUNT] = None
    outcome: Annotated[dict[str, Any] | None, _OUTCOME] = None
    files: list[FILE_NAME] | None = None
    verifier: str | None = None
    made_for: Annotated[dict[str, Any] | None, _MADE_FOR] = None
    calibration: Annotated[dict[str, Any] | None, {"threshold": float}] = None
    similarity_chosen_by: dict[str, Any] | None = None
    notes: Annotated[dict[str, Any], _NOTES] = field(default_factory=dict)

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
    described = read_json(path, "the description of a run")
    names = {field.name for field in fields(Run)}
    notes = {name: value for name, value in described.items() if name not in (*names, "kind", "version")}
    run: Run = checked(Run, {**described, "notes": notes}, path, "the description of a run")
    if lacking := [name for name in needed if name not in described]:
        raise DataError(path, f"is not the description of a {what}: no field {lacking[0]!r}")
    return run


def read_metrics(folder: str | Path) -> Iterator[dict[str, Any]]:
    """The lines of the ``metrics.jsonl`` in ``folder``, none if there is no such file. Raises :class:`DataError` for a
    damaged line, for a loss whose step or epoch is before that of an earlier one, and for an evaluation in other
    metrics than the first."""
    path = Path(folder, METRICS_FILE)
    step, epoch = 0, 0.0
    metrics: set[str] | None = None
    for _, line in read_jsonl(path, "metrics of a training") if path.is_file() else ():
        row: dict[str, Any] = checked(_METRICS, line, path, "metrics of a step")
        if "loss" in row:
            if row["step"] < step or row.get("epoch", epoch) < epoch:
                raise line.wrong(f"a loss of step {row['step']} comes after that of step {step}; remove the line")
            step, epoch = row["step"], row.get("epoch", epoch)
        if "evaluation" in row:
            metrics = {*row["evaluation"]} if metrics is None else metrics
            if other := sorted(metrics ^ {*row["evaluation"]}):
                raise line.wrong(f"its evaluation and the first have different metrics: {fields_of(other)}")
        yield row


def write_run(run: Run, folder: str | Path) -> None:
    """Write the description, whole or not at all; raises :class:`DataError`."""
    known = {field.name: getattr(run, field.name) for field in fields(run) if field.name != "notes"}
    described = {**{name: value for name, value in known.items() if value is not None}, **run.notes}
    write_json(Path(folder, RUN_FILE), described, indent=2, kind="run")


def add_to_run(folder: str | Path, **entries: Any) -> None:
    """Update entries of the description of the run in ``folder``."""
    write_run(replace(read_run(folder), **entries), folder)
