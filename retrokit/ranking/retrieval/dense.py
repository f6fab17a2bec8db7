"""The searcher ``dense``: an encoder's embeddings under a similarity, searched exactly or through an index of faiss.

The embeddings may come from an exported folder, read from disk in blocks. It names its encoder and similarity, and what
is given is checked against these."""

from __future__ import annotations

import json

import numpy as np
import torch

from retrokit import encoders, similarities
from retrokit.core.errors import UsageError
from retrokit.data.dtypes import quantization_name, stored_as
from retrokit.data.exports import Export, open_export
from retrokit.encoders.base import Encoder
from retrokit.encoders.chunks import best_chunks, starts_of
from retrokit.ranking.reranking.base import check_counts
from retrokit.ranking.retrieval.approximate import empty_index
from retrokit.ranking.retrieval.base import Account, Index, Ranking, Searcher, TextList, check_k
from retrokit.ranking.retrieval.embeddings import SharedEmbeddings
from retrokit.ranking.retrieval.exact import in_order
from retrokit.ranking.retrieval.vectors import EmbeddedTexts, ExportedVectors, SearchMethod, VectorSource, listed_rows
from retrokit.similarities.base import Similarity


class Dense(Searcher):
    """Ranks by ``scorer``, a similarity, in ``embeddings``, or through an index of ``faiss``, a factory string, in the
    storage dtype ``quantize``."""

    def __init__(
        self, embeddings: SharedEmbeddings, scorer: Similarity, faiss: str | None = None, quantize: str | None = None
    ) -> None:
        check_fits(scorer, embeddings.dims, faiss, quantize)
        self.spec = embeddings.encoder.spec
        self.similarity = scorer.spec
        self.embeddings = embeddings
        self.scorer = scorer
        self.faiss = faiss
        self.quantize = quantization_name(quantize)

    def index(self, documents: TextList) -> DenseIndex:
        if self.export is not None:
            return self.over_rows(self.export, listed_rows(self.export, documents.ids))
        return DenseIndex(self, EmbeddedTexts(self._method(), self.embeddings, documents))

    def over_rows(self, export: Export, rows: np.ndarray) -> DenseIndex:
        """The documents at some rows of an export, int64 ``[n]``, by their positions in this list."""
        return DenseIndex(self, ExportedVectors(self._method(), export, rows))

    def _method(self) -> SearchMethod:
        dtype = self.quantize
        if dtype is None and self.export is not None:
            dtype = "float32"  # an export contains prepared vectors
        stored = stored_as(dtype) if dtype is not None else None
        return SearchMethod(self.scorer, self.faiss, stored, self.embeddings.encoder.device)

    def over(self, export: Export) -> DenseIndex:
        """The documents of an export that this encoder wrote for this similarity, in its storage dtype."""
        note, encoder = export.note, self.embeddings.encoder
        if note["encoder"]["fingerprint"] not in (encoder.fingerprint(), encoder.document_fingerprint()):
            raise UsageError(
                f"{export.folder}: was written by {note['encoder']['spec']}, whose weights or settings {encoder.spec} "
                "does not have; give an encoder whose queries fit its vectors"
            )
        check_export(export, self.similarity, self.embeddings.dims, self.quantize)
        learned = note["similarity"]["learned"]
        if self.scorer.statistics() != learned:
            raise UsageError(
                f"{export.folder}: was written for {self.similarity} with {learned}; {encoder.spec} has others"
            )
        searcher = Dense(self.embeddings, self.scorer, self.faiss, self.quantize or note["dtype"])
        searcher.spec = self.spec
        searcher.export = export
        return DenseIndex(searcher, ExportedVectors(searcher._method(), export))

    def fingerprint(self) -> str:
        stored = "" if self.export is None else f" {json.dumps(self.export.note, sort_keys=True)}"
        return f"{self.embeddings.encoder.key(self.embeddings.precision)} {self._settings()}{stored}"

    def portable_fingerprint(self) -> str:
        return f"{self.embeddings.encoder.fingerprint()} {self._settings()}"

    def _settings(self) -> str:
        return f"{self.scorer.fingerprint()} {self.embeddings.dims} {self.faiss} {self.quantize}"


