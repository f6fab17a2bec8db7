"""Texts that are each encoded once, and scores of pairs of them under a similarity."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable

import numpy as np
import torch

from retrokit.evaluation.result import Resampled
from retrokit.reranking.base import check_finite
from retrokit.similarities.base import Similarity


@torch.inference_mode()
def pair_scores(similarity: Similarity, queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """Scores float32 ``[n]`` of row i with row i; higher is more similar. Raises :class:`DataError` if one is not
    finite."""
    scores: np.ndarray = copy.deepcopy(similarity).cpu().score_pairs(queries, documents).numpy()
    check_finite(scores, similarity.spec)
    return scores


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


class DistinctTexts:
    """Texts, each kept once, so that each is encoded once however many pairs hold it."""

    def __init__(self) -> None:
        self._position: dict[str, int] = {}

    @property
    def texts(self) -> list[str]:
        """The distinct texts, in the order in which they came."""
        return list(self._position)

    def add(self, texts: Iterable[str]) -> np.ndarray:
        """Where ``texts`` stand among the distinct ones: int64 ``[n]``."""
        return np.array([self._position.setdefault(text, len(self._position)) for text in texts], dtype=np.int64)


Statistic = Callable[[np.ndarray, np.ndarray], float]


def resampled(statistic: Statistic, first: np.ndarray, second: np.ndarray) -> Resampled:
    """``statistic(first, second)`` over aligned items, so that it can be computed anew on items drawn."""
    return Resampled(len(first), lambda rows: statistic(first[rows], second[rows]))
