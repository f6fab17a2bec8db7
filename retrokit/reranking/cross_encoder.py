"""The reranker ``cross-encoder``: one transformer reads query and document together and gives one score.

Nogueira and Cho, "Passage Re-ranking with BERT", 2019. Any ``CrossEncoder`` of sentence-transformers, and any Hugging
Face checkpoint for sequence classification with one output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sentence_transformers import CrossEncoder

from retrokit.encoders.checks import whole_weights
from retrokit.encoders.fingerprint import tokenizer_settings
from retrokit.encoders.precision import PRECISIONS
from retrokit.errors import DataError, UsageError
from retrokit.reranking.library import ModelReranker, loading_model

CPU_PAIRS = 32  # pairs of a batch
GPU_PAIRS = 256

_HEAD = "ForSequenceClassification"


class CrossEncoderReranker(ModelReranker):
    """Scores pairs with a cross-encoder: higher is better, after the model's own activation (most have a sigmoid)."""

    def library_scores(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        """Computed in batches of pairs of like length."""
        pairs = list(zip(queries, documents, strict=True))
        batch = CPU_PAIRS if self.model.device.type == "cpu" else GPU_PAIRS
        scores: np.ndarray = self.model.predict(pairs, batch_size=batch, show_progress_bar=False)
        return scores

    def description(self) -> dict[str, Any]:
        """Configuration, tokenizer, length, activation, prompts."""
        tokenizer = self.model.tokenizer
        backend = getattr(tokenizer, "backend_tokenizer", None)
        settings = tokenizer_settings(backend) if backend is not None else {"vocabulary": tokenizer.get_vocab()}
        config = {key: value for key, value in self.model.config.to_dict().items() if key != "_name_or_path"}
        return {
            "config": config,
            "tokenizer": settings,
            "max_length": self.model.max_seq_length,
            "activation": repr(self.model.activation_fn),
            "prompts": self.model.prompts,
        }


def cross_encoder(path: str, max_length: int | None, dtype: str, device: str | None = None) -> CrossEncoderReranker:
    """A cross-encoder from a local folder or a hub id, with one output; raises as :func:`loading_model` does."""
    with loading_model("cross-encoder", "cross-encoder", path), whole_weights(head=False):
        loaded = CrossEncoder(path, device=device, model_kwargs={"dtype": PRECISIONS[dtype]})
    _check_head(path, loaded)
    if max_length is not None:
        _set_length(path, loaded, max_length)
    return CrossEncoderReranker(f"cross-encoder:{path}", loaded)


def _check_head(path: str, loaded: CrossEncoder) -> None:
    """A checkpoint without a scoring head gets a random one from the library, which says so in a log line only."""
    made = type(loaded[0].model).__name__
    saved = list(getattr(loaded[0].model.config, "architectures", None) or [])
    if made.endswith(_HEAD) and made not in saved:
        raise DataError(path, f"is not a cross-encoder: it has no scoring head (architecture: {saved or 'unnamed'})")
    if loaded.num_labels != 1:
        raise UsageError(f"{path}: a cross-encoder for ranking has one output, this one has {loaded.num_labels}")


def _set_length(path: str, loaded: CrossEncoder, max_length: int) -> None:
    limit = getattr(loaded.config, "max_position_embeddings", None)
    if limit and 0 < limit < max_length:
        raise UsageError(f"{path}: max_length={max_length} is more than the model's {limit} positions")
    loaded.max_seq_length = max_length
