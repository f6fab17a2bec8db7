"""How sure is a metric, and is a difference in one that is no mean over items more than chance? The bootstrap.

Systems are measured on items drawn with replacement, all on the same draws (Efron and Tibshirani, "An Introduction to
the Bootstrap", 1993, chapters 13 and 15).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from retrokit.metrics.significance import PairedTest

RESAMPLES = 2000

Statistic = Callable[[np.ndarray], float]


@dataclass(frozen=True, eq=False)
class Draws:
    """A statistic of ``items`` items: its ``value`` on all of them, and ``drawn`` on the items of each draw, float64
    ``[RESAMPLES]``, NaN where they leave it undefined. The draws of as many items are always the same."""

    items: int
    value: float
    drawn: np.ndarray

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% percentile interval; ``value`` twice if it is undefined on every draw."""
        return _percentiles(self.drawn, self.value)


def draw(statistic: Statistic, items: int, seed: int = 0) -> Draws:
    """Compute ``statistic``, a function of items' positions ``[n]``, on all ``items`` and on items drawn anew.

    >>> values = np.array([1.0, 2.0, 4.0])
    >>> largest = draw(lambda rows: float(values[rows].max()), 3)
    >>> largest.value, largest.interval
    (4.0, (1.0, 4.0))
    """
    rng = np.random.default_rng(seed)
    drawn = [statistic(rng.integers(0, items, items)) for _ in range(RESAMPLES)]
    return Draws(items, float(statistic(np.arange(items))), np.array(drawn, dtype=np.float64))


def alike(several: Sequence[Draws]) -> bool:
    """Whether they are of as many items and as many draws, so that draw i of each was of the same items."""
    return len({(draws.items, len(draws.drawn)) for draws in several}) == 1


def mean_of(several: Sequence[Draws]) -> Draws:
    """The mean of statistics of the same items (:func:`alike`), such as one metric of runs of several seeds."""
    _check_alike(several)
    value = float(np.mean([draws.value for draws in several]))
    return Draws(several[0].items, value, np.mean([draws.drawn for draws in several], axis=0))


def paired_bootstrap(a: Draws, b: Draws) -> PairedTest:
    """Compare two systems in a statistic of the same items: ``difference`` on all of them, its percentile interval.

    A draw on which the statistic is undefined is left out. p is twice the share of draws on the rarer side of 0, with
    one added to both counts, so that it is never 0.

    >>> values = np.array([1.0, 2.0, 4.0])
    >>> test = paired_bootstrap(draw(lambda rows: 0.0, 3), draw(lambda rows: float(values[rows].max()), 3))
    >>> test.difference, test.low, test.high, round(test.p, 3)
    (4.0, 1.0, 4.0, 0.001)
    """
    _check_alike([a, b])
    difference = b.value - a.value
    drawn = b.drawn - a.drawn
    drawn = drawn[np.isfinite(drawn)]
    rarer = min(int((drawn <= 0).sum()), int((drawn >= 0).sum()))
    low, high = _percentiles(drawn, difference)
    p = min(1.0, 2 * (rarer + 1) / (len(drawn) + 1))
    return PairedTest(a.items, float(difference), low, high, p)


def _check_alike(several: Sequence[Draws]) -> None:
    if not alike(several):
        raise ValueError(f"not of the same items and draws: {[(draws.items, len(draws.drawn)) for draws in several]}")


def _percentiles(drawn: np.ndarray, otherwise: float) -> tuple[float, float]:
    finite = drawn[np.isfinite(drawn)]
    if not len(finite):
        return otherwise, otherwise
    low, high = np.quantile(finite, [0.025, 0.975])
    return float(low), float(high)
