"""An encoder: a SentenceTransformer that yields raw embeddings per role, and knows its own fingerprint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import torch

from retrokit import similarities
from retrokit.encoders import engine, processes
from retrokit.encoders.cache import Store, open_cache
from retrokit.encoders.engine import Keep
from retrokit.encoders.precision import choose_precision
from retrokit.encoders.traits import Loaded, Remembered
from retrokit.notices import notice
from retrokit.similarities.base import Role, Similarity

if TYPE_CHECKING:  # an encoder whose embeddings are all in the cache does without the library
    from sentence_transformers import SentenceTransformer


class Encoder:
    """Texts in, raw embeddings out. Normalising is the similarity's work, so a Normalize layer at the end of the model
    has been taken off (``had_normalize``). Embeddings are kept on disk and read from there the next time
    (:mod:`retrokit.encoders.cache`), but not of a model under training, which changes at every step.

    Attributes:
        spec: the canonical spec it was made from.
        cached: whether embeddings may come from the embedding cache, and are kept there.
        similarity: what it scores with by default: a run's own, else what the model declares, else ``cosine``.
        when_kept: is called once its embeddings lie in the embedding cache, if the model is as it was loaded.
    """

    def __init__(
        self,
        spec: str,
        model: SentenceTransformer | Loaded | Remembered,
        similarity: Similarity,
        had_normalize: bool,
        cached: bool = True,
    ) -> None:
        self.spec = spec
        self.traits = model if isinstance(model, (Loaded, Remembered)) else Loaded(model)
        self.similarity = similarity
        self.had_normalize = had_normalize
        self.when_kept: Callable[[], None] | None = None
        self._announced = False
        self.cached = cached
        self._cache = open_cache() if cached else None

    @property
    def model(self) -> SentenceTransformer:
        """The SentenceTransformer, without Normalize and without retrokit's Prepare; loaded if it is not yet."""
        self.when_kept = None  # whoever takes it may change it
        return self.to_compute()

    def to_compute(self) -> SentenceTransformer:
        """The model, for whoever leaves it as it is."""
        if isinstance(self.traits, Remembered):
            self.traits = self.traits.load()
        return self.traits.model

    @property
    def dimension(self) -> int:
        """Dimensions of an embedding."""
        return self.traits.dimension

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.traits.device

    @property
    def prompts(self) -> dict[str, str | None]:
        """The text put before every query and every document."""
        return self.traits.prompts

    def max_length(self, role: Role) -> int | None:
        """Tokens of a text that count (special tokens and the prompt included); ``None``: all."""
        return self.traits.max_lengths[role]

    def embed(self, texts: Sequence[str], role: Role, precision: str = "auto") -> np.ndarray:
        """Raw embeddings, float32 ``[n, d]``, in the order of ``texts``; those in the embedding cache are read from it.

        Args:
            texts: any number of texts.
            role: which prompt and maximum length apply.
            precision: ``fp32``, ``bf16``, ``fp16``, or ``auto``: bf16 where the device computes faster in it.

        Raises:
            DataError: an embedding is not finite.
        """
        dtype = choose_precision(precision, self.device)
        store = self._store(dtype) if len(texts) else None
        if store is None:
            return self._encode(texts, role, dtype)
        made = store.embed(texts, role, lambda missing, keep: self._encode(missing, role, dtype, keep), engine.CHUNK)
        if self.when_kept is not None:
            self.when_kept()
            self.when_kept = None
        return made

    def _encode(self, texts: Sequence[str], role: Role, dtype: torch.dtype, keep: Keep | None = None) -> np.ndarray:
        """The embeddings; ``keep`` is given the same rows, which go to the embedding cache."""
        if processes.can_help(self, len(texts)):
            return processes.encode(self, texts, role, dtype, keep)
        return engine.encode(self.to_compute(), texts, role, self.prompts[role], dtype, self.spec, keep=keep)

    def token_embeddings(self, texts: Sequence[str], role: Role, precision: str = "auto") -> list[np.ndarray]:
        """The embedding of every token, float32 ``[tokens, d]`` a text, in the order of ``texts``; raw, as the first
        module yields them (a transformer's last hidden state, a static encoder's rows).

        Padding and special tokens are left out, but not the one for unknown words: it stands for a word. A prompt's
        tokens count if the encoder pools them. A text may have no token at all.

        Args:
            texts: any number of texts.
            role: which prompt and maximum length apply.
            precision: as for :meth:`embed`.

        Raises:
            DataError: an embedding is not finite.
        """
        dtype = choose_precision(precision, self.device)
        return engine.encode_tokens(self.to_compute(), texts, role, self.prompts[role], dtype, self.spec)

    def computes_in(self, precision: str = "auto") -> str:
        """``float32``, ``bfloat16`` or ``float16``: what ``precision`` means on its device.

        Raises:
            UsageError: no precision of that name.
        """
        return str(choose_precision(precision, self.device)).removeprefix("torch.")

    def similarity_of(self, spec: str | None) -> Similarity:
        """The similarity of that spec; the encoder's own by default, and where it is the same, for it has learned
        something.

        Raises:
            UsageError: a wrong spec.
        """
        if spec is None:
            return self.similarity
        made: Similarity = similarities.registry.create(spec)
        return self.similarity if self.similarity.spec == made.spec else made

    def use_with(self, similarity: Similarity, dims: int | None = None) -> None:
        """Check that ``similarity`` fits, and say once if a Normalize layer had to go for it.

        ``dims`` is how many of the dimensions are in use; default: all.

        Raises:
            UsageError: the similarity does not fit.
        """
        similarity.check_dimension(dims or self.dimension)
        if self.had_normalize and similarity.uses_magnitude and not self._announced:
            self._announced = True
            notice(f"{self.spec}: its Normalize layer is taken off, because {similarity.spec} needs magnitudes")

    def fingerprint(self) -> str:
        """A digest of all that decides an embedding: weights and their dtype, architecture, tokenizer, pooling,
        prompts and maximum lengths. Where the model lies and on which device it runs do not count."""
        return self.traits.fingerprint()

    def key(self, precision: str = "auto") -> str:
        """What embeddings are kept under, wherever they are: a digest of all that decides their bits here. Beside the
        fingerprint these are the precision as it comes out, the kind of device, the libraries, and the code. Where the
        code cannot be told, nothing that was kept is found again.

        Raises:
            UsageError: no precision of that name.
        """
        decided_by = self._decided_by(self.computes_in(precision)) or {"unknown": uuid4().hex}
        return hashlib.sha256(json.dumps(decided_by, sort_keys=True).encode()).hexdigest()

    def _store(self, dtype: torch.dtype) -> Store | None:
        """Where embeddings computed in ``dtype`` are kept; ``None``: nowhere."""
        decided_by = None if self._cache is None else self._decided_by(str(dtype).removeprefix("torch."))
        if self._cache is None or decided_by is None:
            return None
        return self._cache.store(decided_by, self.dimension, self.spec)

    def _decided_by(self, precision: str) -> dict[str, Any] | None:
        """All that decides the bits of an embedding but the text; ``None`` if the code cannot be told."""
        computed_by = self.traits.code(type(self))
        if computed_by is None:
            return None
        return {
            "fingerprint": self.fingerprint(),
            "precision": precision,
            "device": self.device.type,
            "dimension": self.dimension,
            "code": computed_by,
        }
