"""The contract of an encoder: items in, raw embeddings out.

An *item* is what an encoder takes: a text, or an image (:class:`~retrokit.data.images.Image`). A backend computes
embeddings (:mod:`retrokit.encoders.torch_encoder` is one). A view wraps an encoder and is one itself
(:mod:`retrokit.encoders.views`, and :class:`~retrokit.encoders.cached.CachedEncoder`). Optional abilities are requested
with :meth:`Encoder.with_tokens`, :meth:`Encoder.with_layers` and :meth:`Encoder.to_train`, which raise a one-line error
if the encoder lacks them.

A backend subclasses :class:`Encoder`, and gives ``dimension``, ``device``, ``computes_in``, ``fingerprint`` and
``embed``; everything else follows from these, or has a default.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import numpy as np

from retrokit import similarities
from retrokit.core.errors import DataError, UsageError
from retrokit.core.notices import notice
from retrokit.data.images import Image
from retrokit.data.jsonl import digest_of_json
from retrokit.data.prompted import Prompted, texts_of
from retrokit.encoders.fingerprint import code_of
from retrokit.encoders.prompts import template_of
from retrokit.similarities.base import Role, Similarity

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer
    from torch import Tensor

Item = str
"""What an encoder takes: a text, or an :class:`~retrokit.data.images.Image`, which prints as its path. An encoder
that takes only texts rejects images with :func:`~retrokit.data.images.check_texts`."""

TOKEN = 5
"""Characters of a usual token and the space before it."""

Batch = tuple[np.ndarray, np.ndarray]
"""Positions int64 ``[b]`` in a list of items, and their embeddings float32 ``[b, d]``."""


class Encoder(Protocol):
    """Embeds items. Embeddings are raw: to normalise them is the similarity's work.

    Attributes:
        spec: the canonical spec it was created from; its name in messages.
        label: the name that the spec gives it; empty: none.
        similarity: what it scores with by default.
        had_normalize: whether a Normalize layer at its end was taken off.
    """

    spec: str
    label: str = ""
    similarity: Similarity
    had_normalize: bool = False
    _announced: bool = False

    @property
    def name(self) -> str:
        """Its name in results."""
        return self.label or self.spec

    @property
    def dimension(self) -> int:
        """Dimensions of an embedding."""

    @property
    def device(self) -> torch.device:
        """Where it computes."""

    @property
    def prompts(self) -> Mapping[str, str | None]:
        """The text put before every query and every document, by role."""
        return {"query": None, "document": None}

    @property
    def task_prompts(self) -> Mapping[str, str]:
        """The prompts that it has for tasks of MTEB, or types of them, by name."""
        return {}

    def prompt_of(self, items: Sequence[Item], role: Role) -> str | None:
        """What is put before the texts of ``items``, all or none of which bring the instruction of one task."""
        first = items[0] if len(items) else None
        if not isinstance(first, Prompted):
            return self.prompts[role]
        return first.prompt(self.prompts[role], template_of(self.prompts), self.task_prompts)

    def max_length(self, role: Role) -> int | None:
        """Tokens of a text that count (special tokens and the prompt included); ``None``: all."""
        return None

    def computes_in(self, precision: str = "auto") -> str:
        """What ``precision`` (``fp32``, ``bf16``, ``fp16`` or ``auto``) means on its device, such as ``float32``.

        Raises:
            UsageError: no precision of that name.
        """

    def fingerprint(self) -> str:
        """A digest of all that decides an embedding: weights and their type, architecture, tokenizer, pooling, prompts
        and maximum lengths; never a name or a path. It follows a model that is changed in memory."""

    def document_fingerprint(self) -> str:
        """:meth:`fingerprint` of what embeds documents: the same for encoders that differ in the side or the prompt of
        queries."""
        return self.fingerprint()

    def code(self) -> Mapping[str, str] | None:
        """The key of the code that computes; ``None`` if it cannot be determined. By default the versions of the
        libraries and the source of the class. A backend that also computes elsewhere adds to it."""
        return code_of([type(self)])

    def identity(self, precision: str = "auto") -> dict[str, Any] | None:
        """All that decides the bits of an embedding here except the item: the fingerprint, the resolved precision, the
        kind of device, the libraries and the code. ``None`` if the code cannot be determined.

        Raises:
            UsageError: no precision of that name.
        """
        code = self.code()
        if code is None:
            return None
        return {
            "fingerprint": self.fingerprint(),
            "precision": self.computes_in(precision),
            "device": self.device.type,
            "dimension": self.dimension,
            "code": dict(code),
        }

    def key(self, precision: str = "auto") -> str:
        """The digest of :meth:`identity`, under which every cache stores the encoder's results. If the code cannot be
        determined, no two calls agree, so no cached result is reused."""
        decided_by = self.identity(precision) or {"unknown": uuid4().hex}
        return digest_of_json(decided_by)

    def embed(self, items: Sequence[Item], role: Role, precision: str = "auto") -> np.ndarray:
        """Raw embeddings, float32 ``[n, d]``, in the order of ``items``, any number of them. The array may be shared
        with other callers, so leave it as it is.

        Args:
            items: what to embed.
            role: which prompt and maximum length apply.
            precision: ``fp32``, ``bf16``, ``fp16``, or ``auto``: bf16 where the device computes faster in it.

        Raises:
            DataError: an embedding is not finite (see :func:`check_finite`).
            UsageError: no precision of that name.
        """

    def batches(self, items: Sequence[Item], role: Role, precision: str = "auto") -> Iterator[Batch]:
        """The embeddings as they are computed, so that each batch can be cached on its own. The items that an
        interruption leaves fall into the same batches again if no batch depends on another. Embeddings that are not
        finite are left to the caller."""
        yield np.arange(len(items)), self.embed(items, role, precision)

    def cut(self, items: Sequence[Item], role: Role) -> np.ndarray | None:
        """Which items have more tokens than count (:meth:`max_length`), bool ``[n]``; ``None``: this is unknown."""
        return np.zeros(len(items), dtype=bool) if self.max_length(role) is None else None

    def reads(self, item: Item, role: Role) -> str:
        """An item as it is read, for people: with its prompt, tokens and what is cut off, as far as they are known."""
        return f"tokens unknown: {self.prompt_of([item], role) or ''}{texts_of([item])[0]}"

    def spans(self, texts: Sequence[Item], size: int, overlap: int) -> list[np.ndarray]:
        """The chunks of each document, int64 ``[c, 2]``: from which character to which. They have ``size`` tokens at
        most, special tokens and the prompt included, and share about ``overlap`` with the one before; words stay whole.

        Raises:
            UsageError: chunks larger than a text may be, or no larger than their overlap; or it has no tokenizer that
                reports the positions of tokens.
        """
        raise UsageError(f"{self.spec} has no tokenizer here that chunks could be measured with")

    def in_chunks(self) -> Chunked | None:
        """How documents are cut, where each has several embeddings; ``None``: each has one."""
        return None

    def settle(self) -> None:
        """Nobody changes it from here on: what decides its embeddings need not be looked at again and again."""
        return

    def similarity_of(self, spec: str | None) -> Similarity:
        """The similarity of that spec; the encoder's own by default, and where it is the same, for it has learned
        something."""
        if spec is None:
            return self.similarity
        similarity: Similarity = similarities.registry.create(spec)
        return self.similarity if self.similarity.spec == similarity.spec else similarity

    def use_with(self, similarity: Similarity, dims: int | None = None) -> None:
        """Check that ``similarity`` fits, and say once if a Normalize layer had to go for it.

        ``dims`` is how many of the dimensions are in use; default: all.

        Raises:
            UsageError: the similarity does not fit.
        """
        similarity.check_fits(dims or self.dimension)
        if self.had_normalize and similarity.uses_magnitude and not self._announced:
            self._announced = True
            notice(f"{self.spec}: its Normalize layer is taken off, because {similarity.spec} needs magnitudes")

    def with_tokens(self) -> TokenEncoder:
        """The encoder, as one that embeds tokens; raises :class:`UsageError` if it does not."""
        raise UsageError(f"{self.spec} embeds whole texts, and no tokens")

    def with_layers(self) -> LayeredEncoder:
        """The encoder, as one with hidden layers; raises :class:`UsageError` if it has none."""
        raise UsageError(f"{self.spec} has no layers: it is not a transformer")

    def to_train(self) -> TrainableEncoder:
        """The encoder, as one that can be trained; raises :class:`UsageError` if it cannot."""
        raise UsageError(f"{self.spec} cannot be trained: it gives embeddings, and no model")


class Chunked(Protocol):
    """Documents as their chunks, each with an embedding of ``encoder``; the best one decides (MaxP; Dai and Callan,
    SIGIR 2019)."""

    encoder: Encoder

    def split(self, items: Sequence[Item]) -> tuple[list[Item], np.ndarray]:
        """The chunks, document after document, and how many each document has, int64 ``[n]``, at least 1."""
        ...


class TokenEncoder(Encoder, Protocol):
    """Embeds the tokens of its items too."""

    @property
    def token_dimension(self) -> int:
        """Dimensions of a token's embedding."""

    @property
    def tells_roles_apart(self) -> bool:
        """Whether the tokens of an item may differ between the roles."""

    @property
    def tokenizer(self) -> Any:
        """What cuts a text into tokens: of transformers, or of the package tokenizers."""

    def token_embeddings(self, items: Sequence[Item], role: Role, precision: str = "auto") -> list[np.ndarray]:
        """The embedding of every token, float32 ``[tokens, d]`` an item, in the order of ``items``; raw, as the first
        module yields them (a transformer's last hidden state, a static encoder's rows).

        Padding and special tokens are left out, but not the one for unknown words: it stands for a word. A prompt's
        tokens count if the encoder pools them. An item may have no token at all.

        Raises:
            DataError: an embedding is not finite.
        """


