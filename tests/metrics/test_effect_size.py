"""Cohen's d and its bootstrap, by hand and against direct computations."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrokit.metrics.effect_size import EffectSize, Moments, bootstrapped_d
from retrokit.metrics.significance import RESAMPLES


def cohens_d(first: np.ndarray, second: np.ndarray) -> float:
    """d of two groups, each one cluster."""
    origin = float(first[0]) if len(first) else 0.0
    return bootstrapped_d(Moments.of([first], origin), Moments.of([second], origin)).value


def direct(first: np.ndarray, second: np.ndarray) -> float:
    n, m = len(first), len(second)
    pooled = ((n - 1) * first.var(ddof=1) + (m - 1) * second.var(ddof=1)) / (n + m - 2)
    return float((first.mean() - second.mean()) / math.sqrt(pooled))


def test_by_hand():
    # means 4 and 2; deviations around them 1, 1, and 1, 0, 1: (2 + 2) / (2 + 3 − 2)
    found = cohens_d(np.array([3.0, 5.0]), np.array([1.0, 2.0, 3.0]))
    assert found == pytest.approx(2 / math.sqrt(4 / 3))
    assert cohens_d(np.array([1.0, 2.0, 3.0]), np.array([3.0, 5.0])) == pytest.approx(-found)


@pytest.mark.parametrize(
    ("first", "second"), [([], [1.0, 2.0]), ([1.0, 2.0], []), ([1.0], [2.0]), ([1.0, 1.0], [2.0, 2.0])]
)
def test_undefined_is_nan(first, second):
    assert math.isnan(cohens_d(np.array(first), np.array(second)))


@given(
    st.lists(st.floats(-10, 10), min_size=2, max_size=20),
    st.lists(st.floats(-10, 10), min_size=2, max_size=20),
    st.floats(0.1, 10),
    st.floats(-1000, 1000),
)
def test_neither_unit_nor_origin_matter(first, second, unit, origin):
    a, b = np.array([*first, 0.0, 1.0]), np.array([*second, 0.0, 1.0])  # so that there is a deviation
    assert cohens_d(a, b) == pytest.approx(direct(a, b), abs=1e-9)
    assert cohens_d(a * unit + origin, b * unit + origin) == pytest.approx(direct(a, b), abs=1e-6)


def clusters(seed: int, shift: float = 0.0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [shift + rng.normal(size=rng.integers(0, 6)) for _ in range(40)]


@pytest.mark.parametrize("origin", [0.0, 3.0])
def test_the_bootstrap_draws_whole_clusters(origin):
    first, second = clusters(1, shift=0.5), clusters(2)
    found = bootstrapped_d(Moments.of(first, origin), Moments.of(second, origin), seed=7)
    rng = np.random.default_rng(7)
    drawn = []
    for _ in range(RESAMPLES):
        rows = rng.integers(0, 40, 40)
        drawn.append(direct(*(np.concatenate([group[i] for i in rows]) for group in (first, second))))
    assert found.value == pytest.approx(direct(np.concatenate(first), np.concatenate(second)))
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])))
    assert found.low < found.value < found.high


def test_two_clusters_have_an_interval_of_the_draws_that_are_defined():
    """Half of the draws take one cluster twice, and no value then differs from its group's mean."""
    groups = [Moments.of([np.array([value]) for value in values]) for values in ((3.0, 5.0), (1.0, 3.0))]
    found = bootstrapped_d(*groups)
    assert (found.low, found.high) == pytest.approx((found.value, found.value))
    assert 0 < np.isnan(found.draws.drawn).sum() < RESAMPLES


def test_values_far_from_zero_do_not_cancel():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=100), rng.normal(size=100)
    groups = [Moments.of([values + 1e9], 1e9) for values in (first, second)]
    assert bootstrapped_d(*groups).value == pytest.approx(direct(first, second), abs=1e-5)


def test_moments_are_those_of_all_values():
    values = clusters(3)
    found, whole = Moments.of(values, 0.5), np.concatenate(values)
    assert (found.count, found.mean, found.deviation) == pytest.approx((len(whole), whole.mean(), whole.std()))
    none = Moments.of([np.array([])])
    assert none.count == 0
    assert math.isnan(none.mean)
    assert math.isnan(none.deviation)


def test_constant_values_have_no_deviation():
    """The mean of the squares is less than the square of the mean by rounding for some of these."""
    groups = [np.full(count, value) for count in range(1, 12) for value in (0.1, 0.3, 0.7, 1.1)]
    assert any((group**2).sum() / len(group) < (group.sum() / len(group)) ** 2 for group in groups)
    assert [Moments.of([group]).deviation for group in groups] == pytest.approx([0.0] * len(groups), abs=1e-7)


@pytest.mark.parametrize(
    ("value", "size"), [(0.1, "negligible"), (-0.2, "small"), (0.5, "medium"), (-0.79, "medium"), (0.8, "large")]
)
def test_sizes(value, size):
    assert EffectSize(value, value, value).size == size


def test_clear_is_an_interval_without_zero():
    told = [EffectSize(0.1, low, high).is_clear for low, high in ((-0.1, 0.2), (0.05, 0.2), (-0.2, -0.1), (0.0, 0.1))]
    assert told == [False, True, True, False]
