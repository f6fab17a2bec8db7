"""What a model is like, and what decides its embeddings: asked of the model itself, or remembered from another time."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from retrokit.encoders.engine import token_limit
from retrokit.encoders.fingerprint import Weights, code, describe

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_COMPUTING = [str(Path(__file__).with_name(name)) for name in ("engine.py", "packed.py", "casting.py")]


class Loaded:
    """The traits of a model that is there. They follow its weights and settings, which may change."""

    def __init__(self, model: SentenceTransformer) -> None:
        self.model = model
        self._weights = Weights()

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

    @property
    def max_lengths(self) -> dict[str, int | None]:
        """Tokens of a query, and of a document, that count (special tokens and the prompt included); ``None``: all."""
        return {role: token_limit(self.model, role) for role in ("query", "document")}

    def fingerprint(self) -> str:
        """A digest of weights and their dtype, architecture, tokenizer, pooling, prompts and maximum lengths."""
        digest = self._weights.digest(self.model)
        described = {**describe(self.model), "prompts": self.prompts, "max_length": self.max_lengths}
        digest.update(json.dumps(described, sort_keys=True, default=str).encode())
        return str(digest.hexdigest())

    def code(self, encoder: type) -> Mapping[str, str] | None:
        """The code that computes embeddings for an encoder of that class."""
        return code({encoder, *map(type, self.model.modules())}, _COMPUTING)


@dataclass(frozen=True)
class Remembered:
    """The traits of a model that was loaded another time, and how to load it."""

    dimension: int
    device: torch.device
    prompts: dict[str, str | None]
    max_lengths: dict[str, int | None]
    known_fingerprint: str
    known_code: Mapping[str, str]
    load: Callable[[], Loaded]

    def fingerprint(self) -> str:
        """The model's at that time."""
        return self.known_fingerprint

    def code(self, encoder: type) -> Mapping[str, str]:
        """The code at that time; ``encoder`` is the same class, or its embeddings are not cached."""
        return self.known_code
