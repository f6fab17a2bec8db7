"""The contract of an engine: a module beside this one that converts a transformer and computes it."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from sentence_transformers.base.modules import Transformer
from torch import Tensor, nn

OUTPUT = "token_embeddings"

Inputs = Mapping[str, np.ndarray]
"""Token ids, mask and whatever else the transformer takes, by name: int64 ``[n, t]`` each."""
Compute = Callable[[Inputs], np.ndarray]
"""Inputs → token embeddings, float32 ``[n, t, d]``."""


class Traced(nn.Module):
    """A transformer as a function of tensors ``[n, t]``, in the order of ``example``, for a tracer."""

    def __init__(self, transformer: Transformer, example: Inputs) -> None:
        super().__init__()
        self.transformer = transformer
        self.example = {name: torch.from_numpy(array) for name, array in example.items()}
        self.eval()

    def forward(self, *inputs: Tensor) -> Tensor:
        """The token embeddings ``[n, t, d]``."""
        embeddings: Tensor = self.transformer(dict(zip(self.example, inputs, strict=True)))[OUTPUT]
        return embeddings


class GraphEngine(Protocol):
    """An engine. Its module has these by name; the extra that installs its packages is called as the module is."""

    PACKAGES: tuple[str, ...]
    """The packages that decide what is computed."""

    def write(self, traced: Traced, dtype: str, calibration: Sequence[Inputs], folder: Path) -> None:
        """Convert the transformer into files in ``folder``.

        Args:
            dtype: ``fp32``, or ``int8``: weights and activations in 8 bits.
            calibration: batches of the texts to calibrate 8 bits with.
        """

    def read(self, folder: Path, threads: int) -> Compute:
        """What computes the graph in ``folder`` as it was written, whatever else the processor is fast in."""


def inputs_of(features: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """What a transformer takes of the features of a batch."""
    return {name: value.numpy() for name, value in features.items() if isinstance(value, Tensor) and value.ndim == 2}
