"""Reference rankings for SURE: scores of passages and variants by a reranker, by an encoder, or from a file.

SURE (3.3, B) takes a strong reranker's. Any other way to score a query with a text will do, such as an encoder's or
BM25's, and a TREC run lets numbers of others be checked: it holds passages by their ids, and variants by
``PASSAGE#KIND`` (:func:`variant_id`).

What orders whole lists, such as a language model by a sliding window (SURE, 4.3), gets the list of each retriever with
a testbed's variants in it, in that retriever's order, and each list stays by itself: its places say nothing beside the
places of another one.
"""

from __future__ import annotations

import difflib
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from retrokit import encoders, reranking, retrieval
from retrokit.data.trec import read_run
from retrokit.encoders.base import Encoder
from retrokit.errors import UsageError
from retrokit.evaluation.scoring import DistinctTexts, pair_scores
from retrokit.notices import notice
from retrokit.reranking.base import PairwiseReranker, Reranker
from retrokit.retrieval.base import Retriever
from retrokit.similarities.base import Similarity

PAIRS_AT_ONCE = 65_536
SCORES_AT_ONCE = 50_000_000
RUN = "run"


@dataclass(frozen=True)
class Candidates:
    """All queries, and all that can be ranked for them: passages and variants ("entries").

    Attributes:
        query_ids: of the queries.
        queries: their texts.
        ids: of the entries.
        texts: the distinct texts of the entries.
        text_of: where each entry's text stands in ``texts``, int64 ``[entries]``.
        passages: how many entries are passages; they come first.
    """

    query_ids: list[str]
    queries: list[str]
    ids: list[str]
    texts: list[str]
    text_of: np.ndarray
    passages: int

    def text(self, entry: int) -> str:
        """The text of an entry."""
        return self.texts[self.text_of[entry]]


class Reference(Protocol):
    """Scores queries with entries."""

    spec: str

    def scores(self, candidates: Candidates, wanted: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each query, its scores ``[n]`` with the entries ``wanted`` of it; NaN where there is none."""

    def fingerprint(self) -> str:
        """A digest of all that decides a score."""


class ScorerReference:
    """Scores by a reranker. A pair of texts is scored once, however many entries, encoders and similarities ask."""

    def __init__(self, scorer: Reranker) -> None:
        self.spec = scorer.spec
        self._scorer = scorer
        self._known: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # query → sorted texts, their scores

    def scores(self, candidates: Candidates, wanted: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each query, float32 ``[n]``; of one :class:`Candidates` for the life of this object."""
        new = [
            np.setdiff1d(candidates.text_of[entries], self._texts_known(query)) for query, entries in enumerate(wanted)
        ]
        queries = [candidates.queries[query] for query, texts in enumerate(new) for _ in texts]
        found = self._scorer.score_pairs(queries, [candidates.texts[text] for texts in new for text in texts])
        parts = np.split(found, np.cumsum([len(texts) for texts in new])[:-1])
        for query, (texts, scores) in enumerate(zip(new, parts, strict=True)):
            before = self._known.get(query, (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)))
            texts, scores = np.concatenate([before[0], texts]), np.concatenate([before[1], scores])
            order = np.argsort(texts)
            self._known[query] = texts[order], scores[order]
        return [self._lookup(query, candidates.text_of[entries]) for query, entries in enumerate(wanted)]

    def fingerprint(self) -> str:
        """The reranker's."""
        return self._scorer.fingerprint()

    def _texts_known(self, query: int) -> np.ndarray:
        return self._known[query][0] if query in self._known else np.empty(0, dtype=np.int64)

    def _lookup(self, query: int, texts: np.ndarray) -> np.ndarray:
        known, scores = self._known[query]
        return scores[np.searchsorted(known, texts)]


class ListReference:
    """Places by a reranker that orders lists. A list is ordered once, however many similarities rank alike."""

    def __init__(self, scorer: Reranker) -> None:
        self.spec = scorer.spec
        self._scorer = scorer
        self._known: dict[tuple[str, ...], np.ndarray] = {}

    def scores(self, candidates: Candidates, lists: Sequence[tuple[int, np.ndarray]]) -> list[np.ndarray]:
        """For each list, a query and its entries, best first, scores float32 ``[n]`` that order these entries and are
        to be compared with no others. A text that comes twice is ordered once, at its first place."""
        distinct = [DistinctTexts() for _ in lists]
        rows = [one.add(map(candidates.text, entries)) for one, (_, entries) in zip(distinct, lists, strict=True)]
        keys = [(candidates.queries[query], *one.texts) for one, (query, _) in zip(distinct, lists, strict=True)]
        new = [key for key in dict.fromkeys(keys) if key not in self._known]
        if new:
            found = self._scorer.rank_lists([key[0] for key in new], [key[1:] for key in new])
            self._known.update(zip(new, found, strict=True))
            if line := self._scorer.describe():
                notice(line)
        return [self._known[key][part] for key, part in zip(keys, rows, strict=True)]

    def fingerprint(self) -> str:
        """The reranker's."""
        return self._scorer.fingerprint()


