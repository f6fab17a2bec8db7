"""The paired bootstrap: what it finds where the truth is known."""

import numpy as np
import pytest
from scipy import stats

from retrokit.metrics.significance import Draws, PairedTest, draw, mean_of, paired_bootstrap, paired_t_test


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
        assert found.low == pytest.approx(expected.low, abs=0.004)
        assert found.high == pytest.approx(expected.high, abs=0.004)
        assert found.p == pytest.approx(expected.p, abs=0.03)


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
    assert (found.low, found.high) == (pytest.approx(theirs.low, abs=0.02), pytest.approx(theirs.high, abs=0.02))
    assert found.p == pytest.approx(2 / 2001)


def test_the_same_system_twice() -> None:
    values = np.arange(10.0)
    test = compared(average(values), average(values), 10)
    assert (test.difference, test.low, test.high, test.p) == (0.0, 0.0, 0.0, 1.0)


def test_it_is_the_same_every_time_and_symmetric() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(2, 30))
    once, again = (compared(average(a), average(b), 30) for _ in range(2))
    back = compared(average(b), average(a), 30)
    assert once == again
    assert (back.difference, back.low, back.high, back.p) == pytest.approx(
        (-once.difference, -once.high, -once.low, once.p)
    )


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
    assert found.interval == pytest.approx(expected, abs=0.003)


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
