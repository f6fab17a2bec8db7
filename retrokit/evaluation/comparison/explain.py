"""The queries that changed most between two systems, with the ranks of their relevant documents."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from retrokit.data.beir import RetrievalData
from retrokit.evaluation.result import Result
from retrokit.metrics.ranking import ranks

MOST_DOCUMENTS = 5
"""Relevant documents of a query that are shown, those whose rank changed most."""


@dataclass(frozen=True)
class MovedDocument:
    """A relevant document of a query: its grade and text, and its rank in both systems, from 1; ``None``: not found."""

    id: str
    grade: int
    before: int | None
    after: int | None
    text: str


@dataclass(frozen=True)
class MovedQuery:
    """A query whose ``metric`` differs between two systems, with its relevant documents, ``others`` of which are left
    out here."""

    id: str
    query: str
    before: float
    after: float
    documents: list[MovedDocument]
    others: int


@dataclass(frozen=True)
class Explanation:
    """How ``system`` differs from ``baseline`` on a task, in one metric: ``better``, ``worse`` and ``equal`` queries,
    and those that changed most."""

    task: str
    metric: str
    baseline: str
    system: str
    better: int
    worse: int
    equal: int
    queries: list[MovedQuery]


def explanations(
    results: Sequence[Result], data: Mapping[str, RetrievalData], shown: Mapping[str, Sequence[str]], count: int
) -> list[Explanation]:
    """The ``count`` queries that changed most between the first result of a task and each other one, by task of
    ``data``."""
    entries = []
    for task, task_data in data.items():
        first, *others = [result for result in results if result.task == task]
        metric = first.leading_metric(shown[task])
        entries += [explain(task_data, first, other, metric, count) for other in others]
    return entries


def explain(data: RetrievalData, first: Result, other: Result, metric: str, count: int) -> Explanation:
    """The ``count`` queries whose ``metric`` differs most; of equal differences the first in the data."""
    before, after = first.per_query[metric], other.per_query[metric]
    change = {query: after[query] - before[query] for query in data.query_ids}
    moved = sorted((query for query in change if change[query]), key=lambda query: -abs(change[query]))[:count]
    texts = dict(zip(data.document_ids, data.documents, strict=True))
    queries = dict(zip(data.query_ids, data.queries, strict=True))
    shown = []
    for query in moved:
        then, now = ranks(first.run.get(query, {})), ranks(other.run.get(query, {}))
        documents = [
            MovedDocument(id, grade, then.get(id), now.get(id), texts[id])
            for id, grade in data.qrels[query].items()
            if grade >= data.level and id in texts
        ]
        documents.sort(key=lambda document: -abs(1 / (document.before or 10**9) - 1 / (document.after or 10**9)))
        top = documents[:MOST_DOCUMENTS]
        shown.append(MovedQuery(query, queries[query], before[query], after[query], top, len(documents) - len(top)))
    return Explanation(first.task, metric, first.name, other.name, *counted(change.values()), shown)


def counted(change: Collection[float]) -> tuple[int, int, int]:
    """How many values are above 0, below 0 and neither."""
    better, worse = (sum(sign * value > 0 for value in change) for sign in (1, -1))
    return better, worse, len(change) - better - worse
