"""Raw embeddings of the texts of a task, each list encoded once for all similarities."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch

from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.core.version import __version__
from retrokit.encoders.base import Encoder
from retrokit.ranking.reranking.dense import pair_scores as pair_scores
from retrokit.similarities.base import Role, Similarity

_BLOCK = 1 << 18  # numbers that are widened at a time: up to 2 MiB


class SharedEmbeddings:
    """Embeddings of lists of texts by ``encoder``, in the first ``dims`` dimensions. The last list of each role is
    cached.
    Raises :class:`UsageError` if dims or one of ``similarities`` does not fit the encoder."""

    def __init__(
        self, encoder: Encoder, similarities: Iterable[Similarity], precision: str = "auto", dims: int | None = None
    ) -> None:
        if dims is not None and not 1 <= dims <= encoder.dimension:
            raise UsageError(f"`dims=` {dims}: {encoder.spec} has {encoder.dimension} dimensions")
        for similarity in similarities:
            encoder.use_with(similarity, dims)
        self.encoder = encoder
        self.precision = precision
        self.dims = dims or encoder.dimension
        self.chunks = encoder.in_chunks()
        self._seconds = 0.0
        self._lists: dict[Role, _Embedded] = {}
        self._distinct: dict[Role, _Distinct] = {}

    def of(self, texts: Sequence[str], role: Role) -> np.ndarray:
        """Raw embeddings float32 ``[n, dims]`` of ``texts``, or of the chunks of documents."""
        return self._list(texts, role).embeddings

    def owners(self, documents: Sequence[str]) -> np.ndarray | None:
        """The document of each chunk, int64 ``[n]``; ``None``: documents have an embedding each."""
        counts = self._list(documents, "document").counts
        return None if counts is None else np.repeat(np.arange(len(counts)), counts)

    def _list(self, texts: Sequence[str], role: Role) -> _Embedded:
        embedded = self._lists.get(role)
        if embedded is None or embedded.texts is not texts:
            items, counts = self.split(texts, role)
            embeddings = self.embed(items, role, chunks=counts is not None)
            embedded = _Embedded(texts, embeddings, items, counts)
            self._lists[role] = embedded
        return embedded

    def split(self, texts: Sequence[str], role: Role) -> tuple[Sequence[str], np.ndarray | None]:
        """The texts, or the chunks of documents and how many each has, int64 ``[n]``."""
        if self.chunks is None or role == "query":
            return texts, None
        return self.chunks.split(texts)

    def of_distinct(self, texts: Sequence[str], role: Role) -> tuple[np.ndarray, np.ndarray]:
        """Raw embeddings float32 ``[m, dims]`` of the distinct ``texts`` or chunks, and the row of each of ``texts``
        among them, int64 ``[n]``. Those that the role's last list lacks are encoded."""
        distinct = self._distinct.get(role)
        if distinct is None or distinct.texts is not texts:
            distinct_texts = DistinctTexts()
            rows = distinct_texts.add(texts)
            embeddings, is_new = self._embed_distinct(distinct_texts.texts, role)
            distinct = _Distinct(texts, embeddings, rows, row_norms(embeddings[is_new]))
            self._distinct[role] = distinct
        return distinct.embeddings, distinct.rows

    def _embed_distinct(self, texts: Sequence[str], role: Role) -> tuple[np.ndarray, np.ndarray]:
        """Raw embeddings of ``texts``, and which the role's last list lacked, bool ``[n]``."""
        embeddings = np.empty((len(texts), self.dims), dtype=np.float32)
        is_new = np.ones(len(texts), dtype=bool)
        listed = self._lists.get(role)
        if listed is not None and len(listed.embeddings):
            rows = np.array([listed.row_of.get(text, -1) for text in texts], dtype=np.int64)
            np.take(listed.embeddings, rows, axis=0, out=embeddings, mode="clip")  # clip: without a second copy
            is_new = rows < 0
        if is_new.any():
            new_texts = [texts[row] for row in np.flatnonzero(is_new).tolist()]
            embeddings[is_new] = self.embed(new_texts, role, chunks=role == "document")
        return embeddings, is_new

    def norms(self, texts: Sequence[str], others: Sequence[str], role: Role) -> dict[str, float]:
        """Statistics of the norms of ``texts``, and of ``others`` that were embedded for pairs."""
        norms, distinct = self._list(texts, role).norms, self._distinct.get(role)
        if distinct is not None and distinct.texts is others:
            norms = np.concatenate([norms, distinct.norms])
        return norm_statistics(norms, role)

    def counts(self, texts: Sequence[str], role: Role, name: str) -> dict[str, int]:
        """Numbers of chunks of ``texts``, called ``name``, and of truncated ones, if known."""
        embedded = self._list(texts, role)
        if embedded.lengths is None:
            embedded.lengths = {}
            if embedded.counts is not None:
                embedded.lengths["chunks"] = int(embedded.counts.sum())
            is_cut = self.encoder.cut(texts, role)
            if is_cut is not None:
                embedded.lengths[f"{name}_cut"] = int(is_cut.sum())
        return embedded.lengths

    def configuration(self) -> dict[str, Any]:
        """Their origin, for results."""
        return {
            "precision": self.encoder.computes_in(self.precision),
            "device": self.encoder.device.type,
            "dims": self.dims,
            "fingerprint": self.encoder.fingerprint(),
            "prompts": dict(self.encoder.prompts),
            "encoding_seconds": round(self._seconds, 3),
            "retrokit": __version__,
        }

    def embed(self, texts: Sequence[str], role: Role, chunks: bool = False) -> np.ndarray:
        """Raw embeddings float32 ``[n, dims]`` of texts or of chunks."""
        encoder = self.chunks.encoder if self.chunks and chunks else self.encoder
        start = time.perf_counter()
        embeddings = encoder.embed(texts, role, self.precision)[:, : self.dims]
        self._seconds += time.perf_counter() - start
        same_ends = len(set(texts)) > 1 and np.allclose(embeddings[-1], embeddings[0], rtol=1e-5)
        if same_ends and np.allclose(embeddings, embeddings[0], rtol=1e-5):
            notice(
                f"{encoder.spec}: all {len(texts):,} embeddings of {role} texts are equal; their ranking is arbitrary"
            )
        return embeddings


