"""Search in an exported folder: its documents are not embedded again, but read from disk in blocks.

What made them stands in the folder, so the encoder of the queries and the similarity are known, and what is given is
checked against that.
"""

from functools import cached_property

import numpy as np

from retrokit import similarities
from retrokit.core.errors import UsageError
from retrokit.data.dtypes import Stored, stored_as
from retrokit.data.exports import Export
from retrokit.ranking.retrieval.base import Account, TextList
from retrokit.ranking.retrieval.dense import Dense, StoredIndex, dense
from retrokit.ranking.retrieval.stored import StoredRows


class ExportIndex(StoredIndex):
    """The documents of an export, shard after shard."""

    def __init__(self, searcher: Dense, export: Export, stored: Stored) -> None:
        super().__init__(searcher, TextList(), stored)
        self._export = export

    @cached_property
    def parts(self) -> list[StoredRows]:
        """The shards."""
        return [self._part(part.embeddings(), part.quantization(), part.folder) for part in self._export.parts]

    def _owners(self) -> np.ndarray | None:
        return self._export.owners()

    def embed_queries(self, queries: TextList) -> np.ndarray:
        """As the similarity prepares them, and a 0 where the documents have one dimension more."""
        embeddings = super().embed_queries(queries)
        return np.pad(embeddings, [(0, 0), (0, 1)]) if self._export.note.get("one_length") else embeddings

    def account(self) -> Account:
        """What made the embeddings of both sides, and the norms of the queries."""
        configuration = {**self._configuration(), "dtype": self._export.note.get("dtype", "float32")}
        return Account(configuration, self._embeddings.norms(self._queries, (), "query"))


def export_index(
    export: Export,
    encoder: str | None = None,
    device: str | None = None,
    sim: str | None = None,
    dims: int | None = None,
    precision: str = "auto",
    index: str | None = None,
    quantize: str | None = None,
) -> ExportIndex:
    """The index of an export's documents.

    Args:
        export: of documents.
        encoder, sim, dims: what embeds queries, by default as the export says; what else they are is an error.
        device, precision: of the encoding of queries, and where to search.
        index: index of faiss, such as ``HNSW32``; default: exact search.
        quantize: what the export holds, by default; of binary, ``binary+rescore`` scores again by the query's floats.

    Raises:
        UsageError: an export of queries; or other numbers, another encoder, similarity or number of dimensions than
            made it.
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
        raise UsageError(f"{folder}: was made of the first {made_by['dims']} dimensions; `dims=` {dims} does not fit")
    dims = made_by["dims"] if made_by["dims"] != made_by["dimension"] else None
    dtype = note.get("dtype", "float32")
    stored = stored_as(quantize or dtype)
    if stored.dtype != dtype:
        raise UsageError(f"{folder}: holds {dtype}; `quantize=` {quantize} does not fit")
    searcher = dense(encoder, made_for["spec"], dims, precision, index, device, quantize or dtype)
    if searcher.embeddings.encoder.fingerprint() != made_by["fingerprint"]:
        raise UsageError(f"{folder}: was made by {made_by['spec']}, whose weights or settings {encoder} does not have")
    if searcher.scorer.statistics() != made_for["learned"]:
        raise UsageError(f"{folder}: was made for {made_for['spec']} with {made_for['learned']}; {encoder} has others")
    return ExportIndex(searcher, export, stored)
