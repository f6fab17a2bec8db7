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

    def check(self, documents: TextList, queries: TextList) -> None:
        """See that it has some of the queries, and that all documents that it has for them are there."""
        asked, there = set(self.ids_of(queries, "queries")), set(self.ids_of(documents, "documents"))
        if asked.isdisjoint(self.scores):
            raise DataError(self.name, f"none of its queries is asked here (the first is {next(iter(self.scores))!r})")
        listed = ((id, line) for query in self.scores.keys() & asked for id, (_, line) in self.scores[query].items())
        unknown = min(((line, id) for id, line in listed if id not in there), default=None)
        if unknown is not None:
            problem = (
                f"document {unknown[1]!r} is not among those that are searched, so there is no text of it to score"
            )
            raise DataError(self.name, problem, unknown[0])

    def ids_of(self, texts: TextList, what: str) -> Sequence[str]:
        """The ids of ``texts``; raises :class:`UsageError`, which calls them ``what``, if they have none."""
        if len(texts.ids) != len(texts):
            raise UsageError(f"{self.spec} ranks by ids, and these {what} have none")
        return texts.ids


class RunIndex(FilteredIndex):
    """The documents that a run may name."""

    def __init__(self, run: RunSearcher, documents: TextList) -> None:
        self._run, self._documents = run, documents
        self._positions = {id: position for position, id in enumerate(run.ids_of(documents, "documents"))}
        self._unknown = self._left_out = 0

    def search_without(self, queries: TextList, k: int, left_out: Sequence[Set[int]]) -> list[Ranking]:
        """At most ``k`` documents that the run has for each query; what is left out is counted. Raises
        :class:`DataError` for a document that is not there (the line is named), or if the run has none of the queries.
        """
        check_k(k)
        ids = self._run.ids_of(queries, "queries")
        self._run.check(self._documents, queries)
        self._tell_of_others(ids)
        found, lost = [], 0
        for id, out in zip(ids, left_out, strict=True):
            listed = self._run.scores.get(id, {})
            positions = np.array([self._positions[document] for document in listed], dtype=np.int64)
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

    def _tell_of_others(self, ids: Sequence[str]) -> None:
        asked = set(ids)
        unknown = [query for query in self._run.scores if query not in asked]
        if unknown and not self._unknown:
            _, line = min(self._run.scores[unknown[0]].values(), key=lambda place: place[1])
            notice(
                f"{self._run.name}:{line}: query {unknown[0]!r} is not asked here; {len(unknown):,} such queries "
                "of the run are left out"
            )
        self._unknown = len(unknown)


run = RunSearcher
