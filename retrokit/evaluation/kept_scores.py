"""A reranker whose scores outlive a break: pairs are scored block by block, and each block kept until it is wanted.

The blocks are the same whether or not a run before was interrupted, so the scores are the same to the last bit.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import numpy as np

from retrokit.data.shards import Shards
from retrokit.encoders.fingerprint import environment
from retrokit.errors import DataError
from retrokit.notices import Advance, notice, progress, unseen
from retrokit.reranking.base import Scorer, is_listwise, score_lists

PAIRS_AT_ONCE = 6400  # 64 queries with 100 documents each


class KeptScorer:
    """Scores pairs with ``scorer``, and keeps the scores in ``store``.

    What keeps what it has done by itself (an attribute ``keeps_itself``) has nothing kept here, and gets all its pairs
    at once.

    Attributes:
        spec: the scorer's.
        computes_in: the scorer's precision, where it tells.
        pairs: pairs asked for.
        computed: those of them that were not kept from before.
        seconds: that computing them took.
    """

    def __init__(self, scorer: Scorer, store: Shards) -> None:
        self.spec = scorer.spec
        self.computes_in: str | None = getattr(scorer, "computes_in", None)
        self.pairs = self.computed = 0
        self.seconds = 0.0
        self._scorer = scorer
        self._keeps_itself = getattr(scorer, "keeps_itself", False)
        self._store = Shards(None) if self._keeps_itself else store
        self._at_once = sys.maxsize if self._keeps_itself else PAIRS_AT_ONCE
        self._fingerprint = scorer.fingerprint()
        self._key = f"{self._fingerprint} {environment(scorer)}"
        self._counted = self._counts_now()

    def fingerprint(self) -> str:
        """The scorer's."""
        return self._fingerprint

    @property
    def counts(self) -> dict[str, int]:
        """What the scorer itself has counted meanwhile, if it counts anything."""
        return {name: count - self._counted.get(name, 0) for name, count in self._counts_now().items()}

    def _counts_now(self) -> dict[str, int]:
        return dict(getattr(self._scorer, "counts", {}))

    def score_pairs(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        """Scores float32 ``[n]`` of query i with document i.

        Raises:
            DataError: a score is not finite, or the scores cannot be kept.
        """
        parts = [np.empty(0, dtype=np.float32)]
        with self._progress("scoring", len(queries), "pairs") as advance:
            for start in range(0, len(queries), self._at_once):
                asked, texts = queries[start : start + self._at_once], documents[start : start + self._at_once]
                parts.append(self._block(asked, texts, partial(self._scorer.score_pairs, asked, texts)))
                advance(len(parts[-1]))
        return np.concatenate(parts)

    def score_lists(self, queries: Sequence[str], lists: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Scores float32 ``[n]`` of each query with the documents of its list, in their order.

        Raises:
            DataError: as for :meth:`score_pairs`.
        """
        found: list[np.ndarray] = []
        blocks = list(_blocks(lists, self._at_once))
        if len(blocks) > 1 and getattr(self._scorer, "cache", self) is None:
            notice(f"{self.spec}: encodes documents in each of {len(blocks)} blocks; with cache=FOLDER, once")
        with self._progress("reranking", len(queries), "queries") as advance:
            for block in blocks:
                found += self._lists([queries[row] for row in block], [lists[row] for row in block])
                advance(len(block))
        return found

    def _progress(self, doing: str, total: int, unit: str) -> AbstractContextManager[Advance]:
        """Progress by block; what gets everything at once shows its own."""
        if self._keeps_itself:
            return nullcontext(unseen)
        return progress(f"{doing} with {self.spec}", total, unit)

    def _lists(self, queries: Sequence[str], lists: Sequence[Sequence[str]]) -> list[np.ndarray]:
        asked = [query for query, documents in zip(queries, lists, strict=True) for _ in documents]
        texts = [document for documents in lists for document in documents]
        sizes = [len(documents) for documents in lists]

        def score() -> np.ndarray:
            return np.concatenate(score_lists(self._scorer, queries, lists))

        # where a list ends decides a place in it, and cannot be seen from the pairs
        about = (",".join(map(str, sizes)),) if is_listwise(self._scorer) else ()
        return np.split(self._block(asked, texts, score, about), np.cumsum(sizes)[:-1])

    def _block(
        self,
        queries: Sequence[str],
        documents: Sequence[str],
        score: Callable[[], np.ndarray],
        about: tuple[str, ...] = (),
    ) -> np.ndarray:
        def make() -> np.ndarray:
            start = time.perf_counter()
            scores = score()
            self.seconds += time.perf_counter() - start
            self.computed += len(scores)
            bad = np.flatnonzero(~np.isfinite(scores))
            if len(bad):
                shown = queries[bad[0]][:60]
                raise DataError(self.spec, f"{len(bad)} scores are not finite, the first of the query {shown!r}")
            return scores.astype(np.float32, copy=False)

        self.pairs += len(queries)
        if not queries:
            return np.empty(0, dtype=np.float32)
        return self._store.array((self._key, *about, *queries, *documents), (len(queries),), make)


def _blocks(lists: Sequence[Sequence[str]], at_once: int) -> Iterator[range]:
    """Whole lists, about ``at_once`` pairs together."""
    start = pairs = 0
    for row, documents in enumerate(lists):
        if row > start and pairs + len(documents) > at_once:
            yield range(start, row)
            start, pairs = row, 0
        pairs += len(documents)
    if start < len(lists):
        yield range(start, len(lists))
