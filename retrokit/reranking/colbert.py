"""The reranker ``colbert``: late interaction of a multi-vector encoder, through sentence-transformers.

Khattab and Zaharia, "ColBERT", 2020. Any ``MultiVectorEncoder`` of the library: it brings its own prefixes, query
expansion, projection and list of tokens that do not count, and is scored by its own MaxSim.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from sentence_transformers import MultiVectorEncoder

from retrokit.encoders.checks import UNUSED, whole_weights
from retrokit.encoders.fingerprint import digest_of_weights, tokenizer_settings
from retrokit.encoders.hub import ask_hub, first_line, loading
from retrokit.errors import DataError, ServiceError, UsageError
from retrokit.reranking.base import PairwiseReranker, check_counts, check_finite


class MultiVectorReranker(PairwiseReranker):
    """Scores pairs by the sum, over the query's vectors, of the best product with one of the document's.

    Attributes:
        model: the ``MultiVectorEncoder``.
    """

    def __init__(self, spec: str, model: MultiVectorEncoder) -> None:
        self.spec = spec
        self.model = model
        self.computes_in = str(next(model.parameters()).dtype).removeprefix("torch.")

    @torch.inference_mode()
    def score_pairs(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        """Scores float32 ``[n]`` of query i with document i; each distinct text is encoded once.

        Raises:
            UsageError: different counts.
            DataError: a score is not finite.
        """
        check_counts(queries, documents)
        if not queries:
            return np.zeros(0, dtype=np.float32)
        first, second = list(dict.fromkeys(queries)), list(dict.fromkeys(documents))
        query_of = {text: i for i, text in enumerate(first)}
        document_of = {text: i for i, text in enumerate(second)}
        query_vectors = self.model.encode_query(first, show_progress_bar=False)
        document_vectors = self.model.encode_document(second, show_progress_bar=False)
        found = self.model.similarity_pairwise(
            [query_vectors[query_of[text]] for text in queries],
            [document_vectors[document_of[text]] for text in documents],
        )
        scores: np.ndarray = found.float().cpu().numpy()
        check_finite(scores, self.spec)
        return scores

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        device: torch.device = self.model.device
        return device

    def fingerprint(self) -> str:
        """A digest of all that decides a score: weights, modules, tokenizer, prompts, similarity."""
        digest = digest_of_weights(self.model.state_dict())
        modules: list[Any] = [(type(part).__name__, getattr(part, "get_config_dict", dict)()) for part in self.model]
        tokenizer = tokenizer_settings(self.model.tokenizer.backend_tokenizer)
        described = [modules, tokenizer, self.model.prompts, self.model.similarity_fn_name, self.model.max_seq_length]
        digest.update(json.dumps(described, sort_keys=True, default=str).encode())
        return digest.hexdigest()


def colbert(path: str, max_length: int | None, device: str | None = None) -> MultiVectorReranker:
    """A multi-vector encoder from a local folder or a hub id.

    Raises:
        UsageError: neither a folder nor a hub id.
        DataError: a folder that holds no multi-vector encoder.
        ServiceError: a hub id that cannot be had.
    """
    if os.path.isfile(path):
        raise UsageError(f"{path} is a file; a multi-vector encoder is a folder or a hub id")
    if not os.path.isdir(path):
        ask_hub(path, f"colbert: {path!r} is neither a folder nor a hub id", partial(_no_model, path))
    said = _Said()
    with loading(path, "multi-vector encoder", partial(_no_model, path)), whole_weights(UNUSED), said:
        loaded = MultiVectorEncoder(path, device=device, model_kwargs={"dtype": torch.float32})
    if any("randomly-initialised" in line for line in said.lines):
        raise DataError(path, "is not a multi-vector encoder: it has no projection of its token vectors")
    if max_length is not None:
        loaded.max_seq_length = max_length
    return MultiVectorReranker(f"colbert:{path}", loaded)


class _Said(logging.Handler):
    """What the library says while it loads: of a model without a projection it makes a random one, and says so in a
    log line only."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self.lines.append(record.getMessage())

    def __enter__(self) -> None:
        self._before = _library.level, _library.propagate
        _library.setLevel(logging.INFO)
        _library.propagate = False
        _library.addHandler(self)

    def __exit__(self, *problem: object) -> None:
        _library.removeHandler(self)
        _library.setLevel(self._before[0])
        _library.propagate = self._before[1]


_library = logging.getLogger(MultiVectorEncoder.__module__)


def _no_model(name: str, error: BaseException) -> ServiceError:
    return ServiceError(f"colbert: {name!r} is not a folder, and the model hub gave nothing: {first_line(error)}")
