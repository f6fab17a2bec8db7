"""Encoders seen in part: some dimensions of another one's embeddings, however many parts, encoding each text once.

A part is an encoder like any other, so that every task can measure it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from retrokit.encoders.encoder import Encoder
from retrokit.similarities.base import Role, Similarity

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


class Kept(Encoder):
    """An encoder that keeps the embedding of every text it was given, in memory (float32), and hands out parts of
    itself. For work that asks for the same texts again and again: it does without the disk."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(encoder.spec, encoder.traits, encoder.similarity, encoder.had_normalize, cached=False)
        self._encoder = encoder
        self._known: dict[tuple[Role, str], tuple[dict[str, int], np.ndarray]] = {}
        self._fingerprint: str | None = None

    def to_compute(self) -> SentenceTransformer:
        """The encoder's model."""
        return self._encoder.to_compute()

    @property
    def dimension(self) -> int:
        """Dimensions of an embedding."""
        return self._encoder.dimension

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self._encoder.device

    def key(self, precision: str = "auto") -> str:
        """The encoder's, which computes what is kept."""
        return self._encoder.key(precision)

    def embed(self, texts: Sequence[str], role: Role, precision: str = "auto") -> np.ndarray:
        """Raw embeddings, float32 ``[n, d]``, in the order of ``texts``; only new texts are encoded.

        The array may be the one that is kept, so leave it as it is.

        Raises:
            DataError: an embedding is not finite.
        """
        return self.columns(texts, role, precision, 0, self.dimension)

    def columns(self, texts: Sequence[str], role: Role, precision: str, start: int, stop: int) -> np.ndarray:
        """The dimensions from ``start`` up to ``stop`` of the embeddings, float32 ``[n, stop − start]``.

        Raises:
            DataError: an embedding is not finite.
        """
        rows, embeddings = self._known.get((role, precision), (dict[str, int](), np.empty((0, self.dimension), "f4")))
        new = [text for text in dict.fromkeys(texts) if text not in rows]
        if new:
            made = self._encoder.embed(new, role, precision)
            embeddings = np.concatenate([embeddings, made]) if len(embeddings) else made
            rows |= {text: len(rows) + i for i, text in enumerate(new)}
            self._known[role, precision] = rows, embeddings
        wanted = np.fromiter((rows[text] for text in texts), dtype=np.int64, count=len(texts))
        part = embeddings[:, start:stop]
        return part if np.array_equal(wanted, np.arange(len(part))) else part[wanted]

    def forget(self) -> None:
        """Drop all that is kept."""
        self._known.clear()

    def use_with(self, similarity: Similarity, dims: int | None = None) -> None:
        """Check that ``similarity`` fits, as the encoder itself does."""
        self._encoder.use_with(similarity, dims)

    def fingerprint(self) -> str:
        """The encoder's own, computed once."""
        if self._fingerprint is None:
            self._fingerprint = self._encoder.fingerprint()
        return self._fingerprint

    def part(self, start: int, stop: int, name: str) -> Part:
        """The encoder of the dimensions from ``start`` up to ``stop``, called ``name`` in messages."""
        return Part(self, start, stop, name)


class Part(Encoder):
    """An encoder whose embeddings are the dimensions from ``start`` up to ``stop`` of another one's."""

    def __init__(self, whole: Kept, start: int, stop: int, name: str) -> None:
        super().__init__(f"{whole.spec} {name}", whole.traits, whole.similarity, whole.had_normalize, cached=False)
        self._whole = whole
        self._start = start
        self._stop = stop

    def to_compute(self) -> SentenceTransformer:
        """The whole's model."""
        return self._whole.to_compute()

    @property
    def dimension(self) -> int:
        """Dimensions of the part."""
        return self._stop - self._start

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self._whole.device

    def embed(self, texts: Sequence[str], role: Role, precision: str = "auto") -> np.ndarray:
        """Raw embeddings of the part, float32 ``[n, stop − start]``, encoded once for all parts.

        Raises:
            DataError: an embedding is not finite.
        """
        return self._whole.columns(texts, role, precision, self._start, self._stop)

    def use_with(self, similarity: Similarity, dims: int | None = None) -> None:
        """Check that ``similarity`` fits the part."""
        self._whole.use_with(similarity, dims or self.dimension)

    def fingerprint(self) -> str:
        """The whole's, and which dimensions of it these are."""
        return f"{self._whole.fingerprint()}[{self._start}:{self._stop}]"
