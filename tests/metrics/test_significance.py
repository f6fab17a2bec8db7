"""The paired tests and the bootstrap against scipy's, and Holm's correction by hand."""

import numpy as np
import pytest
from scipy import stats

from retrokit.metrics.significance import (
    Draws,
    PairedTest,
    draw,
    holm,
    mean_of,
    paired_bootstrap,
    paired_t_test,
    randomisation_test,
    share_of,
    wilson,
)


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


SAME = named(np.arange(30.0))


@pytest.mark.parametrize(
    ("a", "b", "expected", "randomised"),
    [
        (SAME, SAME, PairedTest(30, 0.0, 0.0, 0.0, 1.0), 1.0),
        (SAME, {q: score + 0.5 for q, score in SAME.items()}, PairedTest(30, 0.5, 0.5, 0.5, 0.0), 1 / 10_001),
        ({"q": 0.25}, {"q": 1.0}, PairedTest(1, 0.75, 0.75, 0.75, 1.0), 1.0),
        ({"a": 0.5}, {"b": 0.7}, PairedTest(0, 0.0, 0.0, 0.0, 1.0), 1.0),
    ],
)
def test_without_variance(a: dict, b: dict, expected: PairedTest, randomised: float) -> None:
    assert paired_t_test(a, b) == expected
    assert randomisation_test(a, b) == pytest.approx(randomised)


def test_only_common_queries_count() -> None:
    a = {"q1": 0.1, "q2": 0.5, "q3": 0.2, "a": 1.0}
    b = {"q1": 0.3, "q2": 0.4, "q3": 0.9, "b": 0.0}
    expected = stats.ttest_rel([0.3, 0.4, 0.9], [0.1, 0.5, 0.2])
    found = paired_t_test(a, b)
    assert (found.queries, found.p) == (3, pytest.approx(expected.pvalue))


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
    # five standard deviations of the two shares, of which SciPy doubles the smaller tail's
    assert found == pytest.approx(expected, abs=5 * np.sqrt((0.25 + 2**2 * 0.25) / 10_000))
    # over 20 seeds 0.001 more for 14 items, with an SD of 0.009
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
    assert 0 < abs(randomisation_test(a, b, seed=1) - once) < 5 * np.sqrt(2 * 0.25 / 10_000)


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


def test_the_items_are_taken_in_the_order_of_their_names() -> None:
    """Whatever order a set has them in, which differs from process to process."""

    class Turned(str):
        __slots__ = ()

        def __hash__(self) -> int:
            return 10_000 - int(self[1:])

    rng = np.random.default_rng(6)
    values = rng.normal(0.1, 1, 40)
    names = [f"q{i}" for i in range(1000, 1040)]
    found = []
    for kind in (str, Turned):
        a = {kind(name): 0.0 for name in names}
        b = {kind(name): float(value) for name, value in zip(names, values, strict=True)}
        found.append(randomisation_test(a, b))
    assert found[0] == found[1]


def test_a_share_has_an_interval_within_all_shares() -> None:
    for count in range(1, 60):
        for hits in (0, 1, count):
            share = share_of(np.arange(count) < hits)
            assert 0 <= share.low <= share.value + 1e-12 <= share.high + 2e-12
            assert share.high <= 1
            low, high = wilson(hits / count, count)
            assert 0 <= low < high <= 1
            assert (low, high) == pytest.approx((share.low, share.high))


def average(values: np.ndarray):
    return lambda rows: float(values[rows].mean())


def compared(a, b, items: int) -> PairedTest:
    return paired_bootstrap(draw(a, items), draw(b, items))


