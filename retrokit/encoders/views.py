"""Views of an encoder: cached in memory, some of its dimensions, each of its layers.

A view is an encoder like any other, so that every task can measure it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

from retrokit.core.notices import notice
from retrokit.encoders.base import Chunked, Encoder, Item, LayeredEncoder, TokenEncoder, TrainableEncoder
from retrokit.encoders.inputs import inputs_to_show
from retrokit.similarities.base import Role, Similarity

if TYPE_CHECKING:
    import torch


class EncoderView(Encoder):
    """Passes everything on to the encoder that it lays itself over; a view gives what is different."""

    def __init__(self, encoder: Encoder) -> None:
        self.spec, self.label = encoder.spec, encoder.label
        self.similarity = encoder.similarity
        self.had_normalize = encoder.had_normalize
        self._encoder = encoder

    def computing(self) -> Encoder:
        """What computes."""
        return self._encoder

    @property
    def dimension(self) -> int:
        return self._encoder.dimension

    @property
    def device(self) -> torch.device:
        return self._encoder.device

    @property
    def prompts(self) -> Mapping[str, str | None]:
        return self._encoder.prompts

    @property
    def task_prompts(self) -> Mapping[str, str]:
        return self._encoder.task_prompts

    def max_length(self, role: Role) -> int | None:
        return self._encoder.max_length(role)

    def computes_in(self, precision: str = "auto") -> str:
        return self._encoder.computes_in(precision)

    def fingerprint(self) -> str:
        return self._encoder.fingerprint()

    def document_fingerprint(self) -> str:
        if type(self).fingerprint is not EncoderView.fingerprint:
            return self.fingerprint()
        return self._encoder.document_fingerprint()

    def code(self) -> Mapping[str, str] | None:
        return self._encoder.code()

    def embed(self, items: Sequence[Item], role: Role, precision: str = "auto") -> np.ndarray:
        return self.computing().embed(items, role, precision)

    def cut(self, items: Sequence[Item], role: Role) -> np.ndarray | None:
        return self.computing().cut(items, role)

    def reads(self, item: Item, role: Role) -> str:
        return self.computing().reads(item, role)

    def spans(self, texts: Sequence[Item], size: int, overlap: int) -> list[np.ndarray]:
        return self.computing().spans(texts, size, overlap)

    def settle(self) -> None:
        self._encoder.settle()

    def in_chunks(self) -> Chunked | None:
        return self._encoder.in_chunks()

    def use_with(self, similarity: Similarity, dims: int | None = None) -> None:
        self._encoder.use_with(similarity, dims or self.dimension)

    def with_tokens(self) -> TokenEncoder:
        return self.computing().with_tokens()

    def with_layers(self) -> LayeredEncoder:
        return self.computing().with_layers()

    def to_train(self) -> TrainableEncoder:
        return self.computing().to_train()


class MemoizedEncoder(EncoderView):
    """Keeps the embedding of every item it was given, in memory (float32): for work that asks for the same items again
    and again, with or without the embedding cache."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(encoder)
        self._known: dict[tuple[Role, str], tuple[dict[Item, int], np.ndarray]] = {}
        self._fingerprint: str | None = None

    def embed(self, items: Sequence[Item], role: Role, precision: str = "auto") -> np.ndarray:
        """Only new items are embedded. The array may be the cached one, so leave it as it is."""
        rows, embeddings = self._known.get((role, precision), (dict[Item, int](), np.empty((0, self.dimension), "f4")))
        new = [item for item in dict.fromkeys(items) if item not in rows]
        if new:
            new_rows = self._encoder.embed(new, role, precision)
            embeddings = np.concatenate([embeddings, new_rows]) if len(embeddings) else new_rows
            rows |= {item: len(rows) + i for i, item in enumerate(new)}
            self._known[role, precision] = rows, embeddings
        positions = np.fromiter((rows[item] for item in items), dtype=np.int64, count=len(items))
        if np.array_equal(positions, np.arange(len(positions))):
            return embeddings[: len(positions)]  # a view, not a copy
        return embeddings[positions]

    def forget(self) -> None:
        """Drop all cached embeddings."""
        self._known.clear()

    def fingerprint(self) -> str:
        if self._fingerprint is None:
            self._fingerprint = self._encoder.fingerprint()
        return self._fingerprint


class ShownEncoder(EncoderView):
    """Reports the first items of each role as the model reads them, within ``showing_inputs``."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(encoder)
        self._reported: Counter[Role] = Counter()

    def embed(self, items: Sequence[Item], role: Role, precision: str = "auto") -> np.ndarray:
        for item in items[: max(0, inputs_to_show.get() - self._reported[role])]:
            self._reported[role] += 1
            notice(f"{self.spec}, {role} {self._reported[role]}: {self.reads(item, role)}")
        return super().embed(items, role, precision)


class EncoderSlice(EncoderView):
    """The dimensions from ``start`` up to ``stop`` of another encoder's embeddings, called ``name`` in messages; or
    those that stand there once the dimensions are put into an ``order``."""

    def __init__(self, encoder: Encoder, start: int, stop: int, name: str, order: Sequence[int] | None = None) -> None:
        super().__init__(encoder)
        self.spec = f"{encoder.spec} {name}"
        self._dims = list(range(start, stop) if order is None else order[start:stop])
        self._columns = slice(start, stop) if order is None else self._dims

    @property
    def dimension(self) -> int:
        return len(self._dims)

    def embed(self, items: Sequence[Item], role: Role, precision: str = "auto") -> np.ndarray:
        return self._encoder.embed(items, role, precision)[:, self._columns]

    def fingerprint(self) -> str:
        return f"{self._encoder.fingerprint()}[{self._columns}]"

    with_tokens, with_layers, to_train = Encoder.with_tokens, Encoder.with_layers, Encoder.to_train


def layers(encoder: Encoder) -> list[Encoder]:
    """The encoder after each layer: at place k after layer k, 0 being the embedding layer; the last is itself.

    All layers' embeddings are cached in memory, float32 ``[n, (layers + 1) · d]``, and computed in one pass.
    """
    every_layer, widths = encoder.with_layers().every_layer()
    memoized = MemoizedEncoder(every_layer)
    bounds = pairwise(accumulate(widths, initial=0))
    return [EncoderSlice(memoized, start, stop, f"layer {k}") for k, (start, stop) in enumerate(bounds)]
