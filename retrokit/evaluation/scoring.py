"""Prepared embeddings, and numbers of moderate size."""

import copy

import numpy as np
import torch

from retrokit.similarities.base import Similarity


@torch.inference_mode()
def prepared(similarity: Similarity, embeddings: np.ndarray) -> np.ndarray:
    """Embeddings as ``similarity`` prepares documents, float32 ``[n, d']``: of unit norm for cosine, raw for dot."""
    rows: np.ndarray = copy.deepcopy(similarity).cpu().prepare(torch.as_tensor(embeddings), "document").numpy()
    return rows


def moderate(numbers: np.ndarray) -> np.ndarray:
    """``numbers`` times the power of two that brings the largest to between ½ and 1: not a digit changes, and their
    squares neither overflow nor vanish."""
    scaled: np.ndarray = np.ldexp(numbers, -np.frexp(np.abs(numbers).max(initial=0))[1])
    return scaled
