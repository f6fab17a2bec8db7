"""Scores of a service that reranks, by the protocol that Cohere set (``POST …/v1/rerank``): Jina, vLLM, Voyage, TEI.

TEI takes ``texts`` in place of ``documents``, as its first answer says.
"""

import re
from collections.abc import Sequence
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np

from retrokit.core.calls import PromptRefused, ServerFailed, encodable, wait_for
from retrokit.core.service import service
from retrokit.extensions.services.embedding import LONG_PROBE, fingerprint_of, halved, together
from retrokit.extensions.services.lists import ListService, float32
from retrokit.ranking.reranking.base import PairwiseReranker, check_counts

PROBE = "What keeps bees alive in winter?"
PROBED = ("They live on honey.", "Bees cluster for warmth.", "Tin melts at 232 °C.")


class ServiceReranker(PairwiseReranker):
    """One model of one service, which scores the documents of one query in a call."""

    def __init__(self, service: ListService, revision: str | None, batch: int, concurrency: int) -> None:
        self.spec = f"rerank-api:{service.model}"
        self._service, self._revision = service, revision
        self._batch, self._concurrency = batch, concurrency
        self._field, self._takes_top_n = "documents", True

    def score_pairs(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        check_counts(queries, documents)
        calls = []
        for query, pairs in groupby(range(len(queries)), key=lambda pair: queries[pair]):
            texts = [documents[pair] for pair in pairs]
            calls += [(query, texts[start : start + self._batch]) for start in range(0, len(texts), self._batch)]
        if not calls:
            return np.empty(0, dtype=np.float32)
        return np.concatenate(wait_for(together(self._service, self._scored, calls, self._concurrency)))

    def fingerprint(self) -> str:
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        about = {"reranker": self._service.model, "service": self._service.where, "revision": self._revision}
        return fingerprint_of(self.spec, about, wait_for(together(self._service, self._probed, [PROBED], 1))[0][None])

    async def _probed(self, documents: Sequence[str]) -> np.ndarray:
        try:
            return await self._call(PROBE, [*documents, LONG_PROBE])
        except (PromptRefused, ServerFailed):  # a service that takes no long text truncates none
            return await self._call(PROBE, list(documents))

    async def _scored(self, batch: tuple[str, list[str]]) -> np.ndarray:
        query, documents = batch

        return await halved(
            lambda texts: self._call(query, texts, patient=False),
            documents,
            lambda: self._call(PROBE, list(PROBED)),
            lambda document: _begin(query, document),
        )

    async def _call(self, query: str, documents: list[str], patient: bool = True) -> np.ndarray:
        """Scores float32 ``[n]``."""
        field = self._field
        body = {
            "model": self._service.model,
            "query": encodable(query) or " ",
            field: [encodable(text) or " " for text in documents],
            **({"top_n": len(documents)} if self._takes_top_n else {}),
        }
        try:
            scores = await self._service.each(body, ("results", "data"), len(documents), _score, _EXPECTED, patient)
        except PromptRefused as refused:
            if field != "texts" and _WANTS_TEXTS.search(str(refused)):
                self._field = "texts"
            elif "top_n" in body and "top_n" in str(refused):
                self._takes_top_n = False
            else:
                raise
            return await self._call(query, documents, patient)
        values = np.concatenate(scores)
        self._service.check_finite(values, "scores", lambda index: _begin(query, documents[index]))
        return values


def _begin(query: str, document: str) -> str:
    """The name of a pair in a message."""
    return f"the query begins {query[:60]!r}, the document {document[:60]!r}"


_WANTS_TEXTS = re.compile(r"missing field .texts.|[\"']body[\"'], [\"']texts[\"']")
_EXPECTED = "{index: number, relevance_score or score: number}"


def _score(row: Any, line: int) -> tuple[int, np.ndarray]:
    score = row["score"] if "score" in row else row["relevance_score"]
    return row["index"], float32([score])


def rerank_api(
    model: str, url: str, key_env: str, timeout: float, revision: str | None, batch: int, concurrency: int
) -> ServiceReranker:
    """The reranker ``rerank-api``; raises as :func:`retrokit.core.service.service`."""
    return ServiceReranker(
        service(ListService, "rerank-api", model, url, "rerank", key_env, timeout), revision, batch, concurrency
    )
