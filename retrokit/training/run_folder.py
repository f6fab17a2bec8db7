"""A run's folder: the model at its top, ``retrokit.json``, ``metrics.jsonl``, ``checkpoints/`` and ``plots/``.

What is being written never stands under its final name: files are staged and moved into place, a checkpoint counts
once its marker stands, and ``retrokit.json`` says ``finished`` once the model is in place. A run that replaces another
is made beside it, and takes its place at the end.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from retrokit.data.files import parents_of, writing
from retrokit.data.jsonl import read_jsonl
from retrokit.data.outputs import (
    beside,
    check_apart,
    check_folder,
    check_free,
    check_replaceable,
    is_empty,
    locked,
    put_back,
    take_place,
)
from retrokit.encoders.opening import RUN_FILE
from retrokit.errors import DataError, UsageError, disk_errors
from retrokit.training.config import differences

COMPLETE = "complete"
STATE_FILES = (
    *("optimizer.pt", "scheduler.pt", "scaler.pt", "trainer_state.json", "trainable.pt", "training_args.bin"),
    *("rng_state.pth", COMPLETE),
)
_OWN = (RUN_FILE, "metrics.jsonl", "checkpoints", "plots", ".staged", "tokens")


class RunFolder:
    """Where a run writes.

    A run that takes the place of another is made beside it (``path`` is not ``target`` then), so that the one before is
    there until the new one is finished; ``resume`` goes on with it there.
    """

    def __init__(self, path: str | Path, overwrite: bool = False, resume: bool = False) -> None:
        self.target = Path(path)
        self.overwrite, self.resume = overwrite, resume
        self._real = Path(os.path.realpath(path))
        self._new = beside(self._real, "retrokit-new")
        is_beside = (overwrite and not self._is_free()) or (resume and (self._new / RUN_FILE).is_file())
        self.path = self._new if is_beside else self.target

    @property
    def checkpoints(self) -> Path:
        """Folder of ``checkpoint-STEP`` folders."""
        return self.path / "checkpoints"

    @property
    def metrics(self) -> Path:
        """A line per logged step and per evaluation."""
        return self.path / "metrics.jsonl"

    @property
    def goes_on(self) -> bool:
        """Whether a run is to be resumed, and there is one."""
        return self.resume and (self.path / RUN_FILE).is_file()

    def check(self, inputs: Iterable[str] = ()) -> None:
        """See before the work that the run can be written here, and that nothing of value is lost by it.

        Args:
            inputs: paths that are read, which must not lie in a run that is replaced.

        Raises:
            UsageError: the folder holds something that the options do not allow to be replaced, is finished and to be
                resumed, or is being written by another command.
            DataError: it cannot be written.
        """
        check_folder(self.target)
        try:
            str(self.path).encode()
        except UnicodeEncodeError:  # the libraries that save tokenizers take no other
            raise DataError(self.target, "could not be written: a model's folder needs a name in UTF-8") from None
        check_free(self.target)
        self._check_content(inputs)

    @contextmanager
    def locked(self, inputs: Iterable[str] = ()) -> Iterator[None]:
        """Within the block no other command writes here.

        Raises:
            UsageError: another command does; or as for :meth:`check`, which looks once more.
        """
        with locked(self.target):
            put_back(self._real)
            self._check_content(inputs)
            with parents_of(self.checkpoints / "any", self.target):  # the trainer makes them, and may fail thereafter
                yield

    def _check_content(self, inputs: Iterable[str]) -> None:
        if self.goes_on:
            self._check_unfinished(self.read_description())
        elif self.overwrite:
            self._check_replaceable(inputs)
        elif self.resume and not self._is_free():
            raise UsageError(f"{self.target} is no run that could be resumed: it has no {RUN_FILE}")
        elif not self._is_free():
            raise UsageError(f"{self.target} exists; give --overwrite to replace it, --resume to go on, or another -o")
        elif (self._new / RUN_FILE).is_file():
            is_there = f"an unfinished run that was to replace {self.target} lies in {self._new}"
            raise UsageError(f"{is_there}; give --resume to go on with it, --overwrite to start anew, or another -o")

    def _check_replaceable(self, inputs: Iterable[str]) -> None:
        check_apart(self._new, inputs)
        if self._is_free():
            return
        before = RunFolder(self._there())
        if not (before.path / RUN_FILE).is_file():
            raise UsageError(f"{self.target} exists and is no run: --overwrite replaces runs only")
        check_replaceable(before.path, (*_OWN, *before.read_description().get("files", ())), inputs)

    def _check_unfinished(self, described: dict[str, Any]) -> None:
        if described["status"] == "finished":
            raise UsageError(f"{self.target} is finished; nothing to resume")

    def _is_free(self) -> bool:
        there = self._there()
        return not os.path.lexists(there) or (there.is_dir() and is_empty(there))

    def _there(self) -> Path:
        """The run that stands here, or stood here when a kill came between two renames."""
        before = beside(self._real, "retrokit-old")
        return self.target if os.path.lexists(self.target) or not before.exists() else before

    def begin(self, description: dict[str, Any]) -> None:
        """Start a new run in an empty folder."""
        with disk_errors(self.target):
            if self._new.exists():  # of a run before that was to replace the same one
                shutil.rmtree(self._new)
        self.describe(description)
        with disk_errors(self.target):
            self.checkpoints.mkdir(exist_ok=True)

    def describe(self, description: dict[str, Any]) -> None:
        """Write ``retrokit.json``."""
        with writing(self.path / RUN_FILE) as file:
            json.dump(description, file, indent=2, ensure_ascii=False, allow_nan=False)
            file.write("\n")

    def read_description(self) -> dict[str, Any]:
        """Read ``retrokit.json``; a damaged one is a :class:`DataError`."""
        path = self.path / RUN_FILE
        try:
            described = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(described["identity"], dict) or not isinstance(described["status"], str):
                raise KeyError("identity")
            return described
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise DataError(path, f"is no description of a run: {type(error).__name__} {error}") from None

    def check_same(self, identity: dict[str, Any]) -> dict[str, Any]:
        """The description of the run to resume, which must have the same ``identity``.

        Raises:
            UsageError: it differs, naming each option; or the run is finished.
        """
        described = self.read_description()
        self._check_unfinished(described)
        different = differences(described["identity"], identity)
        if different:
            raise UsageError(f"--resume: {self.target} is another run: {'; '.join(different)}")
        return described

    def last_checkpoint(self) -> Path | None:
        """The latest complete checkpoint; incomplete ones are removed."""
        complete = []
        for path in self.checkpoints.glob("checkpoint-*"):
            if (path / COMPLETE).is_file():
                complete.append(path)
            else:
                shutil.rmtree(path)
        return max(complete, key=step_of, default=None)

    def complete_checkpoint(self, path: Path, best_step: int | None, keep: int) -> None:
        """Mark a checkpoint as complete, then drop all but the last ``keep`` and the best."""
        with open(path / COMPLETE, "w") as marker:
            os.fsync(marker.fileno())
        paths = sorted(self.checkpoints.glob("checkpoint-*"), key=step_of)
        for old in paths[:-keep]:
            if step_of(old) != best_step:
                shutil.rmtree(old)

    def truncate_metrics(self, step: int) -> list[dict[str, Any]]:
        """Drop the lines after ``step``, which a resumed run writes anew; returns those kept."""
        if not self.metrics.is_file():
            return []
        kept = [row for _, row in self._whole_lines() if row["step"] <= step]
        with writing(self.metrics) as file:
            file.writelines(json.dumps(row, allow_nan=False) + "\n" for row in kept)
        return kept

    def _whole_lines(self) -> list[tuple[int, dict[str, Any]]]:
        """The lines up to a last one that a kill cut off."""
        rows = []
        try:
            for line, row in read_jsonl(self.metrics):
                rows.append((line, row))
        except DataError:
            if not rows:
                return []
        return rows

    def finish(self, staged: Path, description: dict[str, Any]) -> None:
        """Move the staged model to the top, put the folder in the place of the run that it replaces, say ``finished``,
        and drop what only training needed. A kill before ``finished`` leaves a run to resume."""
        items = sorted(staged.iterdir())
        description = {**description, "files": [item.name for item in items]}
        self.describe({**description, "status": "training"})
        for item in items:
            target = self.path / item.name
            if target.is_dir():
                shutil.rmtree(target)
            os.replace(item, target)
        staged.rmdir()
        if self.path != self.target:
            take_place(self.path, self._real)
            self.path = self.target
        self.describe({**description, "status": "finished"})
        for checkpoint in self.checkpoints.glob("checkpoint-*"):
            for name in STATE_FILES:
                (checkpoint / name).unlink(missing_ok=True)
            for state in checkpoint.glob("rng_state_*.pth"):
                state.unlink()


@contextmanager
def saving(path: Path) -> Iterator[None]:
    """Turn a failed write of a model (disk full, no permission) into one clear line.

    Each library has an error of its own for it; what was written so far never counts, for it has no marker.
    """
    with disk_errors(path):
        try:
            yield
        except SafetensorError as error:
            raise DataError(path, f"could not be written: {error}") from error
        except RuntimeError as error:  # torch.save's only error; other RuntimeErrors are bugs
            if "PytorchStreamWriter" not in str(error) and "unexpected pos" not in str(error):
                raise
            raise DataError(path, f"could not be written: {error}") from error


def step_of(checkpoint: Path) -> int:
    """The step at which a checkpoint was written, from its name."""
    return int(checkpoint.name.rpartition("-")[2])
