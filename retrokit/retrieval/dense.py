"""The searcher ``dense``: an encoder's embeddings under a similarity, searched exactly or through an index of faiss."""

from __future__ import annotations

import numpy as np

from retrokit import encoders
from retrokit.encoders.base import Encoder
from retrokit.retrieval.approximate import ApproximateIndex, empty_index
from retrokit.retrieval.base import Account, Index, Ranking, Searcher, TextList, check_k, check_pairs
from retrokit.retrieval.embeddings import SharedEmbeddings, pair_scores
from retrokit.retrieval.exact import top_k
from retrokit.similarities.base import Similarity


class Dense(Searcher):
    """Ranks by ``scorer``, a similarity, in ``embeddings``; with ``faiss``, a factory string, through an index."""

    def __init__(self, embeddings: SharedEmbeddings, scorer: Similarity, faiss: str | None = None) -> None:
        if faiss is not None:
            empty_index(faiss, scorer, embeddings.dims)
        self.spec = embeddings.encoder.spec
        self.similarity = scorer.spec
        self.embeddings = embeddings
        self.scorer = scorer
        self.faiss = faiss

    def index(self, documents: TextList) -> DenseIndex:
        return DenseIndex(self, documents)

    def fingerprint(self) -> str:
        embeddings = self.embeddings
        computed_in = embeddings.encoder.computes_in(embeddings.precision)
        return f"{embeddings.encoder.fingerprint()} {self.similarity} {computed_in} {embeddings.dims} {self.faiss}"


class DenseIndex(Index):
    """Documents, embedded when they are first searched. Several searchers of one encoder share the embeddings of a list
    of texts."""

    def __init__(self, searcher: Dense, documents: TextList) -> None:
        self._embeddings, self._scorer, self._faiss = searcher.embeddings, searcher.scorer, searcher.faiss
        self._device = searcher.embeddings.encoder.device
        self._documents = documents
        self._approximate: ApproximateIndex | None = None
        self._queries = self._others = TextList()

    def search(self, queries: TextList, k: int) -> list[Ranking]:
        """The ``k`` best documents of each query, or about them through an index of faiss, which may have too few
        documents to be trained on (:class:`UsageError`). :class:`DataError`: a number that is not finite."""
        check_k(k)
        self._queries = queries
        asked = self._embeddings.of(queries, "query")
        if not len(self._documents):
            return [(np.empty(0, dtype=np.float32), np.empty(0, dtype=np.int64)) for _ in queries]
        documents = self._embeddings.of(self._documents, "document")
        if self._faiss is None:
            return list(zip(*top_k(self._scorer, asked, documents, k, self._device), strict=True))
        if self._approximate is None:
            self._approximate = ApproximateIndex(self._scorer, documents, self._faiss, self._device)
        found = self._approximate.search(asked, k)
        pairs = zip(found.scores, found.indices, strict=True)
        return [(scores[places >= 0], places[places >= 0]) for scores, places in pairs]

    def score_pairs(self, queries: TextList, texts: TextList) -> np.ndarray:
        """Exact scores float32 ``[n]``; every distinct text is embedded once. Raises as :meth:`search` does."""
        check_pairs(queries, texts)
        self._others = texts
        asked, rows = self._embeddings.of_distinct(queries, "query")
        found, columns = self._embeddings.of_distinct(texts, "document")
        return pair_scores(self._scorer, asked, found, rows, columns)

    def account(self) -> Account:
        """What made the embeddings, what an index found of the best, and the norms of what was embedded."""
        norms = self._embeddings.norms(self._queries, (), "query")
        norms |= self._embeddings.norms(self._documents, self._others, "document")
        about = {**self._embeddings.configuration(), **self._scorer.statistics()}
        return Account(about if self._approximate is None else {**about, **self._approximate.account()}, norms)


def dense(
    encoder: str,
    sim: str | None = None,
    dims: int | None = None,
    precision: str = "auto",
    index: str | None = None,
    device: str | None = None,
) -> Dense:
    """The encoder of that spec, under the similarity ``sim`` or its own."""
    loaded: Encoder = encoders.registry.create(encoder, device=device)
    scorer = loaded.similarity_of(sim)
    return Dense(SharedEmbeddings(loaded, [scorer], precision, dims), scorer, index)
