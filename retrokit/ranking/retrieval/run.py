"""The searcher ``run``: a ranking that is there already, in TREC's format, by the ids of queries and documents."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence, Set

import numpy as np

from retrokit.core.errors import DataError, UsageError
from retrokit.core.files import named
from retrokit.core.notices import notice
from retrokit.data.jsonl import Faults
from retrokit.data.trec import read_run_lines
from retrokit.ranking.reranking.base import check_counts
from retrokit.ranking.retrieval.base import (
    Account,
    FilteredIndex,
    Ranking,
    Searcher,
    TextList,
    best_first,
    check_k,
    without,
)

LEFT_OUT = "run_documents_left_out"


class RunSearcher(Searcher):
    """A TREC run, also one of several sets; ``-`` is standard input. ``scores`` has score and line, from 1, of each
    document of each query. Raises :class:`DataError` for a wrong line."""

    by_ids = True
    has_whole_rankings = True

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
        """Raise :class:`DataError` if it has none of the queries; otherwise report how both sides differ."""
        self.compare(documents, queries)

    def compare(self, documents: TextList, queries: TextList) -> tuple[dict[str, int], dict[str, dict[str, float]]]:
        """Counts, reported once, of queries and documents of one side only; and the scores of the run's documents that
        are not among ``documents``, by query. Raises :class:`DataError` if the run has none of the queries."""
        requested = set(self.ids_of(queries, "queries"))
        shared = [query for query in self.scores if query in requested]
        others = [query for query in self.scores if query not in requested]
        missing = len(requested) - len(shared)
        if not shared:
            raise DataError(self.name, f"none of its queries is among those searched for (the first is {others[0]!r})")
        unlisted = self._unlisted(shared, documents)
        if missing:
            count = f"{missing:,} of {len(requested):,} queries are not in the run"
            notice(f"{self.name}: {count}; each counts as 0", once=True)
        if others:
            line = next(iter(self.scores[others[0]].values()))[1]
            effect = f"{len(others):,} such queries of the run are left out"
            notice(f"{self.name}:{line}: query {others[0]!r} is not searched for; {effect}", once=True)
        counts = {
            "run_queries_without_judgements": len(others),
            "queries_not_in_run": missing,
            "run_documents_not_in_corpus": sum(map(len, unlisted.values())),
        }
        return counts, unlisted

    def _unlisted(self, queries: Sequence[str], documents: TextList) -> dict[str, dict[str, float]]:
        """The scores of the documents that are not in ``documents``, by query; they are reported once."""
        listed = set(self.ids_of(documents, "documents"))
        faults = Faults(self.name)
        unlisted: dict[str, dict[str, float]] = {}
        for query in queries:
            for document, (score, line) in self.scores[query].items():
                if document not in listed:
                    faults.add("documents", f"document {document!r} is not among those that are searched", line)
                    unlisted.setdefault(query, {})[document] = score
        faults.report("documents", "{n} such lines keep their ranks in metrics, as in trec_eval")
        return unlisted

    def within(self, set_name: str) -> Searcher:
        """The rankings of the queries ``SET/QUERY``, as a run of several sets has them; without any, all."""
        prefix = f"{set_name}/"
        of_set = {query: ranked for query, ranked in self.scores.items() if query.startswith(prefix)}
        if not of_set:
            return self
        searcher = copy.copy(self)
        searcher.scores = {query.removeprefix(prefix): ranked for query, ranked in of_set.items()}
        return searcher

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
        self._counts: dict[str, int] = {}

    def search_without(self, queries: TextList, k: int, left_out: Sequence[Set[int]]) -> list[Ranking]:
        """At most ``k`` documents of the run for each query. Raises :class:`DataError` if it has none of the
        queries."""
        check_k(k)
        ids = self._run.ids_of(queries, "queries")
        self._counts, self.unlisted = self._run.compare(self._documents, queries)
        rankings, lost = [], 0
        for id, out in zip(ids, left_out, strict=True):
            ranked = self._run.scores.get(id, {}).items()
            listed = [
                (self._positions[document], score) for document, (score, _) in ranked if document in self._positions
            ]
            positions = np.array([position for position, _ in listed], dtype=np.int64)
            scores = np.array([score for _, score in listed], dtype=np.float64)
            order = best_first(scores, positions)
            ranking = without((scores[order], positions[order]), out, len(order))
            lost += len(order) - len(ranking[0])
            rankings.append((ranking[0][:k], ranking[1][:k]))
        self._counts |= {LEFT_OUT: lost}
        return rankings

    def score_pairs(self, queries: TextList, texts: TextList) -> np.ndarray:
        check_counts(queries, texts)
        pairs = zip(self._run.ids_of(queries, "queries"), self._run.ids_of(texts, "documents"), strict=True)
        unknown = (np.nan, 0)
        return np.array([self._run.scores.get(query, {}).get(document, unknown)[0] for query, document in pairs])

    def account(self) -> Account:
        return Account(counts=self._counts)


run = RunSearcher