class RunReference:
    """Scores from a TREC run."""

    def __init__(self, path: str) -> None:
        self.spec = f"{RUN}:{path}"
        seen = hashlib.sha256()
        self._run = read_run(path, seen.update)
        self._digest = f"sha256:{seen.hexdigest()}"

    def scores(self, candidates: Candidates, wanted: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each query, float64 ``[n]``; NaN where the run lacks the query or the entry."""
        found = []
        for query, entries in zip(candidates.query_ids, wanted, strict=True):
            scores = self._run.get(query, {})
            found.append(np.array([scores.get(candidates.ids[entry], np.nan) for entry in entries], dtype=np.float64))
        return found

    def fingerprint(self) -> str:
        """The digest of what was read."""
        return self._digest


class RetrieverReference:
    """Scores by a retriever without embeddings, such as BM25, with the statistics of the passages."""

    def __init__(self, retriever: Retriever) -> None:
        self.spec = retriever.spec
        self._retriever = retriever

    def scores(self, candidates: Candidates, wanted: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each query, float32 ``[n]``; 0 where a passage has nothing in common with the query."""
        count = candidates.passages
        index = self._retriever.index([candidates.text(entry) for entry in range(count)])
        passage_of = {text: entry for entry, text in enumerate(candidates.text_of[:count].tolist())}
        # where a text is a passage too, the entry of that one: so both score alike, however sums were rounded
        same = [np.array([passage_of.get(text, -1) for text in candidates.text_of[part].tolist()]) for part in wanted]
        others = [part[place < 0] for part, place in zip(wanted, same, strict=True)]
        queries = [query for query, part in zip(candidates.queries, others, strict=True) for _ in part]
        flat = index.score_pairs(queries, [candidates.text(entry) for part in others for entry in part])
        of_others = np.split(flat, np.cumsum([len(part) for part in others])[:-1])
        found = []
        at_once = max(1, SCORES_AT_ONCE // count)
        for start in range(0, len(wanted), at_once):
            for query, lists in enumerate(index.search(candidates.queries[start : start + at_once], count), start):
                of_passages = np.zeros(count, dtype=np.float32)
                of_passages[lists[1]] = lists[0]
                scores = of_passages[same[query]]
                scores[same[query] < 0] = of_others[query]
                found.append(scores)
        return found

    def fingerprint(self) -> str:
        """The retriever's."""
        return self._retriever.fingerprint()


class EncoderScorer(PairwiseReranker):
    """Scores by an encoder under a similarity, as a reranker does."""

    def __init__(self, encoder: Encoder, similarity: Similarity, precision: str = "auto") -> None:
        self.spec = encoder.spec
        self.encoder = encoder
        self.similarity = similarity
        self.precision = precision

    def score_pairs(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        """Scores float32 ``[n]`` of query i with document i; every distinct text is encoded once.

        Raises:
            DataError: an embedding is not finite.
        """
        asked, found = DistinctTexts(), DistinctTexts()
        rows, columns = asked.add(queries), found.add(documents)
        left = self.encoder.embed(asked.texts, "query", self.precision)
        right = self.encoder.embed(found.texts, "document", self.precision)
        return scores_of_pairs(self.similarity, left, right, rows, columns)

    def fingerprint(self) -> str:
        """A digest of all that decides a score."""
        return f"{self.encoder.fingerprint()} {self.similarity.spec} {self.encoder.computes_in(self.precision)}"


def scores_of_pairs(
    similarity: Similarity, queries: np.ndarray, documents: np.ndarray, rows: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """Scores float32 ``[n]`` of the queries at ``rows`` with the documents at ``columns``, so many at a time."""
    parts = [np.empty(0, dtype=np.float32)]
    for start in range(0, len(rows), PAIRS_AT_ONCE):
        part = slice(start, start + PAIRS_AT_ONCE)
        parts.append(pair_scores(similarity, queries[rows[part]], documents[columns[part]]))
    return np.concatenate(parts)


def make_reference(spec: str, device: str | None = None) -> Reference | ListReference:
    """The reference that ``spec`` names: ``run:FILE``, a retriever, a reranker, or an encoder with its own similarity.

    Raises:
        UsageError: an unknown name, or wrong parameters.
        DataError: a run that cannot be read, or a folder that holds no model.
        ServiceError: a hub id that cannot be had.
    """
    name, _, path = spec.partition(":")
    if name == RUN:
        if not path:
            raise UsageError(f"reference={spec}: expected {RUN}:FILE, a TREC run")
        return RunReference(path)
    if name in retrieval.registry.names():
        return RetrieverReference(retrieval.registry.create(spec))
    rerankers = reranking.registry.names()
    if name in rerankers:
        scorer = reranking.registry.create(spec, device=device)
        return ListReference(scorer) if scorer.listwise else ScorerReference(scorer)
    is_encoder = name in encoders.registry.names() or os.path.exists(spec)
    if not is_encoder and difflib.get_close_matches(name, rerankers, n=1, cutoff=0.8):
        raise UsageError(f"reference={spec}: {reranking.registry.unknown(name)}")
    encoder = encoders.registry.create(spec, device=device)
    encoder.use_with(encoder.similarity)
    return ScorerReference(EncoderScorer(encoder, encoder.similarity))
