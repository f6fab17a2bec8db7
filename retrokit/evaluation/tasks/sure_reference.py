"""Reference rankings for SURE: scores of passages and variants by a reranker, by an encoder, or from a file.

SURE (3.3, B) takes a strong reranker's. An encoder or BM25 can score as well, and so can a TREC run, which has passages
by their ids, and variants by ``PASSAGE#KIND`` (:func:`variant_id`).

A reranker that orders whole lists, such as a language model by a sliding window (SURE, 4.3), gets the list of each
retriever with a testbed's variants in it, in that retriever's order. Places of two lists are never compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from retrokit.core.notices import notice
from retrokit.ranking import reranking, retrieval
from retrokit.ranking.retrieval.base import Index, TextList
from retrokit.ranking.retrieval.embeddings import DistinctTexts


@dataclass(frozen=True)
class SureCandidates:
    """All queries, and all that can be ranked for them ("entries"): first the ``passages``, of which that is the
    number, then variants. ``texts`` are the distinct ones, and ``text_of`` says where each entry's text stands among
    them, int64 ``[entries]``."""

    queries: TextList
    ids: list[str]
    texts: list[str]
    text_of: np.ndarray
    passages: int

    def of(self, entries: np.ndarray) -> TextList:
        """The texts and ids of entries, int64 ``[n]``."""
        texts = map(self.texts.__getitem__, self.text_of[entries].tolist())
        return TextList(texts, [self.ids[entry] for entry in entries.tolist()])

    def queries_at(self, rows: Sequence[int]) -> TextList:
        """The queries at ``rows``."""
        return TextList((self.queries[row] for row in rows), [self.queries.ids[row] for row in rows])


class RerankerReference:
    """Scores pairs by a reranker. A pair of texts is scored once, however many entries, encoders and similarities ask.

    Attributes:
        spec: of the reranker.
        listwise: whether it orders lists: the entries of :meth:`scores` are lists then, best first.
    """

    listwise = False

    def __init__(self, by: Any) -> None:
        self.spec: str = by.spec
        self._by = by
        self._known: dict[Any, Any] = {}  # query → sorted texts, their scores

    def fingerprint(self) -> str:
        """A digest of all that decides a score."""
        return str(self._by.fingerprint())

    def scores(self, candidates: SureCandidates, wanted: Sequence[tuple[int, np.ndarray]]) -> list[np.ndarray]:
        """For each query (its position) and its entries, scores ``[n]``; NaN if there is none. Those of a listwise
        reference order these entries, and cannot be compared with others. Always of the same ``candidates``."""
        nothing = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
        before = [self._known.get(query, nothing) for query, _ in wanted]
        new = [
            np.setdiff1d(candidates.text_of[entries], known)
            for (_, entries), (known, _) in zip(wanted, before, strict=True)
        ]
        queries = candidates.queries_at([query for (query, _), texts in zip(wanted, new, strict=True) for _ in texts])
        texts = TextList(candidates.texts[text] for part in new for text in part)
        for (query, _), *both in zip(wanted, new, _split(self._score(candidates, queries, texts), new), strict=True):
            known = self._known.get(query, nothing)
            own_texts, own_scores = (np.concatenate(side) for side in zip(known, both, strict=True))
            order = np.argsort(own_texts)
            self._known[query] = own_texts[order], own_scores[order]
        scores = []
        for query, entries in wanted:
            own_texts, own_scores = self._known[query]
            scores.append(own_scores[np.searchsorted(own_texts, candidates.text_of[entries])])
        return scores

    def _score(self, candidates: SureCandidates, queries: TextList, texts: TextList) -> np.ndarray:
        """Scores ``[n]`` of query i with text i."""
        scores: np.ndarray = self._by.score_pairs(queries, texts)
        return scores


class SearcherReference(RerankerReference):
    """Scores by a searcher, with the statistics of the passages. One that uses ids scores entries, not texts."""

    _index: Index | None = None

    def scores(self, candidates: SureCandidates, wanted: Sequence[tuple[int, np.ndarray]]) -> list[np.ndarray]:
        if not self._by.by_ids:
            return super().scores(candidates, wanted)
        entries = [part for _, part in wanted]
        queries = candidates.queries_at([query for query, part in wanted for _ in part])
        return _split(self._score(candidates, queries, candidates.of(np.concatenate(entries))), entries)

    def _score(self, candidates: SureCandidates, queries: TextList, texts: TextList) -> np.ndarray:
        index = self._index = self._index or self._by.index(candidates.of(np.arange(candidates.passages)))
        return index.score_pairs(queries, texts)


class ListReference(RerankerReference):
    """Places by a reranker that orders lists. A list is ordered once, however many similarities rank alike."""

    listwise = True

    def scores(self, candidates: SureCandidates, wanted: Sequence[tuple[int, np.ndarray]]) -> list[np.ndarray]:
        """For each list, scores float32 ``[n]``. A text that comes twice is ordered once, at its first place."""
        distinct = [DistinctTexts() for _ in wanted]
        rows = [texts.add(candidates.of(entries)) for texts, (_, entries) in zip(distinct, wanted, strict=True)]
        keys = [(candidates.queries[query], *texts.texts) for texts, (query, _) in zip(distinct, wanted, strict=True)]
        if new := [key for key in dict.fromkeys(keys) if key not in self._known]:
            new_scores = self._by.rank_lists([key[0] for key in new], [key[1:] for key in new])
            self._known.update(zip(new, new_scores, strict=True))
            if line := self._by.describe():
                notice(line)
        return [self._known[key][part] for key, part in zip(keys, rows, strict=True)]


def _split(flat: np.ndarray, parts: Sequence[np.ndarray]) -> list[np.ndarray]:
    return np.split(flat, np.cumsum([len(part) for part in parts])[:-1])


def make_reference(spec: str, device: str | None = None) -> RerankerReference:
    """The reference that ``spec`` names: a reranker, a searcher, or an encoder with its own similarity.

    Raises:
        UsageError: an unknown name, or wrong parameters.
        DataError: a run that cannot be read, or a folder that holds no model.
        ServiceError: a hub id that cannot be had.
    """
    if retrieval.registry_of(spec) is retrieval.registry or reranking.registry_of(spec) is not reranking.registry:
        return SearcherReference(retrieval.create(spec, device=device))
    reranker = reranking.create(spec, device)
    return ListReference(reranker) if reranker.listwise else RerankerReference(reranker)
