"""What a retriever without embeddings offers: it indexes documents, finds the best, and scores any text with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

OWN_SIMILARITY = "own"
"""What results say where the similarity of an encoder would stand."""


class Index(Protocol):
    """Documents that can be searched."""

    def search(self, queries: Sequence[str], k: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """At most ``k`` documents of each query: scores float32, best first, and positions int64 in the documents.

        Of equal scores the lower position comes first, at the cut as well. A document that has nothing in common with
        the query is not found.
        """

    def score_pairs(self, queries: Sequence[str], texts: Sequence[str]) -> np.ndarray:
        """Scores float32 ``[n]`` of query i with text i, on the scale of :meth:`search`; higher is better.

        A text need not be one of the documents; the statistics are theirs alone.
        """


class Retriever(Protocol):
    """A retriever that is no encoder."""

    spec: str

    def index(self, documents: Sequence[str]) -> Index:
        """Make documents searchable."""

    def fingerprint(self) -> str:
        """A digest of all that decides a score, but the documents."""
