"""The memory that training takes, found without taking it: weights, gradients, the optimizer's state, and activations
by batch and length.

The model is run on tensors that have shapes and no content (PyTorch's fake tensors), and what autograd keeps for the
backward pass is counted. Counts are those of PyTorch's kernels on a CPU, temporary memory not included.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from retrokit import encoders
from retrokit.encoders.adapters import is_quantized
from retrokit.encoders.casting import cast
from retrokit.encoders.engine import tokens_at_once
from retrokit.encoders.folders import is_description
from retrokit.encoders.precision import choose_precision
from retrokit.errors import UsageError
from retrokit.notices import notice
from retrokit.training.config import AUTO, FinetuneConfig
from retrokit.training.model import restrict

if TYPE_CHECKING:
    from retrokit.training.finetune import Plan

BATCHES, LENGTHS = (1, 8, 64), (128, 512, 2048)
ADAM_STATES = 2  # mean and square of each gradient
STORED = {4: 1 / 2 + 4 / 64, 8: 1.0}  # bytes of a weight of so many bits; 64 weights of 4 bits share a scale
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


# --- of a run


def with_memory(plan: Plan) -> Plan:
    """The plan, with the memory that a step takes in its preflight; as it is for an encoder that is no transformer of
    texts."""
    transformer = getattr(plan.model[0], "auto_model", None)
    if transformer is None or plan.model.supports("image"):
        return plan
    limit = max(found["limit"] or 0 for found in plan.preflight.lengths.values()) or LENGTHS[-1]
    shape = plan.config, plan.device, limit, len(plan.data[0].document_ids)
    found = _of_description(*shape) if is_quantized(transformer) else _of(transformer, *shape)
    return replace(plan, preflight=replace(plan.preflight, memory=found))


def of_description(config: FinetuneConfig) -> dict[str, Any] | None:
    """What a step would take of an encoder of whose model the configuration alone is there, so that no data is read;
    ``None`` if there is more of it.

    Raises:
        DataError: a configuration that cannot be read.
        UsageError: options that do not fit the model.
    """
    path = _parameters(config).get("path")
    if not isinstance(path, str) or not is_description(path):
        return None
    notice(f"{path}: there are no weights, only a description: it is told how much memory they would take")
    device = torch.device(config.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    return _of_description(config, device, None, documents=1)


def _parameters(config: FinetuneConfig) -> dict[str, Any]:
    return dict(encoders.registry.parse(config.encoder).params)


def _of_description(config: FinetuneConfig, device: torch.device, limit: int | None, documents: int) -> dict[str, Any]:
    """Of a model as its configuration describes it, in memory as :func:`~retrokit.training.model.build` would put
    it."""
    from retrokit.encoders.loading import described

    path, bits = _parameters(config)["path"], int(_parameters(config).get("bits") or 0)
    dtype = choose_precision(config.precision, device)
    model = described(path)
    if model.config.get_text_config() is not model.config:
        raise UsageError(f"{path}: memory is told of models of texts, and this one has more towers than theirs")
    is_base = config.lora is not None and not config.merge_lora
    cast(model, dtype if is_base or bits else torch.float32)
    linear = [part.weight for part in model.modules() if isinstance(part, nn.Linear)] if bits else []
    spared = sum(weight.nbytes - round(weight.numel() * STORED[bits]) for weight in linear)
    with torch.device("meta"):
        restrict(model, path, config.freeze, config.low_rank)
    longest = limit or int(getattr(model.config, "max_position_embeddings", LENGTHS[-1]))
    found = _of(model, config, device, longest, documents)
    return {**found, "weights": found["weights"] - spared}


def _of(model: nn.Module, config: FinetuneConfig, device: torch.device, limit: int, documents: int) -> dict[str, Any]:
    longest = config.max_length or min(limit, LENGTHS[-1])
    lengths = {*(tokens for tokens in LENGTHS if tokens < longest), longest}
    found = measure(
        model,
        choose_precision(config.precision, device),
        {*BATCHES, *([] if config.batch_size == AUTO else [int(config.batch_size)])},
        lengths,
        documents=documents,
        mini_batch=None if config.mini_batch in (None, AUTO) else int(config.mini_batch),
        at_once=tokens_at_once(device),
    )
    return asdict(found)
