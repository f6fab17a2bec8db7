"""How well does one score tell two groups apart? ROC-AUC, the threshold of best accuracy, and the
false-accept rate at a given true-accept rate."""

import math
from typing import NamedTuple

import numpy as np


class Threshold(NamedTuple):
    """A score from which on a pair is taken for a positive one, and the share of pairs that this gets right."""

    value: float
    accuracy: float


def roc_auc(positive: np.ndarray, negative: np.ndarray) -> float:
    """The share of (positive, negative) couples in which the positive ``[n]`` scores above the negative ``[m]``, equal
    scores counting half (Mann–Whitney); NaN if there is none.

    >>> roc_auc(np.array([0.9, 0.5]), np.array([0.5, 0.1]))
    0.875
    """
    from scipy.stats import rankdata

    if not len(positive) or not len(negative):
        return float("nan")
    ranks = rankdata(np.concatenate([positive, negative]))[: len(positive)]
    above = ranks.sum() - len(positive) * (len(positive) + 1) / 2
    return float(above / (len(positive) * len(negative)))


def best_threshold(positive: np.ndarray, negative: np.ndarray) -> Threshold:
    """The threshold of highest accuracy, midway between two neighbouring scores; the highest of equally good ones.

    >>> best_threshold(np.array([0.75, 0.5]), np.array([0.25, 0.625]))
    Threshold(value=0.6875, accuracy=0.75)
    """
    scores = np.concatenate([positive, negative]).astype(np.float64)
    is_positive = np.arange(len(scores)) < len(positive)
    levels, level = np.unique(-scores, return_inverse=True)  # from the highest score down
    gained = np.bincount(level, weights=np.where(is_positive, 1, -1), minlength=len(levels))
    # right when nothing is accepted: every negative; then level by level
    right = len(negative) + np.concatenate([[0.0], np.cumsum(gained)])
    best = int(right.argmax())
    levels = -levels
    above = levels[best - 1] if best > 0 else np.nextafter(levels[0], np.inf)
    below = levels[best] if 0 < best < len(levels) else above
    return Threshold(float((above + below) / 2), float(right[best] / len(scores)))


def false_accept_rate(positive: np.ndarray, negative: np.ndarray, true_accepts: float = 0.95) -> float:
    """The share of the negatives ``[m]`` that score at least as high as the threshold which the share ``true_accepts``
    of the positives ``[n]`` reach: the highest such threshold. 0 is best; NaN if a group is empty.

    >>> false_accept_rate(np.array([0.9, 0.8, 0.7, 0.1]), np.array([0.75, 0.7, 0.2, 0.0]), true_accepts=0.75)
    0.5
    """
    if not len(positive) or not len(negative):
        return float("nan")
    # rounded first: 0.28 · 25 is a little more than 7 in binary
    accepted = math.ceil(round(true_accepts * len(positive), 9))
    threshold = np.sort(positive)[len(positive) - accepted]
    return float(np.mean(negative >= threshold))
