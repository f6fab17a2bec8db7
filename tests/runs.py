"""What tests of training share: runs that are stopped at a step, and what two runs leave."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from retrokit.training.trainer import RunTrainer


@contextmanager
def stopping(after: int, signal: int | None = None) -> Iterator[None]:
    """Within the block, a training dies in the step after so many, or gets a signal there."""
    with pytest.MonkeyPatch.context() as patch:
        real = RunTrainer.training_step

        def step(self: RunTrainer, *arguments: Any, **options: Any) -> Any:
            if self.state.global_step == after:
                if signal is None:
                    raise RuntimeError("killed")
                os.kill(os.getpid(), signal)
            return real(self, *arguments, **options)

        patch.setattr(RunTrainer, "training_step", step)
        yield


@contextmanager
def killed_after(steps: int) -> Iterator[None]:
    """The block is a training that dies after so many steps."""
    with stopping(steps), pytest.raises(RuntimeError, match="killed"):
        yield


def history_of(run: Path) -> list[dict[str, Any]]:
    """The lines of ``metrics.jsonl``, without the time."""
    rows = (json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines())
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def weights(run: Path) -> dict[str, torch.Tensor]:
    """All weights at the top of a run's folder, by file and name."""
    files = sorted(run.rglob("*.safetensors"))
    own = [path for path in files if "checkpoints" not in path.relative_to(run).parts]
    return {f"{path.relative_to(run)}: {name}": value for path in own for name, value in load_file(path).items()}


def assert_same_weights(one: Path, other: Path) -> None:
    ours, theirs = weights(one), weights(other)
    assert ours.keys() == theirs.keys()
    assert [name for name, value in ours.items() if not torch.equal(value, theirs[name])] == []
