"""The memory that training takes, by a closed formula: weights, gradients, the optimizer's state, and the activations
that autograd keeps for the backward pass, by batch and length.

Activations are estimated from the widths of the linear layers. For BERT, RoBERTa, DistilBERT, ModernBERT, T5, Llama,
Qwen3 and Gemma 3 the estimate is within 30% of what autograd keeps. Temporary memory is not included.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import torch
from torch import nn
from transformers import PreTrainedModel

ADAM_STATES = 2  # mean and square of each gradient
PER_FEATURE, PER_FEATURE_MIXED = 5.2, 3.5
"""Bytes per token and feature that goes into or comes out of a linear layer, in float32 and under autocast."""
PER_ATTENTION = 12
"""Bytes per pair of tokens and head: attention with dropout keeps its probabilities and its mask."""
DROPOUTS = ("attention_probs_dropout_prob", "attention_dropout", "dropout_rate")


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
    """Bytes that a text of ``tokens`` tokens keeps for the backward pass: ``kept``, or with gradient checkpointing the
    ``inputs`` of all layers and the activations of one ``layer``; ``None``: the model does not support it."""

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
    model: PreTrainedModel,
    dtype: torch.dtype,
    batches: Collection[int],
    lengths: Collection[int],
    *,
    documents: int,
    mini_batch: int | None,
    at_once: int,
) -> Memory:
    """The memory that a training step of the transformer ``model`` takes, computing in ``dtype``.

    Args:
        documents: of an example.
        mini_batch: texts whose activations are held at once (gradient caching); ``None``: all of the batch.
        at_once: tokens that go through the model together.
    """
    memory, texts = measure_texts(model, dtype, lengths)
    rows = [text.of_step(batch, documents, mini_batch, at_once) for text in texts for batch in sorted(batches)]
    return replace(memory, activations=rows)


def measure_texts(
    model: PreTrainedModel, dtype: torch.dtype, lengths: Collection[int]
) -> tuple[Memory, list[TextMemory]]:
    """The memory of any step, and that of a text of each length, the shortest first."""
    trained = [parameter.requires_grad for parameter in model.parameters()]
    first = trained.index(True) if any(trained) else len(trained)
    back = {id(parameter) for parameter in list(model.parameters())[first:]}  # gradients flow back to here
    linear = [part for name, part in model.named_modules() if isinstance(part, nn.Linear) and "lora_" not in name]
    reached = [part for part in linear if id(part.weight) in back]
    gradients = sum(parameter.nbytes for parameter in model.parameters() if parameter.requires_grad)
    copied = sum(part.weight.numel() for part in linear if part.weight.requires_grad)
    memory = Memory(
        weights=sum(part.nbytes for part in (*model.parameters(), *model.buffers())),
        gradients=gradients,
        optimizer=ADAM_STATES * gradients,
        copies=0 if dtype == torch.float32 else copied * dtype.itemsize,
        activations=[],
    )
    config = model.config.get_text_config()
    layers = config.num_hidden_layers * len(reached) / max(1, len(linear))
    per_feature = PER_FEATURE if dtype == torch.float32 else PER_FEATURE_MIXED
    per_token = per_feature * sum(part.in_features + part.out_features for part in reached)
    has_dropout = any(getattr(config, name, 0) for name in DROPOUTS)
    per_pair = PER_ATTENTION * layers * config.num_attention_heads if has_dropout else 0
    texts = []
    for tokens in sorted(lengths):
        activation_bytes = tokens * (per_token + per_pair * tokens)
        inputs = (layers + 2) * config.hidden_size * tokens * model.dtype.itemsize
        layer = activation_bytes / max(1, layers) if model.supports_gradient_checkpointing else None
        texts.append(TextMemory(tokens, activation_bytes, inputs, layer))
    return memory, texts
