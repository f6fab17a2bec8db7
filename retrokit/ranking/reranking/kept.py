"""A reranker whose scores outlive a break: lists are scored block by block, and each block kept until it is wanted.

The blocks are the same whether or not a run before was interrupted, so the scores are the same to the last bit.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from retrokit.core.errors import Interrupted
from retrokit.core.notices import Advance, notice, progress, unseen
from retrokit.core.outputs import check_own, locked
from retrokit.core.shards import Shards
from retrokit.core.version import __version__
from retrokit.data.images import check_texts
from retrokit.encoders.fingerprint import environment
from retrokit.ranking.reranking.base import Reranker, check_finite, pairs_of

PAIRS_AT_ONCE = 6400  # 64 queries with 100 documents each


class KeptReranker(Reranker):
    """Scores with ``reranker``, and keeps the scores in ``store``. What keeps its own work has nothing kept here, and
    gets everything at once; but not with ``within``, which says that this is a part of longer work: all scores are kept
    then, and no progress is shown.

    Attributes:
        pairs: pairs asked for.
        computed: those of them that were not kept from before.
        seconds: that computing them took.
        key: the fingerprint, with all else that decides the bits of a score.
    """

    def __init__(self, reranker: Reranker, store: Shards, within: bool = False) -> None:
        self.spec, self.listwise, self.computes_in = reranker.spec, reranker.listwise, reranker.computes_in
        self.pairs = self.computed = 0
        self.seconds = 0.0
        itself = reranker.keeps_itself and not within
        self._reranker = reranker
        self._store = Shards(None) if itself else store
        self._at_once = sys.maxsize if itself else PAIRS_AT_ONCE
        self._tells = not (itself or within)
        self._fingerprint = reranker.fingerprint()
        self.key = f"{self._fingerprint} {environment(type(reranker), reranker.device)}"
        self._counted = dict(reranker.counts)

    def fingerprint(self) -> str:
        return self._fingerprint

    @property
    def counts(self) -> dict[str, int]:
        """What the reranker itself has counted meanwhile, if it counts anything."""
        return {name: count - self._counted.get(name, 0) for name, count in self._reranker.counts.items()}

    def configuration(self, queries: int | None = None) -> dict[str, Any]:
        """What made the scores, and what they cost, for a result; of scores kept from a run before, the time is not
        known."""
        per_pair = self.seconds / self.computed if self.computed else None
        cost = {"pairs": self.pairs, "pairs_computed": self.computed, "seconds": round(self.seconds, 3)}
        if per_pair is not None:
            cost["milliseconds_per_pair"] = round(1000 * per_pair, 4)
            if queries:
                cost["milliseconds_per_query"] = round(1000 * per_pair * self.pairs / queries, 3)
        return {
            **({"precision": self.computes_in} if self.computes_in else {}),
            "reranker": self.spec,
            "reranker_fingerprint": self._fingerprint,
            "cost": cost,
            **({"reranker_counts": self.counts} if self.counts else {}),
            "retrokit": __version__,
        }

    def score_pairs(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        parts = [np.empty(0, dtype=np.float32)]
        with self._progress("scoring", len(queries), "pairs") as advance:
            for start in range(0, len(queries), self._at_once):
                query_block, texts = queries[start : start + self._at_once], documents[start : start + self._at_once]
                parts.append(self._block(query_block, texts, partial(self._reranker.score_pairs, query_block, texts)))
                advance(len(parts[-1]))
        return np.concatenate(parts)

    def rank(self, query: str, documents: Sequence[str]) -> np.ndarray:
        return self.rank_lists([query], [documents])[0]

    def rank_lists(self, queries: Sequence[str], lists: Sequence[Sequence[str]]) -> list[np.ndarray]:
        results: list[np.ndarray] = []
        blocks = list(_blocks(lists, self._at_once))
        if len(blocks) > 1 and self._reranker.encodes_anew:
            notice(f"{self.spec}: encodes documents in each of {len(blocks)} blocks; with cache=FOLDER, once")
        with self._progress("reranking", len(queries), "queries") as advance:
            for block in blocks:
                results += self._lists([queries[row] for row in block], [lists[row] for row in block])
                advance(len(block))
        return results

    def _progress(self, doing: str, total: int, unit: str) -> AbstractContextManager[Advance]:
        return progress(f"{doing} with {self.spec}", total, unit) if self._tells else nullcontext(unseen)

    def _lists(self, queries: Sequence[str], lists: Sequence[Sequence[str]]) -> list[np.ndarray]:
        pair_queries, texts, ends = pairs_of(queries, lists)
        # where a list ends decides a place in it, and cannot be seen from the pairs
        about = (",".join(str(len(documents)) for documents in lists),) if self.listwise else ()
        flat = self._block(
            pair_queries, texts, lambda: np.concatenate(self._reranker.rank_lists(queries, lists)), about
        )
        return np.split(flat, ends[:-1])

    def _block(
        self,
        queries: Sequence[str],
        documents: Sequence[str],
        score: Callable[[], np.ndarray],
        about: Sequence[str] = (),
    ) -> np.ndarray:
        def make() -> np.ndarray:
            start = time.perf_counter()
            scores = score()
            self.seconds += time.perf_counter() - start
            self.computed += len(scores)
            check_finite(scores, self.spec, queries)
            return scores.astype(np.float32, copy=False)

        check_texts([*queries, *documents], self.spec)
        self.pairs += len(queries)
        if not queries:
            return np.empty(0, dtype=np.float32)
        return self._store.array((self.key, *about, *queries, *documents), (len(queries),), make)


@contextmanager
def kept_beside(output: str | None, doing: str, what: str) -> Iterator[Shards]:
    """Where scores are kept while the file ``output`` is made: its folder ``OUTPUT.work``, which is locked, and gone
    once the block has come to its end; nowhere for ``None``, standard output, a pipe or a device.

    Raises:
        UsageError: another command works there.
        Interrupted: Ctrl-C, which says that ``doing`` has stopped and ``what`` is kept.
    """
    is_file = output is not None and output != "-" and (os.path.isfile(output) or not os.path.exists(output))
    folder = Path(f"{output}.work") if is_file else None
    if folder is not None:
        check_own(folder)
    with locked(folder) if folder is not None else nullcontext():
        store = Shards(folder)
        if store.goes_on:
            notice(f"going on with what is kept in {folder}")
        try:
            yield store
        except KeyboardInterrupt:
            message = "" if folder is None else f"; {what} are kept in {folder}"
            raise Interrupted(f"{doing} stopped{message}") from None
        store.remove()


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