class LayeredEncoder(Encoder, Protocol):
    """Has hidden layers; layer 0 is the embedding layer."""

    def every_layer(self) -> tuple[Encoder, list[int]]:
        """An encoder of the embeddings after every layer, side by side, and the dimensions of each; the last layer's
        are the encoder's own."""

    def layer_weights(self) -> list[dict[str, Tensor]]:
        """The weights of the embedding layer, then of each layer, by name; on the CPU."""


class TrainableEncoder(Encoder, Protocol):
    """Has a model of PyTorch that can be changed."""

    @property
    def model(self) -> SentenceTransformer:
        """The model itself, without Normalize and without retrokit's Prepare: what is changed in it changes the
        encoder."""


def read_characters(items: Iterable[str], limit: int | None = None) -> np.ndarray:
    """By how much each item advances a display of progress, int64 ``[n]``: an image by 1, a text by 1 more than the
    characters that a model of ``limit`` tokens reads of it, about."""
    longest = np.inf if limit is None else TOKEN * limit
    lengths = (0 if isinstance(item, Image) else min(len(item), longest) for item in items)
    return 1 + np.fromiter(lengths, dtype=np.int64)


def gathered(batches: Iterator[Batch], count: int, dimension: int) -> np.ndarray:
    """The embeddings float32 ``[count, dimension]`` of all batches, in the order of the items."""
    embeddings = np.empty((count, dimension), dtype=np.float32)
    for positions, rows in batches:
        embeddings[positions] = rows
    return embeddings


def check_finite(embeddings: np.ndarray | Sequence[np.ndarray], name: str) -> None:
    """Raise :class:`DataError` about the encoder ``name`` unless the embeddings of all items are finite."""
    if isinstance(embeddings, np.ndarray):
        finite = np.isfinite(embeddings.min(axis=1)) & np.isfinite(embeddings.max(axis=1))
    else:
        finite = np.array([np.isfinite(embedding).all() for embedding in embeddings], dtype=bool)
    bad = np.flatnonzero(~finite)
    if len(bad):
        raise DataError(
            name, f"{len(bad)} of {len(embeddings)} embeddings are not finite, the first of text {bad[0] + 1}"
        )
