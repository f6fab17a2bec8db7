"""Reference rankings for SURE: scores of passages and variants by a reranker, by an encoder, or from a file.

SURE (3.3, B) takes a strong reranker's. Any other way to score a query with a text will do, such as an encoder's or
BM25's, and a TREC run lets numbers of others be checked: it holds passages by their ids, and variants by
``PASSAGE#KIND`` (:func:`variant_id`).

What orders whole lists, such as a language model by a sliding window (SURE, 4.3), gets the list of each retriever with
a testbed's variants in it, in that retriever's order, and each list stays by itself: its places say nothing beside the
places of another one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from retrokit.core.notices import notice
from retrokit.ranking import reranking, retrieval
from retrokit.ranking.reranking.base import Reranker
from retrokit.ranking.retrieval.base import Index, Searcher, TextList
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

    def asked(self, rows: Sequence[int]) -> TextList:
        """The queries at ``rows``."""
        return TextList((self.queries[row] for row in rows), [self.queries.ids[row] for row in rows])


By = TypeVar("By", bound=Reranker | Searcher)


class Reference(ABC, Generic[By]):
    """Orders entries for queries, by a reranker or a searcher.

    Attributes:
        spec: of what does it.
        listwise: whether it orders lists: what :meth:`scores` is asked for are lists then, best first.
    """

    listwise: bool = False

    def __init__(self, by: By) -> None:
        self.spec = by.spec
        self._by = by

    @abstractmethod
    def scores(self, candidates: SureCandidates, wanted: Sequence[tuple[int, np.ndarray]]) -> list[np.ndarray]:
        """For each query (its position) and its entries, scores ``[n]``; NaN where there is none. Those of a listwise
        one order these entries, and are to be compared with no others."""

    def fingerprint(self) -> str:
        """A digest of all that decides a score."""
        return self._by.fingerprint()


class PairReference(Reference[By]):
    """Scores pairs. A pair of texts is scored once, however many entries, encoders and similarities ask."""

    def __init__(self, by: By) -> None:
        super().__init__(by)
        self._known: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # query → sorted texts, their scores

    @abstractmethod
    def _score(self, candidates: SureCandidates, queries: TextList, texts: TextList) -> np.ndarray:
        """Scores ``[n]`` of query i with text i."""

    def scores(self, candidates: SureCandidates, wanted: Sequence[tuple[int, np.ndarray]]) -> list[np.ndarray]:
        """For each query, ``[n]``; of one :class:`SureCandidates` for the life of this object."""
        new = [np.setdiff1d(candidates.text_of[entries], self._of(query)[0]) for query, entries in wanted]
        queries = candidates.asked([query for (query, _), texts in zip(wanted, new, strict=True) for _ in texts])
        new_scores = self._score(
            candidates, queries, TextList(candidates.texts[text] for texts in new for text in texts)
        )
        for (query, _), texts, scores in zip(wanted, new, _split(new_scores, new), strict=True):
            before = self._of(query)
            texts, scores = np.concatenate([before[0], texts]), np.concatenate([before[1], scores])
            order = np.argsort(texts)
            self._known[query] = texts[order], scores[order]
        places = [np.searchsorted(self._of(query)[0], candidates.text_of[entries]) for query, entries in wanted]
        return [self._of(query)[1][place] for (query, _), place in zip(wanted, places, strict=True)]

    def _of(self, query: int) -> tuple[np.ndarray, np.ndarray]:
        """The texts of the query whose scores are known, and these scores."""
        return self._known.get(query, (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)))


class RerankerReference(PairReference[Reranker]):
    """Scores by a reranker."""

    def _score(self, candidates: SureCandidates, queries: TextList, texts: TextList) -> np.ndarray:
        return self._by.score_pairs(queries, texts)


class SearcherReference(PairReference[Searcher]):
    """Scores by a searcher, with the statistics of the passages. One that goes by ids scores entries, not texts."""

    _index: Index | None = None

    def scores(self, candidates: SureCandidates, wanted: Sequence[tuple[int, np.ndarray]]) -> list[np.ndarray]:
        """For each query, ``[n]``; NaN where there is none."""
        if not self._by.by_ids:
            return super().scores(candidates, wanted)
        entries = [part for _, part in wanted]
        queries = candidates.asked([query for query, part in wanted for _ in part])
        return _split(self._score(candidates, queries, candidates.of(np.concatenate(entries))), entries)

    def _score(self, candidates: SureCandidates, queries: TextList, texts: TextList) -> np.ndarray:
        if self._index is None:
            self._index = self._by.index(candidates.of(np.arange(candidates.passages)))
        return self._index.score_pairs(queries, texts)


class ListReference(Reference[Reranker]):
    """Places by a reranker that orders lists. A list is ordered once, however many similarities rank alike."""

    listwise = True

    def __init__(self, by: Reranker) -> None:
        super().__init__(by)
        self._known: dict[tuple[str, ...], np.ndarray] = {}

    def scores(self, candidates: SureCandidates, wanted: Sequence[tuple[int, np.ndarray]]) -> list[np.ndarray]:
        """For each list, scores float32 ``[n]``. A text that comes twice is ordered once, at its first place."""
        distinct = [DistinctTexts() for _ in wanted]
        rows = [texts.add(candidates.of(entries)) for texts, (_, entries) in zip(distinct, wanted, strict=True)]
        keys = [(candidates.queries[query], *texts.texts) for texts, (query, _) in zip(distinct, wanted, strict=True)]
        new = [key for key in dict.fromkeys(keys) if key not in self._known]
        if new:
            new_scores = self._by.rank_lists([key[0] for key in new], [key[1:] for key in new])
            self._known.update(zip(new, new_scores, strict=True))
            if line := self._by.describe():
                notice(line)
        return [self._known[key][part] for key, part in zip(keys, rows, strict=True)]


def _split(flat: np.ndarray, parts: Sequence[np.ndarray]) -> list[np.ndarray]:
    return np.split(flat, np.cumsum([len(part) for part in parts])[:-1])


def make_reference(spec: str, device: str | None = None) -> Reference[Any]:
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
