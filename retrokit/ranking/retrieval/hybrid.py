"""The searcher ``hybrid``: the results of two searchers as one ranking, by a weighted sum of scores or of ranks.

The sum is of scores normalised to 0–1 over one query's documents (min-max; Fox and Shaw, "Combination of Multiple
Searches", 1994). Reciprocal rank fusion uses only ranks (Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion
Outperforms Condorcet and Individual Rank Learning Methods", SIGIR 2009)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from retrokit.core.errors import UsageError
from retrokit.core.notices import progress
from retrokit.core.registry import Spec, parse_all
from retrokit.ranking import retrieval
from retrokit.ranking.retrieval.base import (
    Account,
    FilteredIndex,
    Ranking,
    Searcher,
    Shared,
    TextList,
    TuningQueries,
    account_of,
    best_first,
)

RRF_K = 60  # of Cormack et al.


def min_max(scores: np.ndarray) -> np.ndarray:
    """Scores float64 ``[n]`` from 0 to 1; all 0 if they are equal.

    >>> min_max(np.array([1.0, 3.0, 2.0])).tolist()
    [0.0, 1.0, 0.5]
    """
    values = np.asarray(scores, dtype=np.float64)
    reach = np.ptp(values) if len(values) else 0.0
    if not reach:
        return np.zeros(len(values))
    return (values - values.min()) / reach


def z_scores(scores: np.ndarray) -> np.ndarray:
    """Scores float64 ``[n]`` of mean 0 and SD 1; all 0 if they are equal.

    >>> z_scores(np.array([3.0, 1.0])).tolist()
    [1.0, -1.0]
    """
    values = np.asarray(scores, dtype=np.float64)
    if not len(values) or not np.ptp(values):
        return np.zeros(len(values))
    return (values - values.mean()) / values.std()


def blend(first: np.ndarray, second: np.ndarray, weight: float) -> np.ndarray:
    """``(1 − weight) · min_max(first) + weight · min_max(second)`` of one query's documents, float64 ``[n]``.

    >>> blend(np.array([4.0, 2.0, 0.0]), np.array([-1.0, 9.0, -1.0]), 0.25).tolist()
    [0.75, 0.625, 0.0]
    """
    return (1 - weight) * min_max(first) + weight * min_max(second)


def reciprocal_ranks(ranks: np.ndarray) -> np.ndarray:
    """``1 / (60 + rank)`` of ranks ``[n]`` from 1.

    >>> reciprocal_ranks(np.array([1, 40])).tolist()
    [0.01639344262295082, 0.01]
    """
    reciprocals: np.ndarray = 1.0 / (RRF_K + ranks)
    return reciprocals


NORMALISED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "rrf": lambda scores: reciprocal_ranks(np.arange(1, len(scores) + 1)),
    "minmax": min_max,
    "zscore": z_scores,
}
"""Normalised scores ``[n]`` of one ranking, best first."""
AUTO = "auto"
_STEPS = 20
_ROUNDING = 16 * float(np.finfo(np.float32).eps)  # by which a pair's sum, of another order, may be off the list's


class Hybrid(Searcher):
    """The rankings of ``a`` and ``b``, ``depth`` deep, by ``(1 − weight) · a + weight · b`` of their normalised scores.
    A ``weight`` of ``auto`` has to be tuned first; ``tuned_on`` has its queries and their metric."""

    tuned_on: Mapping[str, Any] | None = None

    def __init__(self, a: Searcher, b: Searcher, fusion: str, weight: float | str, depth: int) -> None:
        self.a = a
        self.b = b
        self.fusion = fusion
        self.weight = weight
        self.depth = depth
        self.by_ids = a.by_ids or b.by_ids
        params: dict[str, Any] = {"a": a.spec, "b": b.spec, "fusion": fusion, "weight": weight, "depth": depth}
        self.spec = str(retrieval.registry.parse(str(Spec("hybrid", params))))

    def index(self, documents: TextList) -> HybridIndex:
        if self.weight == AUTO:
            raise UsageError(f"{self.spec}: weight=auto is tuned on judged queries, and there are none; give a number")
        return HybridIndex(self, documents)

    def check(self, documents: TextList, queries: TextList) -> None:
        self.a.check(documents, queries)
        self.b.check(documents, queries)

    def within(self, set_name: str) -> Searcher:
        searcher = copy.copy(self)
        searcher.a = self.a.within(set_name)
        searcher.b = self.b.within(set_name)
        return searcher

    def tuned(self, on: TuningQueries) -> Searcher:
        """The best of the weights 0, 0.05, …, 1; of equal ones that nearest to 0.5, then the lower."""
        searcher = copy.copy(self)
        searcher.a = Shared(self.a.tuned(on))
        searcher.b = Shared(self.b.tuned(on))
        if self.weight != AUTO:
            return searcher
        depth = min(max(on.depth, self.depth), max(1, len(on.documents)))
        rankings_a = searcher.a.index(on.documents).search_without(on.queries, depth, on.left_out)
        rankings_b = searcher.b.index(on.documents).search_without(on.queries, depth, on.left_out)
        worth = {}
        with progress(f"tuning {self.spec}", _STEPS + 1, "weights") as advance:
            for step in range(_STEPS + 1):
                pairs = zip(rankings_a, rankings_b, strict=True)
                worth[step] = on.measure([fuse(a, b, self.fusion, step / _STEPS, on.depth) for a, b in pairs])
                advance(1)
        best = max(worth, key=lambda step: (worth[step], -abs(2 * step - _STEPS), -step))
        searcher.weight = best / _STEPS
        searcher.tuned_on = {**on.about, "value": worth[best]}
        return searcher

    def fingerprint(self) -> str:
        return f"{self.a.fingerprint()} {self.b.fingerprint()} {self.fusion} {self.weight} {self.depth}"

    def portable_fingerprint(self) -> str:
        sides = f"{self.a.portable_fingerprint()} {self.b.portable_fingerprint()}"
        return f"{sides} {self.fusion} {self.weight} {self.depth}"


class HybridIndex(FilteredIndex):
    """The documents, in both indexes."""

    def __init__(self, searcher: Hybrid, documents: TextList) -> None:
        self._searcher = searcher
        self._a = searcher.a.index(documents)
        self._b = searcher.b.index(documents)
        self._count = max(1, len(documents))

    def search_without(self, queries: TextList, k: int, left_out: Sequence[Set[int]]) -> list[Ranking]:
        """A document that one side lacks has the lowest score there, and by ranks 0."""
        hybrid = self._searcher
        depth = min(max(k, hybrid.depth), self._count)
        rankings_a = self._a.search_without(queries, depth, left_out)
        rankings_b = self._b.search_without(queries, depth, left_out)
        self.empty = {**self._a.empty, **self._b.empty}
        pairs = zip(rankings_a, rankings_b, strict=True)
        return [fuse(a, b, hybrid.fusion, float(hybrid.weight), k) for a, b in pairs]

    def score_pairs(self, queries: TextList, texts: TextList) -> np.ndarray:
        """The scores that texts would have among the documents of both sides."""
        hybrid = self._searcher
        weight = float(hybrid.weight)
        keys = queries.ids or queries
        rows = {key: row for row, key in enumerate(keys)}  # a query stands with many texts
        distinct_queries = TextList((queries[row] for row in rows.values()), list(rows) if queries.ids else ())
        fused = np.zeros(len(texts))
        for side, share in ((self._a, 1 - weight), (self._b, weight)):
            rankings = side.search(distinct_queries, min(hybrid.depth, self._count))
            ranked_scores = {key: scores for key, (scores, _) in zip(rows, rankings, strict=True)}
            pairs = zip(keys, side.score_pairs(queries, texts), strict=True)
            fused += share * np.array([placed(ranked_scores[key], score, hybrid.fusion) for key, score in pairs])
        return fused

    def account(self) -> Account:
        hybrid = self._searcher
        a = account_of(hybrid.a, self._a)
        b = account_of(hybrid.b, self._b)
        configuration: dict[str, Any] = {
            "a": a.configuration,
            "b": b.configuration,
            "fusion": hybrid.fusion,
            "weight": hybrid.weight,
            "depth": hybrid.depth,
        }
        if hybrid.tuned_on is not None:
            configuration["tuned_on"] = hybrid.tuned_on
        return Account(configuration, counts={**b.counts, **a.counts})


def fuse(a: Ranking, b: Ranking, fusion: str, weight: float, k: int) -> Ranking:
    """The ``k`` best of both rankings of one query, by ``(1 − weight) · a + weight · b``."""
    positions = np.union1d(a[1], b[1])
    fused = np.zeros(len(positions))
    for (scores, ranked_positions), share in ((a, 1 - weight), (b, weight)):
        if len(scores):
            values = NORMALISED[fusion](scores)
            side = np.full(len(positions), 0.0 if fusion == "rrf" else values.min())
            side[np.searchsorted(positions, ranked_positions)] = values
            fused += share * side
    order = best_first(fused, positions)[:k]
    return fused[order], positions[order]


def placed(scores: np.ndarray, score: float, fusion: str) -> float:
    """The normalised value of a ``score`` among a ranking's ``scores [n]``; below all of them the lowest, and by ranks
    0.

    >>> placed(np.array([3.0, 2.0, 1.0]), 2.5, "minmax"), placed(np.array([3.0, 2.0, 1.0]), 0.5, "rrf")
    (0.75, 0.0)
    """
    if not len(scores):
        return 0.0
    rounding = _ROUNDING * max(abs(float(scores[0])), abs(float(score)))
    values = NORMALISED[fusion](scores)
    if fusion == "rrf":
        rank = int(np.count_nonzero(scores > score + rounding))
        return float(values[rank]) if rank < len(values) else 0.0
    reach = float(scores[0]) - float(scores[-1])
    above = max(float(score) - float(scores[-1]), 0.0)
    return float(values[-1] + (values[0] - values[-1]) * (above / reach if reach else 0.0))


def hybrid(a: str, b: str, fusion: str, weight: float | str, depth: int, device: str | None = None) -> Hybrid:
    """Two searchers or encoders as one. Raises :class:`UsageError` for wrong specs, or one system twice."""
    first, second = parse_all([(retrieval.registry_of(spec), spec) for spec in (a, b)])
    if first != second:
        sides = (retrieval.create(a, device=device), retrieval.create(b, device=device))
        # one and the same under two names: a run by its bytes, an encoder and `dense` of it
        if type(sides[0]) is not type(sides[1]) or sides[0].fingerprint() != sides[1].fingerprint():
            return Hybrid(*sides, fusion, weight, depth)
    raise UsageError(f"a hybrid of {first} with itself is {first}: give two different systems")
