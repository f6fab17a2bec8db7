"""The vectors of documents that an index searches, in blocks: embedded texts in memory, or an exported folder.

Raw embeddings are scored by the similarity itself. Vectors of a storage dtype (float16, int8, binary) and of exports
are prepared by the similarity first, so that every score is an inner product. Queries stay float32, except if signs are
compared with signs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from retrokit.core.errors import DataError, UsageError
from retrokit.data.dtypes import Stored
from retrokit.data.exports import NOTE, Export, Quantization, step_of
from retrokit.ranking.retrieval.approximate import ApproximateIndex
from retrokit.ranking.retrieval.base import TextList
from retrokit.ranking.retrieval.embeddings import SharedEmbeddings, pair_scores, prepared_rows
from retrokit.ranking.retrieval.exact import in_order, prepared_documents, top_k
from retrokit.similarities.base import Role, Similarity, as_rows


class StoredProduct(Similarity):
    """The inner product of prepared queries with widened documents. Of binary, queries are signs too, and a score is
    the number of equal signs less that of the others."""

    scale: Tensor | None
    offset: Tensor | None
    signs: Tensor | None

    def __init__(self, spec: str, quantization: Quantization) -> None:
        super().__init__()
        self.spec = spec
        self.dimension = quantization.dimension
        scale: Tensor | None = None
        offset: Tensor | None = None
        signs: Tensor | None = None
        if quantization.ranges is not None:
            scale, offset = map(torch.from_numpy, quantization.linear())
        if quantization.dtype == "binary":
            every_byte = np.arange(256, dtype=np.uint8)[:, None]
            signs = torch.from_numpy(Quantization("binary", 8).widened(every_byte))
        self.register_buffer("scale", scale)
        self.register_buffer("offset", offset)
        self.register_buffer("signs", signs)

    def prepare(self, embeddings: Tensor, role: Role) -> Tensor:
        rows = as_rows(embeddings)
        if self.signs is not None:
            return self.signs[rows.long()].flatten(1)[:, : self.dimension]
        if role == "query" or self.scale is None or self.offset is None:
            return rows
        return rows * self.scale + self.offset


@dataclass(frozen=True)
class SearchMethod:
    """How vectors are searched: by ``similarity``, exactly or through ``faiss``, the factory string of an index, on
    ``device``. ``stored``: the storage dtype; ``None``: raw embeddings."""

    similarity: Similarity
    faiss: str | None
    stored: Stored | None
    device: torch.device | str

    def prepared(self, raw: np.ndarray, role: Role) -> np.ndarray:
        """Raw embeddings as they are searched; of a storage dtype float32 ``[n, d']``, prepared by the similarity."""
        return raw if self.stored is None else prepared_rows(self.similarity, raw, role)


class Block:
    """Vectors that are searched together.

    Args:
        rows: raw embeddings, or prepared ones as ``quantization`` stores them.
        positions: that of each row in the index, int64 ``[n]``, ascending; default: from ``first`` on.
        folder: cache of an index of faiss.
    """

    def __init__(
        self,
        method: SearchMethod,
        rows: np.ndarray,
        quantization: Quantization | None = None,
        first: int = 0,
        positions: np.ndarray | None = None,
        folder: Path | None = None,
    ) -> None:
        self.method = method
        self.rows = rows
        self.quantization = quantization
        self.first = first
        self.positions = positions
        self.folder = folder
        self.approximate: ApproximateIndex | None = None
        self._by_signs = quantization is not None and quantization.dtype == "binary"
        self._rescored = method.stored.rescored if method.stored is not None else 0
        self._similarity = method.similarity
        if quantization is not None:
            self._similarity = StoredProduct(method.similarity.spec, quantization)

    @torch.inference_mode()
    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores float32 and positions int64 ``[nq, k]`` for prepared queries, best first; −∞ and −1 for no more. With
        rescoring, a multiple of k is found by signs, and scored again by the query's floats."""
        if not len(self.rows):
            return np.empty((len(queries), 0), dtype=np.float32), np.empty((len(queries), 0), dtype=np.int64)
        if self._rescored:
            _, rows = self._nearest(queries, k * self._rescored)
            scores, rows = self._rescore(queries, rows, k)
        else:
            scores, rows = self._nearest(queries, k)
        if self.positions is not None:
            return scores, np.where(rows < 0, rows, self.positions[rows])
        if self.first:
            return scores, np.where(rows < 0, rows, rows + self.first)
        return scores, rows

    def _nearest(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        if self.quantization is not None and self._by_signs:
            queries = self.quantization.narrowed(queries)
        if self.method.faiss is not None:
            if self.approximate is None:
                self.approximate = ApproximateIndex(
                    self._similarity, self.rows, self.method.faiss, self.method.device, self.folder, self.quantization
                )
            result = self.approximate.search(queries, k)
            return result.scores, result.indices
        try:
            return top_k(self._similarity, queries, self.rows, k, self.method.device)
        except DataError as error:  # stored numbers that are not finite
            if self.folder is None:
                raise
            raise DataError(self.folder, str(error)) from error

    def _rescore(self, queries: np.ndarray, rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        assert self.quantization is not None
        scores = np.full(rows.shape, -np.inf, dtype=np.float32)
        for query, query_rows, query_scores in zip(queries, rows, scores, strict=True):
            is_row = query_rows >= 0
            query_scores[is_row] = self.quantization.widened(self.rows[query_rows[is_row]]) @ query
        ordered_scores, ordered_rows = in_order(torch.from_numpy(scores), torch.from_numpy(rows))
        return ordered_scores[:, :k].numpy(), ordered_rows[:, :k].numpy()

    def score_pairs(
        self, queries: np.ndarray, documents: np.ndarray, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> np.ndarray:
        """Scores ``[n]`` of prepared queries at ``query_rows`` with prepared documents at ``document_rows``, as if
        these were stored in the block."""
        quantization = self.quantization
        if quantization is None:
            return pair_scores(self._similarity, queries, documents, query_rows, document_rows)
        documents = quantization.widened(quantization.narrowed(documents))
        if self._by_signs and not self._rescored:
            queries = quantization.widened(quantization.narrowed(queries))
        floats = StoredProduct(self._similarity.spec, Quantization("float32", quantization.dimension))
        return pair_scores(floats, queries, documents, query_rows, document_rows)


class VectorSource(Protocol):
    """Where the vectors of an index come from. ``texts`` are those that were embedded for it."""

    method: SearchMethod
    texts: TextList

    @property
    @abstractmethod
    def blocks(self) -> Sequence[Block]:
        """The vectors, computed or opened once; there is at least one block."""

    @property
    @abstractmethod
    def owners(self) -> np.ndarray | None:
        """The document of each vector, int64 ``[n]``; ``None``: vector i is document i."""

    def prepared(self, raw: np.ndarray, role: Role) -> np.ndarray:
        """Raw embeddings as the blocks take them."""
        return self.method.prepared(raw, role)

    def block_of_pairs(self) -> Block:
        """The block whose storage decides the scores of pairs."""
        return self.blocks[0]

    def ready(self) -> VectorSource:
        """The same, prepared for many searches of a few queries each."""
        return self


class EmbeddedTexts(VectorSource):
    """Embeddings of ``texts`` in memory, computed at the first search; ``embeddings`` shares the raw ones."""

    def __init__(self, method: SearchMethod, embeddings: SharedEmbeddings, texts: TextList) -> None:
        self.method = method
        self.texts = texts
        self._embeddings = embeddings

    @cached_property
    def blocks(self) -> Sequence[Block]:
        raw = self._embeddings.of(self.texts, "document")
        method = self.method
        if method.stored is None:
            return [Block(method, raw)]
        sample = method.prepared(raw[:: step_of(len(raw))], "document")
        quantization = Quantization(method.stored.dtype, sample.shape[1]).calibrated(sample)
        with torch.inference_mode():
            portions = prepared_documents(method.similarity, raw[:0], raw, "cpu")
            rows = [quantization.narrowed(prepared.numpy()) for _, prepared in portions]
        no_rows = quantization.narrowed(sample[:0])
        return [Block(method, np.concatenate([no_rows, *rows]), quantization)]

    def block_of_pairs(self) -> Block:
        """Pairs of raw embeddings need none of the texts."""
        if self.method.stored is None:
            return Block(self.method, np.empty((0, 0), dtype=np.float32))
        return super().block_of_pairs()

    @property
    def owners(self) -> np.ndarray | None:
        return self._embeddings.owners(self.texts)

    def ready(self) -> VectorSource:
        """With prepared documents, which double the memory."""
        method = self.method
        if method.stored is not None or method.faiss is not None or not method.similarity.factorable:
            return self
        return EmbeddedTexts(replace(method, stored=Stored("float32")), self._embeddings, self.texts)


class ExportedVectors(VectorSource):
    """The vectors of an export, mapped from disk, a block for each shard; or in memory those at ``rows``, int64
    ``[n]``, whose position is that in this list."""

    def __init__(self, method: SearchMethod, export: Export, rows: np.ndarray | None = None) -> None:
        self.method = method
        self.texts = TextList()
        self.export = export
        self.rows = rows

    @cached_property
    def blocks(self) -> Sequence[Block]:
        blocks = []
        first = 0
        for shard in self.export.parts:
            stored, quantization = shard.embeddings(), shard.quantization()
            stop = first + len(stored)
            if self.rows is None:
                block = Block(self.method, stored, quantization, first, folder=shard.folder)
            else:
                positions = np.flatnonzero((first <= self.rows) & (self.rows < stop))
                block = Block(self.method, stored[self.rows[positions] - first], quantization, positions=positions)
            blocks.append(block)
            first = stop
        return blocks

    @property
    def owners(self) -> np.ndarray | None:
        return self.export.owners

    def prepared(self, raw: np.ndarray, role: Role) -> np.ndarray:
        """As the similarity prepares them, and a 0 where the export has one dimension more."""
        prepared = super().prepared(raw, role)
        dimension = self.export.note["dimension"]
        if self.export.note["one_length"]:
            prepared = np.pad(prepared, [(0, 0), (0, 1)])
        if prepared.shape[1] != dimension:
            problem = f"has {dimension} dimensions, and queries {prepared.shape[1]}; export again"
            raise DataError(self.export.folder / NOTE, problem)
        return prepared


def listed_rows(export: Export, identifiers: Sequence[str]) -> np.ndarray:
    """The rows of documents, int64 ``[n]``. Raises :class:`UsageError` if the export lacks one, or has chunks."""
    if export.owners is not None:
        raise UsageError(f"{export.folder}: contains chunks of documents; export without chunks")
    rows = export.rows_of(identifiers)
    missing = [identifier for identifier in identifiers if identifier not in rows]
    if missing:
        problem = f"lacks {len(missing):,} of {len(identifiers):,} documents, the first of them {missing[0]!r}"
        raise UsageError(f"{export.folder}: {problem}")
    return np.array([rows[identifier] for identifier in identifiers], dtype=np.int64)
