"""Encoding many texts fast: sorted by length, in batches of a fixed token budget, results in input order.

Embeddings do not depend on how texts fell into batches (≤ 1e-6 in fp32).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from retrokit.errors import DataError, UsageError
from retrokit.notices import progress

CHUNK = 512  # texts tokenised in one call
CPU_TOKENS = 4096  # padded tokens of a batch; measured best between 2,000 and 4,000 on two cores
GPU_TOKENS = 65536

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def choose_precision(name: str, device: torch.device) -> torch.dtype:
    """The dtype of ``fp32``, ``bf16``, ``fp16``; ``auto`` is bf16 where the hardware multiplies it natively.

    Raises:
        UsageError: another name.
    """
    if name != "auto":
        if name not in PRECISIONS:
            raise UsageError(f"precision {name!r} is none of auto, {', '.join(PRECISIONS)}")
        return PRECISIONS[name]
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float32
    if device.type == "cpu" and _cpu_has_bf16():
        return torch.bfloat16
    return torch.float32


def _cpu_has_bf16() -> bool:
    features = torch.backends.cpu.get_cpu_capability() if hasattr(torch.backends, "cpu") else ""
    is_bf16 = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)()
    is_amx = getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)()
    return "AVX512" in features and (is_bf16 or is_amx)


@torch.inference_mode()
def encode(
    model: SentenceTransformer,
    texts: Sequence[str],
    role: str,
    prompt: str | None,
    dtype: torch.dtype,
    name: str,
    max_tokens: int | None = None,
) -> np.ndarray:
    """Embeddings of ``texts``, float32 ``[n, d]``, in input order.

    Args:
        model: a SentenceTransformer; its first module turns texts into features.
        role: ``query`` or ``document``.
        prompt: put before every text.
        dtype: what the first module computes in; pooling and what follows stay in float32.
        name: the encoder's, for messages.
        max_tokens: padded tokens of a batch.

    Raises:
        DataError: an embedding is not finite.
    """
    device = model.device
    max_tokens = max_tokens or (CPU_TOKENS if device.type == "cpu" else GPU_TOKENS)
    model.eval()
    transformer = _in_dtype(model[0], dtype)
    rest = list(model)[1:]
    order = np.argsort([-len(text) for text in texts], kind="stable")
    embeddings: np.ndarray | None = None
    with progress(f"encoding {role} texts", len(texts), "texts") as advance:
        for start in range(0, len(texts), CHUNK):
            chunk = order[start : start + CHUNK]
            features = model.preprocess([texts[i] for i in chunk], prompt=prompt, task=role)
            for rows, batch in _batches(features, len(chunk), max_tokens):
                output = _forward(transformer, rest, batch, device)
                if embeddings is None:
                    embeddings = np.empty((len(texts), output.shape[-1]), dtype=np.float32)
                embeddings[chunk[rows]] = output.float().cpu().numpy()
                advance(len(rows))
    if embeddings is None:
        return np.zeros((0, model.get_embedding_dimension()), dtype=np.float32)
    bad = np.flatnonzero(~np.isfinite(embeddings).all(axis=1))
    if len(bad):
        raise DataError(name, f"{len(bad)} of {len(texts)} embeddings are not finite, the first of text {bad[0] + 1}")
    return embeddings


def _in_dtype(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    parameter = next(module.parameters(), None)
    if parameter is None or parameter.dtype == dtype:
        return module
    return copy.deepcopy(module).to(dtype)


def _forward(transformer: nn.Module, rest: list[nn.Module], batch: dict[str, Any], device: torch.device) -> Tensor:
    features = {key: value.to(device) if isinstance(value, Tensor) else value for key, value in batch.items()}
    features = transformer(features)
    features = {k: v.float() if isinstance(v, Tensor) and v.is_floating_point() else v for k, v in features.items()}
    for module in rest:
        features = module(features)
    return features["sentence_embedding"]


def _batches(features: dict[str, Any], count: int, max_tokens: int) -> Iterator[tuple[np.ndarray, dict[str, Any]]]:
    """Cut tokenised features into batches of at most ``max_tokens`` padded tokens, longest texts first."""
    mask = features.get("attention_mask")
    if mask is None or mask.ndim != 2:  # a bag of tokens (static) has no padding to save
        yield np.arange(count), features
        return
    lengths = mask.sum(dim=1).numpy()
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < count:
        size = max(1, max_tokens // max(1, int(lengths[order[start]])))
        rows = order[start : start + size]
        yield rows, _rows(features, rows, mask)
        start += size


def _rows(features: dict[str, Any], rows: np.ndarray, mask: Tensor) -> dict[str, Any]:
    """The given rows, without the columns that are padding in all of them."""
    index = torch.from_numpy(rows)
    columns = mask[index].any(dim=0)
    taken = {}
    for key, value in features.items():
        if not isinstance(value, Tensor) or value.ndim == 0 or value.shape[0] != mask.shape[0]:
            taken[key] = value
        elif value.ndim >= 2 and value.shape[1] == mask.shape[1]:
            taken[key] = value[index][:, columns]
        else:
            taken[key] = value[index]
    return taken
