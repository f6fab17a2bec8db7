"""The memory that training takes, found without taking it: weights, gradients, the optimizer's state, and activations
by batch and length.

The model is run on tensors that have shapes and no content (PyTorch's fake tensors), and what autograd keeps for the
backward pass is counted. Counts are those of PyTorch's kernels on a CPU, temporary memory not included.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

ADAM_STATES = 2  # mean and square of each gradient
_TEXTS = 2  # of a trial; what it keeps grows with their number


@dataclass(frozen=True)
class Activations:
    """Bytes that ``batch`` examples, all of whose texts have ``tokens`` tokens, keep for the backward pass;
    ``checkpointed``: at most at a time with gradient checkpointing, ``None`` where the model cannot do it."""

    batch: int
    tokens: int
    kept: int
    checkpointed: int | None


@dataclass(frozen=True)
class Memory:
    """Bytes of a step: ``copies`` are those of the weights in the type that is computed in, where it is another."""

    weights: int
    gradients: int
    optimizer: int
    copies: int
    activations: list[Activations]


@dataclass(frozen=True)
class TextMemory:
    """Bytes that a text of ``tokens`` tokens keeps for the backward pass: ``kept``, or where layers are computed twice,
    ``inputs`` of all layers, and what one ``layer`` keeps while its gradients are computed; ``None``: the model cannot
    do it."""

    tokens: int
    kept: float
    inputs: float
    layer: float | None

    def of_step(self, batch: int, documents: int, mini_batch: int | None, at_once: int) -> Activations:
        """Activations of a step; the arguments are those of :func:`measure`."""
        together = min(documents * batch, max(1, at_once // self.tokens), mini_batch or documents * batch)
        held = (1 + documents) * batch if mini_batch is None else min(mini_batch, documents * batch)
        twice = None if self.layer is None else round(held * self.inputs + together * self.layer)
        return Activations(batch, self.tokens, round(held * self.kept), twice)


def measure(
    model: nn.Module,
    dtype: torch.dtype,
    batches: Collection[int],
    lengths: Collection[int],
    *,
    documents: int,
    mini_batch: int | None,
    at_once: int,
) -> Memory:
    """What a step of ``model``, a transformer that is trained, takes, computing in ``dtype``.

    Args:
        documents: of an example.
        mini_batch: texts whose activations are held at once (gradient caching); ``None``: all of the batch.
        at_once: tokens that go through the model together.
    """
    memory, texts = measure_texts(model, dtype, lengths)
    rows = [text.of_step(batch, documents, mini_batch, at_once) for text in texts for batch in sorted(batches)]
    return replace(memory, activations=rows)


def measure_texts(model: nn.Module, dtype: torch.dtype, lengths: Collection[int]) -> tuple[Memory, list[TextMemory]]:
    """What any step takes, and what a text of each length does, the shortest first."""
    weights = sum(part.nbytes for part in (*model.parameters(), *model.buffers()))
    gradients = sum(part.nbytes for part in model.parameters() if part.requires_grad)
    with FakeTensorMode():
        trial = _Trial(_without_content(model), dtype)
        shortest = min(lengths)
        copies = 2 * trial.kept(_TEXTS, shortest) - trial.kept(2 * _TEXTS, shortest) if dtype != torch.float32 else 0
        texts = []
        for tokens in sorted(lengths):
            kept = (trial.kept(_TEXTS, tokens) - copies) / _TEXTS
            inputs, layer = trial.checkpointed(kept, tokens)
            texts.append(TextMemory(tokens, kept, inputs, layer if trial.layers else None))
    return Memory(weights, gradients, ADAM_STATES * gradients, copies, []), texts


class _Trial:
    """Forward passes of a model whose tensors have no content."""

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        self.model, self.dtype = model.train(), dtype
        self.layers = [part for part in model.modules() if isinstance(part, GradientCheckpointingLayer)]
        self._checkpoint(False)

    def kept(self, count: int, tokens: int) -> int:
        """Bytes that autograd keeps of ``count`` texts, without the weights."""
        own = {part.untyped_storage()._cdata for part in (*self.model.parameters(), *self.model.buffers())}
        found: dict[int, torch.UntypedStorage] = {}

        def keep(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if storage._cdata not in own:
                found[storage._cdata] = storage
            return tensor

        computing = torch.autocast("cpu", self.dtype) if self.dtype != torch.float32 else nullcontext()
        ids = torch.zeros(count, tokens, dtype=torch.long)
        with saved_tensors_hooks(keep, lambda tensor: tensor):
            with computing:
                states = self.model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
            pooled = states.float().mean(dim=1)
        del pooled
        return sum(storage.nbytes() for storage in found.values())

    def checkpointed(self, kept: float, tokens: int) -> tuple[float, float]:
        """Bytes of a text where layers are computed twice: of the inputs of all layers, and of what a layer keeps while
        its gradients are computed. ``kept``: where they are not."""
        self._checkpoint(True)
        inputs = self.kept(_TEXTS, tokens) / _TEXTS
        self._checkpoint(False)
        return inputs, (kept - inputs) / max(1, len(self.layers))

    def _checkpoint(self, on: bool) -> None:
        for layer in self.layers:
            layer.gradient_checkpointing = on
            layer._gradient_checkpointing_func = partial(checkpoint, use_reentrant=False)


def _without_content(model: nn.Module) -> nn.Module:
    """A copy whose tensors have shapes alone; within a mode of fake tensors."""
    shapes: dict[int, Any] = {}
    for part in (*model.parameters(), *model.buffers()):
        made = torch.empty(part.shape, dtype=part.dtype)
        is_weight = isinstance(part, nn.Parameter)
        shapes[id(part)] = nn.Parameter(made, part.requires_grad) if is_weight else made
    return copy.deepcopy(model, shapes)
