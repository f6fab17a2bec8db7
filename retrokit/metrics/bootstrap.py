"""Is a difference in a metric that is no mean over items more than chance? A paired bootstrap over the items.

Both systems are measured on the same items drawn with replacement (Efron and Tibshirani, "An Introduction to the
Bootstrap", 1993, chapters 13 and 15).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from retrokit.metrics.significance import PairedTest

RESAMPLES = 1000


class BootstrapTest(PairedTest):
    """A two-sided paired bootstrap: ``difference`` (b − a) on all items, its 95% percentile interval, and ``p``."""


def paired_bootstrap(
    a: Callable[[np.ndarray], float], b: Callable[[np.ndarray], float], items: int, seed: int = 0
) -> BootstrapTest:
    """Compare two systems in a statistic of ``items`` items, given as functions of the items' positions ``[n]``.

    A draw on which the statistic is undefined (NaN) is left out. p is twice the share of draws on the rarer side of 0,
    with one added to both counts, so that it is never 0.

    >>> values = np.array([1.0, 2.0, 4.0])
    >>> test = paired_bootstrap(lambda rows: 0.0, lambda rows: float(values[rows].max()), 3)
    >>> test.difference, test.low, test.high, round(test.p, 3)
    (4.0, 1.0, 4.0, 0.002)
    """
    everything = np.arange(items)
    difference = b(everything) - a(everything)
    rng = np.random.default_rng(seed)
    draws = (rng.integers(0, items, items) for _ in range(RESAMPLES))
    drawn = np.array([b(rows) - a(rows) for rows in draws])
    drawn = drawn[np.isfinite(drawn)]
    rarer = min(int((drawn <= 0).sum()), int((drawn >= 0).sum()))
    low, high = np.quantile(drawn, [0.025, 0.975]) if len(drawn) else (difference, difference)
    p = min(1.0, 2 * (rarer + 1) / (len(drawn) + 1))
    return BootstrapTest(items, float(difference), float(low), float(high), p)
