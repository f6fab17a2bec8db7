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
        self.spec, self.listwise, self.computes_in = reranker.spec, reranker.listwise, reranker.computes_in
        self.pairs = self.computed = 0
        self.seconds = 0.0
        itself = reranker.keeps_itself and not within
        self._reranker = reranker
        self._store = Shards(None) if itself else store
        self._at_once = sys.maxsize if itself else DECODED_AT_ONCE if reranker.is_decoder else PAIRS_AT_ONCE
        self._shows_progress = not (itself or within)
        if itself and store.folder is not None:
            reranker.keep_in(store.folder)
        self._fingerprint = reranker.fingerprint()
        self.key = key_of(reranker)
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
        return {
            **({"precision": self.computes_in} if self.computes_in else {}),
            "reranker": self.spec,
            "reranker_fingerprint": self._fingerprint,
            "cost": cost,
            **({"reranker_counts": self.counts} if self.counts else {}),
            "retrokit": __version__,
        }

    def score_pairs(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        if self.listwise:
            return self._reranker.score_pairs(queries, documents)
        return np.concatenate([np.empty(0, np.float32), *self.rank_lists(queries, [[text] for text in documents])])

    def rank(self, query: str, documents: Sequence[str]) -> np.ndarray:
        return self.rank_lists([query], [documents])[0]

    def rank_lists(self, queries: Sequence[str], lists: Sequence[Sequence[str]]) -> list[np.ndarray]:
        if not self._reranker.is_decoder:
            return self._blocks(queries, lists, "queries")
        pair_queries, texts, ends = pairs_of(queries, lists)
        order = sorted(range(len(texts)), key=texts.__getitem__)  # a document's tokens may serve several queries
        scores = np.empty(len(texts), np.float32)
        if order:
            singles = self._blocks([pair_queries[pair] for pair in order], [[texts[pair]] for pair in order], "pairs")
            scores[order] = np.concatenate(singles)
        return np.split(scores, ends[:-1])

    def _blocks(self, queries: Sequence[str], lists: Sequence[Sequence[str]], unit: str) -> list[np.ndarray]:
        blocks, size = [0], 0  # whole lists, about as many pairs together
        for row, documents in enumerate(lists):
            if size and size + len(documents) > self._at_once:
                blocks.append(row)
                size = 0
            size += len(documents)
        results: list[np.ndarray] = []
        doing = f"reranking with {self.spec}"
        with progress(doing, len(queries), unit) if self._shows_progress else nullcontext(unseen) as advance:
            for start, stop in pairwise([*blocks, len(lists)]):
                results += self._block(queries[start:stop], lists[start:stop])
                advance(stop - start)
        return results

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

        # a place depends on the end of its list
        about = [",".join(str(len(documents)) for documents in lists)] if self.listwise else []
        scores = np.empty(0, np.float32)
        if texts:
            scores = self._store.array((self.key, *about, *pair_queries, *texts), (len(texts),), compute)
        return np.split(scores, ends[:-1])


def key_of(reranker: Reranker) -> str:
    """The fingerprint of a reranker, with all else that decides the bits of a score."""
    return f"{reranker.fingerprint()} {environment(type(reranker), reranker.device)}"


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
