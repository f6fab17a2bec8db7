"""RDC, ROC and ranks after insertion against straightforward loops."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrokit.metrics.sure import (
    deviation_consistency,
    order_consistency,
    rank_range,
    ranks_after_insertion,
    ranks_counted_twice,
)

RANKS = st.integers(2, 4).flatmap(
    lambda n: st.lists(
        st.tuples(*[st.lists(st.integers(1, 6), min_size=n, max_size=n)] * 2), min_size=1, max_size=5
    ).map(lambda rows: tuple(np.array(side) for side in zip(*rows, strict=True)))
)


def sorted_ranks(scores: list[float], original: int, variants: list[float]) -> tuple[int, list[int]]:
    named = [(score, f"list {i}") for i, score in enumerate(scores)]
    named += [(score, f"variant {i}") for i, score in enumerate(variants)]
    names = [name for _, name in sorted(named, key=lambda pair: -pair[0])]  # the sort is stable
    return names.index(f"list {original}") + 1, [names.index(f"variant {i}") + 1 for i in range(len(variants))]


@given(st.data())
def test_ranks_after_insertion_are_those_of_a_stable_sort(data):
    scores = data.draw(st.lists(st.sampled_from([-1.5, 0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=12))
    variants = data.draw(st.lists(st.sampled_from([-1.5, 0.0, 0.25, 0.75]), max_size=3))
    original = data.draw(st.integers(0, len(scores) - 1))
    rank, others = ranks_after_insertion(np.array(scores), original, np.array(variants))
    assert (rank, others.tolist()) == sorted_ranks(scores, original, variants)


@given(st.data())
def test_ranks_counted_twice_are_those_of_a_dictionary_that_is_overwritten(data):
    scores = data.draw(st.lists(st.sampled_from([-1.5, 0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=12))
    places = st.integers(0, len(scores) - 1)
    same_id = sorted(data.draw(st.sets(places, min_size=1, max_size=3)))
    variants = data.draw(st.lists(st.sampled_from([-1.5, 0.0, 0.25, 0.75]), max_size=3))
    entries = [("original" if i in same_id else f"list {i}", score) for i, score in enumerate(scores)]
    entries += [(f"variant {i}", score) for i, score in enumerate(variants)]
    rank_of = {}
    for rank, (name, _) in enumerate(sorted(entries, key=lambda entry: -entry[1]), start=1):
        rank_of[name] = rank
    rank, others = ranks_counted_twice(np.array(scores), np.array(same_id), np.array(variants))
    assert (rank, others.tolist()) == (rank_of["original"], [rank_of[f"variant {i}"] for i in range(len(variants))])


@given(RANKS)
def test_the_measures_are_those_of_loops(sides):
    ranks, reference = sides
    rdc, roc, ranges = deviation_consistency(ranks, reference), order_consistency(ranks, reference), rank_range(ranks)
    for row, (a, b) in enumerate(zip(ranks.tolist(), reference.tolist(), strict=True)):
        low, high = sorted([statistics.pstdev(a), statistics.pstdev(b)])
        assert rdc[row] == pytest.approx(low / high if high else 1.0, abs=1e-12)
        agree = [
            (a[i] < a[j]) == (b[i] < b[j])
            for i in range(len(a))
            for j in range(i)
            if a[i] != a[j] and b[i] != b[j]
        ]  # fmt: skip
        assert ranges[row] == max(a) - min(a)
        if agree:
            assert roc[row] == pytest.approx(sum(agree) / len(agree), abs=1e-12)
        else:
            assert math.isnan(roc[row])


def test_the_papers_case():
    """SURE, Appendix C: the reranker ranks the three passages 1, 2 and 11, the retriever 1, 2 and 50."""
    retriever, reranker = np.array([[1, 2, 50]]), np.array([[1, 2, 11]])
    assert order_consistency(retriever, reranker).tolist() == [1.0]
    deviations = [math.sqrt(sum((x - sum(r) / 3) ** 2 for x in r) / 3) for r in ([1, 2, 50], [1, 2, 11])]
    assert deviation_consistency(retriever, reranker)[0] == pytest.approx(deviations[1] / deviations[0], abs=1e-12)
    assert rank_range(reranker).tolist() == [10]
    assert order_consistency(np.array([[1, 14, 204]]), np.array([[2, 1, 20]]))[0] == pytest.approx(2 / 3)
