"""How far apart do two groups lie in one number? Cohen's d with the pooled SD, and its bootstrap interval.

MAG 4.3 and Figure 4; Cohen, "Statistical Power Analysis for the Behavioral Sciences", 1988. Values come in clusters
(the documents of a query), and it is clusters that the bootstrap draws: values of one cluster are not independent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from retrokit.metrics.significance import RESAMPLES, Draws

SIZES: tuple[tuple[float, Literal["large", "medium", "small"]], ...] = ((0.8, "large"), (0.5, "medium"), (0.2, "small"))
"""The least ``|d|`` of each size, as in MAG, Figure 4."""


@dataclass(frozen=True)
class EffectSize:
    """Cohen's d, ``value``, and its 95% percentile interval; above 0, the first group has the higher mean. NaN is what
    too few values leave undefined. ``draws``: d on resampled clusters, to compare with that of the same clusters."""

    derived: ClassVar = ("size",)

    value: float
    low: float
    high: float
    draws: Draws | None = field(default=None, repr=False, compare=False)

    @property
    def size(self) -> Literal["large", "medium", "small", "negligible", "undefined"]:
        """By |d|."""
        if math.isnan(self.value):
            return "undefined"
        return next((name for least, name in SIZES if abs(self.value) >= least), "negligible")

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, eq=False)
class Moments:
    """All that d needs of a group: the number of values of each cluster, their sum, and the sum of their squares.

    Attributes:
        table: float64 ``[clusters, 3]``: count, sum, sum of squares, of the values minus ``origin``.
        origin: a number near the values' mean: without it, squares of large close values would cancel.
    """

    table: np.ndarray
    origin: float

    @classmethod
    def of(cls, clusters: Iterable[np.ndarray], origin: float = 0.0) -> Moments:
        """The moments of clusters of values, each ``[m]``; a cluster may be empty."""
        shifted = (np.asarray(cluster, dtype=np.float64) - origin for cluster in clusters)
        rows = [(len(values), values.sum(), (values**2).sum()) for values in shifted]
        return cls(np.array(rows, dtype=np.float64).reshape(len(rows), 3), origin)

    @property
    def count(self) -> int:
        """The number of values."""
        return int(self.table[:, 0].sum())

    @property
    def mean(self) -> float:
        """Mean of all values; NaN for none."""
        count, total, _ = self.table.sum(axis=0)
        return float(self.origin + total / count) if count else float("nan")

    @property
    def deviation(self) -> float:
        """Population SD of all values; NaN for none."""
        count, total, squares = self.table.sum(axis=0)
        return float(np.sqrt(max(0.0, squares / count - (total / count) ** 2))) if count else float("nan")


def bootstrapped_d(first: Moments, second: Moments, seed: int = 0) -> EffectSize:
    """Cohen's d, ``(mean of first − mean of second) / pooled SD``, of two groups whose clusters belong together
    row by row, with the interval over resampled clusters.

    d is NaN if a group is empty, if there are fewer than three values, or if no value differs from its group's mean. A
    draw that leaves it undefined is left out of the interval. A single cluster has no interval (NaN).

    >>> one, other = (Moments.of([np.array(values)]) for values in ([3.0, 5.0], [1.0, 3.0]))
    >>> round(bootstrapped_d(one, other).value, 4)  # (4 − 2) / √2
    1.4142
    """
    if len(first.table) != len(second.table) or first.origin != second.origin:
        raise ValueError("the two groups need the same clusters and the same origin")
    clusters = len(first.table)
    value = float(_cohens_d(first.table.sum(axis=0)[None], second.table.sum(axis=0)[None])[0])
    if clusters < 2:
        return EffectSize(value, math.nan, math.nan)
    rng = np.random.default_rng(seed)
    both = np.hstack([first.table, second.table])
    draws = (np.bincount(rng.integers(0, clusters, clusters), minlength=clusters) for _ in range(RESAMPLES))
    drawn = np.array([counts @ both for counts in draws])
    result = Draws(clusters, value, _cohens_d(drawn[:, :3], drawn[:, 3:]))
    low, high = result.interval if np.isfinite(result.drawn).any() else (math.nan, math.nan)
    return EffectSize(value, low, high, result)


def _cohens_d(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """d of each row of moments ``[n, 3]``; NaN where it is undefined."""
    with np.errstate(divide="ignore", invalid="ignore"):
        means = [table[:, 1] / table[:, 0] for table in (first, second)]
        # the sum of squares around each group's own mean; below 0 by rounding alone
        around = [table[:, 2] - table[:, 1] ** 2 / table[:, 0] for table in (first, second)]
        freedom = first[:, 0] + second[:, 0] - 2
        pooled = np.sqrt(np.maximum(around[0] + around[1], 0.0) / freedom)
        defined = (first[:, 0] > 0) & (second[:, 0] > 0) & (freedom > 0) & (pooled > 0)
        return np.where(defined, (means[0] - means[1]) / pooled, np.nan)