class DenseIndex(Index):
    """The vectors of ``source``. Searchers of one encoder share the embeddings of a list of texts."""

    def __init__(self, searcher: Dense, source: VectorSource) -> None:
        self.searcher = searcher
        self.source = source
        self._queries = TextList()
        self._pair_texts = TextList()

    def search(self, queries: TextList, k: int) -> list[Ranking]:
        """The ``k`` best documents of each query, approximately through an index of faiss. Raises :class:`UsageError`
        for too few documents to train it on, :class:`DataError` for scores that are not finite."""
        check_k(k)
        self._queries = queries
        prepared = self.source.prepared(self.searcher.embeddings.of(queries, "query"), "query")
        owners = self.source.owners
        if owners is None:
            return self._best_vectors(prepared, k)
        return best_chunks(self._best_vectors, prepared, k, owners)

    def _best_vectors(self, prepared: np.ndarray, k: int) -> list[Ranking]:
        """The ``k`` best vectors of all blocks for each prepared query."""
        results = [block.search(prepared, k) for block in self.source.blocks]
        scores, positions = results[0]
        if len(results) > 1:
            block_scores = np.concatenate([scores for scores, _ in results], axis=1)
            block_positions = np.concatenate([positions for _, positions in results], axis=1)
            ordered = in_order(torch.from_numpy(block_scores), torch.from_numpy(block_positions))
            scores, positions = ordered[0].numpy()[:, :k], ordered[1].numpy()[:, :k]
        rankings = []
        for query_scores, query_positions in zip(scores, positions, strict=True):
            is_vector = query_positions >= 0
            rankings.append((query_scores[is_vector], query_positions[is_vector]))
        return rankings

    def ready(self) -> DenseIndex:
        self.searcher.embeddings.encoder.settle()
        source = self.source.ready()
        return self if source is self.source else DenseIndex(self.searcher, source)

    def score_pairs(self, queries: TextList, texts: TextList) -> np.ndarray:
        """Exact scores float32 ``[n]``, of texts as they would be stored in the first block; every distinct text is
        embedded once. Raises as :meth:`search` does."""
        check_counts(queries, texts)
        embeddings = self.searcher.embeddings
        chunks, chunk_counts = embeddings.split(texts, "document")
        if chunk_counts is not None:
            texts = TextList(chunks)
        self._pair_texts = texts
        raw_queries, query_rows = embeddings.of_distinct(queries, "query")
        raw_documents, document_rows = embeddings.of_distinct(texts, "document")
        if chunk_counts is not None:
            query_rows = np.repeat(query_rows, chunk_counts)
        prepared_queries = self.source.prepared(raw_queries, "query")
        prepared_documents = self.source.prepared(raw_documents, "document")
        block = self.source.block_of_pairs()
        scores = block.score_pairs(prepared_queries, prepared_documents, query_rows, document_rows)
        if chunk_counts is None or not len(scores):
            return scores
        best: np.ndarray = np.maximum.reduceat(scores, starts_of(chunk_counts))
        return best

    def account(self) -> Account:
        """The embeddings and their norms, and the recall of an index. Of an export, no document is known."""
        searcher, embeddings = self.searcher, self.searcher.embeddings
        configuration = {**embeddings.configuration(), **searcher.scorer.statistics()}
        if searcher.quantize is not None:
            configuration["quantize"] = searcher.quantize
        approximate = next((block.approximate for block in self.source.blocks if block.approximate is not None), None)
        if approximate is not None:
            configuration |= approximate.account()
        norms = embeddings.norms(self._queries, (), "query")
        if searcher.export is not None:
            configuration["dtype"] = searcher.export.note["dtype"]
            return Account(configuration, norms)
        norms |= embeddings.norms(self.source.texts, self._pair_texts, "document")
        counts = embeddings.counts(self._queries, "query", "queries")
        counts |= embeddings.counts(self.source.texts, "document", "documents")
        return Account(configuration, norms, counts)


