"""A model folder: the model at its top, ``retrokit.json``, ``metrics.jsonl``, ``checkpoints/`` and ``plots/``.

Files are staged and moved into place. A checkpoint has the weights in ``trainable.pt`` and all else that a run resumes
from in ``state.pt``, written last: a checkpoint that has it is complete. ``retrokit.json`` has the status ``finished``
once the model is in place. A run that replaces another is written next to it, and takes its place at the end.
"""

import glob
import os
import random
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import torch

from retrokit.core.errors import DataError, UsageError, disk_errors, first_line, naming
from retrokit.core.files import parents_of, replaced, writing
from retrokit.core.notices import notice
from retrokit.core.outputs import (
    beside,
    check_apart,
    check_folder,
    check_free,
    check_name_of_model,
    check_own,
    check_replaceable,
    is_empty,
    let_read,
    locked,
    put_back,
    take_place,
)
from retrokit.data.jsonl import COUNT, read_json, write_jsonl
from retrokit.data.runs import (
    FINISHED,
    METRICS_FILE,
    RUN_FILE,
    TRAINING,
    Run,
    checkpoints_in,
    is_run,
    read_metrics,
    read_run,
    step_of,
    write_run,
)
from retrokit.encoders.folders import CARD
from retrokit.training.config import differences

CONFIG_FILE = "config.toml"
_STAGED = ".staged"
_OWN = (
    *(RUN_FILE, CONFIG_FILE, "tracking.json", METRICS_FILE, _STAGED, "tensorboard"),
    *("plots/*.png", "plots/*.svg", "tokens/embeddings-*.sqlite*", "checkpoints/.*.retrokit-*"),
)
"""Patterns of what a run writes in its folder, without the model's files and those of checkpoints."""


