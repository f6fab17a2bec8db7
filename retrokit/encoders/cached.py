"""An encoder over the embedding cache (:mod:`retrokit.encoders.store`), and what the cache has of one encoder."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from retrokit.data.images import content_of
from retrokit.data.prompted import Prompted
from retrokit.encoders.base import Batch, Encoder, Item, LayeredEncoder, check_finite
from retrokit.encoders.store import EmbeddingCache, open_cache
from retrokit.encoders.views import EncoderView
from retrokit.similarities.base import Role

if TYPE_CHECKING:
    from torch import Tensor

SECONDS_AT_RISK = 1.0  # of encoding, which a kill may lose; a batch may take longer
POOLED, TOKENS, CUT, CHUNKS = "pooled", "tokens", "cut", "chunks"
_GROUP = {POOLED: 16_384, TOKENS: 256, CUT: 16_384, CHUNKS: 16_384}  # items read at once
_TYPE = {TOKENS: "<f2", CUT: "i1", CHUNKS: "<i8"}


class Store:
    """What the cache keeps under an ``identity``, of one kind; ``spec`` is what the user calls their encoder."""

    def __init__(self, cache: EmbeddingCache, identity: Mapping[str, Any], spec: str, kind: str = POOLED) -> None:
        self._cache = cache
        self._kind = kind
        self._dimension = int(identity["dimension"])
        described = json.dumps({**identity, "kind": kind}, sort_keys=True).encode()
        self._key = hashlib.blake2b(described, digest_size=16).digest()
        self._about = {"spec": spec, "kind": kind}
        for name in ("fingerprint", "precision", "device", "dimension"):
            self._about[name] = identity.get(name, "unknown")

    def embed(self, items: Sequence[Item], role: str, encode: Callable[[list[Item]], Iterable[Batch]]) -> np.ndarray:
        """Pooled embeddings float32 ``[n, d]`` in the order of ``items``. Missing ones are encoded, each item once, and
        cached as soon as they are computed. ``encode`` gives batches of positions in its argument, and their rows."""
        first_rows: dict[Item, int] = {}
        for row, item in enumerate(items):
            first_rows.setdefault(item, row)
        distinct, distinct_rows = list(first_rows), np.array([*first_rows.values()], dtype=np.int64)
        embeddings = np.empty((len(items), self._dimension), dtype=np.float32)
        is_cached = np.zeros(len(distinct), dtype=bool)
        for positions, contents in self._read(distinct, role):
            cached_rows = distinct_rows[positions]
            embeddings[cached_rows] = np.frombuffer(b"".join(contents), "<f4").reshape(-1, self._dimension)
            is_cached[positions] = True
        missing = distinct_rows[~is_cached]
        if len(missing):
            self._encode_missing(items, role, encode, missing, embeddings)
        if len(distinct) < len(items):
            repeated = [row for row, item in enumerate(items) if first_rows[item] != row]
            embeddings[repeated] = embeddings[[first_rows[items[row]] for row in repeated]]
        return embeddings

    def _encode_missing(
        self,
        items: Sequence[Item],
        role: str,
        encode: Callable[[list[Item]], Iterable[Batch]],
        missing: np.ndarray,
        embeddings: np.ndarray,
    ) -> None:
        """Encode the items at ``missing``, int64 ``[n]``, into their rows of ``embeddings``, and cache them."""
        unsaved: list[np.ndarray] = []
        saved_at = time.monotonic()
        for positions, batch in encode([items[row] for row in missing]):
            rows = missing[positions]
            embeddings[rows] = batch
            unsaved.append(rows)
            if time.monotonic() - saved_at >= SECONDS_AT_RISK:
                self._add(items, role, unsaved, embeddings)
                unsaved = []
                saved_at = time.monotonic()
        self._add(items, role, unsaved, embeddings)

    def arrays(
        self, items: Sequence[Item], role: str, encode: Callable[[list[Item]], Sequence[np.ndarray]]
    ) -> list[np.ndarray]:
        """An array ``[?, d]`` per item, of the type of its kind: embeddings of tokens in half precision, chunks,
        whether it is cut. Missing ones are computed, each item once, and cached."""
        distinct, dtype = list(dict.fromkeys(items)), _TYPE[self._kind]
        by_item: dict[Item, np.ndarray] = {}
        for positions, contents in self._read(distinct, role):
            for position, content in zip(positions, contents, strict=True):
                by_item[distinct[position]] = np.frombuffer(content, dtype).reshape(-1, self._dimension)
        missing = [item for item in distinct if item not in by_item]
        if missing:
            for item, array in zip(missing, encode(missing), strict=True):
                by_item[item] = array.astype(dtype)
            self._keep([(item, by_item[item]) for item in missing], role)
        return [by_item[item] for item in items]

    def _read(self, items: Sequence[Item], role: str) -> Iterator[tuple[list[int], list[bytes]]]:
        """The positions and the contents of those that are there, many at a time."""
        for start in range(0, len(items), _GROUP[self._kind]):
            keys = [_item_key(item, role) for item in items[start : start + _GROUP[self._kind]]]
            contents = self._cache.read(self._key, self._about, keys)
            positions = [position for position, key in enumerate(keys) if key in contents]
            yield [start + position for position in positions], [contents[keys[position]] for position in positions]

    def _add(self, items: Sequence[Item], role: str, unsaved: Sequence[np.ndarray], embeddings: np.ndarray) -> None:
        """Cache those of the ``unsaved`` rows that are finite. Others are an error, which the encoder reports."""
        rows = np.concatenate([*unsaved, np.empty(0, dtype=np.int64)])
        finite = rows[np.isfinite(embeddings[rows]).all(axis=1)]
        self._keep([(items[row], embeddings[row]) for row in finite], role)

    def _keep(self, embeddings: Sequence[tuple[Item, np.ndarray]], role: str) -> None:
        rows = []
        for item, embedding in embeddings:
            little_endian = embedding.dtype.newbyteorder("<")
            rows.append((_item_key(item, role), embedding.astype(little_endian, copy=False).tobytes()))
        if rows:
            self._cache.add(self._key, self._about, rows)


def _item_key(item: Item, role: str) -> bytes:
    """The digest of an item in its role. Roles share nothing: a model may treat them differently in any way."""
    return hashlib.blake2b(content_of(item), digest_size=16, person=role.encode()).digest()


_UNKNOWN = -1  # of a text, whether it is cut


def cached(encoder: Encoder) -> Encoder:
    """The encoder over the user's embedding cache; itself if that is turned off."""
    cache = open_cache()
    return encoder if cache is None else CachedEncoder(encoder, cache)


