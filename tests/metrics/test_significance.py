"""The paired tests against scipy's, and Holm's correction by hand."""

import numpy as np
import pytest
from scipy import stats

from retrokit.metrics.significance import PairedTest, holm, paired_t_test, randomisation_test


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


def difference_of_means(b: np.ndarray, a: np.ndarray, axis: int) -> np.ndarray:
    return np.mean(b - a, axis=axis)


def scipys(a: np.ndarray, b: np.ndarray, resamples: float) -> float:
    return stats.permutation_test(
        (b, a), difference_of_means, permutation_type="samples", vectorized=True, n_resamples=resamples, rng=1
    ).pvalue


@pytest.mark.parametrize("count", [2, 5, 9, 13])
@pytest.mark.parametrize("shift", [-0.3, 0.0, 0.1])
def test_few_items_are_tested_exactly_as_by_scipy(count: int, shift: float) -> None:
    rng = np.random.default_rng(count)
    a = rng.random(count)
    b = a + rng.normal(shift, 0.2, count)
    assert randomisation_test(named(a), named(b)) == pytest.approx(scipys(a, b, np.inf), abs=1e-12)


def test_ties_of_sums_count_as_scipy_counts_them() -> None:
    a = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
    b = a + np.array([0.1, -0.1, 0.1, 0.2, 0.0, 0.3, -0.1, 0.1])  # many assignments give the same sum
    assert randomisation_test(named(a), named(b)) == pytest.approx(scipys(a, b, np.inf), abs=1e-12)


def test_items_that_do_not_differ_keep_it_exact() -> None:
    rng = np.random.default_rng(8)
    a = rng.random(14)
    b = a.copy()
    b[:6] += rng.normal(0.1, 0.2, 6)
    expected = scipys(a, b, np.inf)
    assert randomisation_test(named(a), named(b)) == pytest.approx(expected, abs=1e-12)
    assert 64 * expected == pytest.approx(round(64 * expected))


@pytest.mark.parametrize("count", [14, 60, 300])
@pytest.mark.parametrize("shift", [0.0, 0.02, 0.06])
def test_many_items_agree_with_scipy_up_to_the_draws(count: int, shift: float) -> None:
    rng = np.random.default_rng(count)
    a = rng.random(count)
    b = a + rng.normal(shift, 0.2, count)
    found, expected = randomisation_test(named(a), named(b)), scipys(a, b, 9999)
    assert found == pytest.approx(expected, abs=5 * np.sqrt(0.25 / 10_000))
    assert found == pytest.approx(stats.ttest_rel(b, a).pvalue, abs=0.05)


def test_a_clear_difference_has_the_smallest_p_that_the_draws_allow() -> None:
    a = np.random.default_rng(3).random(500)
    assert randomisation_test(named(a), named(a + 0.5)) == pytest.approx(1 / 10_001)
    assert randomisation_test(named(a), named(a + 0.5), draws=99) == pytest.approx(1 / 100)


def test_the_randomisation_test_is_seeded_and_two_sided() -> None:
    rng = np.random.default_rng(7)
    a, b = named(rng.random(40)), named(rng.random(40))
    once = randomisation_test(a, b)
    assert randomisation_test(dict(reversed(a.items())), b) == once
    assert randomisation_test(b, a) == once
    assert 0 < abs(randomisation_test(a, b, seed=1) - once) < 0.03


def test_nothing_to_randomise() -> None:
    scores = named(np.arange(30.0))
    assert randomisation_test(scores, scores) == 1.0
    assert randomisation_test({"a": 0.5}, {"b": 0.7}) == 1.0
    assert randomisation_test({"q": 0.25}, {"q": 1.0}) == 1.0


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], []),
        ([0.2], [0.2]),
        ([0.01, 0.01], [0.02, 0.02]),
        ([0.04, 0.001, 0.03], [0.06, 0.003, 0.06]),  # the larger takes over what the smaller has reached
        ([0.9, 0.8], [1.0, 1.0]),
        ([0.5, 0.0], [0.5, 0.0]),
    ],
)
def test_holm(given: list[float], expected: list[float]) -> None:
    assert holm(given) == pytest.approx(expected)


def test_holm_rejects_what_the_step_down_procedure_rejects() -> None:
    rng = np.random.default_rng(9)
    for _ in range(50):
        values = rng.random(6) ** 4
        corrected = holm(values.tolist())
        rejected = set()
        for rank, position in enumerate(np.argsort(values)):  # Holm's own words: stop at the first that is too large
            if values[position] > 0.05 / (6 - rank):
                break
            rejected.add(int(position))
        assert {i for i, p in enumerate(corrected) if p <= 0.05} == rejected
