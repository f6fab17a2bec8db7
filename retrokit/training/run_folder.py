"""A run's folder: the model at its top, ``retrokit.json``, ``metrics.jsonl``, ``checkpoints/`` and ``plots/``.

What is being written never stands under its final name: files are staged and moved into place, a checkpoint counts
once its marker stands, and ``retrokit.json`` says ``finished`` once the model is in place.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from retrokit.data.files import writing
from retrokit.data.jsonl import read_jsonl
from retrokit.encoders.opening import RUN_FILE
from retrokit.errors import DataError, UsageError, disk_errors
from retrokit.training.config import differences

COMPLETE = "complete"
STATE_FILES = (
    *("optimizer.pt", "scheduler.pt", "scaler.pt", "trainer_state.json", "trainable.pt", "training_args.bin"),
    *("rng_state.pth", COMPLETE),
)


class RunFolder:
    """Where a run writes."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def checkpoints(self) -> Path:
        """Folder of ``checkpoint-STEP`` folders."""
        return self.path / "checkpoints"

    @property
    def metrics(self) -> Path:
        """A line per logged step and per evaluation."""
        return self.path / "metrics.jsonl"

    def check(self, overwrite: bool, resume: bool) -> None:
        """Raise :class:`UsageError` if the folder exists and neither option allows it."""
        if resume and not (self.path / RUN_FILE).is_file():
            if self.path.exists() and any(self.path.iterdir()):
                raise UsageError(f"{self.path} is no run that could be resumed: it has no {RUN_FILE}")
            return
        if not self.path.exists() or overwrite or resume:
            if overwrite and self.path.exists() and not self._is_run_or_empty():
                raise UsageError(f"{self.path} exists and is no run: --overwrite replaces runs only")
            return
        raise UsageError(f"{self.path} exists; give --overwrite to replace it, --resume to go on, or another -o")

    def _is_run_or_empty(self) -> bool:
        return self.path.is_dir() and ((self.path / RUN_FILE).is_file() or not any(self.path.iterdir()))

    def begin(self, description: dict[str, Any]) -> None:
        """Make the folder new, replacing what was there."""
        if self.path.exists():
            shutil.rmtree(self.path)
        self.checkpoints.mkdir(parents=True)
        self.describe(description)

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
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(path, f"is no description of a run: {type(error).__name__} {error}") from None

    def check_same(self, identity: dict[str, Any]) -> dict[str, Any]:
        """The description of the run to resume, which must have the same ``identity``.

        Raises:
            UsageError: it differs, naming each option; or the run is finished.
        """
        described = self.read_description()
        if described["status"] == "finished":
            raise UsageError(f"{self.path} is finished; nothing to resume")
        different = differences(described["identity"], identity)
        if different:
            raise UsageError(f"--resume: {self.path} is another run: {'; '.join(different)}")
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
        """Move the staged model to the top, say ``finished``, and drop what only training needed."""
        for item in sorted(staged.iterdir()):
            target = self.path / item.name
            if target.is_dir():
                shutil.rmtree(target)
            os.replace(item, target)
        staged.rmdir()
        self.describe(description)
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
