"""The reranker ``dense``: the similarity of an encoder's pooled embeddings, which the embedding cache keeps."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from retrokit import encoders
from retrokit.encoders.base import Encoder
from retrokit.encoders.store import open_cache
from retrokit.encoders.views import MemoizedEncoder
from retrokit.ranking.reranking.base import PairwiseReranker, check_counts, check_finite
from retrokit.similarities.base import Embeddings, Role, Similarity

PAIRS_AT_ONCE = 65_536


class DenseReranker(PairwiseReranker):
    """Scores pairs by ``similarity``. Without the embedding cache, embeddings are cached in memory: many queries list
    the same document."""

    def __init__(self, encoder: Encoder, similarity: Similarity, precision: str) -> None:
        encoder.use_with(similarity)
        self.spec, self.computes_in = encoder.spec, encoder.computes_in(precision)
        self._encoder = encoder if open_cache() is not None else MemoizedEncoder(encoder)
        self._similarity, self._precision = similarity, precision

    @property
    def device(self) -> Any:
        return self._encoder.device

    def score_pairs(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        check_counts(queries, documents)
        sides: tuple[tuple[Role, Sequence[str]], ...] = ("query", queries), ("document", documents)
        embeddings, rows = [], []
        for role, texts in sides:  # each distinct text is embedded once
            row_of: dict[str, int] = {}
            rows.append(np.array([row_of.setdefault(text, len(row_of)) for text in texts], dtype=np.int64))
            embeddings.append(self._encoder.embed(list(row_of), role, self._precision))
        return pair_scores(self._similarity, *embeddings, *rows)

    def fingerprint(self) -> str:
        return f"{self._encoder.key(self._precision)} {self._similarity.fingerprint()}"


@torch.inference_mode()
def pair_scores(
    similarity: Similarity,
    queries: Embeddings,
    documents: Embeddings,
    rows: np.ndarray | None = None,
    columns: np.ndarray | None = None,
) -> np.ndarray:
    """Scores float32 ``[n]`` of raw embeddings, computed in batches; higher is more similar. They are of query i with
    document i, or of the queries at ``rows`` with the documents at ``columns``.

    Raises:
        DataError: a score is not finite.
    """
    on_cpu = copy.deepcopy(similarity).cpu()  # the caller's stays where it is
    rows, columns = (np.arange(len(queries)) if some is None else some for some in (rows, columns))
    parts = [np.empty(0, dtype=np.float32)]
    for start in range(0, len(rows), PAIRS_AT_ONCE):
        batch = slice(start, start + PAIRS_AT_ONCE)
        parts.append(on_cpu.score_pairs(queries[rows[batch]], documents[columns[batch]]).numpy())
    scores = np.concatenate(parts)
    check_finite(scores, similarity.spec)
    return scores


def dense_reranker(
    encoder: str, sim: str | None = None, precision: str = "auto", device: str | None = None
) -> DenseReranker:
    """The encoder of that spec, under the similarity ``sim`` or its own."""
    loaded: Encoder = encoders.registry.create(encoder, device=device)
    return DenseReranker(loaded, loaded.similarity_of(sim), precision)
