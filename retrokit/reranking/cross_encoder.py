"""The reranker ``cross-encoder``: one transformer reads query and document together and gives one score.

Nogueira and Cho, "Passage Re-ranking with BERT", 2019. Any ``CrossEncoder`` of sentence-transformers, and any Hugging
Face checkpoint for sequence classification with one output.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from sentence_transformers import CrossEncoder

from retrokit.encoders.checks import whole_weights
from retrokit.encoders.fingerprint import digest_of_weights, tokenizer_settings
from retrokit.encoders.hub import ask_hub, first_line, loading
from retrokit.encoders.precision import PRECISIONS
from retrokit.errors import DataError, ServiceError, UsageError
from retrokit.reranking.base import PairwiseReranker, check_counts, check_finite

CPU_PAIRS = 32  # pairs of a batch
GPU_PAIRS = 256

_HEAD = "ForSequenceClassification"


class CrossEncoderReranker(PairwiseReranker):
    """Scores pairs with a cross-encoder: higher is better, after the model's own activation (most have a sigmoid).

    Attributes:
        model: the ``CrossEncoder``.
    """

    def __init__(self, spec: str, model: CrossEncoder) -> None:
        self.spec = spec
        self.model = model
        self.computes_in = str(next(model.parameters()).dtype).removeprefix("torch.")

    def score_pairs(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        """Scores float32 ``[n]`` of query i with document i, computed in batches of pairs of like length.

        Raises:
            UsageError: different counts.
            DataError: a score is not finite.
        """
        check_counts(queries, documents)
        if not queries:
            return np.zeros(0, dtype=np.float32)
        pairs = list(zip(queries, documents, strict=True))
        batch = CPU_PAIRS if self.model.device.type == "cpu" else GPU_PAIRS
        scores: np.ndarray = self.model.predict(pairs, batch_size=batch, show_progress_bar=False)
        check_finite(scores, self.spec)
        return scores.astype(np.float32, copy=False)

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        device: torch.device = self.model.device
        return device

    def fingerprint(self) -> str:
        """A digest of all that decides a score: weights, their dtype, configuration, tokenizer, length, activation."""
        digest = digest_of_weights(self.model.state_dict())
        digest.update(json.dumps(self._description(), sort_keys=True, default=str).encode())
        return digest.hexdigest()

    def _description(self) -> dict[str, Any]:
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
    """A cross-encoder from a local folder or a hub id.

    Raises:
        UsageError: neither a folder nor a hub id, a length beyond the model's, or a model with several outputs.
        DataError: a folder that holds no model, or one without a scoring head.
        ServiceError: a hub id that cannot be had.
    """
    if os.path.isfile(path):
        raise UsageError(f"{path} is a file; a cross-encoder is a folder or a hub id")
    if not os.path.isdir(path):
        ask_hub(path, f"cross-encoder: {path!r} is neither a folder nor a hub id", partial(_no_model, path))
    loaded = _load(path, device, PRECISIONS[dtype])
    _check_head(path, loaded)
    if max_length is not None:
        _set_length(path, loaded, max_length)
    return CrossEncoderReranker(f"cross-encoder:{path}", loaded)


def _load(path: str, device: str | None, dtype: torch.dtype) -> CrossEncoder:
    with loading(path, "cross-encoder", partial(_no_model, path)), whole_weights(head=False):
        return CrossEncoder(path, device=device, model_kwargs={"dtype": dtype})


def _no_model(name: str, error: BaseException) -> ServiceError:
    return ServiceError(f"cross-encoder: {name!r} is not a folder, and the model hub gave nothing: {first_line(error)}")


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
