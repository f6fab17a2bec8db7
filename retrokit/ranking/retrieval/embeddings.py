"""Raw embeddings of the texts of a task, each list encoded once for all similarities."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

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
        known = self._lists.get(role)
        if known is None or known.texts is not texts:
            items, counts = self.chunks.split(texts) if self.chunks and role == "document" else (texts, None)
            embeddings = self.embed(items, role, chunks=counts is not None)
            known = self._lists[role] = _Embedded(texts, embeddings, items, counts)
        return known

    def of_distinct(self, texts: Sequence[str], role: Role) -> tuple[np.ndarray, np.ndarray]:
        """Raw embeddings float32 ``[m, dims]`` of the distinct ``texts`` or chunks, and the place of each of ``texts``
        among them, int64 ``[n]``. Those that the role's last list lacks are encoded."""
        known = self._distinct.get(role)
        if known is None or known.texts is not texts:
            distinct = DistinctTexts()
            rows = distinct.add(texts)
            listed = self._lists.get(role) or _Embedded((), np.empty((0, self.dims), dtype=np.float32), ())
            place = np.array([listed.place.get(text, -1) for text in distinct.texts], dtype=np.int64)
            embeddings = np.empty((len(place), self.dims), dtype=np.float32)
            if len(listed.embeddings):  # clip: without a second copy; what the list lacks follows
                np.take(listed.embeddings, place, axis=0, out=embeddings, mode="clip")
            if (place < 0).any():
                new = [text for text, row in zip(distinct.texts, place.tolist(), strict=True) if row < 0]
                embeddings[place < 0] = self.embed(new, role, chunks=role == "document")
            known = self._distinct[role] = _Distinct(texts, embeddings, rows, row_norms(embeddings[place < 0]))
        return known.embeddings, known.rows

    def norms(self, texts: Sequence[str], others: Sequence[str], role: Role) -> dict[str, float]:
        """Statistics of the norms of ``texts``, and of ``others`` that were embedded for pairs."""
        norms, distinct = self._list(texts, role).norms, self._distinct.get(role)
        if distinct is not None and distinct.texts is others:
            norms = np.concatenate([norms, distinct.norms])
        return norm_statistics(norms, role)

    def counts(self, texts: Sequence[str], role: Role, name: str) -> dict[str, int]:
        """Numbers of chunks of ``texts``, called ``name``, and of truncated ones, if known."""
        known = self._list(texts, role)
        if known.lengths is None:
            is_cut = self.encoder.cut(texts, role)
            known.lengths = {} if known.counts is None else {"chunks": int(known.counts.sum())}
            known.lengths |= {} if is_cut is None else {f"{name}_cut": int(is_cut.sum())}
        return known.lengths

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
        if (
            len(set(texts)) > 1
            and np.allclose(embeddings[-1], embeddings[0], rtol=1e-5)
            and np.allclose(embeddings, embeddings[0], rtol=1e-5)
        ):
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
    def place(self) -> dict[str, int]:
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
        self._position: dict[str, int] = {}

    @property
    def texts(self) -> list[str]:
        return list(self._position)

    def add(self, texts: Iterable[str]) -> np.ndarray:
        """The places of ``texts`` among the distinct ones, int64 ``[n]``."""
        return np.array([self._position.setdefault(text, len(self._position)) for text in texts], dtype=np.int64)


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
    average, deviation = (float(norms.mean()), float(norms.std())) if len(norms) else (0.0, 0.0)
    return {
        f"{role}_norm_mean": average,
        f"{role}_norm_std": deviation,
        f"{role}_norm_cv": deviation / average if average else 0.0,
    }
