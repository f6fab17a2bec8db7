"""``hybrid``: two rankings made one, against sums over dictionaries."""

from collections.abc import Sequence
from statistics import fmean, pstdev

import numpy as np
import pytest

import retrokit
from retrokit.core.errors import UsageError
from retrokit.ranking.retrieval.base import Ranking, TextList
from retrokit.ranking.retrieval.hybrid import fuse
from tests.models import sentences

DOCUMENTS = sentences(60, seed=5)
QUERIES = [" ".join(text.split()[:5]) for text in DOCUMENTS[:12]]
FUSIONS = ("rrf", "minmax", "zscore")


def naive(sides: Sequence[dict[int, float]], fusion: str, weight: float) -> dict[int, float]:
    total: dict[int, float] = {}
    for side, share in zip(sides, (1 - weight, weight), strict=True):
        values = list(side.values())
        low, high = min(values, default=0), max(values, default=0)
        missing = {"rrf": 0.0, "minmax": 0.0, "zscore": (low - fmean(values)) / pstdev(values) if low < high else 0.0}
        for document in {*sides[0], *sides[1]}:
            if document not in side:
                value = missing[fusion]
            elif fusion == "rrf":
                value = 1 / (60 + 1 + list(side).index(document))
            elif low == high:
                value = 0.0
            elif fusion == "minmax":
                value = (side[document] - low) / (high - low)
            else:
                value = (side[document] - fmean(values)) / pstdev(values)
            total[document] = total.get(document, 0.0) + share * value
    return total


@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize("weight", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("sizes", [(8, 8), (8, 1), (0, 5), (0, 0)])
def test_the_sum_is_that_of_a_naive_one(fusion, weight, sizes):
    rng = np.random.default_rng(7)
    rankings: list[Ranking] = []
    for size in sizes:
        scores = np.sort(rng.normal(size=size).astype(np.float32))[::-1]
        rankings.append((scores, rng.permutation(12)[:size]))
    expected = naive([dict(zip(p.tolist(), s.tolist(), strict=True)) for s, p in rankings], fusion, weight)
    scores, positions = fuse(*rankings, fusion, weight, 100)
    assert sorted(positions.tolist()) == sorted(expected)
    np.testing.assert_allclose(scores, [expected[place] for place in positions.tolist()], rtol=1e-6, atol=1e-12)
    assert all(
        a > b or (a == b and p < q) for a, b, p, q in zip(scores, scores[1:], positions, positions[1:], strict=False)
    )
    top, places = fuse(*rankings, fusion, weight, 3)
    np.testing.assert_array_equal(places, positions[:3])
    np.testing.assert_array_equal(top, scores[:3])


@pytest.mark.parametrize(("weight", "alone"), [(0.0, "bm25"), (1.0, "static")])
def test_all_weight_on_one_side_ranks_as_it_does(weight, alone):
    found = retrokit.search(f"hybrid:a=bm25,b=static,fusion=minmax,weight={weight}", DOCUMENTS, QUERIES, k=5)
    for (_, places), (scores, expected) in zip(found, retrokit.search(alone, DOCUMENTS, QUERIES, k=5), strict=True):
        distinct = scores > scores[-1] if len(scores) == 5 else np.ones(len(scores), dtype=bool)
        np.testing.assert_array_equal(places[: len(expected)][distinct], expected[distinct])


@pytest.mark.parametrize("fusion", FUSIONS)
def test_a_pair_scores_as_in_the_search(fusion):
    index = retrokit.ranking.retrieval.index_of(
        f"hybrid:a=static,b='static:8',fusion={fusion},weight=0.3".replace("'", '"'), DOCUMENTS
    )
    for query, (scores, places) in zip(QUERIES, index.search(TextList(QUERIES), 60), strict=True):
        pairs = index.score_pairs(TextList([query] * 60), TextList(DOCUMENTS[place] for place in places))
        rank = 1 / 61 - 1 / 62 if fusion == "rrf" else 1e-5  # near ties share the better one
        np.testing.assert_allclose(pairs, scores, rtol=0, atol=rank)


def test_a_text_from_elsewhere_is_placed():
    index = retrokit.ranking.retrieval.index_of("hybrid:a=bm25,b=static", DOCUMENTS)
    own, other = index.score_pairs(TextList(QUERIES[:1] * 2), TextList([QUERIES[0], "nothing of the kind"]))
    assert own == pytest.approx(1 / 61)
    assert other < own


def test_what_is_left_out_is_not_found():
    index = retrokit.ranking.retrieval.index_of("hybrid:a=bm25,b=static", DOCUMENTS)
    left_out = [{place} for place in range(len(QUERIES))]
    for place, (_, found) in enumerate(index.search_without(TextList(QUERIES), 10, left_out)):
        assert place not in found
        assert len(found) == 10


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("hybrid:a=bm25,b=bm25", "a hybrid of bm25 with itself is bm25"),
        ("hybrid:a=bm25", "needs b"),
        ("hybrid:a=bm25,b=staticc:3", "unknown encoder 'staticc'"),
        ("hybrid:a=bm25,b=static,weight=1.5", "weight"),
        ("hybrid:a=bm25,b=static,fusion=rank", "fusion"),
        ("hybrid:a=bm25,b=static,depth=9999999999999", "depth"),
    ],
)
def test_wrong_use_is_one_line(spec, told):
    with pytest.raises(UsageError, match=told) as caught:
        retrokit.search(spec, DOCUMENTS, QUERIES)
    assert "\n" not in str(caught.value)