def check_fits(similarity: Similarity, dimension: int, faiss: str | None, quantize: str | None) -> None:
    """Raise :class:`UsageError` if documents of ``dimension`` do not fit the index or the storage dtype."""
    stored = None if quantize is None else stored_as(quantize)
    if stored is not None and not similarity.factorable:
        raise UsageError(
            f"`quantize=` {quantize}: a storage dtype needs an inner product, and {similarity.spec} is none"
        )
    if faiss is not None:
        empty_index(faiss, similarity, dimension, stored.dtype if stored is not None else "float32")


def dense(
    encoder: str,
    sim: str | None = None,
    dims: int | None = None,
    precision: str = "auto",
    index: str | None = None,
    device: str | None = None,
    quantize: str | None = None,
    export: str | None = None,
) -> Dense:
    """The encoder of that spec, under the similarity ``sim`` or its own; or that of the folder ``export``, with whose
    embeddings of documents it ranks. Raises as :func:`export_index`."""
    if export is not None:
        exported = export_index(
            open_export(export),
            encoder,
            device=device,
            sim=sim,
            dims=dims,
            precision=precision,
            index=index,
            quantize=quantize,
        )
        return exported.searcher
    loaded: Encoder = encoders.registry.create(encoder, device=device)
    scorer = loaded.similarity_of(sim)
    return Dense(SharedEmbeddings(loaded, [scorer], precision, dims), scorer, index, quantize)


def check_export(export: Export, sim: str | None, dims: int | None = None, quantize: str | None = None) -> None:
    """Raise :class:`UsageError` for an export of queries, or for another similarity than ``sim``, number of dimensions
    or storage dtype."""
    note, folder = export.note, export.folder
    if note["role"] != "document":
        raise UsageError(f"{folder}: contains embeddings of the role {note['role']}; documents are searched")
    spec = note["similarity"]["spec"]
    if sim is not None and str(similarities.registry.parse(sim)) != spec:
        raise UsageError(f"{folder}: was written for the similarity {spec}, not {sim}")
    written_dims = note["encoder"]["dims"]
    if dims is not None and dims != written_dims:
        raise UsageError(f"{folder}: was written with the first {written_dims} dimensions; `dims=` {dims} does not fit")
    if quantize is not None and stored_as(quantize).dtype != note["dtype"]:
        raise UsageError(f"{folder}: contains {note['dtype']}; `quantize=` {quantize} does not fit")


def export_index(
    export: Export,
    encoder: str | None = None,
    device: str | None = None,
    sim: str | None = None,
    dims: int | None = None,
    precision: str = "auto",
    index: str | None = None,
    quantize: str | None = None,
) -> DenseIndex:
    """The index of an export's documents.

    Args:
        encoder, sim, dims, quantize: those of the export, by default; ``binary+rescore`` scores again by the query's
        floats. device, precision: of the queries and the search. index: index of faiss, such as ``HNSW32``; default:
        exact search.

    Raises:
        UsageError: an export of queries, or another storage dtype, encoder, similarity or number of dimensions.
        DataError: it is damaged.
    """
    check_export(export, sim, dims, quantize)
    written_by = export.note["encoder"]
    dims = written_by["dims"] if written_by["dims"] != written_by["dimension"] else None
    if encoder:
        loaded = encoders.registry.create(encoder, device=device)
    else:
        advice = "put it back, or give an encoder whose queries fit its vectors"
        loaded = encoders.create_for(export.folder, written_by["spec"], device, advice)
    scorer = loaded.similarity_of(export.note["similarity"]["spec"])
    embeddings = SharedEmbeddings(loaded, [scorer], precision, dims)
    return Dense(embeddings, scorer, index, quantize or export.note["dtype"]).over(export)
