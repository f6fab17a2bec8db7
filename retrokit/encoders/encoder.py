"""An encoder: a SentenceTransformer that yields raw embeddings per role, and knows its own fingerprint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from retrokit.encoders.engine import choose_precision, encode, encode_tokens
from retrokit.notices import notice
from retrokit.similarities.base import Role, Similarity

NO_LIMIT = 1_000_000  # a tokenizer without a maximum length names an absurdly high one


class Encoder:
    """Texts in, raw embeddings out. Normalising is the similarity's work, so a Normalize layer at the end of the model
    has been taken off (``had_normalize``).

    Attributes:
        spec: the canonical spec it was made from.
        model: the SentenceTransformer, without Normalize and without retrokit's Prepare.
        similarity: what it scores with by default: a run's own, else what the model declares, else ``cosine``.
    """

    def __init__(self, spec: str, model: SentenceTransformer, similarity: Similarity, had_normalize: bool) -> None:
        self.spec = spec
        self.model = model
        self.similarity = similarity
        self.had_normalize = had_normalize
        self._announced = False

    @property
    def dimension(self) -> int:
        """Dimensions of an embedding."""
        return int(self.model.get_embedding_dimension())

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.model.device

    @property
    def prompts(self) -> dict[str, str | None]:
        """The text put before every query and every document."""
        prompts = self.model.prompts or {}
        return {
            "query": prompts.get("query") or None,
            "document": next((prompts[key] for key in ("document", "passage", "corpus") if prompts.get(key)), None),
        }

    def max_length(self, role: Role) -> int | None:
        """Tokens of a text that count (special tokens and the prompt included); ``None``: all."""
        first = self.model[0]
        if isinstance(first, StaticEmbedding):
            truncation = first.tokenizer.truncation
            return None if truncation is None else int(truncation["max_length"])
        own = getattr(first, "query_length" if role == "query" else "document_length", None)
        limit = own or self.model.max_seq_length
        return None if limit is None or limit > NO_LIMIT else int(limit)

    def embed(self, texts: Sequence[str], role: Role, precision: str = "auto") -> np.ndarray:
        """Raw embeddings, float32 ``[n, d]``, in the order of ``texts``.

        Args:
            texts: any number of texts.
            role: which prompt and maximum length apply.
            precision: ``fp32``, ``bf16``, ``fp16``, or ``auto``: bf16 where the hardware has it.

        Raises:
            DataError: an embedding is not finite.
        """
        dtype = choose_precision(precision, self.device)
        return encode(self.model, texts, role, self.prompts[role], dtype, self.spec)

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
        return encode_tokens(self.model, texts, role, self.prompts[role], dtype, self.spec)

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
        digest = hashlib.sha256()
        for name, tensor in sorted(self.model.state_dict().items()):
            digest.update(f"{name}:{tensor.dtype}:{list(tensor.shape)}".encode())
            raw = tensor.detach().cpu().contiguous().reshape(-1)
            digest.update(raw.view(torch.uint8).numpy().tobytes() if raw.numel() else b"")
        digest.update(json.dumps(self._description(), sort_keys=True, default=str).encode())
        return digest.hexdigest()

    def _description(self) -> dict[str, Any]:
        modules = [{"class": type(module).__name__, "config": _config(module)} for module in self.model]
        return {
            "architecture": _architecture(self.model),
            "modules": modules,
            "tokenizer": _tokenizer(self.model),
            "prompts": self.prompts,
            "max_length": {"query": self.max_length("query"), "document": self.max_length("document")},
        }


def _config(module: Any) -> dict[str, Any]:
    return module.get_config_dict() if hasattr(module, "get_config_dict") else {}


_CONFIG_WITHOUT_EFFECT = ("_name_or_path", "transformers_version", "dtype", "torch_dtype", "architectures", "use_cache")


def _architecture(model: SentenceTransformer) -> dict[str, Any]:
    config = getattr(model[0], "config", None)
    if config is None:
        return {"class": type(model[0]).__name__}
    return {key: value for key, value in config.to_dict().items() if key not in _CONFIG_WITHOUT_EFFECT}


def _tokenizer(model: SentenceTransformer) -> Any:
    tokenizer = model.tokenizer
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(backend, "to_str"):
        return sorted(tokenizer.get_vocab().items())
    # Calls leave their truncation and padding in the tokenizer; the length counts by itself.
    return {key: value for key, value in json.loads(backend.to_str()).items() if key not in ("truncation", "padding")}
