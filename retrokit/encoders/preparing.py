"""The module that puts a similarity behind a model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from retrokit.similarities import registry as similarities
from retrokit.similarities.base import Role, Similarity


class Preparing(nn.Module):
    """Puts embeddings through a similarity's role transform: ``sentence_embedding [n, d] → [n, d']``.

    The role is the ``task`` of sentence-transformers (``encode_query``, ``encode_document``). Without one the document
    side is taken: only that side can change a ranking (MAG, Proposition S.2). ``prefixes`` are the Matryoshka sizes of
    a training run: each prefix is prepared separately, and the results are concatenated.
    """

    forward_kwargs = ("task",)

    def __init__(self, similarity_spec: str, prefixes: list[int] | None = None) -> None:
        super().__init__()
        self.similarity_spec = similarity_spec
        self.prefixes = prefixes
        self.similarity: Similarity = similarities.create(similarity_spec)

    def forward(self, features: dict[str, Any], task: str | None = None) -> dict[str, Any]:
        """Replace ``features["sentence_embedding"]`` by the prepared embeddings."""
        role: Role = "query" if (task or features.get("task")) == "query" else "document"
        embeddings: Tensor = features["sentence_embedding"]
        prefixes = [embeddings[:, :size] for size in self.prefixes] if self.prefixes else [embeddings]
        prepared = torch.cat([self.similarity.prepare(prefix, role) for prefix in prefixes], -1)
        if torch.is_grad_enabled():
            # Each role uses its own γ alone. Distributed training wants every parameter in every forward pass.
            for parameter in self.similarity.parameters():
                prepared = prepared + 0 * parameter.sum()
        features["sentence_embedding"] = prepared
        return features
