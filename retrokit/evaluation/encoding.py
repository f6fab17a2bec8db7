"""Embedding the texts of a task, once for all similarities, and the record of what made the embeddings."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import retrokit
from retrokit.encoders.base import Encoder
from retrokit.similarities.base import Role

_BLOCK = 1 << 18  # numbers that are widened at a time: 2 MiB


def encode_sides(
    encoder: Encoder,
    sides: Sequence[tuple[Sequence[str], Role]],
    precision: str = "auto",
    dims: int | None = None,
) -> tuple[list[np.ndarray], dict[str, Any]]:
    """Raw embeddings, float32 ``[n, dims]``, of each list of texts in its role; and the configuration of a result."""
    start = time.perf_counter()
    embeddings = [encoder.embed(texts, role, precision)[:, :dims] for texts, role in sides]
    configuration = {
        "precision": encoder.computes_in(precision),
        "device": encoder.device.type,
        "dims": dims or encoder.dimension,
        "fingerprint": encoder.fingerprint(),
        "encoding_seconds": round(time.perf_counter() - start, 3),
        "retrokit": retrokit.__version__,
    }
    return embeddings, configuration


def row_norms(embeddings: np.ndarray) -> np.ndarray:
    """Lengths of the rows of ``[n, d]``, float64 ``[n]``. Squares of float32 would overflow from 1e19 on, and a copy of
    all of them in float64 is twice their size: so rows are widened a block at a time."""
    norms = np.empty(len(embeddings))
    rows = max(1, _BLOCK // max(1, embeddings.shape[1]))
    for start in range(0, len(embeddings), rows):
        block = embeddings[start : start + rows].astype(np.float64)
        norms[start : start + rows] = np.sqrt(np.einsum("nd,nd->n", block, block))
    return norms


def norm_statistics(embeddings: np.ndarray, role: str) -> dict[str, float]:
    """Mean, standard deviation and coefficient of variation of the rows' norms (MAG, Figure 5 and N.2)."""
    norms = row_norms(embeddings)
    average, deviation = (float(norms.mean()), float(norms.std())) if len(norms) else (0.0, 0.0)
    return {
        f"{role}_norm_mean": average,
        f"{role}_norm_std": deviation,
        f"{role}_norm_cv": deviation / average if average else 0.0,
    }
