"""The searcher ``dense``: an encoder's embeddings under a similarity, searched exactly or through an index of faiss.

The embeddings may come from an exported folder, read from disk in blocks. It names its encoder and similarity, and what
is given is checked against these."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence, Set
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from retrokit import encoders, similarities
from retrokit.core.errors import DataError, UsageError
from retrokit.data.dtypes import Stored, quantization_name, stored_as
from retrokit.data.exports import NOTE, Export, Quantization, open_export, step_of
from retrokit.encoders.base import Encoder
from retrokit.encoders.chunks import best_chunks, starts_of
from retrokit.ranking.reranking.base import check_counts
from retrokit.ranking.retrieval.approximate import ApproximateIndex, empty_index
from retrokit.ranking.retrieval.base import Account, FilteredIndex, Ranking, Searcher, TextList, check_k, without
from retrokit.ranking.retrieval.embeddings import SharedEmbeddings, pair_scores
from retrokit.ranking.retrieval.exact import in_order, prepared_documents, top_k
from retrokit.ranking.retrieval.stored import StoredRows
from retrokit.similarities.base import Role, Similarity


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
            return ListedIndex(self, self.export, listed_rows(self.export, documents.ids))
        if self.quantize is None:
            return DenseIndex(self, documents)
        return StoredIndex(self, documents, stored_as(self.quantize))

    def over(self, export: Export) -> ExportIndex:
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
        searcher.spec, searcher.export = self.spec, export
        return ExportIndex(searcher, export)

    def fingerprint(self) -> str:
        stored = "" if self.export is None else f" {json.dumps(self.export.note, sort_keys=True)}"
        return f"{self.embeddings.encoder.key(self.embeddings.precision)} {self._settings()}{stored}"

    def portable_fingerprint(self) -> str:
        return f"{self.embeddings.encoder.fingerprint()} {self._settings()}"

    def _settings(self) -> str:
        return f"{self.scorer.fingerprint()} {self.embeddings.dims} {self.faiss} {self.quantize}"


class DenseIndex(FilteredIndex):
    """Documents, embedded at the first search. Searchers of one encoder share the embeddings of a list of texts."""

    def __init__(self, searcher: Dense, documents: TextList) -> None:
        self.searcher = searcher
        self._embeddings, self._scorer, self._faiss = searcher.embeddings, searcher.scorer, searcher.faiss
        self._device = searcher.embeddings.encoder.device
        self._documents = documents
        self._approximate: ApproximateIndex | None = None
        self._queries = self._others = TextList()

    def search_without(self, queries: TextList, k: int, left_out: Sequence[Set[int]]) -> list[Ranking]:
        """The ``k`` best documents of each query, approximately through an index of faiss. Raises :class:`UsageError`
        for too few documents to train it on, :class:`DataError` for scores that are not finite."""
        check_k(k)
        self._queries = queries
        embeddings, owners, search = self.embed_queries(queries), self._owners(), self._search_of_rows()
        depth = k + max(map(len, left_out), default=0)
        if owners is None:
            rankings = _rankings(*search(queries=embeddings, k=depth)[:2])
        else:
            rankings = best_chunks(lambda rows, k: _rankings(*search(queries=rows, k=k)[:2]), embeddings, depth, owners)
        return [without(ranking, out, k) for ranking, out in zip(rankings, left_out, strict=True)]

    def ready(self) -> DenseIndex:
        """With prepared documents, which double the memory."""
        self._embeddings.encoder.settle()
        is_prepared = self.searcher.quantize is not None or self._faiss is not None or not self._scorer.factorable
        return self if is_prepared else StoredIndex(self.searcher, self._documents, Stored("float32"))

    def embed_queries(self, queries: TextList) -> np.ndarray:
        """Embeddings float32 ``[n, d]`` of queries as the rows are searched by: raw."""
        return self._embeddings.of(queries, "query")

    def _owners(self) -> np.ndarray | None:
        """The document of each row, int64 ``[n]``; ``None``: row i is document i."""
        return self._embeddings.owners(self._documents)

    def _search_of_rows(self) -> Callable[..., Sequence[Any]]:
        """A function of ``queries [nq, d]`` and ``k`` to scores and rows ``[nq, k]``; −1 for none."""
        documents = self._embeddings.of(self._documents, "document")
        if self._faiss is None or not len(documents):
            return partial(top_k, self._scorer, documents=documents, device=self._device)
        if self._approximate is None:
            self._approximate = ApproximateIndex(self._scorer, documents, self._faiss, self._device)
        return self._approximate.search

    def score_pairs(self, queries: TextList, texts: TextList) -> np.ndarray:
        """Exact scores float32 ``[n]``; every distinct text is embedded once. Raises as :meth:`search` does."""
        check_counts(queries, texts)
        chunks, counts = self._embeddings.chunks, None
        if chunks is not None:
            parts, counts = chunks.split(texts)
            texts = TextList(parts)
        self._others = texts
        query_embeddings, rows = self._embeddings.of_distinct(queries, "query")
        document_embeddings, columns = self._embeddings.of_distinct(texts, "document")
        rows = rows if counts is None else np.repeat(rows, counts)
        scores = self._pair_scores(query_embeddings, document_embeddings, rows, columns)
        return scores if counts is None or not len(scores) else np.maximum.reduceat(scores, starts_of(counts))

    def _pair_scores(
        self, query_embeddings: np.ndarray, document_embeddings: np.ndarray, rows: np.ndarray, columns: np.ndarray
    ) -> np.ndarray:
        """Scores of raw embeddings, of those at ``rows`` with those at ``columns``."""
        return pair_scores(self._scorer, query_embeddings, document_embeddings, rows, columns)

    def account(self) -> Account:
        """The embeddings and their norms, and the recall of an index."""
        norms = self._embeddings.norms(self._queries, (), "query")
        norms |= self._embeddings.norms(self._documents, self._others, "document")
        counts = self._embeddings.counts(self._queries, "query", "queries")
        counts |= self._embeddings.counts(self._documents, "document", "documents")
        return Account(self._configuration(), norms, counts)

    def _configuration(self) -> dict[str, Any]:
        quantize = self.searcher.quantize
        return {
            **self._embeddings.configuration(),
            **self._scorer.statistics(),
            **({} if quantize is None else {"quantize": quantize}),
            **({} if self._approximate is None else self._approximate.account()),
        }


class StoredIndex(DenseIndex):
    """Documents, embedded and stored at the first search; or the :meth:`parts` of a subclass."""

    def __init__(self, searcher: Dense, documents: TextList, stored: Stored) -> None:
        super().__init__(searcher, documents)
        self._stored = stored

    def ready(self) -> StoredIndex:
        self._embeddings.encoder.settle()
        return self

    def embed_queries(self, queries: TextList) -> np.ndarray:
        """Embeddings float32 ``[n, d']`` of queries as the similarity prepares them."""
        return self._prepared(self._embeddings.of(queries, "query"), "query")

    @cached_property
    def parts(self) -> list[StoredRows]:
        raw = self._embeddings.of(self._documents, "document")
        width = self._prepared(raw[:1], "document").shape[1] if len(raw) else self._embeddings.dims
        sample = self._prepared(raw[:: step_of(len(raw))], "document")
        quantization = Quantization(self._stored.dtype, width).calibrated(sample)
        with torch.inference_mode():
            blocks = prepared_documents(self._scorer, raw[:0], raw, "cpu") if len(raw) else ()
            rows = [quantization.narrowed(block.numpy()) for _, block in blocks]
        return [self._part(np.concatenate(rows) if rows else np.empty((0, quantization.width)), quantization)]

    def _part(self, rows: np.ndarray, quantization: Quantization, folder: Path | None = None) -> StoredRows:
        return StoredRows(
            rows, quantization, self._scorer.spec, self._stored.rescored, self._faiss, self._device, folder
        )

    def _search_of_rows(self) -> Callable[..., Sequence[Any]]:
        """Rows count through all parts."""

        def search(queries: np.ndarray, k: int) -> Sequence[np.ndarray]:
            results, first = [], 0
            for part in self.parts:
                scores, rows = part.search(queries, k)
                results.append((scores, np.where(rows < 0, rows, rows + first)))
                first += len(part.rows)
            both = (torch.from_numpy(np.concatenate(side, axis=1)) for side in zip(*results, strict=True))
            return [side.numpy()[:, :k] for side in in_order(*both)]

        return search

    def _pair_scores(
        self, query_embeddings: np.ndarray, document_embeddings: np.ndarray, rows: np.ndarray, columns: np.ndarray
    ) -> np.ndarray:
        """Of texts as they would be stored in the first part."""
        return self.parts[0].score_pairs(
            self._prepared(query_embeddings, "query"), self._prepared(document_embeddings, "document"), rows, columns
        )

    @torch.inference_mode()
    def _prepared(self, raw: np.ndarray, role: Role) -> np.ndarray:
        """Embeddings as the similarity prepares them, float32 ``[n, d']``."""
        prepared: np.ndarray = copy.deepcopy(self._scorer).cpu().prepare(torch.as_tensor(raw), role).numpy()
        return prepared

    def _configuration(self) -> dict[str, Any]:
        built = (part.approximate.account() for part in self.parts if part.approximate is not None)
        return {**super()._configuration(), **next(built, {})}


def _rankings(scores: np.ndarray, rows: np.ndarray) -> list[Ranking]:
    """A ranking for each row of ``[nq, k]``, without what is −1."""
    return [(score[row >= 0], row[row >= 0]) for score, row in zip(scores, rows, strict=True)]


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
        return export_index(open_export(export), encoder, device, sim, dims, precision, index, quantize).searcher
    loaded: Encoder = encoders.registry.create(encoder, device=device)
    scorer = loaded.similarity_of(sim)
    return Dense(SharedEmbeddings(loaded, [scorer], precision, dims), scorer, index, quantize)


class ExportIndex(StoredIndex):
    """The documents of an export, shard after shard."""

    def __init__(self, searcher: Dense, export: Export) -> None:
        super().__init__(searcher, TextList(), stored_as(searcher.quantize or "float32"))
        self.export = export

    @cached_property
    def parts(self) -> list[StoredRows]:
        """The shards."""
        return [self._part(part.embeddings(), part.quantization(), part.folder) for part in self.export.parts]

    def _owners(self) -> np.ndarray | None:
        return self.export.owners

    def embed_queries(self, queries: TextList) -> np.ndarray:
        """As the similarity prepares them, and a 0 where the documents have one dimension more."""
        embeddings = super().embed_queries(queries)
        if self.export.note["one_length"]:
            embeddings = np.pad(embeddings, [(0, 0), (0, 1)])
        if embeddings.shape[1] != self.export.note["dimension"]:
            problem = f"has {self.export.note['dimension']} dimensions, and queries {embeddings.shape[1]}; export again"
            raise DataError(self.export.folder / NOTE, problem)
        return embeddings

    def asked_by(self, encoder: Encoder) -> Self:
        """The same documents for the queries of another encoder, read once for both."""
        embeddings, parts = self._embeddings, self.parts
        index = copy.copy(self)
        index.parts = parts
        index._embeddings = SharedEmbeddings(encoder, [self._scorer], embeddings.precision)
        return index

    def account(self) -> Account:
        configuration = {**self._configuration(), "dtype": self.export.note["dtype"]}
        return Account(configuration, self._embeddings.norms(self._queries, (), "query"))


class ListedIndex(ExportIndex):
    """The documents of an export at ``rows``, int64 ``[n]``, by their places in this list."""

    def __init__(self, searcher: Dense, export: Export, rows: np.ndarray) -> None:
        super().__init__(searcher, export)
        self.rows = rows

    @cached_property
    def parts(self) -> list[StoredRows]:
        """Of each shard the listed rows, in the order of the list."""
        parts, start = [], 0
        for part, place in zip(self.export.parts, self._places, strict=True):
            embeddings = part.embeddings()
            parts.append(self._part(embeddings[self.rows[place] - start], part.quantization()))
            start += len(embeddings)
        return parts

    @cached_property
    def _places(self) -> list[np.ndarray]:
        """Where in the list the rows of each shard stand."""
        ends = np.cumsum([len(part.embeddings()) for part in self.export.parts])
        shard = np.searchsorted(ends, self.rows, side="right")
        return [np.flatnonzero(shard == number) for number in range(len(ends))]

    def search_without(self, queries: TextList, k: int, left_out: Sequence[Set[int]]) -> list[Ranking]:
        rankings = super().search_without(queries, k + max(map(len, left_out), default=0), [set()] * len(queries))
        place = np.concatenate(self._places)
        return [without((scores, place[rows]), out, k) for (scores, rows), out in zip(rankings, left_out, strict=True)]


def listed_rows(export: Export, identifiers: Sequence[str]) -> np.ndarray:
    """The rows of documents, int64 ``[n]``. Raises :class:`UsageError` if the export lacks one, or has chunks."""
    if export.owners is not None:
        raise UsageError(f"{export.folder}: contains chunks of documents; export without chunks")
    rows = export.rows_of(identifiers)
    if missing := [id for id in identifiers if id not in rows]:
        problem = f"lacks {len(missing):,} of {len(identifiers):,} documents, the first of them {missing[0]!r}"
        raise UsageError(f"{export.folder}: {problem}")
    return np.array([rows[id] for id in identifiers], dtype=np.int64)


def encoder_of(export: Export, device: str | None = None) -> Encoder:
    """The encoder that wrote an export; raises as :func:`~retrokit.encoders.create_for`."""
    advice = "put it back, or give an encoder whose queries fit its vectors"
    return encoders.create_for(export.folder, export.note["encoder"]["spec"], device, advice)


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
) -> ExportIndex:
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
    loaded = encoders.registry.create(encoder, device=device) if encoder else encoder_of(export, device)
    scorer = loaded.similarity_of(export.note["similarity"]["spec"])
    embeddings = SharedEmbeddings(loaded, [scorer], precision, dims)
    return Dense(embeddings, scorer, index, quantize or export.note["dtype"]).over(export)
