"""What all rerankers share: a list of documents is scored as pairs, and what was given and what came out is checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from retrokit.errors import DataError, UsageError


class Reranker(ABC):
    """Scores queries with documents, float32, higher is better.

    Attributes:
        spec: the canonical spec it was made from.
    """

    spec: str

    def score(self, query: str, documents: Sequence[str]) -> np.ndarray:
        """Scores float32 ``[n]`` of one query with each of ``n`` documents, in their order; raises as
        :meth:`score_pairs` does."""
        return self.score_pairs([query] * len(documents), documents)

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


def check_counts(queries: Sequence[str], documents: Sequence[str]) -> None:
    """Raise :class:`UsageError` unless there are as many queries as documents."""
    if len(queries) != len(documents):
        raise UsageError(f"pairs need as many queries as documents: {len(queries)} and {len(documents)}")


def check_finite(scores: np.ndarray, spec: str) -> None:
    """Raise :class:`DataError` if a score ``[n]`` of the reranker ``spec`` is not finite."""
    bad = np.flatnonzero(~np.isfinite(scores))
    if len(bad):
        raise DataError(spec, f"{len(bad)} of {len(scores)} scores are not finite, the first of pair {bad[0] + 1}")