def test_of_means_it_agrees_with_the_t_test() -> None:
    rng = np.random.default_rng(1)
    a = rng.normal(0.5, 0.2, 200)
    for shift in (0.0, 0.02, 0.03, 0.1):
        b = a + shift + rng.normal(0, 0.15, 200)
        expected = paired_t_test(*({str(i): float(v) for i, v in enumerate(side)} for side in (a, b)))
        found = compared(average(a), average(b), 200)
        assert (found.queries, found.difference) == (200, pytest.approx(expected.difference))
        noise = 0.1 * (expected.high - expected.low)  # over 20 seeds the SD is 0.015
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=noise)
        tail = expected.p / 2
        assert found.p == pytest.approx(expected.p, abs=5 * 2 * np.sqrt(tail * (1 - tail) / 2000) + 2 / 2001)


def test_of_a_correlation_scipys_bootstrap_gives_the_same_interval() -> None:
    rng = np.random.default_rng(2)
    gold = rng.normal(size=300)
    a, b = gold + rng.normal(0, 1, 300), gold + rng.normal(0, 0.6, 300)

    def correlation(x: np.ndarray):
        return lambda rows: float(np.corrcoef(gold[rows], x[rows])[0, 1])

    found = compared(correlation(a), correlation(b), 300)
    theirs = stats.bootstrap(
        (np.arange(300),),
        lambda rows: correlation(b)(rows) - correlation(a)(rows),
        method="percentile",
        vectorized=False,
        n_resamples=2000,
        rng=0,
    ).confidence_interval
    noise = 0.15 * (theirs.high - theirs.low)  # over 20 seeds the SD is 0.025
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high), abs=noise)
    assert found.p == pytest.approx(2 / 2001)


def test_it_is_the_same_every_time_and_symmetric() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(2, 30))
    once, again = (compared(average(a), average(b), 30) for _ in range(2))
    back = compared(average(b), average(a), 30)
    assert once == again
    assert (back.difference, back.low, back.high, back.p) == pytest.approx(
        (-once.difference, -once.high, -once.low, once.p)
    )


def test_systems_that_do_not_differ_have_p_one() -> None:
    values = np.array([0.2, 0.5, 0.9, 0.4])
    assert compared(average(values), average(values), 4) == PairedTest(4, 0.0, 0.0, 0.0, 1.0)


def test_undefined_draws_are_left_out() -> None:
    def undefined_without_the_first(rows: np.ndarray) -> float:
        return 1.0 if 0 in rows else float("nan")

    test = compared(lambda rows: 0.0, undefined_without_the_first, 3)
    assert (test.low, test.high) == (1.0, 1.0)
    assert 2 / 2001 < test.p < 2 / 1000  # of the draws, (2/3)³ lack the first item

    never = compared(lambda rows: 0.0, lambda rows: 0.5 if len(set(rows.tolist())) == 8 else float("nan"), 8)
    assert np.isfinite([never.low, never.high, never.p]).all()


def test_the_interval_of_a_mean_is_the_normal_one() -> None:
    values = np.random.default_rng(4).normal(0.4, 0.2, 400)
    found = draw(average(values), 400)
    assert found.value == pytest.approx(values.mean())
    expected = stats.norm.interval(0.95, values.mean(), stats.sem(values))
    noise = 0.08 * (expected[1] - expected[0])  # over 20 seeds the SD is 0.0125
    assert found.interval == pytest.approx(expected, abs=noise)


def test_the_mean_of_several_is_taken_draw_by_draw() -> None:
    rng = np.random.default_rng(5)
    sides = rng.normal(size=(3, 25))
    found = mean_of([draw(average(side), 25) for side in sides])
    expected = draw(average(sides.mean(axis=0)), 25)
    assert (found.items, found.value) == (25, pytest.approx(expected.value))
    assert found.drawn == pytest.approx(expected.drawn)


def test_other_items_are_no_pair() -> None:
    few, many = (Draws(items, 0.5, np.full(2000, 0.5)) for items in (3, 4))
    fewer_draws = Draws(3, 0.5, np.full(1000, 0.5))
    for other in (many, fewer_draws):
        with pytest.raises(ValueError, match="not of the same items and draws"):
            paired_bootstrap(few, other)
        with pytest.raises(ValueError, match="not of the same items and draws"):
            mean_of([few, other])
