"""The modules that retrokit adds to a SentenceTransformer.

Their import paths stand in the ``modules.json`` of saved runs, so this file keeps its name. Loaded by plain
sentence-transformers they need ``trust_remote_code=True``; retrokit's own loader does not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from sentence_transformers.base.modules.module import Module

from retrokit.core.errors import DataError, UsageError
from retrokit.encoders.preparing import Preparing


class Prepare(Preparing, Module):
    """:class:`~retrokit.encoders.preparing.Preparing`, as a saved run has it."""

    config_keys = ("similarity_spec", "prefixes")

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any) -> None:
        """Write the spec, and what the similarity has learned."""
        self.save_config(output_path)  # type: ignore[operator] # the library has no types
        if self.state_dict():
            self.save_torch_weights(  # type: ignore[operator]
                output_path, safe_serialization=safe_serialization
            )

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **kwargs: Any) -> Prepare:
        """Read what :meth:`save` wrote."""
        hub = {key: kwargs[key] for key in ("token", "cache_folder", "revision", "local_files_only") if key in kwargs}
        config = cls.load_config(model_name_or_path, subfolder=subfolder, **hub)
        try:
            module = cls(**config)
        except UsageError as error:
            raise DataError(Path(model_name_or_path, subfolder, cls.config_file_name), str(error)) from error
        if module.state_dict():
            cls.load_torch_weights(model_name_or_path, subfolder=subfolder, model=module, **hub)
        return module


class TokenPooling(Module):
    """Takes one token's embedding: the last separator, or the token at a position (from 0; the last one of a shorter
    text). ``token_embeddings [n, t, d] → sentence_embedding [n, d]``."""

    config_keys = ("embedding_dimension", "position", "token_id")

    def __init__(self, embedding_dimension: int, position: int | None = None, token_id: int | None = None) -> None:
        super().__init__()
        self.embedding_dimension = embedding_dimension
        self.position = position
        self.token_id = token_id

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Add ``features["sentence_embedding"]``."""
        tokens, mask = features["token_embeddings"], features["attention_mask"].bool()
        steps = torch.arange(mask.shape[1], device=mask.device)
        last = torch.where(mask, steps, -1).amax(dim=1)
        if self.position is not None:
            first = mask.int().argmax(dim=1)
            index = torch.minimum(first + self.position, last)
        else:
            positions = torch.where(mask & (features["input_ids"] == self.token_id), steps, -1).amax(dim=1)
            index = torch.where(positions >= 0, positions, last)
        rows = torch.arange(len(tokens), device=tokens.device)
        features["sentence_embedding"] = tokens[rows, index.clamp_min(0)]
        return features

    def get_embedding_dimension(self) -> int:
        """Dimensions of the embedding."""
        return self.embedding_dimension

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """Write the configuration."""
        self.save_config(output_path)


MODULE_CLASSES: dict[str, type[Module]] = {
    f"{module.__module__}.{module.__name__}": module for module in (Prepare, TokenPooling)
}
"""What retrokit's own loader hands to the library, so that no ``trust_remote_code`` is needed."""
