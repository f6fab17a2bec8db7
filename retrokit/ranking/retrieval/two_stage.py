"""The searcher ``two-stage``: a searcher proposes documents, and a reranker orders the best of them (COMP, D.4).

Documents below the reranked depth keep their places behind it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.core.registry import parse_all
from retrokit.core.shards import Shards
from retrokit.ranking import reranking, retrieval
from retrokit.ranking.reranking.base import Reranker
from retrokit.ranking.reranking.kept import KeptReranker, key_of
from retrokit.ranking.retrieval import IDLE, Stages
from retrokit.ranking.retrieval.base import (
    Account,
    FilteredIndex,
    Ranking,
    Searcher,
    TextList,
    TuningQueries,
    account_of,
    best_first,
)
from retrokit.ranking.retrieval.hybrid import blend, reciprocal_ranks


@dataclass(frozen=True)
class Fusion:
    """How the scores of two stages become one, over the ``depth`` best documents of each query. By default only the
    reranker counts. ``blend`` is its share in a weighted sum of min-max normalised scores. ``fusion`` ``rrf`` goes by
    ranks. Raises :class:`UsageError` for both."""

    depth: int = 100
    blend: float | None = None
    fusion: str | None = None

    def __post_init__(self) -> None:
        if self.fusion is not None and self.blend is not None:
            raise UsageError("blend sums scores and fusion goes by ranks: give one of them")

    @property
    def name(self) -> str:
        """Its part of a similarity's name; empty by default."""
        deep = f", depth {self.depth}" if self.depth != Fusion.depth else ""
        blended = f", blend {self.blend:g}" if self.blend is not None else ""
        return deep + blended + (f", {self.fusion}" if self.fusion else "")

    def scores(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """The scores ``[n]`` of one query's documents, in the first stage's order, given their scores in both
        stages."""
        if self.blend is not None:
            return blend(first, second, self.blend)
        if self.fusion is None:
            return second
        first_ranks = np.arange(1, len(second) + 1)
        second_ranks = np.empty(len(second), dtype=np.int64)
        second_ranks[best_first(second, first_ranks)] = first_ranks
        return reciprocal_ranks(first_ranks) + reciprocal_ranks(second_ranks)


def fusion_of(stages: Stages) -> Fusion:
    """How the scores of these stages become one. Raises :class:`UsageError` for a blend and a fusion."""
    return Fusion(stages.depth, stages.blend, stages.fusion)


class TwoStage(Searcher):
    """What ``first`` finds, in the order of ``reranker``, whose scores are cached in ``store``."""

    def __init__(self, first: Searcher, reranker: Reranker, fusion: Fusion, store: Shards) -> None:
        self.spec, self.has_whole_rankings = first.spec, first.has_whole_rankings
        self.similarity = f"{first.similarity} + {reranker.spec}{fusion.name}"
        self.first, self.reranker, self.fusion, self.store = first, reranker, fusion, store

    def index(self, documents: TextList) -> TwoStageIndex:
        return TwoStageIndex(self, documents)

    def fingerprint(self) -> str:
        return f"{self.first.fingerprint()} {key_of(self.reranker, self.reranker.fingerprint())} {self.fusion}"

    def portable_fingerprint(self) -> str:
        return f"{self.first.portable_fingerprint()} {self.reranker.fingerprint()} {self.fusion}"

    def check(self, documents: TextList, queries: TextList) -> None:
        self.first.check(documents, queries)

    def tuned(self, on: TuningQueries) -> Searcher:
        searcher = copy.copy(self)
        searcher.first = self.first.tuned(on)
        return searcher

    def within(self, set_name: str) -> Searcher:
        searcher = copy.copy(self)
        searcher.first = self.first.within(set_name)
        return searcher


class TwoStageIndex(FilteredIndex):
    """The documents of the first stage, and the cost of reranking them."""

    def __init__(self, searcher: TwoStage, documents: TextList) -> None:
        self._searcher = searcher
        self._reranker = KeptReranker(searcher.reranker, searcher.store)
        self._documents = documents
        self._first = searcher.first.index(documents)
        self._queries = self._empty = self._below = 0
        self._compared = self._unmoved = 0  # queries with several candidates, and those whose order stays

    def search_without(self, queries: TextList, k: int, left_out: Sequence[Set[int]]) -> list[Ranking]:
        """What is left out is not reranked either."""
        fusion, depth = self._searcher.fusion, self._searcher.fusion.depth
        at_most = max(1, len(self._documents))
        firsts = self._first.search_without(queries, min(max(k, depth), at_most), left_out)
        self.empty = self._first.empty
        rows = [row for row, (scores, _) in enumerate(firsts) if len(scores)]
        candidates = [[self._documents[position] for position in firsts[row][1][:depth].tolist()] for row in rows]
        seconds = self._reranker.rank_lists([queries[row] for row in rows], candidates)
        self._count_unmoved(seconds)
        self._queries += len(rows)
        self._empty += len(firsts) - len(rows)
        self._below += sum(max(0, len(scores) - depth) for scores, _ in firsts)
        rankings = list(firsts)
        for row, second in zip(rows, seconds, strict=True):
            rankings[row] = _reranked(firsts[row], second, fusion)
        return [(scores[:k], positions[:k]) for scores, positions in rankings]

    def _count_unmoved(self, seconds: Sequence[np.ndarray]) -> None:
        """Count, and report, the queries in whose several candidates the reranker's scores change nothing."""
        spec = self._reranker.spec
        several = [second for second in seconds if len(second) > 1]
        equal = sum(second.min() == second.max() for second in several)
        unmoved = sum(bool((np.diff(second) <= 0).all()) for second in several)
        if equal:
            problem = f"all scores are equal for {equal:,} of {len(seconds):,} queries"
            notice(f"{spec}: {problem}; their documents keep the first stage's order")
        elif unmoved and unmoved == len(several):
            notice(f"{spec}: changes the order of no query ({unmoved:,} of {len(seconds):,} have several documents)")
        self._compared += len(several)
        self._unmoved += unmoved

    def score_pairs(self, queries: TextList, texts: TextList) -> np.ndarray:
        """The reranker's scores float32 ``[n]``; raises :class:`UsageError` for a blend or a fusion."""
        if self._searcher.fusion.name:
            raise UsageError(f"{self._searcher.similarity}: scores whole lists; cannot score pairs")
        return self._reranker.score_pairs(queries, texts)

    def account(self) -> Account:
        first = account_of(self._searcher.first, self._first)
        reranker, fusion = self._reranker, self._searcher.fusion
        counts = {
            "reranked_pairs": reranker.pairs,
            "queries_without_candidates": self._empty,
            "documents_below_depth": self._below,
            **({IDLE: self._unmoved} if self._unmoved and self._unmoved == self._compared else {}),
        }
        stages = {"first_stage": first.configuration, "depth": fusion.depth, "blend": fusion.blend}
        configuration = {**stages, "fusion": fusion.fusion, **reranker.configuration(self._queries)}
        return Account(configuration, first.norms, {**first.counts, **counts})


def _reranked(first: Ranking, second: np.ndarray, fusion: Fusion) -> Ranking:
    """The ranking of the first stage with its best documents, which have scores ``second``, in their new order."""
    scores, positions = first
    count, below = len(second), np.arange(len(second), len(scores))
    fused = fusion.scores(scores[:count], second)
    order = best_first(fused, np.arange(count))
    best = _distinct(fused[order])
    # behind them, lower by 1 each or, where single precision would lose that, by a millionth of the size
    behind = best.min() - max(1.0, abs(best.min()) * 1e-6) * (below - count + 1)
    return np.concatenate([best, behind]), positions[np.concatenate([order, below])]


def _distinct(scores: np.ndarray) -> np.ndarray:
    """Descending scores ``[n]``, equal ones lowered by the least step of single precision, so that a sort keeps their
    order.

    >>> _distinct(np.array([2.0, 1.0, 1.0])).astype(np.float32).tolist()
    [2.0, 1.0, 0.9999998807907104]
    """
    lowered = scores.astype(np.float64)
    if not (np.diff(scores.astype(np.float32)) >= 0).any():
        return lowered
    for rank in range(1, len(lowered)):
        before = np.float32(lowered[rank - 1])
        if np.float32(lowered[rank]) >= before:
            lowered[rank] = before - np.spacing(max(abs(before), np.float32(1e-6)))
    return lowered


def two_stage(
    first: str | None,
    reranker: str,
    depth: int,
    blend: float | None,
    fusion: str | None,
    work: str | None,
    device: str | None = None,
) -> TwoStage:
    """The searcher or the encoder ``first``, and the reranker of that spec behind it. Raises :class:`UsageError` for
    wrong specs, or no first stage."""
    if first is None:
        raise UsageError(f"two-stage:reranker={reranker}: has no first stage and cannot search; give first=")
    together = Fusion(depth, blend, fusion)
    parse_all([(retrieval.registry_of(first), first), (reranking.registry_of(reranker), reranker)])
    loaded = reranking.create(reranker, device)
    return TwoStage(retrieval.create(first, device=device), loaded, together, store_at(work))


def store_at(work: str | None) -> Shards:
    """The store of scores in the folder ``work``; ``None``: nothing is stored."""
    return Shards(Path(work) if work is not None else None)