class CachedEncoder(EncoderView, LayeredEncoder):
    """Caches embeddings under the encoder's identity. A model that is changed in memory has another one. A model whose
    code cannot be determined has none, and nothing of it is cached."""

    def __init__(self, encoder: Encoder, cache: EmbeddingCache) -> None:
        super().__init__(encoder)
        self._cache = cache
        self._settled_identities: dict[str, Any] | None = None

    def settle(self) -> None:
        self._settled_identities = {}

    def identity(self, precision: str = "auto") -> dict[str, Any] | None:
        identities = self._settled_identities
        if identities is None:
            return self._encoder.identity(precision)
        if precision not in identities:
            identities[precision] = self._encoder.identity(precision)
        return identities[precision]

    def _identity_for(self, items: Sequence[Item], role: Role, precision: str = "auto") -> dict[str, Any] | None:
        """The identity in a role, with what the task of ``items`` puts before their texts unless they contain it."""
        identity = self.identity(precision)
        if identity is None:
            return None
        if role == "document":  # encoders that differ in queries share documents
            identity = {**identity, "fingerprint": self.document_fingerprint()}
        first = items[0] if len(items) else None
        if isinstance(first, Prompted):
            prompt = self._encoder.prompt_of(items, role)
            if prompt != (first.prefix or self.prompts[role]):
                identity = {**identity, "prompt": prompt}
        return identity

    def embed(self, items: Sequence[Item], role: Role, precision: str = "auto") -> np.ndarray:
        is_settled = self._settled_identities is not None
        is_cheap = not len(items) or (is_settled and len(items) == 1)  # one query is cheaper to encode than to store
        identity = None if is_cheap else self._identity_for(items, role, precision)
        if identity is None:
            return self._encoder.embed(items, role, precision)
        store = Store(self._cache, identity, self.spec)
        embeddings = store.embed(items, role, lambda missing: self._encoder.batches(missing, role, precision))
        check_finite(embeddings, self.spec)
        return embeddings

    def cut(self, items: Sequence[Item], role: Role) -> np.ndarray | None:
        def make(missing: list[Item]) -> list[np.ndarray]:
            is_cut = self._encoder.cut(missing, role)
            if is_cut is None:
                is_cut = np.full(len(missing), _UNKNOWN)
            return list(is_cut.reshape(-1, 1, 1))

        if self.max_length(role) is None:
            return Encoder.cut(self, items, role)
        identity = self._identity_for(items, role)
        if identity is None:
            return self._encoder.cut(items, role)
        arrays = Store(self._cache, {**identity, "dimension": 1}, self.spec, CUT).arrays(items, role, make)
        flags = np.array([int(array[0, 0]) for array in arrays], dtype=np.int8)
        return None if (flags == _UNKNOWN).any() else flags.astype(bool)

    def spans(self, texts: Sequence[Item], size: int, overlap: int) -> list[np.ndarray]:
        identity = self._identity_for(texts, "document")
        if identity is None:
            return self._encoder.spans(texts, size, overlap)
        store = Store(self._cache, {**identity, "dimension": 2, "chunks": [size, overlap]}, self.spec, CHUNKS)
        return store.arrays(texts, "document", lambda missing: self._encoder.spans(missing, size, overlap))

    def with_layers(self) -> LayeredEncoder:
        self._encoder.with_layers()
        return self

    def every_layer(self) -> tuple[Encoder, list[int]]:
        all_layers, widths = self._encoder.with_layers().every_layer()
        return CachedEncoder(all_layers, self._cache), widths

    def layer_weights(self) -> list[dict[str, Tensor]]:
        return self._encoder.with_layers().layer_weights()
