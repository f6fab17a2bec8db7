"""Areas and thresholds against scikit-learn, and against trying every threshold."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from retrokit.metrics.separation import best_threshold, false_accept_rate, roc_auc

scores = st.lists(st.sampled_from([-1.5, 0.0, 0.25, 0.5, 0.75, 3.0]), min_size=1, max_size=12).map(np.array)


@given(scores, scores)
def test_the_area_is_scikit_learns(positive: np.ndarray, negative: np.ndarray) -> None:
    labels = [1] * len(positive) + [0] * len(negative)
    assert roc_auc(positive, negative) == pytest.approx(roc_auc_score(labels, [*positive, *negative]), abs=1e-12)


def test_an_area_without_one_of_the_groups() -> None:
    assert math.isnan(roc_auc(np.array([]), np.array([1.0])))
    assert math.isnan(roc_auc(np.array([1.0]), np.array([])))


@given(scores, scores)
def test_no_threshold_is_better(positive: np.ndarray, negative: np.ndarray) -> None:
    def accuracy(threshold: float) -> float:
        right = (positive >= threshold).sum() + (negative < threshold).sum()
        return float(right / (len(positive) + len(negative)))

    found = best_threshold(positive, negative)
    assert found.accuracy == pytest.approx(accuracy(found.value))
    assert found.accuracy == pytest.approx(max(map(accuracy, [*positive, *negative, np.inf])))
    assert math.isfinite(found.value)


def test_thresholds_by_hand() -> None:
    assert best_threshold(np.array([0.9, 0.8]), np.array([0.2, 0.4])) == (pytest.approx(0.6), 1.0)
    # accepting all or nothing gets half right; so does the middle, and the highest threshold is taken
    nothing = best_threshold(np.array([0.1]), np.array([0.9]))
    assert nothing.accuracy == 0.5
    assert 0.9 < nothing.value < 0.9 + 1e-9
    everything = best_threshold(np.array([0.1, 0.2, 0.3]), np.array([0.9]))
    assert everything == (pytest.approx(0.1), 0.75)
    assert best_threshold(np.array([0.5, 0.5]), np.array([0.5])) == (0.5, pytest.approx(2 / 3))


def test_a_share_that_is_whole_is_taken_as_such():
    """0.28 of 25 are 7, though 0.28 · 25 is a little more in binary."""
    assert 0.28 * 25 > 7
    positive = np.arange(25, 0, -1) / 100  # the seventh is 0.19
    assert false_accept_rate(positive, np.array([0.19, 0.185, 0.18]), true_accepts=0.28) == 1 / 3
