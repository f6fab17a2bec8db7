"""Is the difference between two systems on the same items more than chance?

A paired t-test, which MAG reports (Q.1), and a randomisation test, which assumes no distribution: under the null
hypothesis either system might have had either score of an item (Smucker, Allan and Carterette, "A Comparison of
Statistical Significance Tests for Information Retrieval Evaluation", CIKM 2007). A metric that is no mean over items is
tested by the bootstrap: systems are measured on items drawn with replacement, all on the same draws (Efron and
Tibshirani, "An Introduction to the Bootstrap", 1993, chapters 13 and 15). Several p-values are corrected by Holm ("A
Simple Sequentially Rejective Multiple Test Procedure", 1979).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

DRAWS = 10_000
EXACT_UP_TO = 13  # items that differ: 2^13 assignments of signs are fewer than DRAWS, so all of them are looked at
_CHUNK = 4_000_000  # signs held at a time
# Sums of the same differences in another order differ by rounding; they count as equal.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class PairedTest:
    """A two-sided paired test: mean ``difference`` (b − a), its ``low``–``high`` 95% interval, and ``p``."""

    queries: int
    difference: float
    low: float
    high: float
    p: float


def paired_t_test(a: Mapping[str, float], b: Mapping[str, float]) -> PairedTest:
    """Compare the per-query scores of two systems over the queries that both have, by a paired t-test.

    With fewer than two queries, or where every query differs by the same amount, there is no variance to test with:
    p is then 1 if the difference is 0, and 0 otherwise for two queries or more.

    >>> test = paired_t_test({"1": 0.0, "2": 0.0, "3": 1.0}, {"1": 1.0, "2": 0.0, "3": 1.0})
    >>> round(test.difference, 3), round(test.p, 3)
    (0.333, 0.423)
    """
    differences = _differences(a, b)
    count = len(differences)
    if count == 0:
        return PairedTest(0, 0.0, 0.0, 0.0, 1.0)
    mean = float(differences.mean())
    spread = float(differences.std(ddof=1)) if count > 1 else 0.0
    if spread < 1e-12:
        p = 1.0 if abs(mean) < 1e-12 or count < 2 else 0.0
        return PairedTest(count, mean, mean, mean, p)
    from scipy.special import stdtr, stdtrit  # Student's t; scipy.stats, which calls them, is slow to import

    error = spread / math.sqrt(count)
    margin = float(stdtrit(count - 1, 0.975)) * error
    p = float(2 * stdtr(count - 1, -abs(mean / error)))
    return PairedTest(count, mean, mean - margin, mean + margin, p)


def randomisation_test(a: Mapping[str, float], b: Mapping[str, float], draws: int = DRAWS, seed: int = 0) -> float:
    """The two-sided p of a paired randomisation test over the queries that both systems have.

    It is the share of assignments of signs to the queries' differences under which their mean is as far from 0 as it
    is: of all assignments where at most 13 queries differ, else of ``draws`` random ones, with one added to both
    counts, so that p is never 0. Queries that do not differ change nothing.

    >>> randomisation_test({"1": 0.0, "2": 0.0, "3": 0.0}, {"1": 1.0, "2": 2.0, "3": 0.5})
    0.25
    """
    differences = _differences(a, b)
    differences = differences[differences != 0]
    count = len(differences)
    threshold = abs(float(differences.sum())) - _ROUNDING * float(np.abs(differences).sum())
    if count <= EXACT_UP_TO:
        every = (np.arange(2**count)[:, None] >> np.arange(count)) & 1  # 1 is +, 0 is −
        return float(np.mean(np.abs((2.0 * every - 1) @ differences) >= threshold))
    rng = np.random.default_rng(seed)
    extreme = 0
    rows = max(1, _CHUNK // count)
    for start in range(0, draws, rows):
        drawn = min(rows, draws - start)
        bits = np.unpackbits(rng.integers(0, 256, (drawn, -(-count // 8)), np.uint8), axis=1, count=count)
        extreme += int(np.sum(np.abs((2.0 * bits - 1) @ differences) >= threshold))
    return (extreme + 1) / (draws + 1)


def _differences(a: Mapping[str, float], b: Mapping[str, float]) -> np.ndarray:
    return np.array([b[item] - a[item] for item in sorted(set(a) & set(b))], dtype=np.float64)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction: each p times the number of those not below it, never below the corrected one of a smaller p.

    Rejecting those below 0.05 keeps the chance of even one false rejection below 0.05, whether or not the tests depend
    on each other.

    >>> holm([0.01, 0.04, 0.03, 0.005])
    [0.03, 0.06, 0.06, 0.02]
    """
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for rank, position in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[position]))
        corrected[position] = highest
    return corrected


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
    """Compute ``statistic``, a function of items' positions ``[n]``, on all ``items`` and on resampled ones.

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


def wilson(share: float, items: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share of ``items`` items ("Probable Inference, the Law of Succession, and Statistical
    Inference", 1927); of a mean of shares it is too wide rather than too narrow.

    >>> [round(bound, 3) for bound in wilson(1.0, 30)]
    [0.886, 1.0]
    """
    z = 1.959964
    middle = (share + z * z / (2 * items)) / (1 + z * z / items)
    reach = z * math.sqrt(share * (1 - share) / items + (z / (2 * items)) ** 2) / (1 + z * z / items)
    return max(0.0, middle - reach), min(1.0, middle + reach)


@dataclass(frozen=True)
class Share:
    """A share of ``pairs`` pairs or queries, and its 95% interval (Wilson, 1927)."""

    value: float
    low: float
    high: float
    pairs: int


def share_of(accepted: np.ndarray) -> Share:
    """The share of true values ``[n]`` with its Wilson interval.

    >>> share = share_of(np.array([True, False, False, False]))
    >>> share.value, round(share.low, 3), round(share.high, 3)
    (0.25, 0.046, 0.699)
    """
    share = float(accepted.mean())
    low, high = wilson(share, len(accepted))
    return Share(share, low, high, len(accepted))
