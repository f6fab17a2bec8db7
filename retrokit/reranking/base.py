"""What all rerankers share: pairs and whole lists are scored, and what was given and what came out is checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from retrokit.errors import DataError, UsageError


class Scorer(Protocol):
    """A reranker. One that orders lists has an attribute ``listwise`` that is true, and a method ``score_lists`` as
    :func:`score_lists` is; :func:`score_lists` asks it for lists, and nothing asks it for pairs."""

    spec: str

    def score_pairs(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        """Scores float32 ``[n]`` of query i with document i; higher is better."""

    def fingerprint(self) -> str:
        """A digest of all that decides a score."""


def is_listwise(scorer: Scorer) -> bool:
    """Whether a score says nothing but the place in a list."""
    return bool(getattr(scorer, "listwise", False))


def score_lists(scorer: Scorer, queries: Sequence[str], lists: Sequence[Sequence[str]]) -> list[np.ndarray]:
    """For each query, scores float32 ``[n]`` with the documents of its list, which are in the first stage's order.

    What orders lists gets them as they are: where a list begins cannot be seen from pairs, as two queries may have one
    text.
    """
    if is_listwise(scorer):
        ordered: list[np.ndarray] = scorer.score_lists(queries, lists)  # type: ignore[attr-defined] # being listwise
        return ordered
    check_counts(queries, lists)
    if not lists:
        return []
    pairs = [(query, document) for query, documents in zip(queries, lists, strict=True) for document in documents]
    flat = scorer.score_pairs([query for query, _ in pairs], [document for _, document in pairs])
    return np.split(flat, np.cumsum([len(documents) for documents in lists])[:-1])


class Reranker(ABC):
    """Scores queries with documents, float32, higher is better.

    Attributes:
        spec: the canonical spec it was made from.
        computes_in: ``float32``, ``bfloat16`` or ``float16``; ``None`` where it cannot tell.
    """

    spec: str
    computes_in: str | None = None

    def score(self, query: str, documents: Sequence[str]) -> np.ndarray:
        """Scores float32 ``[n]`` of one query with each of ``n`` documents, in their order; raises as
        :meth:`score_pairs` does."""
        return score_lists(self, [query], [documents])[0]

    @abstractmethod
    def score_pairs(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        """Scores float32 ``[n]`` of query i with document i.

        Raises:
            UsageError: different counts.
            DataError: a score is not finite.
        """

    @abstractmethod
    def fingerprint(self) -> str:
        """A digest of all that decides a score."""


def check_counts(queries: Sequence[str], documents: Sequence[object]) -> None:
    """Raise :class:`UsageError` unless there are as many queries as documents, or as lists of them."""
    if len(queries) != len(documents):
        raise UsageError(f"there must be as many queries as documents: {len(queries)} and {len(documents)}")


def check_finite(scores: np.ndarray, spec: str) -> None:
    """Raise :class:`DataError` if a score ``[n]`` of the reranker ``spec`` is not finite."""
    bad = np.flatnonzero(~np.isfinite(scores))
    if len(bad):
        raise DataError(spec, f"{len(bad)} of {len(scores)} scores are not finite, the first of pair {bad[0] + 1}")
