"""A reranker whose scores outlive a break: lists are scored and stored block by block, in the same blocks after it."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from retrokit.core.errors import Interrupted
from retrokit.core.notices import notice, progress, unseen
from retrokit.core.outputs import check_own, locked
from retrokit.core.shards import Shards
from retrokit.core.version import __version__
from retrokit.data.images import check_texts
from retrokit.encoders.fingerprint import environment
from retrokit.ranking.reranking.base import Reranker, check_finite, pairs_of

PAIRS_AT_ONCE = 6400  # 64 queries with 100 documents each
DECODED_AT_ONCE = 400  # minutes of a language model


class KeptReranker(Reranker):
    """Scores with ``reranker``, and keeps the scores in ``store``, block by block. A reranker that stores its own work
    gets everything at once, but not ``within`` longer work, which shows no progress.

    Attributes:
        pairs: requested pairs.
        computed: those that were not in the store.
        seconds: their time.
        key: the fingerprint, with all else that decides the bits of a score.
    """

    def __init__(self, reranker: Reranker, store: Shards, within: bool = False) -> None:
        self.spec = reranker.spec
        self.listwise = reranker.listwise
        self.computes_in = reranker.computes_in
        self.pairs = self.computed = 0
        self.seconds = 0.0
        self._reranker = reranker
        self._store = store
        self._block_pairs = DECODED_AT_ONCE if reranker.computes_once else PAIRS_AT_ONCE
        self._shows_progress = not within
        if reranker.keeps_itself and not within:
            self._store = Shards(None)
            self._block_pairs = sys.maxsize
            self._shows_progress = False
            if store.folder is not None:
                reranker.keep_in(store.folder)
        self._fingerprint = reranker.fingerprint()
        self.key = key_of(reranker, self._fingerprint)
        self._counts_before = dict(reranker.counts)

    def fingerprint(self) -> str:
        return self._fingerprint

    @property
    def counts(self) -> dict[str, int]:
        """The reranker's own counts since then."""
        return {name: count - self._counts_before.get(name, 0) for name, count in self._reranker.counts.items()}

    def configuration(self, queries: int | None = None) -> dict[str, Any]:
        """The origin and the cost of the scores, for a result; the time is that of computed ones."""
        cost: dict[str, Any] = {"pairs": self.pairs, "pairs_computed": self.computed, "seconds": round(self.seconds, 3)}
        if self.computed:
            per_pair = 1000 * self.seconds / self.computed
            cost["milliseconds_per_pair"] = round(per_pair, 4)
            if queries:
                cost["milliseconds_per_query"] = round(per_pair * self.pairs / queries, 3)
        configuration: dict[str, Any] = {"precision": self.computes_in} if self.computes_in else {}
        configuration["reranker"] = self.spec
        configuration["reranker_fingerprint"] = self._fingerprint
        configuration["cost"] = cost
        if self.counts:
            configuration["reranker_counts"] = self.counts
        configuration["retrokit"] = __version__
        return configuration

    def score_pairs(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        if self.listwise:
            return self._reranker.score_pairs(queries, documents)
        return np.concatenate([np.empty(0, np.float32), *self.rank_lists(queries, [[text] for text in documents])])

    def rank(self, query: str, documents: Sequence[str]) -> np.ndarray:
        return self.rank_lists([query], [documents])[0]

    def rank_lists(self, queries: Sequence[str], lists: Sequence[Sequence[str]]) -> list[np.ndarray]:
        if self._reranker.computes_once != "document":
            return self._blocks(queries, lists, "queries")
        pair_queries, texts, ends = pairs_of(queries, lists)
        scores = np.empty(len(texts), np.float32)
        order = sorted(range(len(texts)), key=texts.__getitem__)
        if order:
            ordered_queries = [pair_queries[pair] for pair in order]
            single_texts = [[texts[pair]] for pair in order]
            scores[order] = np.concatenate(self._blocks(ordered_queries, single_texts, "pairs"))
        return np.split(scores, ends[:-1])

    def _blocks(self, queries: Sequence[str], lists: Sequence[Sequence[str]], unit: str) -> list[np.ndarray]:
        """The scores of all lists, computed in blocks of whole lists, with about as many pairs each."""
        starts = [0]
        block_size = 0
        for row, documents in enumerate(lists):
            if block_size and block_size + len(documents) > self._block_pairs:
                starts.append(row)
                block_size = 0
            block_size += len(documents)
        scores: list[np.ndarray] = []
        doing = f"reranking with {self.spec}"
        with progress(doing, len(queries), unit) if self._shows_progress else nullcontext(unseen) as advance:
            for start, stop in pairwise([*starts, len(lists)]):
                scores += self._block(queries[start:stop], lists[start:stop])
                advance(stop - start)
        return scores

    def _block(self, queries: Sequence[str], lists: Sequence[Sequence[str]]) -> list[np.ndarray]:
        if not lists:
            return []
        pair_queries, texts, ends = pairs_of(queries, lists)
        check_texts([*pair_queries, *texts], self.spec)
        self.pairs += len(texts)

        def compute() -> np.ndarray:
            start = time.perf_counter()
            scores = np.concatenate(self._reranker.rank_lists(queries, lists))
            self.seconds += time.perf_counter() - start
            self.computed += len(scores)
            check_finite(scores, self.spec, pair_queries)
            return scores.astype(np.float32, copy=False)

        if not texts:
            return np.split(np.empty(0, np.float32), ends[:-1])
        decided_by = [self.key]
        if self.listwise:  # a score depends on where its list ends
            decided_by.append(",".join(str(len(documents)) for documents in lists))
        scores = self._store.array((*decided_by, *pair_queries, *texts), compute)
        return np.split(scores, ends[:-1])


def key_of(reranker: Reranker, fingerprint: str) -> str:
    """The ``fingerprint`` of a reranker, with all else that decides the bits of a score."""
    return f"{fingerprint} {environment(type(reranker), reranker.device)}"


@contextmanager
def scores_in(folder: Path | None, doing: str, what: str = "scores", stay: bool = False) -> Iterator[Shards]:
    """A store of scores in the locked ``folder``, removed at the end unless they ``stay``; ``None``: no store.

    Raises:
        UsageError: another command works there.
        Interrupted: Ctrl-C; the message names ``doing``, and ``what`` remains in ``folder``.
    """
    with locked(folder) if folder is not None else nullcontext():
        store = Shards(folder)
        if store.goes_on:
            notice(f"resuming with the {what} in {folder}")
        try:
            yield store
        except KeyboardInterrupt:
            message = "" if folder is None else f"; {what} are in {folder}"
            raise Interrupted(f"{doing} stopped{message}") from None
        if not stay:
            store.remove()


def folder_beside(output: str | None) -> Path | None:
    """The folder of work on the file ``output``, ``OUTPUT.work``; ``None`` for standard output, a pipe or a device."""
    if output in (None, "-") or (os.path.exists(output) and not os.path.isfile(output)):
        return None
    folder = Path(f"{output}.work")
    check_own(folder)
    return folder
