"""Where a run started, and how far training moved each layer from there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from retrokit.core.errors import UsageError
from retrokit.data.runs import is_run, read_run
from retrokit.encoders.base import Encoder


def starting_encoder(folder: Path) -> str | None:
    """The spec of the encoder from which the run in ``folder`` (or the one it is a checkpoint of) was trained; ``None``
    for what is no run."""
    is_checkpoint = re.fullmatch(r"checkpoint-\d+", folder.name) is not None
    run = folder.parents[1] if is_checkpoint and len(folder.parents) > 1 else folder
    return read_run(run, "encoder").encoder if is_run(run) else None


def _shapes(layers: Sequence[Mapping[str, Tensor]]) -> list[dict[str, torch.Size]]:
    return [{name: tensor.shape for name, tensor in layer.items()} for layer in layers]


def layer_changes(start: Encoder, end: Encoder) -> list[float]:
    """How far each layer of ``end`` is from the same layer of ``start``: ``‖W − W₀‖_F / ‖W₀‖_F`` over all of a
    layer's weights, the embedding layer first."""
    before, after = start.with_layers().layer_weights(), end.with_layers().layer_weights()
    if _shapes(before) != _shapes(after):
        raise UsageError(f"{end.spec} and {start.spec} are not of one architecture: their weights cannot be compared")
    changes = []
    for old, new in zip(before, after, strict=True):
        moved = sum(float((new[name].double() - tensor.double()).square().sum()) for name, tensor in old.items())
        length = sum(float(tensor.double().square().sum()) for tensor in old.values())
        changes.append(float(np.sqrt(moved / length)) if length else 0.0)
    return changes