class RunFolder:
    """The folder that a run writes to.

    A run that replaces another one is written next to it until it is finished: ``path`` is not ``target`` then.
    """

    def __init__(
        self, path: str | Path, overwrite: bool = False, resume: bool = False, keep_checkpoints: int = 1
    ) -> None:
        self.target = Path(path)
        self.overwrite, self.resume, self.keep_checkpoints = overwrite, resume, keep_checkpoints
        self._real = Path(os.path.realpath(path))
        self._new = beside(self._real, "retrokit-new")
        is_beside = (overwrite and not self._is_free()) or (resume and is_run(self._new))
        self.path = self._new if is_beside else self.target

    @property
    def checkpoints(self) -> Path:
        """Folder of ``checkpoint-STEP`` folders."""
        return self.path / "checkpoints"

    @property
    def metrics(self) -> Path:
        """A line per logged step and per evaluation."""
        return self.path / METRICS_FILE

    @property
    def resumes(self) -> bool:
        """Whether a run is to be resumed, and there is one."""
        return self.resume and is_run(self.path)

    def check(self, inputs: Iterable[str] = ()) -> None:
        """Check, before the work, that the run can be written here without a loss; ``inputs`` are paths that are read.

        Raises:
            UsageError: the options do not allow to replace the folder, it is finished and to be resumed, or another
                command writes it.
            DataError: it cannot be written.
        """
        check_own(self._new)
        check_folder(self.target)
        check_name_of_model(self.target)
        check_free(self.target)
        self._check_content(inputs)

    @contextmanager
    def locked(self, inputs: Iterable[str] = ()) -> Iterator[None]:
        """No other command can write here; checks and raises as :meth:`check`."""
        with locked(self.target):
            put_back(self._real)
            self._check_content(inputs)
            # the trainer makes them, and may fail thereafter
            with parents_of(self.checkpoints / "any", self.target), naming(self._new, self.target):
                yield

    def _check_content(self, inputs: Iterable[str]) -> None:
        if self.resumes:
            self._check_unfinished(self.read())
        elif self.overwrite:
            check_apart(self._new, inputs)
            if not self._is_free():
                self._check_replaceable(inputs)
        elif not self._is_free():
            if self.resume:
                raise UsageError(f"{self.target} is not a run that can be resumed: it has no {RUN_FILE}")
            raise UsageError(f"{self.target} exists; give `overwrite=`, `resume=`, or another `output=`")
        elif is_run(self._new):
            unfinished = f"an unfinished run that replaces {self.target} is in {self._new}"
            raise UsageError(f"{unfinished}; give `resume=`, `overwrite=`, or another `output=`")

    def _check_replaceable(self, inputs: Iterable[str]) -> None:
        before = RunFolder(self._there())
        if not is_run(before.path):
            raise UsageError(f"{self.target} exists and is not a run; `overwrite=` replaces runs only")
        run_files = [*_OWN, *map(glob.escape, before.read().files or ())]
        for checkpoint in checkpoints_in(before.checkpoints):
            run_files += [f"checkpoints/{checkpoint.name}/{name}" for name in _names_in(checkpoint)]
        check_replaceable(before.path, run_files, inputs)

    def _check_unfinished(self, run: Run) -> None:
        if run.status == FINISHED:
            raise UsageError(f"{self.target} is finished; nothing to resume")

    def _is_free(self) -> bool:
        there = self._there()
        return not os.path.lexists(there) or (there.is_dir() and is_empty(there))

    def _there(self) -> Path:
        """The run that is here, or was here when a kill came between two renames."""
        before = beside(self._real, "retrokit-old")
        return self.target if os.path.lexists(self.target) or not before.exists() else before

    def begin(self, run: Run) -> None:
        """Start a new run in an empty folder."""
        with disk_errors(self.target):
            if self._new.exists():  # of an earlier run that replaced the same one
                shutil.rmtree(self._new)
        self.describe(run)
        with disk_errors(self.target):
            self.checkpoints.mkdir(exist_ok=True)
            if self.path != self.target:
                self.path.chmod(0o700)  # until it has the permissions of the run that it replaces

    def describe(self, run: Run) -> None:
        """Write ``retrokit.json``."""
        write_run(run, self.path)

    def write_config(self, text: str) -> None:
        """Write ``config.toml``, which repeats the run."""
        with writing(self.path / CONFIG_FILE) as file:
            file.write(text)

    def read(self) -> Run:
        """The contents of ``retrokit.json``; raises :class:`DataError` for a damaged one."""
        return read_run(self.path, "identity")

    def check_same(self, identity: dict[str, Any]) -> Run:
        """The description of the run to resume; raises :class:`UsageError` unless it is unfinished and has the same
        ``identity``."""
        run = self.read()
        self._check_unfinished(run)
        if different := differences(run.identity, identity):
            raise UsageError(f"`resume=`: {self.target} is another run: {'; '.join(different)}")
        return run

    def last_checkpoint(self) -> Path | None:
        """The latest complete checkpoint; what a run has written of incomplete ones is removed."""
        last = None
        for path in checkpoints_in(self.checkpoints):
            if (path / STATE).is_file():
                last = path
            else:
                _remove_checkpoint(path)
        return last

    def checkpoint(self, step: int) -> Path:
        """The folder of the checkpoint of that step."""
        return self.checkpoints / f"checkpoint-{step}"

    def complete(self, path: Path, state: dict[str, Any], best_step: int | None) -> None:
        """Write the state of a checkpoint, whole or not at all, then drop all but the last ones and the best."""
        with replaced(path / STATE) as new:
            torch.save(state, new)
        complete = [path for path in checkpoints_in(self.checkpoints) if (path / STATE).is_file()]
        for old in complete[: -self.keep_checkpoints]:
            if step_of(old) != best_step:
                _remove_checkpoint(old)

    def truncate_metrics(self, step: int, metric: str = "") -> list[dict[str, Any]]:
        """Drop the lines after ``step``, which a resumed run writes again, and return the others. A kill may have cut
        the last line. Raises :class:`DataError` for another damaged line, and for an evaluation without ``metric``."""
        if not self.metrics.is_file():
            return []
        rows: list[dict[str, Any]] = []
        try:
            rows.extend(read_metrics(self.path))
        except DataError as error:
            content = self.metrics.read_bytes()
            if content.endswith(b"\n") or error.line != content.count(b"\n") + 1:
                raise
        remaining = [row for row in rows if row["step"] <= step]
        for row in remaining:
            if metric and metric not in row.get("evaluation", [metric]):
                raise DataError(self.metrics, f"the evaluation of step {row['step']} lacks {metric!r}")
        write_jsonl(self.metrics, remaining)
        return remaining

    def finish(self, staged: Path, run: Run) -> None:
        """Move the staged model to the top, replace the earlier run, set ``finished``, and drop the training's state. A
        kill before ``finished`` leaves a run to resume. A README.md that a user has put there stays."""
        let_read(staged)
        card = self.path / CARD
        if card.exists() and CARD not in (read_run(self.path).files or ()):
            notice(f"{card}: stays; the card of this run is not written")
            (staged / CARD).unlink(missing_ok=True)
        run = replace(run, files=sorted(os.listdir(staged)))
        self.describe(replace(run, status=TRAINING))
        move_content(staged, self.path)
        if self.path != self.target:
            take_place(self.path, self._real)
            self.path = self.target
        self.describe(replace(run, status=FINISHED))
        for checkpoint in checkpoints_in(self.checkpoints):
            _remove(checkpoint, _FOR_TRAINING)


