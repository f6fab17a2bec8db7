"""Numbers of moderate size, prepared embeddings, and statistics that can be computed anew on items drawn."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch

from retrokit.evaluation.result import Resampled
from retrokit.similarities.base import Similarity


@torch.inference_mode()
def prepared(similarity: Similarity, embeddings: np.ndarray) -> np.ndarray:
    """Embeddings as ``similarity`` prepares documents, float32 ``[n, d']``: of unit length for cosine, raw for dot."""
    rows: np.ndarray = copy.deepcopy(similarity).cpu().prepare(torch.as_tensor(embeddings), "document").numpy()
    return rows


def moderate(numbers: np.ndarray) -> np.ndarray:
    """``numbers`` times the power of two that brings the largest to between ½ and 1: not a digit changes, and their
    squares neither overflow nor vanish."""
    scaled: np.ndarray = np.ldexp(numbers, -np.frexp(np.abs(numbers).max(initial=0))[1])
    return scaled


Statistic = Callable[[np.ndarray, np.ndarray], float]


def resampled(statistic: Statistic, first: np.ndarray, second: np.ndarray) -> Resampled:
    """``statistic(first, second)`` over aligned items, so that it can be computed anew on items drawn."""
    return Resampled(len(first), lambda rows: statistic(first[rows], second[rows]))
