"""Two scores of the same documents made one: by a weighted sum, or by their ranks alone.

The sum is of scores normalised to 0–1 over one query's documents (min-max; Fox and Shaw, "Combination of Multiple
Searches", 1994). Reciprocal rank fusion looks at ranks alone (Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion
Outperforms Condorcet and Individual Rank Learning Methods", SIGIR 2009).
"""

import numpy as np

RRF_K = 60  # of Cormack et al.


def min_max(scores: np.ndarray) -> np.ndarray:
    """Scores float64 ``[n]``, the lowest at 0, the highest at 1; all at 0 where they are equal and so say nothing.

    >>> min_max(np.array([1.0, 3.0, 2.0])).tolist()
    [0.0, 1.0, 0.5]
    """
    values = np.asarray(scores, dtype=np.float64)
    reach = np.ptp(values) if len(values) else 0.0
    return (values - values.min()) / reach if reach else np.zeros(len(values))


def z_scores(scores: np.ndarray) -> np.ndarray:
    """Scores float64 ``[n]`` of mean 0 and deviation 1; all at 0 where they are equal and so say nothing.

    >>> z_scores(np.array([3.0, 1.0])).tolist()
    [1.0, -1.0]
    """
    values = np.asarray(scores, dtype=np.float64)
    return (values - values.mean()) / values.std() if len(values) and np.ptp(values) else np.zeros(len(values))


def blend(first: np.ndarray, second: np.ndarray, weight: float) -> np.ndarray:
    """``(1 − weight) · min_max(first) + weight · min_max(second)`` of one query's documents, float64 ``[n]``.

    >>> blend(np.array([4.0, 2.0, 0.0]), np.array([-1.0, 9.0, -1.0]), 0.25).tolist()
    [0.75, 0.625, 0.0]
    """
    return (1 - weight) * min_max(first) + weight * min_max(second)


def reciprocal_ranks(ranks: np.ndarray) -> np.ndarray:
    """``1 / (60 + rank)`` of ranks ``[n]`` from 1.

    >>> reciprocal_ranks(np.array([1, 40])).tolist()
    [0.01639344262295082, 0.01]
    """
    reciprocals: np.ndarray = 1.0 / (RRF_K + ranks)
    return reciprocals
