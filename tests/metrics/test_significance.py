"""The paired t-test against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from retrokit.metrics.significance import PairedTest, paired_t_test


def named(values: np.ndarray) -> dict[str, float]:
    return {f"q{i}": float(value) for i, value in enumerate(values)}


@pytest.mark.parametrize("count", [2, 3, 10, 300])
@pytest.mark.parametrize("shift", [-0.3, 0.0, 0.05])
def test_equals_scipy(count: int, shift: float) -> None:
    rng = np.random.default_rng(count)
    a = rng.random(count)
    b = np.clip(a + rng.normal(shift, 0.2, count), 0, 1)
    found = paired_t_test(named(a), named(b))
    expected = stats.ttest_rel(b, a)
    interval = expected.confidence_interval(0.95)
    assert found.queries == count
    assert found.difference == pytest.approx((b - a).mean())
    assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))


def test_the_order_of_the_queries_and_of_the_systems() -> None:
    rng = np.random.default_rng(0)
    a, b = named(rng.random(20)), named(rng.random(20))
    found = paired_t_test(a, b)
    assert paired_t_test(dict(reversed(a.items())), b) == found
    swapped = paired_t_test(b, a)
    assert swapped.p == pytest.approx(found.p)
    assert (swapped.difference, swapped.low, swapped.high) == pytest.approx(
        (-found.difference, -found.high, -found.low)
    )


def test_identical_systems() -> None:
    scores = named(np.random.default_rng(1).random(50))
    assert paired_t_test(scores, scores) == PairedTest(50, 0.0, 0.0, 0.0, 1.0)


def test_a_constant_difference_has_no_variance() -> None:
    a = named(np.random.default_rng(2).random(50))
    found = paired_t_test(a, {query: score + 0.1 for query, score in a.items()})
    assert (found.difference, found.low, found.high) == pytest.approx((0.1, 0.1, 0.1))
    assert found.p == 0.0


def test_one_query_proves_nothing() -> None:
    assert paired_t_test({"q": 0.25}, {"q": 1.0}) == PairedTest(1, 0.75, 0.75, 0.75, 1.0)


def test_only_common_queries_count() -> None:
    a = {"q1": 0.1, "q2": 0.5, "q3": 0.2, "a": 1.0}
    b = {"q1": 0.3, "q2": 0.4, "q3": 0.9, "b": 0.0}
    expected = stats.ttest_rel([0.3, 0.4, 0.9], [0.1, 0.5, 0.2])
    found = paired_t_test(a, b)
    assert (found.queries, found.p) == (3, pytest.approx(expected.pvalue))


def test_disjoint_queries() -> None:
    assert paired_t_test({"a": 0.5}, {"b": 0.7}) == PairedTest(0, 0.0, 0.0, 0.0, 1.0)
