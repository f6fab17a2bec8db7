"""The files of a checkpoint's state, and reading them, whole or with one line that names the file.

``trainable.pt`` has the weights; ``state.pt``, written last, all else that a run resumes from: a checkpoint that has it
is complete.
"""

import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from retrokit.core.errors import DataError
from retrokit.data.jsonl import read_json

TRAINABLE, STATE = "trainable.pt", "state.pt"
SCHEDULER, BY_DEEPSPEED = "scheduler.pt", "latest"
_FOR_TRAINING = (STATE, TRAINABLE, "trainer_state.json", SCHEDULER, BY_DEEPSPEED, "global_step*", "zero_to_*.py")
_ADVICE = "remove this checkpoint to go on from the one before it, or give `overwrite=` to start anew"


def step_of(checkpoint: Path) -> int:
    """The step at which a checkpoint was written, from its name."""
    return int(checkpoint.name.rpartition("-")[2])


def drop_state(checkpoint: Path) -> None:
    """Remove what only the training needed."""
    for path in [path for name in _FOR_TRAINING for path in checkpoint.glob(name)]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def check_state(checkpoint: Path, engine: bool) -> None:
    """Raise :class:`DataError` unless all that a run resumes from is there and can be read, of the checkpoint's step;
    ``engine``: with DeepSpeed."""
    if (checkpoint / BY_DEEPSPEED).is_file() != engine:
        raise DataError(checkpoint, f"was written with{'out' * engine} DeepSpeed; go on in the same way")
    path = checkpoint / "trainer_state.json"
    with intact(path):
        step = read_json(path, "the state of a trainer", {"global_step": int}, nan=True)["global_step"]
        if step != step_of(checkpoint):
            raise ValueError(f"it is of step {step}")
    for name in (TRAINABLE, STATE):
        with intact(checkpoint / name):
            parts = torch.load(checkpoint / name, map_location="cpu", weights_only=True, mmap=True)
            if name == STATE and not {"optimizer", "scheduler", "scaler", "random"} <= parts.keys():
                raise ValueError("not the state of a run")


@contextmanager
def read_part(checkpoint: Path, name: str) -> Iterator[Any]:
    """A part of a checkpoint's state, to be taken up within the block."""
    with intact(checkpoint / name):
        yield torch.load(checkpoint / name, map_location="cpu", weights_only=True)


@contextmanager
def intact(path: Path) -> Iterator[None]:
    """Turn any error of reading ``path`` and of taking up its content into one clear line: a damaged file can fail in
    its container, in a pickle, in a shape."""
    try:
        yield
    except Exception as error:
        reason = (str(error).strip().splitlines() or [""])[0]
        raise DataError(path, f"cannot be gone on from ({type(error).__name__}: {reason}): {_ADVICE}") from error


def random_state(device: torch.device) -> dict[str, Any]:
    """The states of all random generators of this process."""
    name, keys, *rest = np.random.get_state(legacy=True)  # of a library that draws by it
    of_numpy = (name, np.asarray(keys).tolist(), *rest)
    state = {"python": random.getstate(), "numpy": of_numpy, "cpu": torch.get_rng_state()}
    return {**state, "cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else state


def set_random_state(state: dict[str, Any], device: torch.device) -> None:
    """Put back what :func:`random_state` gave."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["cpu"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)
