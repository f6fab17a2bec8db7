"""The searcher ``run``: a ranking that is there already, in TREC's format, by the ids of queries and documents."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence, Set

import numpy as np

from retrokit.data.files import named
from retrokit.data.trec import read_run_lines
from retrokit.errors import DataError, UsageError
from retrokit.notices import notice
from retrokit.retrieval.base import (
    Account,
    FilteredIndex,
    Ranking,
    Searcher,
    TextList,
    best_first,
    check_k,
    check_pairs,
    without,
)

LEFT_OUT = "run_documents_left_out"


class RunSearcher(Searcher):
    """What a TREC run ranks; ``-`` is standard input. ``scores`` has score and line, from 1, of each document of each
    query. Raises :class:`DataError` for a wrong line."""

    by_ids = True

    def __init__(self, path: str) -> None:
        self.spec = f"run:{path}"
        self.name = named(path)
        self.scores: dict[str, dict[str, tuple[float, int]]] = {}
        seen = hashlib.sha256()
        for line, query, document, score in read_run_lines(path, seen.update):
            self.scores.setdefault(query, {})[document] = score, line
        self._digest = f"sha256:{seen.hexdigest()}"

    def index(self, documents: TextList) -> RunIndex:
        return RunIndex(self, documents)

    def fingerprint(self) -> str:
        return self._digest

    def ids_of(self, texts: TextList, what: str) -> Sequence[str]:
        """The ids of ``texts``; raises :class:`UsageError`, which calls them ``what``, if they have none."""
        if len(texts.ids) != len(texts):
            raise UsageError(f"{self.spec} ranks by ids, and these {what} have none")
        return texts.ids


class RunIndex(FilteredIndex):
    """The documents that a run may name."""

    def __init__(self, run: RunSearcher, documents: TextList) -> None:
        self._run = run
        self._positions = {id: position for position, id in enumerate(run.ids_of(documents, "documents"))}
        self._unknown = self._left_out = 0

    def search_without(self, queries: TextList, k: int, left_out: Sequence[Set[int]]) -> list[Ranking]:
        """At most ``k`` documents that the run has for each query; what is left out is counted. Raises
        :class:`DataError` for a document that is not there (the line is named), or if the run has none of the queries.
        """
        check_k(k)
        ids = self._run.ids_of(queries, "queries")
        self._check_queries(ids)
        found, lost = [], 0
        for id, out in zip(ids, left_out, strict=True):
            listed = self._run.scores.get(id, {})
            positions = np.array([self._position(*entry) for entry in listed.items()], dtype=np.int64)
            scores = np.array([score for score, _ in listed.values()], dtype=np.float64)
            order = best_first(scores, positions)
            kept = without((scores[order], positions[order]), out, len(order))
            lost += len(order) - len(kept[0])
            found.append((kept[0][:k], kept[1][:k]))
        self._left_out = lost
        return found

    def score_pairs(self, queries: TextList, texts: TextList) -> np.ndarray:
        check_pairs(queries, texts)
        pairs = zip(self._run.ids_of(queries, "queries"), self._run.ids_of(texts, "documents"), strict=True)
        unknown = (np.nan, 0)
        return np.array([self._run.scores.get(query, {}).get(document, unknown)[0] for query, document in pairs])

    def account(self) -> Account:
        """How many of the run's queries and documents are not used."""
        return Account(counts={"run_queries_without_judgements": self._unknown, LEFT_OUT: self._left_out})

    def _position(self, document: str, place: tuple[float, int]) -> int:
        if document not in self._positions:
            problem = f"document {document!r} is not among those that are searched, so there is no text of it to score"
            raise DataError(self._run.name, problem, place[1])
        return self._positions[document]

    def _check_queries(self, ids: Sequence[str]) -> None:
        asked = set(ids)
        unknown = [query for query in self._run.scores if query not in asked]
        if len(unknown) == len(self._run.scores):
            raise DataError(self._run.name, f"none of its queries is asked here (the first is {unknown[0]!r})")
        if unknown and not self._unknown:
            _, line = min(self._run.scores[unknown[0]].values(), key=lambda place: place[1])
            notice(
                f"{self._run.name}:{line}: query {unknown[0]!r} is not asked here; {len(unknown):,} such queries "
                "of the run are left out"
            )
        self._unknown = len(unknown)


run = RunSearcher