@dataclass
class _Embedded:
    """A list of texts with the embeddings of ``items``: of them, or of their chunks, ``counts`` of each."""

    texts: Sequence[str]
    embeddings: np.ndarray
    items: Sequence[str]
    counts: np.ndarray | None = None
    lengths: dict[str, int] | None = None

    @cached_property
    def row_of(self) -> dict[str, int]:
        return {text: row for row, text in enumerate(self.items)}

    @cached_property
    def norms(self) -> np.ndarray:
        return row_norms(self.embeddings)


class _Distinct(NamedTuple):
    """The embeddings of the distinct ``texts``, and the norms of those that the last list lacked."""

    texts: Sequence[str]
    embeddings: np.ndarray
    rows: np.ndarray
    norms: np.ndarray


class DistinctTexts:
    """Distinct texts, to encode each once."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}

    @property
    def texts(self) -> list[str]:
        return list(self._rows)

    def add(self, texts: Iterable[str]) -> np.ndarray:
        """The rows of ``texts`` among the distinct ones, int64 ``[n]``."""
        return np.array([self._rows.setdefault(text, len(self._rows)) for text in texts], dtype=np.int64)


@torch.inference_mode()
def prepared_rows(similarity: Similarity, raw: np.ndarray, role: Role) -> np.ndarray:
    """Raw embeddings as the similarity prepares them, float32 ``[n, d']``."""
    prepared: np.ndarray = copy.deepcopy(similarity).cpu().prepare(torch.as_tensor(raw), role).numpy()
    return prepared


def row_norms(embeddings: np.ndarray) -> np.ndarray:
    """Norms of the rows of ``[n, d]``, float64 ``[n]``, a block at a time: squares of float32 overflow from 1e19 on."""
    norms = np.empty(len(embeddings))
    rows = max(1, _BLOCK // max(1, embeddings.shape[1]))
    for start in range(0, len(embeddings), rows):
        block = embeddings[start : start + rows].astype(np.float64)
        norms[start : start + rows] = np.sqrt(np.einsum("nd,nd->n", block, block))
    return norms


def norm_statistics(norms: np.ndarray, role: str) -> dict[str, float]:
    """Mean, standard deviation and coefficient of variation of norms ``[n]`` (MAG, Figure 5 and N.2)."""
    average = deviation = 0.0
    if len(norms):
        average, deviation = float(norms.mean()), float(norms.std())
    return {
        f"{role}_norm_mean": average,
        f"{role}_norm_std": deviation,
        f"{role}_norm_cv": deviation / average if average else 0.0,
    }
