"""An encoder whose embeddings are kept on disk and read from there the next time (:mod:`retrokit.encoders.store`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from retrokit.encoders.base import Encoder, Item, LayeredEncoder, check_finite
from retrokit.encoders.store import open_cache
from retrokit.encoders.store.database import EmbeddingCache
from retrokit.encoders.store.embeddings import CHUNKS, CUT, Store
from retrokit.encoders.views import EncoderView
from retrokit.similarities.base import Role

if TYPE_CHECKING:
    from torch import Tensor

_UNKNOWN = -1  # of a text, whether it is cut


def cached(encoder: Encoder) -> Encoder:
    """The encoder over the user's embedding cache; itself if that is turned off."""
    cache = open_cache()
    return encoder if cache is None else CachedEncoder(encoder, cache)


class CachedEncoder(EncoderView, LayeredEncoder):
    """Keeps embeddings under the encoder's identity. A model that is changed in memory has another one; one whose code
    cannot be told has none, and nothing of it is kept."""

    def __init__(self, encoder: Encoder, cache: EmbeddingCache) -> None:
        super().__init__(encoder)
        self._cache = cache
        self._settled: dict[str, Any] | None = None

    def settle(self) -> None:
        self._settled = {}

    def identity(self, precision: str = "auto") -> dict[str, Any] | None:
        if self._settled is None:
            return self._encoder.identity(precision)
        if precision not in self._settled:
            self._settled[precision] = self._encoder.identity(precision)
        return self._settled[precision]

    def embed(self, items: Sequence[Item], role: Role, precision: str = "auto") -> np.ndarray:
        is_question = self._settled is not None and len(items) == 1  # one by one, sooner computed than kept
        identity = self.identity(precision) if len(items) and not is_question else None
        if identity is None:
            return self._encoder.embed(items, role, precision)
        store = Store(self._cache, identity, self.spec)
        embeddings = store.embed(items, role, lambda missing: self._encoder.batches(missing, role, precision))
        check_finite(embeddings, self.spec)
        return embeddings

    def cut(self, items: Sequence[Item], role: Role) -> np.ndarray | None:
        def make(missing: list[Item]) -> list[np.ndarray]:
            is_cut = self._encoder.cut(missing, role)
            return list(np.full((len(missing), 1, 1), _UNKNOWN) if is_cut is None else is_cut.reshape(-1, 1, 1))

        identity = self.identity() if self.max_length(role) is not None else None
        if identity is None:
            return self._encoder.cut(items, role)
        arrays = Store(self._cache, {**identity, "dimension": 1}, self.spec, CUT).arrays(items, role, make)
        flags = np.array([int(array[0, 0]) for array in arrays], dtype=np.int8)
        return None if (flags == _UNKNOWN).any() else flags.astype(bool)

    def spans(self, texts: Sequence[Item], size: int, overlap: int) -> list[np.ndarray]:
        identity = self.identity()
        if identity is None:
            return self._encoder.spans(texts, size, overlap)
        store = Store(self._cache, {**identity, "dimension": 2, "chunks": [size, overlap]}, self.spec, CHUNKS)
        return store.arrays(texts, "document", lambda missing: self._encoder.spans(missing, size, overlap))

    def with_layers(self) -> LayeredEncoder:
        self._encoder.with_layers()
        return self

    def every_layer(self) -> tuple[Encoder, list[int]]:
        whole, widths = self._encoder.with_layers().every_layer()
        return CachedEncoder(whole, self._cache), widths

    def layer_weights(self) -> list[dict[str, Tensor]]:
        return self._encoder.with_layers().layer_weights()
