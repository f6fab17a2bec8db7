"""The memory of a training step by a formula: weights, gradients, AdamW's two states, and activations.

A step stores what each linear layer reads and writes, and the attention of each head where that has dropout. What
autograd stores is within 30% of the formula for BERT, RoBERTa, DistilBERT, ModernBERT, T5, Llama,
Qwen3 and Gemma 3. Frozen layers count as trained ones, and temporary memory does not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from transformers import PreTrainedModel

BYTES_PER_FEATURE, BYTES_PER_FEATURE_MIXED = 5.2, 3.5  # in float32, and under autocast
BYTES_PER_ATTENTION = 12  # attention with dropout stores its probabilities and its mask
DROPOUTS = ("attention_probs_dropout_prob", "attention_dropout", "dropout_rate")


def step_memory(
    model: PreTrainedModel, dtype: torch.dtype, texts: int, tokens: int, recomputes: bool
) -> dict[str, int]:
    """Bytes of a step that computes in ``dtype``: ``weights``, ``gradients``, ``optimizer`` and ``activations``.

    Args:
        texts: whose activations are in memory together.
        tokens: of each text.
        recomputes: gradient checkpointing keeps the inputs of all layers and the activations of one.
    """
    weights = _bytes([*model.parameters(), *model.buffers()])
    gradients = _bytes([parameter for parameter in model.parameters() if parameter.requires_grad])
    layers = _linear_layers(model)
    features = sum(layer.in_features + layer.out_features for layer in layers)
    config = model.config.get_text_config()
    bytes_per_token = BYTES_PER_FEATURE * features
    if dtype != torch.float32:
        bytes_per_token = BYTES_PER_FEATURE_MIXED * features
        weights += dtype.itemsize * sum(layer.weight.numel() for layer in layers if layer.weight.requires_grad)
    if any(getattr(config, name, 0) for name in DROPOUTS):
        bytes_per_token += BYTES_PER_ATTENTION * config.num_hidden_layers * config.num_attention_heads * tokens
    if recomputes:
        layer_inputs = config.num_hidden_layers * config.hidden_size * model.dtype.itemsize
        bytes_per_token = layer_inputs + bytes_per_token / config.num_hidden_layers
    activations = round(texts * tokens * bytes_per_token)
    return {"weights": weights, "gradients": gradients, "optimizer": 2 * gradients, "activations": activations}


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors)


def _linear_layers(model: PreTrainedModel) -> list[nn.Linear]:
    """Those of the model itself, not of a low-rank update."""
    return [module for name, module in model.named_modules() if isinstance(module, nn.Linear) and "lora_" not in name]
