"""Scores of a service that reranks, by the protocol that Cohere set (``POST …/v1/rerank``): Jina, vLLM, hosted ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np

from retrokit.encoders.api import fingerprint_of, together
from retrokit.errors import ServiceError
from retrokit.llm.base import PromptRefused, encodable
from retrokit.llm.retries import Tries
from retrokit.llm.service import Service, service
from retrokit.llm.session import wait_for
from retrokit.reranking.base import PairwiseReranker, check_counts, check_finite

PROBE = "What keeps bees alive in winter?"
PROBED = ("They live on honey.", "Bees cluster for warmth.", "Tin melts at 232 °C.")


class ServiceReranker(PairwiseReranker):
    """One model of one service, which scores the documents of one query in a call."""

    def __init__(self, service: Service, revision: str | None, batch: int, concurrency: int) -> None:
        self.spec = f"rerank-api:{service.model}"
        self._service, self._revision = service, revision
        self._batch, self._concurrency = batch, concurrency
        self._tries = Tries()

    def score_pairs(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        check_counts(queries, documents)
        calls = []
        for query, places in groupby(range(len(queries)), key=lambda place: queries[place]):
            texts = [documents[place] for place in places]
            calls += [(query, texts[start : start + self._batch]) for start in range(0, len(texts), self._batch)]
        if not calls:
            return np.empty(0, dtype=np.float32)
        scores = np.concatenate(wait_for(together(self._service, self._scored, calls, self._concurrency)))
        check_finite(scores, self.spec)
        return scores

    def fingerprint(self) -> str:
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        about = {"reranker": self._service.model, "service": self._service.where, "revision": self._revision}
        return fingerprint_of(self.spec, about, self.score_pairs([PROBE] * len(PROBED), PROBED))

    async def _scored(self, call: tuple[str, list[str]]) -> np.ndarray:
        try:
            return await self._tries.of(lambda: self._call(*call))
        except PromptRefused as refused:
            raise ServiceError(f"{refused}; the query begins {call[0][:60]!r}") from refused

    async def _call(self, query: str, documents: list[str]) -> np.ndarray:
        texts = [encodable(text) or " " for text in documents]
        asked = {
            "model": self._service.model,
            "query": encodable(query) or " ",
            "documents": texts,
            "top_n": len(texts),
        }
        return await self._service.each(asked, "results", len(texts), _scores, "ranking")


def _scores(answers: Sequence[Mapping[str, Any]]) -> np.ndarray:
    return np.array([float(answer["relevance_score"]) for answer in answers], dtype=np.float32)


def rerank_api(
    model: str, url: str, key_env: str, timeout: float, revision: str | None, batch: int, concurrency: int
) -> ServiceReranker:
    """The reranker ``rerank-api``; raises as :func:`retrokit.llm.service.service`."""
    return ServiceReranker(service("rerank-api", model, url, "rerank", key_env, timeout), revision, batch, concurrency)
