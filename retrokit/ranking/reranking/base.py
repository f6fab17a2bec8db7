"""The contract of a reranker: it scores the documents that a search returned for a query, a whole list at a time.

A verifier also remarks on pairs. Of ``identical`` texts (but for white space) and of ``empty`` ones the verdict is
certain. Texts that are ``cut`` at the limit of tokens are scored by their beginnings."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from retrokit.core.errors import DataError, UsageError


class Reranker(Protocol):
    """Orders lists of documents, each for a query. A subclass gives :meth:`rank` and :meth:`fingerprint`; one that
    scores pairs is a :class:`PairwiseReranker`.

    Attributes:
        spec: its canonical spec.
        listwise: whether a score is only a place in a list.
        computes_in: ``float32``, ``bfloat16`` or ``float16``; ``None``: unknown.
        keeps_itself: whether it stores its own work (:meth:`keep_in`); it then gets all lists at once.
        computes_once: ``query`` or ``document``, whose tokens a language model computes once for its pairs; scores
            of such a model are stored more often. ``None``: it is none.
    """

    spec: str
    listwise: bool = True
    computes_in: str | None = None
    keeps_itself: bool = False
    computes_once: str | None = None

    @property
    def device(self) -> Any:
        """Where it computes; ``None``: a service."""
        return None

    @property
    def counts(self) -> Mapping[str, int]:
        """Its counts so far, by name."""
        return {}

    @abstractmethod
    def rank(self, query: str, documents: Sequence[str]) -> np.ndarray:
        """Scores float32 ``[n]`` of a query's documents, in the first stage's order; higher is better. Raises
        :class:`DataError` for a score that is not finite."""

    def rank_lists(self, queries: Sequence[str], lists: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """:meth:`rank` of each query with its own list. Raises :class:`UsageError` for different counts, and
        :class:`DataError` for a score that is missing or not finite."""
        check_counts(queries, lists)
        results = [self.rank(query, documents) for query, documents in zip(queries, lists, strict=True)]
        for scores, documents in zip(results, lists, strict=True):
            if scores.shape != (len(documents),):
                raise DataError(self.spec, f"gives scores {list(scores.shape)} for {len(documents)} documents")
        return results

    def score_pairs(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        """Scores float32 ``[n]`` of query i with document i. Raises :class:`UsageError` if it is :attr:`listwise`."""
        raise UsageError(f"{self.spec}: listwise reranker; cannot score pairs")

    @abstractmethod
    def fingerprint(self) -> str:
        """A digest of all that decides a score."""

    def keep_in(self, folder: Path) -> None:
        """Store its work in ``folder``, if it stores any."""
        return

    def describe(self) -> str:
        """A summary of its work so far, in a line; may be empty."""
        return ""


class PairwiseReranker(Reranker, Protocol):
    """Scores pairs. A subclass gives :meth:`score_pairs` and :meth:`fingerprint`."""

    listwise: bool = False

    @abstractmethod
    def score_pairs(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        """Scores float32 ``[n]`` of query i with document i; higher is better. Raises :class:`UsageError` for different
        counts, :class:`DataError` for a score that is not finite."""

    def remarks(self, queries: Sequence[str], documents: Sequence[str]) -> list[list[str]]:
        """Remarks on query i with document i (:data:`IDENTICAL`, :data:`EMPTY`, :data:`CUT`)."""
        return of_texts(queries, documents)

    def judge(self, queries: Sequence[str], documents: Sequence[str]) -> tuple[np.ndarray, list[list[str]]]:
        """:meth:`score_pairs` and :meth:`remarks`, for which the texts are looked at once."""
        return self.score_pairs(queries, documents), self.remarks(queries, documents)

    def rank(self, query: str, documents: Sequence[str]) -> np.ndarray:
        return self.rank_lists([query], [documents])[0]

    def rank_lists(self, queries: Sequence[str], lists: Sequence[Sequence[str]]) -> list[np.ndarray]:
        check_counts(queries, lists)
        if not lists:
            return []
        pair_queries, texts, ends = pairs_of(queries, lists)
        return np.split(self.score_pairs(pair_queries, texts), ends[:-1])


def check_counts(queries: Sequence[str], documents: Sequence[object]) -> None:
    """Raise :class:`UsageError` unless there are as many queries as documents, or as lists of them."""
    if len(queries) != len(documents):
        raise UsageError(f"there must be as many queries as documents: {len(queries)} and {len(documents)}")


def pairs_of(queries: Sequence[str], lists: Sequence[Sequence[str]]) -> tuple[list[str], list[str], np.ndarray]:
    """The query and the document of every pair of the lists, one list after another, and where each list ends."""
    pair_queries = [query for query, documents in zip(queries, lists, strict=True) for _ in documents]
    ends = np.cumsum([len(documents) for documents in lists])
    return pair_queries, [document for documents in lists for document in documents], ends


def check_finite(scores: np.ndarray, spec: str, queries: Sequence[str] = ()) -> None:
    """Raise :class:`DataError` if a score ``[n]`` of the reranker ``spec`` is not finite; it names the query."""
    bad = np.flatnonzero(~np.isfinite(scores))
    if len(bad):
        first = f"the query {queries[bad[0]][:60]!r}" if len(queries) else f"pair {bad[0] + 1}"
        raise DataError(spec, f"{len(bad)} of {len(scores)} scores are not finite, the first of {first}")


IDENTICAL, EMPTY, CUT = "identical", "empty", "cut"
VERDICTS = {IDENTICAL: True, EMPTY: False}
"""Whether a pair is accepted, regardless of its score."""


def of_texts(first: Sequence[str], second: Sequence[str]) -> list[list[str]]:
    """The remarks on each pair that need only its texts: they are identical, or one is empty."""
    return [
        [EMPTY] if not (a.strip() and b.strip()) else [IDENTICAL] * (a.split() == b.split())
        for a, b in zip(first, second, strict=True)
    ]


def decided(remarks: Iterable[str]) -> bool | None:
    """Whether a pair with these remarks is accepted regardless of its score; ``None``: its score decides."""
    return next((VERDICTS[remark] for remark in remarks if remark in VERDICTS), None)


def summary_of(counts: Counter[str], pairs: int) -> str:
    """The remarks on ``pairs`` pairs in a line; empty: there are none."""
    means = {
        IDENTICAL: "have identical texts, and are accepted",
        EMPTY: "have an empty text, and are rejected",
        CUT: "are longer than what is read, and judged by their beginnings",
    }
    return "; ".join(
        f"{counts[remark]:,} of {pairs:,} pairs {meaning}" for remark, meaning in means.items() if counts[remark]
    )
