"""Prediction-powered inference with inverse-probability weights: many cheap predictions and a few verdicts.

The predictions are summed over all items. What they are wrong by is estimated from the verdicts, each weighted by the
inverse of the probability with which its item was drawn: Angelopoulos et al., "Prediction-powered inference", Science
2023; Zrnic and Candès, "Active statistical inference", ICML 2024, for probabilities that differ.
"""

import math
from dataclasses import dataclass

import numpy as np

FEWEST = 10
"""Verdicts on items that were not certain to be drawn, below which there is no interval."""
_LEAST = 4.0  # degrees of freedom


@dataclass(frozen=True)
class PoweredEstimate:
    """An estimate with its 95% interval."""

    value: float
    low: float
    high: float


def inclusion_probabilities(sizes: np.ndarray, count: int) -> np.ndarray:
    """The probabilities, proportional to ``sizes`` (``[n]``, not negative) up to 1, with which ``count`` of n items are
    drawn. They sum to ``count``, or to the number of items with a size, if that is smaller.

    >>> inclusion_probabilities(np.array([8.0, 1.0, 1.0]), 2).tolist()
    [1.0, 0.5, 0.5]
    """
    probabilities = np.zeros(len(sizes))
    certain = np.zeros(len(sizes), dtype=bool)
    while True:
        rest, total = count - int(certain.sum()), float(sizes[~certain].sum())
        probabilities = np.where(certain, 1.0, sizes * (max(rest, 0) / total) if total > 0 else 0.0)
        if not (over := ~certain & (probabilities >= 1)).any():
            return probabilities
        certain |= over


def draw_items(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The items of one draw, each with its probability, in a random order: systematic sampling of a shuffled list. The
    number of items is the sum of the probabilities, up to rounding."""
    order = rng.permutation(len(probabilities))
    ends = np.cumsum(probabilities[order])
    points = rng.random() + np.arange(math.ceil(float(ends[-1])) + 1)
    places = np.searchsorted(ends, points[points < ends[-1] - 1e-9], side="right")
    return rng.permutation(order[np.unique(places)])


def powered(
    base: float, errors: np.ndarray, probabilities: np.ndarray, expected: np.ndarray, of_all: np.ndarray
) -> PoweredEstimate:
    """The estimate of a total.

    Args:
        base: of predictions, with the verdicts in place of those that were drawn.
        errors: verdict minus prediction of each drawn item, times what the item counts; float ``[n]``.
        probabilities: with which these were drawn, ``[n]``.
        expected: the variance of the error of each of all items, by the predictions, ``[items]``.
        of_all: probabilities of all items, ``[items]``.

    The variance is the larger of two: that of the drawn errors (Hájek's estimator for a sample of fixed size), and the
    one that the predictions expect, which does not overlook rare errors that were not drawn. The degrees of freedom of
    Student's t follow from how much the variance itself varies (Satterthwaite), so that a few large errors widen the
    interval.
    """
    from scipy.special import stdtrit

    value = base + float((errors * (1 / probabilities - 1)).sum())
    open_ = probabilities < 1
    weighted, rest = errors[open_] / probabilities[open_], 1 - probabilities[open_]
    count = int(open_.sum())
    seen, freedom = 0.0, 1.0
    if count > 1:
        centre = float((rest * weighted).sum() / rest.sum())
        parts = rest * (weighted - centre) ** 2
        seen = count / (count - 1) * float(parts.sum())
        spread = float((parts**2).sum()) - float(parts.sum()) ** 2 / count
        freedom = count - 1.0 if spread <= 0 else 2 * float(parts.sum()) ** 2 / spread
    drawn = of_all > 0
    foreseen = float((expected[drawn] * (1 / of_all[drawn] - 1)).sum())
    margin = float(stdtrit(min(max(freedom, _LEAST), max(count - 1, 1)), 0.975)) * math.sqrt(max(seen, foreseen))
    return PoweredEstimate(value, value - margin, value + margin)
