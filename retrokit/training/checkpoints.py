"""The files of a checkpoint's state: their names, and reading them, whole or with one line that names the file."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from retrokit.core.errors import DataError
from retrokit.data.jsonl import read_json

TRAINED = "trainable.pt"
COMPLETE = "complete"
OPTIMIZER, BY_DEEPSPEED = "optimizer.pt", "latest"
_GO_ON = (TRAINED, "scheduler.pt", "trainer_state.json")
_OF_DEEPSPEED = (BY_DEEPSPEED, "global_step*", "zero_to_*.py")
_STATE = (*_GO_ON, OPTIMIZER, *_OF_DEEPSPEED, "scaler.pt", "training_args.bin", "rng_state*.pth", COMPLETE)


def rng_file(rank: int, world: int) -> str:
    """Name of the file of a process's random state."""
    return f"rng_state_{rank}.pth" if world > 1 else "rng_state.pth"


def step_of(checkpoint: Path) -> int:
    """The step at which a checkpoint was written, from its name."""
    return int(checkpoint.name.rpartition("-")[2])


def drop_state(checkpoint: Path) -> None:
    """Remove what only the training needed."""
    for path in [path for name in _STATE for path in checkpoint.glob(name)]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def check_state(checkpoint: Path, world: int, scaled: bool, engine: bool) -> None:
    """Raise :class:`DataError` unless all that ``world`` processes go on from is there, of the checkpoint's step;
    ``scaled``: in fp16; ``engine``: with DeepSpeed."""
    if (checkpoint / BY_DEEPSPEED).is_file() != engine:
        raise DataError(checkpoint, f"was written with{'out' * engine} DeepSpeed; go on in the same way")
    own = [BY_DEEPSPEED if engine else OPTIMIZER, *(rng_file(rank, world) for rank in range(world))]
    for name in (*_GO_ON, *own, *(["scaler.pt"] if scaled else [])):
        if not (checkpoint / name).is_file():
            raise DataError(checkpoint, f"has no {name}: {_ADVICE}")
    path = checkpoint / "trainer_state.json"
    with intact(path):
        step = read_json(path, "the state of a trainer", {"global_step": int}, nan=True)["global_step"]
        if step != step_of(checkpoint):
            raise ValueError(f"it is of step {step}")


@contextmanager
def intact(path: Path) -> Iterator[None]:
    """Turn any error of reading ``path`` and of taking up what it holds into one clear line.

    A damaged file can fail in any way: in its container, in a pickle, in a shape.
    """
    try:
        yield
    except Exception as error:
        reason = (str(error).strip().splitlines() or [""])[0]
        raise DataError(path, f"cannot be gone on from ({type(error).__name__}: {reason}): {_ADVICE}") from error


_ADVICE = "remove this checkpoint to go on from the one before it, or give `overwrite=` to start anew"
