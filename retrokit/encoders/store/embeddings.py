"""The embeddings of one encoder within the cache: pooled ones, and those of tokens."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from retrokit.data.images import content_of
from retrokit.encoders.store.database import EmbeddingCache

if TYPE_CHECKING:
    from retrokit.encoders.base import Batch, Item

SECONDS_AT_RISK = 1.0  # of encoding, which a kill may lose; a batch may take longer
SPREAD = 512  # rows copied at a time
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
        shown = {name: identity.get(name, "unknown") for name in ("fingerprint", "precision", "device", "dimension")}
        self._about = {"spec": spec, "kind": kind, **shown}

    def embed(self, items: Sequence[Item], role: str, encode: Callable[[list[Item]], Iterable[Batch]]) -> np.ndarray:
        """Pooled embeddings float32 ``[n, d]`` in the order of ``items``; what is not there is encoded, each item once,
        and kept as soon as it is made. ``encode`` gives batches of positions in what it was given, and their rows."""
        places = {item: number for number, item in enumerate(dict.fromkeys(items))}
        distinct = list(places)
        rows = np.empty((len(distinct), self._dimension), dtype=np.float32)
        is_there = np.zeros(len(distinct), dtype=bool)
        for there, contents in self._read(distinct, role):
            rows[there] = np.frombuffer(b"".join(contents), "<f4").reshape(-1, self._dimension)
            is_there[there] = True
        missing = np.flatnonzero(~is_there)
        if len(missing):
            waiting, saved_at = [], time.monotonic()
            for positions, embeddings in encode([distinct[number] for number in missing]):
                numbers = missing[positions]
                rows[numbers] = embeddings
                waiting.append(numbers)
                if time.monotonic() - saved_at >= SECONDS_AT_RISK:
                    self._add(distinct, role, waiting, rows)
                    waiting, saved_at = [], time.monotonic()
            self._add(distinct, role, waiting, rows)
        if len(distinct) == len(items):
            return rows
        return _spread(rows, np.fromiter((places[item] for item in items), dtype=np.int64, count=len(items)))

    def arrays(
        self, items: Sequence[Item], role: str, encode: Callable[[list[Item]], Sequence[np.ndarray]]
    ) -> list[np.ndarray]:
        """An array ``[?, d]`` an item, of the type of its kind: embeddings of tokens in half precision, chunks, whether
        it is cut. What is not there is made, each item once, and kept."""
        distinct, dtype = list(dict.fromkeys(items)), _TYPE[self._kind]
        by_item = {
            distinct[number]: np.frombuffer(content, dtype).reshape(-1, self._dimension)
            for numbers, contents in self._read(distinct, role)
            for number, content in zip(numbers, contents, strict=True)
        }
        missing = [item for item in distinct if item not in by_item]
        if missing:
            by_item |= dict(zip(missing, (array.astype(dtype) for array in encode(missing)), strict=True))
            self._keep([(item, by_item[item]) for item in missing], role)
        return [by_item[item] for item in items]

    def _read(self, items: Sequence[Item], role: str) -> Iterator[tuple[list[int], list[bytes]]]:
        """The positions and the contents of those that are there, many at a time."""
        for start in range(0, len(items), _GROUP[self._kind]):
            keys = [_item_key(item, role) for item in items[start : start + _GROUP[self._kind]]]
            contents = self._cache.read(self._key, self._about, keys)
            there = [i for i, key in enumerate(keys) if key in contents]
            yield [start + i for i in there], [contents[keys[i]] for i in there]

    def _add(self, items: Sequence[Item], role: str, waiting: Sequence[np.ndarray], rows: np.ndarray) -> None:
        """Keep what was made, but for what is not finite: that is an error, which the encoder reports."""
        numbers = np.concatenate([*waiting, np.empty(0, dtype=np.int64)])
        finite = numbers[np.isfinite(rows[numbers]).all(axis=1)]
        self._keep([(items[number], rows[number]) for number in finite], role)

    def _keep(self, embeddings: Sequence[tuple[Item, np.ndarray]], role: str) -> None:
        if embeddings:
            rows = [
                (_item_key(item, role), embedding.astype(embedding.dtype.newbyteorder("<"), copy=False).tobytes())
                for item, embedding in embeddings
            ]
            self._cache.add(self._key, self._about, rows)


def _item_key(item: Item, role: str) -> bytes:
    """The digest of an item in its role. Roles share nothing: a model may treat them differently in any way."""
    return hashlib.blake2b(content_of(item), digest_size=16, person=role.encode()).digest()


def _spread(rows: np.ndarray, places: np.ndarray) -> np.ndarray:
    """``rows[places]``, in the memory of ``rows``, which is spent. ``places[i]`` is at most i."""
    rows.resize((len(places), rows.shape[1]), refcheck=False)
    for stop in range(len(places), 0, -SPREAD):  # from the end, so that no row is overwritten before it is read
        part = slice(max(0, stop - SPREAD), stop)
        rows[part] = rows[places[part]]
    return rows
