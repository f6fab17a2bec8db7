"""Encoders seen in part: some dimensions of another one's embeddings, however many parts, encoding each text once.

A part is an encoder like any other, so that every task can measure it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from retrokit.encoders.encoder import Encoder
from retrokit.similarities.base import Role, Similarity


class Kept(Encoder):
    """An encoder that keeps the embeddings of every list of texts it was given, in memory (float32), and hands out
    parts of itself."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(encoder.spec, encoder.model, encoder.similarity, encoder.had_normalize)
        self._encoder = encoder
        self._rows: dict[tuple[tuple[str, ...], Role, str], np.ndarray] = {}
        self._fingerprint: str | None = None

    @property
    def dimension(self) -> int:
        """Dimensions of an embedding."""
        return self._encoder.dimension

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self._encoder.device

    def embed(self, texts: Sequence[str], role: Role, precision: str = "auto") -> np.ndarray:
        """Raw embeddings, float32 ``[n, d]``; the same array at every call with the same texts, so leave it as it is.

        Raises:
            DataError: an embedding is not finite.
        """
        key = (tuple(texts), role, precision)
        if key not in self._rows:
            self._rows[key] = self._encoder.embed(texts, role, precision)
        return self._rows[key]

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
        super().__init__(f"{whole.spec} {name}", whole.model, whole.similarity, whole.had_normalize)
        self._whole = whole
        self._start = start
        self._stop = stop

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
        return self._whole.embed(texts, role, precision)[:, self._start : self._stop]

    def use_with(self, similarity: Similarity, dims: int | None = None) -> None:
        """Check that ``similarity`` fits the part."""
        self._whole.use_with(similarity, dims or self.dimension)

    def fingerprint(self) -> str:
        """The whole's, and which dimensions of it these are."""
        return f"{self._whole.fingerprint()}[{self._start}:{self._stop}]"
