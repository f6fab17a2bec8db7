"""A searcher that several others begin with: what it has found is kept."""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np

from retrokit.ranking.retrieval.base import Account, FilteredIndex, Index, Ranking, Searcher, TextList, account_of


class Shared(Searcher):
    """A searcher over one task's documents, those that it is given first, whose last search is kept: for what several
    compared ones begin with."""

    def __init__(self, searcher: Searcher) -> None:
        self.spec, self.similarity, self.by_ids = searcher.spec, searcher.similarity, searcher.by_ids
        self._searcher = searcher
        self._index: _SharedIndex | None = None

    def index(self, documents: TextList) -> Index:
        if self._index is None:
            self._index = _SharedIndex(self._searcher, self._searcher.index(documents))
        return self._index

    def check(self, documents: TextList, queries: TextList) -> None:
        self._searcher.check(documents, queries)

    def fingerprint(self) -> str:
        return self._searcher.fingerprint()


class _SharedIndex(FilteredIndex):
    """Keeps what was found, and the account of it, which would embed anew what another task has displaced."""

    def __init__(self, searcher: Searcher, index: Index) -> None:
        self._searcher, self._index = searcher, index
        self._last: tuple[TextList, int, Sequence[Set[int]], Sequence[Ranking]] | None = None
        self._account = Account()

    def search_without(self, queries: TextList, k: int, left_out: Sequence[Set[int]]) -> Sequence[Ranking]:
        last = self._last
        if last is None or last[0] is not queries or last[1] < k or last[2] != left_out:
            last = self._last = queries, k, left_out, self._index.search_without(queries, k, left_out)
            self._account = account_of(self._searcher, self._index)
            self.unlisted = self._index.unlisted
        return [(scores[:k], positions[:k]) for scores, positions in last[3]]

    def score_pairs(self, queries: TextList, texts: TextList) -> np.ndarray:
        return self._index.score_pairs(queries, texts)

    def account(self) -> Account:
        return self._account
