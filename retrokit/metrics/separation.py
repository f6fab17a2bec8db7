"""How well does one score tell two groups apart? The area under the ROC curve, and the threshold of best accuracy."""

from __future__ import annotations

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
