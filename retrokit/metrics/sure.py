"""How alike do two rankings place the variants of a passage? Ranks after insertion, RDC, ROC and the range of ranks.

SURE, 3.3 (Equations 7 to 9) and B.2, as the published evaluator computes them: population SDs, and pairs that a
ranking ties left out of ROC.
"""

import numpy as np


def ranks_after_insertion(scores: np.ndarray, original: int, variants: np.ndarray) -> tuple[int, np.ndarray]:
    """Ranks, from 1, of the passage at position ``original`` of a list and of variants inserted into that list.

    Args:
        scores: of the list ``[n]``, in the list's order; higher is better.
        original: a position in it.
        variants: their scores ``[v]``, on the same scale.

    Returns:
        The rank of the original, and int64 ``[v]`` of the variants. Of equal scores, the list's come first in the
        list's order, then the variants in theirs.

    >>> ranks_after_insertion(np.array([0.9, 0.5, 0.1]), 1, np.array([0.5, 0.7, 0.5]))
    (3, array([4, 2, 5]))
    """
    own = scores[original]
    rank = 1 + (scores > own).sum() + (scores[:original] == own).sum() + (variants > own).sum()
    above = (scores[None, :] >= variants[:, None]).sum(axis=1)
    earlier = np.tril(variants[None, :] == variants[:, None], k=-1)
    beaten = ((variants[None, :] > variants[:, None]) | earlier).sum(axis=1)
    return int(rank), 1 + above + beaten


def ranks_counted_twice(scores: np.ndarray, same_id: np.ndarray, variants: np.ndarray) -> tuple[int, np.ndarray]:
    """Ranks of an original and its variants as the published script has them unless it is given another list.

    Its list already contains the variants, under the original's id, and it inserts them a second time. The original has
    the rank of the last entry with its id, the variants those of their second copies.

    >>> scores = np.array([0.9, 0.8, 0.5, 0.4])  # the original, at 0.8, between its variants, at 0.9 and 0.5
    >>> ranks_counted_twice(scores, np.array([0, 1, 2]), np.array([0.9, 0.5]))
    (4, array([2, 5]))
    """
    last = max(ranks_after_insertion(scores, position, variants)[0] for position in same_id.tolist())
    return last, ranks_after_insertion(scores, 0, variants)[1]


def deviation_consistency(ranks: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """The smaller SD of the ranks over the larger one, ``[q, n], [q, n] → [q]`` in 0 to 1; 1 where both are 0.

    Equal to one minus their difference relative to the larger (SURE, Eq. 7). RDC is the mean over the queries.

    >>> deviation_consistency(np.array([[1, 3], [2, 2], [5, 5]]), np.array([[1, 5], [1, 2], [7, 7]])).tolist()
    [0.5, 0.0, 1.0]
    """
    deviations = np.stack([np.std(side, axis=1, dtype=np.float64) for side in (ranks, reference)])
    low, high = deviations.min(axis=0), deviations.max(axis=0)
    return np.where(high > 0, low / np.where(high > 0, high, 1.0), 1.0)


def order_consistency(ranks: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """The share of pairs that two rankings order alike, ``[q, n], [q, n] → [q]`` in 0 to 1 (SURE, Eqs. 8 and 9).

    A pair that either ranking ties does not count; NaN where no pair is left. ROC is the mean over the other queries.

    >>> order_consistency(np.array([[1, 2, 9], [1, 1, 2], [4, 4, 4]]), np.array([[2, 1, 3], [1, 2, 3], [1, 2, 3]]))
    array([0.66666667, 1.        ,        nan])
    """
    first, second = np.triu_indices(ranks.shape[1], k=1)
    signs = np.sign(ranks[:, first] - ranks[:, second]) * np.sign(reference[:, first] - reference[:, second])
    pairs = (signs != 0).sum(axis=1)
    return np.where(pairs > 0, (signs > 0).sum(axis=1) / np.maximum(pairs, 1), np.nan)


def rank_range(ranks: np.ndarray) -> np.ndarray:
    """How far apart the ranks of a query lie, highest minus lowest, ``[q, n] → [q]`` (SURE, Table 7).

    >>> rank_range(np.array([[1, 2, 11], [4, 4, 4]])).tolist()
    [10, 0]
    """
    ranges: np.ndarray = ranks.max(axis=1) - ranks.min(axis=1)
    return ranges
