"""Rerankers that are models of sentence-transformers, from a folder or a hub id."""

import json
import os
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from retrokit.core.errors import ServiceError, UsageError, first_line
from retrokit.encoders.fingerprint import digest_of_weights
from retrokit.encoders.folders import ask_hub, loading
from retrokit.ranking.reranking.base import PairwiseReranker, check_counts, check_finite


class ModelReranker(PairwiseReranker):
    """Scores pairs with ``model``. A subclass gives :meth:`library_scores` and :meth:`description`."""

    def __init__(self, spec: str, model: Any) -> None:
        self.spec, self.model = spec, model
        self.computes_in = str(next(model.parameters()).dtype).removeprefix("torch.")

    @abstractmethod
    def library_scores(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        """The library's scores ``[n]`` of query i with document i, at least one."""

    @abstractmethod
    def description(self) -> Any:
        """What decides a score beside the weights."""

    def score_pairs(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        check_counts(queries, documents)
        if not queries:
            return np.zeros(0, dtype=np.float32)
        scores = self.library_scores(queries, documents)
        check_finite(scores, self.spec, queries)
        return scores.astype(np.float32, copy=False)

    @property
    def device(self) -> torch.device:
        device: torch.device = self.model.device
        return device

    def fingerprint(self) -> str:
        digest = digest_of_weights(self.model.state_dict())
        digest.update(json.dumps(self.description(), sort_keys=True, default=str).encode())
        return str(digest.hexdigest())


@contextmanager
def loading_model(name: str, what: str, path: str) -> Iterator[None]:
    """Within it the ``what`` of the reranker ``name`` is loaded from ``path``. Raises :class:`UsageError` for neither a
    folder nor a hub id, :class:`DataError` for a folder that holds none, :class:`ServiceError` for a hub id that cannot
    be had."""

    def failed(error: BaseException) -> ServiceError:
        return ServiceError(f"{name}: {path!r} is not a folder, and the model hub gave nothing: {first_line(error)}")

    if os.path.isfile(path):
        raise UsageError(f"{path} is a file; a {what} is a folder or a hub id")
    if not os.path.isdir(path):
        ask_hub(path, f"{name}: {path!r} is neither a folder nor a hub id", failed)
    with loading(path, what, failed):
        yield
