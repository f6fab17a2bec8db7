"""Documents in chunks: an encoder that reads all of a text which is longer than it takes.

``chunks=256,overlap=32`` on an encoder cuts documents by tokens of its own tokenizer; ``pool`` joins the chunks.
``max`` keeps them apart: a document's score is its best chunk's under any similarity (MaxP; Dai and Callan, SIGIR
2019). ``mean`` makes the mean of their raw embeddings the document's. Queries are not cut into chunks.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from retrokit.core.errors import UsageError
from retrokit.data.prompted import Prompted
from retrokit.encoders.base import Chunked, Encoder, Item, LayeredEncoder, TokenEncoder, TrainableEncoder
from retrokit.encoders.views import EncoderView
from retrokit.similarities.base import Role

Search = Callable[[np.ndarray, int], Sequence[tuple[np.ndarray, np.ndarray]]]
"""The best rows for embedded queries ``[n, d]``, at most the given number: scores and rows of each, best first."""


_NO_USE = "{}: chunks join embeddings of whole documents, and {} have no use for them"


class ChunkedEncoder(EncoderView, Chunked):
    """An encoder that takes documents in chunks of ``size`` tokens, each of which shares ``overlap`` with the one
    before. Raises :class:`UsageError` for sizes that do not fit."""

    def __init__(self, encoder: Encoder, spec: str, size: int, overlap: int, pool: str) -> None:
        super().__init__(encoder)
        encoder.spans([""], size, overlap)  # of a text, so that what is known to fit needs no model
        self.spec = spec
        self.encoder = encoder
        self._size, self._overlap, self._pool = size, overlap, pool

    def split(self, items: Sequence[Item]) -> tuple[list[Item], np.ndarray]:
        chunks: list[Item] = []
        spans_of_items = self.encoder.spans(items, self._size, self._overlap)
        for item, spans in zip(items, spans_of_items, strict=True):
            if len(spans) == 1:
                chunks.append(item)
                continue
            for start, end in spans.tolist():
                chunks.append(item.part(start, end) if isinstance(item, Prompted) else item[start:end])
        return chunks, np.array([len(spans) for spans in spans_of_items], dtype=np.int64)

    def in_chunks(self) -> Chunked | None:
        return self if self._pool == "max" else None

    def embed(self, items: Sequence[Item], role: Role, precision: str = "auto") -> np.ndarray:
        if role == "query":
            return self.encoder.embed(items, role, precision)
        if self._pool == "max":
            raise UsageError(
                f"{self.spec}: a text has an embedding for each chunk, and here it needs one: take pool=mean"
            )
        chunks, counts = self.split(items)
        embeddings = self.encoder.embed(chunks, role, precision)
        if len(chunks) == len(items):
            return embeddings
        sums = np.add.reduceat(embeddings, starts_of(counts), axis=0, dtype=np.float64)
        return (sums / counts[:, None]).astype(np.float32)

    def cut(self, items: Sequence[Item], role: Role) -> np.ndarray | None:
        """Of a document, a chunk that is."""
        if role == "query" or not len(items):
            return self.encoder.cut(items, role)
        chunks, counts = self.split(items)
        is_cut = self.encoder.cut(chunks, role)
        return None if is_cut is None else np.logical_or.reduceat(is_cut, starts_of(counts))

    def fingerprint(self) -> str:
        return f"{self.encoder.fingerprint()} chunks={self._size},overlap={self._overlap},pool={self._pool}"

    def with_tokens(self) -> TokenEncoder:
        raise UsageError(_NO_USE.format(self.spec, "token embeddings"))

    def with_layers(self) -> LayeredEncoder:
        raise UsageError(_NO_USE.format(self.spec, "layers"))

    def to_train(self) -> TrainableEncoder:
        raise UsageError(_NO_USE.format(self.spec, "training"))


def starts_of(counts: np.ndarray) -> np.ndarray:
    """Where each document's chunks begin, int64 ``[n]``, given how many it has.

    >>> starts_of(np.array([2, 1, 3])).tolist()
    [0, 2, 3]
    """
    starts: np.ndarray = np.cumsum(counts) - counts
    return starts


def best_chunks(search: Search, queries: np.ndarray, k: int, owner: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The ``k`` best documents of each query by their best chunk, of equal ones the lower first; ``owner[i]``, which
    does not decrease, is the document of chunk i.

    The search goes deep enough that its chunks belong to ``k`` documents. A chunk further down cannot be the best of
    one of them. So the result is exact if ``search`` is.
    """
    if not len(owner):
        return list(search(queries, k))
    count = int(owner[-1]) + 1
    k, depth = min(k, count), min(len(owner), -(-k * len(owner) // count))
    results: list[Any] = [None] * len(queries)
    unfinished = np.arange(len(queries))
    while True:
        for query, (scores, rows) in zip(unfinished.tolist(), search(queries[unfinished], depth), strict=True):
            _, ranks = np.unique(owner[rows], return_index=True)
            best = np.sort(ranks)[:k]
            results[query] = scores[best], owner[rows[best]]
        unfinished = np.array([query for query in unfinished.tolist() if len(results[query][0]) < k], dtype=np.int64)
        if depth == len(owner) or not len(unfinished):
            return results
        depth = min(len(owner), 4 * depth)


def chunked(encoder: Encoder, spec: str, chunks: int | None, overlap: int, pool: str) -> Encoder:
    """The encoder that takes documents in chunks; itself without ``chunks``."""
    if chunks is None:
        if overlap or pool != "max":
            raise UsageError(f"{spec}: overlap and pool are about chunks, of which there are none: give chunks=N too")
        return encoder
    return ChunkedEncoder(encoder, spec, chunks, overlap, pool)