@contextmanager
def staged_in(folder: Path) -> Iterator[Path]:
    """A hidden folder in ``folder`` for a model, empty."""
    staged = folder / _STAGED
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir()
    yield staged


def move_content(staged: Path, folder: Path) -> list[str]:
    """Move all that a hidden folder contains into ``folder``, in place of what has the same name, and remove it;
    returns the names."""
    names = sorted(os.listdir(staged))
    for name in names:
        target = folder / name
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        os.replace(staged / name, target)
    staged.rmdir()
    return names


TRAINABLE, STATE = "trainable.pt", "state.pt"
_VERIFIER = "verifier.safetensors"
"""A verifier's weights: the one file of a checkpoint that has no ``retrokit.json``."""
_FOR_TRAINING = (STATE, TRAINABLE, "trainer_state.json")
_ADVICE = "remove this checkpoint to resume from the one before, or give `overwrite=` to start again"


def _names_in(checkpoint: Path) -> list[str]:
    """Patterns of what a run writes in a checkpoint."""
    files: Iterable[str] = ()
    with suppress(UsageError, DataError):  # it is incomplete, or a verifier's, or damaged
        files = read_run(checkpoint).files or ()
    return [*map(glob.escape, files), *_FOR_TRAINING, _VERIFIER, RUN_FILE, _STAGED]


def _remove_checkpoint(checkpoint: Path) -> None:
    """Remove what a run has written in a checkpoint, and the folder unless it contains anything else."""
    _remove(checkpoint, [*_names_in(checkpoint), ".*.retrokit-*"])
    with suppress(OSError):
        checkpoint.rmdir()


def _remove(folder: Path, patterns: Iterable[str]) -> None:
    for path in [path for pattern in patterns for path in folder.glob(pattern)]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


_TRAINER_STATE = {
    "global_step": COUNT,
    "max_steps": COUNT,
    "num_train_epochs": COUNT,
    "epoch": float,
    "total_flos": float,
    "log_history": list[dict[str, Any]],
    "stateful_callbacks": {"TrainerControl": dict},
    "train_batch_size?": int | None,
    "num_input_tokens_seen?": int,
    "logging_steps?": float,
    "eval_steps?": float,
    "save_steps?": float,
    "best_metric?": float | None,
    "best_global_step?": int | None,
    "best_model_checkpoint?": str | None,
    "trial_name?": str | None,
    "is_local_process_zero?": bool,
    "is_world_process_zero?": bool,
    "is_hyper_param_search?": bool,
}
"""What the library's trainer takes from its file without a look at it."""


def check_state(checkpoint: Path) -> None:
    """Raise :class:`DataError` unless the checkpoint is whole and of its step."""
    from transformers import TrainerState

    path = checkpoint / "trainer_state.json"
    with intact(path):
        step = read_json(path, "the state of a trainer", _TRAINER_STATE, nan=True)["global_step"]
        if step != step_of(checkpoint):
            raise ValueError(f"it is of step {step}")
        TrainerState.load_from_json(str(path))
    for name in (TRAINABLE, STATE):
        with intact(checkpoint / name):
            with ZipFile(checkpoint / name) as archive:  # torch.load does not compare its checksums
                if damaged := archive.testzip():
                    raise ValueError(f"the checksum of {damaged} differs")
            parts = torch.load(checkpoint / name, map_location="cpu", weights_only=True, mmap=True)
            if name == STATE and not {"optimizer", "scheduler", "scaler", "random", "further"} <= parts.keys():
                raise ValueError("not the state of a run")


@contextmanager
def read_part(checkpoint: Path, name: str) -> Iterator[Any]:
    """A part of a checkpoint's state; an error of using it within the block names the file, too."""
    with intact(checkpoint / name):
        yield torch.load(checkpoint / name, map_location="cpu", weights_only=True)


@contextmanager
def intact(path: Path) -> Iterator[None]:
    """Turn any error into one line about ``path``: a damaged file can fail in its container, a pickle or a shape."""
    try:
        yield
    except Exception as error:
        raise DataError(path, f"cannot resume ({type(error).__name__}: {first_line(error)}); {_ADVICE}") from error


def random_state(device: torch.device) -> dict[str, Any]:
    """The states of all random generators of this process."""
    name, keys, *rest = np.random.get_state(legacy=True)  # of a library that draws by it
    of_numpy = (name, np.asarray(keys).tolist(), *rest)
    state = {"python": random.getstate(), "numpy": of_numpy, "cpu": torch.get_rng_state()}
    return {**state, "cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else state


def set_random_state(state: dict[str, Any], device: torch.device) -> None:
    """Restore a result of :func:`random_state`."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["cpu"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)
