"""Two scores of the same documents made one: by a weighted sum, or by their ranks alone.

The sum is of scores normalised to 0–1 over one query's documents (min-max; Fox and Shaw, "Combination of Multiple
Searches", 1994). Reciprocal rank fusion looks at ranks alone (Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion
Outperforms Condorcet and Individual Rank Learning Methods", SIGIR 2009).
"""

from __future__ import annotations

import numpy as np

RRF_K = 60  # of Cormack et al.


def min_max(scores: np.ndarray) -> np.ndarray:
    """Scores float64 ``[n]``, the lowest at 0, the highest at 1; all at 0 where they are equal and so say nothing.

    >>> min_max(np.array([1.0, 3.0, 2.0])).tolist()
    [0.0, 1.0, 0.5]
    """
    values = np.asarray(scores, dtype=np.float64)
    if not len(values) or values.min() == values.max():
        return np.zeros(len(values))
    normalised: np.ndarray = (values - values.min()) / (values.max() - values.min())
    return normalised


def z_scores(scores: np.ndarray) -> np.ndarray:
    """Scores float64 ``[n]`` of mean 0 and deviation 1; all at 0 where they are equal and so say nothing.

    >>> z_scores(np.array([3.0, 1.0])).tolist()
    [1.0, -1.0]
    """
    values = np.asarray(scores, dtype=np.float64)
    if not len(values) or values.min() == values.max():
        return np.zeros(len(values))
    standardised: np.ndarray = (values - values.mean()) / values.std()
    return standardised


def blend(first: np.ndarray, second: np.ndarray, weight: float) -> np.ndarray:
    """``(1 − weight) · min_max(first) + weight · min_max(second)`` of one query's documents, float64 ``[n]``.

    >>> blend(np.array([4.0, 2.0, 0.0]), np.array([-1.0, 9.0, -1.0]), 0.25).tolist()
    [0.75, 0.625, 0.0]
    """
    return (1 - weight) * min_max(first) + weight * min_max(second)


def reciprocal_ranks(scores: np.ndarray) -> np.ndarray:
    """``1 / (k + rank)`` of one query's documents, best first, float64 ``[n]``."""
    ranks: np.ndarray = 1.0 / (RRF_K + np.arange(1, len(scores) + 1))
    return ranks


def reciprocal_rank_fusion(first: np.ndarray, second: np.ndarray, k: int = RRF_K) -> np.ndarray:
    """``1 / (k + rank) + 1 / (k + rank)`` of one query's documents, float64 ``[n]``, given their ranks, from 1.

    >>> reciprocal_rank_fusion(np.array([1, 2]), np.array([2, 1]), k=0).tolist()
    [1.5, 1.5]
    """
    fused: np.ndarray = 1.0 / (k + first) + 1.0 / (k + second)
    return fused
