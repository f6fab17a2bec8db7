"""The queries that changed most between two systems, with the ranks of their relevant documents."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from retrokit.data.beir import RetrievalData
from retrokit.evaluation.result import Result, leading_metric
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
    ``data``; of equal differences the first in the data."""
    entries = []
    for task, task_data in data.items():
        first, *others = [result for result in results if result.task == task]
        metric = leading_metric(first.main_metric, shown[task])
        texts = dict(zip(task_data.document_ids, task_data.documents, strict=True))
        queries = dict(zip(task_data.query_ids, task_data.queries, strict=True))
        for other in others:
            before, after = first.per_query[metric], other.per_query[metric]
            change = {query: after[query] - before[query] for query in queries}
            moved = []
            for query in sorted(filter(change.get, change), key=lambda query: -abs(change[query]))[:count]:
                then, now = ranks(first.run.get(query, {})), ranks(other.run.get(query, {}))
                documents = [
                    MovedDocument(id, grade, then.get(id), now.get(id), texts[id])
                    for id, grade in task_data.qrels[query].items()
                    if grade >= task_data.level and id in texts
                ]
                documents.sort(key=lambda one: -abs(1 / (one.before or 10**9) - 1 / (one.after or 10**9)))
                top, left_out = documents[:MOST_DOCUMENTS], len(documents[MOST_DOCUMENTS:])
                moved.append(MovedQuery(query, queries[query], before[query], after[query], top, left_out))
            counts = counted(change.values())
            entries.append(Explanation(first.task, metric, first.name, other.name, *counts, moved))
    return entries


def counted(change: Collection[float]) -> tuple[int, int, int]:
    """The number of values above 0, below 0 and neither."""
    better, worse = (sum(sign * value > 0 for value in change) for sign in (1, -1))
    return better, worse, len(change) - better - worse
