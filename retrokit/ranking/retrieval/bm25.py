"""The searcher ``bm25``: Lucene's BM25 through the package bm25s, with stop words and Snowball stemming.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009; Lù, "BM25S: Orders of magnitude
faster lexical search via eager sparse scoring", 2024. A text that is no document of the index is scored as if it were
one, with the documents' frequencies and mean length.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import groupby
from typing import Any

import bm25s
import numpy as np
import Stemmer

from retrokit.core.notices import notice, progress
from retrokit.data.images import check_texts
from retrokit.data.words import COUNTED, normalized, spaced, unspaced_scripts
from retrokit.ranking.reranking.base import check_counts
from retrokit.ranking.retrieval.base import Index, Ranking, Searcher, TextList, check_k

NOTICED = 0.005
"""Least share of characters without spaces between words for a notice: a few quotations change no ranking."""


class BM25Index(Index):
    """Documents and their statistics: ``Σ over the query of idf · tf / (tf + k1 · (1 − b + b · length / mean))``."""

    def __init__(self, documents: Sequence[str], k1: float, b: float, language: str) -> None:
        self._k1, self._b = k1, b
        self._stop_words = None if language == "none" else language
        self._stemmer = None if language == "none" else Stemmer.Stemmer(language)
        self._is_turkish = language == "turkish"
        words = self._words(documents)
        letters = sum(map(unspaced_scripts, documents), Counter[str]())
        share = letters.total() / max(1, sum(len(text) - text.count(" ") for text in documents))
        if share >= NOTICED:
            notice(f"bm25: character bigrams for {', '.join(sorted(letters))} ({share:.1%} of the characters)")
        self._documents = documents
        self._count = len(documents)
        self._mean_length = float(np.mean([len(document_words) for document_words in words])) if words else 0.0
        self._frequency = Counter(word for document_words in words for word in set(document_words))
        self._engine: Any = None
        if self._frequency:  # the package cannot index documents without any word
            self._engine = bm25s.BM25(k1=k1, b=b, method="lucene")
            self._engine.index(words, show_progress=False)

    def search(self, queries: TextList, k: int) -> list[Ranking]:
        """Only documents that share a word with the query."""
        check_k(k)
        rankings = []
        with progress("searching", len(queries), "queries") as advance:
            for words in self._words(queries):
                scores = self._scores(words)
                order = np.argsort(-scores, kind="stable")[:k]
                order = order[scores[order] > 0]
                rankings.append((scores[order], order.astype(np.int64)))
                advance(1)
        return rankings

    def score_pairs(self, queries: TextList, texts: TextList) -> np.ndarray:
        """Scores float32 ``[n]``; a text that is a document scores as :meth:`search` has it."""
        check_counts(queries, texts)
        scores = np.empty(len(texts), dtype=np.float32)
        others = [text for text in dict.fromkeys(texts) if text not in self._positions]
        words = dict(zip(others, self._words(others), strict=True))
        rows = sorted(range(len(queries)), key=queries.__getitem__)
        for query, query_rows in groupby(rows, key=queries.__getitem__):
            (query_words,) = self._words([query])
            document_scores = self._scores(query_words)
            for row in query_rows:
                position = self._positions.get(texts[row])
                if position is None:
                    scores[row] = self._score(query_words, words[texts[row]])
                else:
                    scores[row] = document_scores[position]
        return scores

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {text: position for position, text in enumerate(self._documents)}

    def _words(self, texts: Sequence[str]) -> list[list[str]]:
        check_texts(texts, "bm25")
        if not texts:
            return []
        words: list[list[str]] = bm25s.tokenize(
            [spaced(normalized(text, self._is_turkish)) for text in texts],
            **{"lower": False, "token_pattern": COUNTED, "return_ids": False, "show_progress": False},
            **{"stopwords": self._stop_words, "stemmer": self._stemmer},
        )
        return words

    def _scores(self, query: list[str]) -> np.ndarray:
        document_words = [word for word in query if word in self._frequency]
        if not document_words:
            return np.zeros(self._count, dtype=np.float32)
        scores: np.ndarray = self._engine.get_scores(document_words)
        return scores

    def _score(self, query: list[str], text: list[str]) -> float:
        counts = Counter(text)
        norm = self._k1 * (1 - self._b + self._b * len(text) / self._mean_length) if self._mean_length else 0.0
        score = 0.0
        for word in query:
            if counts[word] and self._frequency[word]:
                rarity = np.log(1 + (self._count - self._frequency[word] + 0.5) / (self._frequency[word] + 0.5))
                score += rarity * counts[word] / (counts[word] + norm)
        return score


class BM25(Searcher):
    """Ranks documents by the words that they share with the query, or the pairs of characters
    (:mod:`retrokit.data.words`)."""

    def __init__(self, k1: float, b: float, language: str) -> None:
        self._settings = (k1, b, language)

    def index(self, documents: TextList) -> BM25Index:
        return BM25Index(documents, *self._settings)

    def fingerprint(self) -> str:
        return hashlib.sha256(f"bm25 {self._settings} words 2 bm25s {bm25s.__version__}".encode()).hexdigest()


bm25 = BM25
