"""Search in an exported folder: its documents are not embedded again, but read from disk in blocks.

What made them stands in the folder, so the encoder of the queries and the similarity are known, and what is given is
checked against that.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor

from retrokit import similarities
from retrokit.data.exports import Export
from retrokit.errors import UsageError
from retrokit.retrieval.approximate import ApproximateIndex
from retrokit.retrieval.base import Account, Ranking, TextList, check_k
from retrokit.retrieval.dense import Dense, DenseIndex, dense
from retrokit.retrieval.exact import in_order, top_k
from retrokit.similarities.base import Role, Similarity, as_rows


class StoredProduct(Similarity):
    """The inner product of prepared queries with documents as an export stores them; of int8 with their scale."""

    scale: Tensor | None

    def __init__(self, spec: str, scale: np.ndarray | None) -> None:
        super().__init__()
        self.spec = spec
        self.register_buffer("scale", None if scale is None else torch.from_numpy(scale))

    def prepare(self, embeddings: Tensor, role: Role) -> Tensor:
        rows = as_rows(embeddings)
        return rows * self.scale if role == "document" and self.scale is not None else rows


class ExportIndex(DenseIndex):
    """The documents of an export, shard after shard."""

    def __init__(self, searcher: Dense, export: Export) -> None:
        super().__init__(searcher, TextList())
        self._export = export
        self._parts = [(part.embeddings(), StoredProduct(searcher.similarity, part.scale())) for part in export.parts]
        self._built: dict[int, ApproximateIndex] = {}

    @torch.inference_mode()
    def search(self, queries: TextList, k: int) -> list[Ranking]:
        """The ``k`` best documents of each query, or about them through an index of faiss; positions count through all
        shards. Raises as :meth:`DenseIndex.search` does."""
        check_k(k)
        self._queries = queries
        raw = torch.as_tensor(self._embeddings.of(queries, "query"))
        asked = copy.deepcopy(self._scorer).cpu().prepare(raw, "query").numpy()
        found, first = [], 0
        for number, (rows, product) in enumerate(self._parts):
            scores, places = self._searched(number, rows, product, asked, k) if len(rows) else _nothing(len(asked))
            found.append((scores, np.where(places < 0, places, places + first)))
            first += len(rows)
        both = (torch.from_numpy(np.concatenate(side, axis=1)) for side in zip(*found, strict=True))
        scores, places = (side.numpy()[:, :k] for side in in_order(*both))
        return [(row[place >= 0], place[place >= 0]) for row, place in zip(scores, places, strict=True)]

    def _searched(
        self, number: int, rows: np.ndarray, product: StoredProduct, asked: np.ndarray, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        if self._faiss is None:
            return top_k(product, asked, rows, k, self._device)
        if number not in self._built:
            folder = self._export.parts[number].folder
            self._built[number] = ApproximateIndex(product, rows, self._faiss, self._device, folder)
        found = self._built[number].search(asked, k)
        return found.scores, found.indices

    def account(self) -> Account:
        """What made the embeddings of both sides, and the norms of the queries."""
        note = self._export.note
        about = {**self._embeddings.configuration(), **self._scorer.statistics(), "dtype": note.get("dtype", "float32")}
        built = [one.account() for one in self._built.values()]
        return Account({**about, **(built[0] if built else {})}, self._embeddings.norms(self._queries, (), "query"))


def _nothing(queries: int) -> tuple[np.ndarray, np.ndarray]:
    return np.empty((queries, 0), dtype=np.float32), np.empty((queries, 0), dtype=np.int64)


def export_index(
    export: Export,
    encoder: str | None = None,
    device: str | None = None,
    sim: str | None = None,
    dims: int | None = None,
    precision: str = "auto",
    index: str | None = None,
) -> ExportIndex:
    """The index of an export's documents.

    Args:
        export: of documents.
        encoder, sim, dims: what embeds queries, by default as the export says; what else they are is an error.
        device, precision: of the encoding of queries, and where to search.
        index: index of faiss, such as ``HNSW32``; default: exact search.

    Raises:
        UsageError: an export of queries; or another encoder, similarity or number of dimensions than made it.
        DataError: it is damaged.
    """
    note, folder = export.note, export.folder
    made_by, made_for = note["encoder"], note["similarity"]
    if note["role"] != "document":
        raise UsageError(f"{folder}: holds embeddings of the role {note['role']}; documents are searched")
    encoder = encoder or made_by["spec"]
    if sim is not None and str(similarities.registry.parse(sim)) != made_for["spec"]:
        raise UsageError(f"{folder}: was made for the similarity {made_for['spec']}, not {sim}")
    if dims is not None and dims != made_by["dims"]:
        raise UsageError(f"{folder}: was made of the first {made_by['dims']} dimensions; `dims` {dims} does not fit")
    dims = made_by["dims"] if made_by["dims"] != made_by["dimension"] else None
    made = dense(encoder, made_for["spec"], dims, precision, index, device)
    if made.embeddings.encoder.fingerprint() != made_by["fingerprint"]:
        raise UsageError(f"{folder}: was made by {made_by['spec']}, whose weights or settings {encoder} does not have")
    if made.scorer.statistics() != made_for["learned"]:
        raise UsageError(f"{folder}: was made for {made_for['spec']} with {made_for['learned']}; {encoder} has others")
    return ExportIndex(made, export)
