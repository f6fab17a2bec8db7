"""An encoder whose embeddings are kept on disk and read from there the next time (:mod:`retrokit.encoders.store`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from retrokit.encoders.base import Encoder, Item, LayeredEncoder, check_finite
from retrokit.encoders.store import open_cache
from retrokit.encoders.store.database import EmbeddingCache
from retrokit.encoders.store.embeddings import Store
from retrokit.encoders.views import EncoderView
from retrokit.similarities.base import Role

if TYPE_CHECKING:
    from torch import Tensor


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

    def embed(self, items: Sequence[Item], role: Role, precision: str = "auto") -> np.ndarray:
        identity = self._encoder.identity(precision) if len(items) else None
        if identity is None:
            return self._encoder.embed(items, role, precision)
        store = Store(self._cache, identity, self.spec)
        made = store.embed(items, role, lambda missing: self._encoder.batches(missing, role, precision))
        check_finite(made, self.spec)
        return made

    def with_layers(self) -> LayeredEncoder:
        self._encoder.with_layers()
        return self

    def every_layer(self) -> tuple[Encoder, list[int]]:
        whole, widths = self._encoder.with_layers().every_layer()
        return CachedEncoder(whole, self._cache), widths

    def layer_weights(self) -> list[dict[str, Tensor]]:
        return self._encoder.with_layers().layer_weights()
