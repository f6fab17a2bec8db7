"""Token embeddings of unit length, and those of them that are kept in the embedding cache, in half precision."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from retrokit.encoders.base import TokenEncoder
from retrokit.encoders.store.database import EmbeddingCache
from retrokit.encoders.store.embeddings import TOKENS, Store
from retrokit.similarities.base import Role

AT_ONCE = 2048  # texts encoded before they are written


def unit_tokens(encoder: TokenEncoder, texts: Sequence[str], role: Role, precision: str) -> list[np.ndarray]:
    """The embeddings of the tokens of each text, float32 ``[t, d]`` of unit length, special tokens left out."""
    embeddings = encoder.token_embeddings(texts, role, precision)
    return [tokens / np.maximum(np.linalg.norm(tokens, axis=1, keepdims=True), 1e-12) for tokens in embeddings]


class TokenCache:
    """Unit token embeddings of an encoder's texts, kept in ``cache`` under the encoder's identity."""

    def __init__(self, cache: EmbeddingCache, encoder: TokenEncoder, precision: str) -> None:
        self.encoder = encoder
        self.precision = precision
        identity = encoder.identity(precision)
        about = None if identity is None else {**identity, "dimension": encoder.token_dimension, "length": "unit"}
        self._store = None if about is None else Store(cache, about, encoder.spec, TOKENS)

    def tokens(self, texts: Sequence[str], role: Role) -> list[np.ndarray]:
        """The token embeddings of each text, float16 ``[t, d]``; those that were not kept are made and kept."""

        def make(missing: Sequence[str]) -> list[np.ndarray]:
            embeddings = unit_tokens(self.encoder, missing, role, self.precision)
            return [tokens.astype(np.float16) for tokens in embeddings]

        if self._store is None:  # the code cannot be told
            return make(texts)
        # where a text is the same in both roles, it is kept once
        return self._store.arrays(texts, role if self.encoder.tells_roles_apart else "document", make)

    def fill(self, texts: Sequence[str], role: Role) -> None:
        """Make and keep the token embeddings of all texts, without holding more than a part of them."""
        for start in range(0, len(texts), AT_ONCE):
            self.tokens(texts[start : start + AT_ONCE], role)
