"""Is the difference between two systems on the same queries more than chance?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class PairedTest:
    """A two-sided paired t-test: mean ``difference`` (b − a), its ``low``–``high`` 95% interval, and ``p``."""

    queries: int
    difference: float
    low: float
    high: float
    p: float


def paired_t_test(a: Mapping[str, float], b: Mapping[str, float]) -> PairedTest:
    """Compare the per-query scores of two systems over the queries that both have.

    With fewer than two queries, or where every query differs by the same amount, there is no variance to test with:
    p is then 1 if the difference is 0, and 0 otherwise for two queries or more.

    >>> test = paired_t_test({"1": 0.0, "2": 0.0, "3": 1.0}, {"1": 1.0, "2": 0.0, "3": 1.0})
    >>> round(test.difference, 3), round(test.p, 3)
    (0.333, 0.423)
    """
    queries = sorted(set(a) & set(b))
    differences = np.array([b[query] - a[query] for query in queries], dtype=np.float64)
    count = len(differences)
    if count == 0:
        return PairedTest(0, 0.0, 0.0, 0.0, 1.0)
    mean = float(differences.mean())
    spread = float(differences.std(ddof=1)) if count > 1 else 0.0
    if spread < 1e-12:
        p = 1.0 if abs(mean) < 1e-12 or count < 2 else 0.0
        return PairedTest(count, mean, mean, mean, p)
    error = spread / math.sqrt(count)
    margin = float(stats.t.ppf(0.975, count - 1)) * error
    p = float(2 * stats.t.sf(abs(mean / error), count - 1))
    return PairedTest(count, mean, mean - margin, mean + margin, p)
