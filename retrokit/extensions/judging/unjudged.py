"""What the judgements do not know: documents that systems rank high and that nobody judged.

A metric of a query is here a fraction: gains of relevant documents in the first places, over a number that depends on
how many documents are relevant. That covers nDCG, precision and recall.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

import numpy as np

from retrokit.data.beir import RetrievalData
from retrokit.metrics.ranking import ranks

Runs = Mapping[str, Mapping[str, Mapping[str, float]]]
"""System → query → document → score."""
NOWHERE = 1 << 30
"""The rank of a document that a system does not list."""


@dataclass(frozen=True)
class JudgingPool:
    """The documents that systems rank first, query by query.

    Attributes:
        query, documents: of each pair, the number of its query and the id of its document.
        ranks: of each system and pair, from 1, int ``[systems, pairs]``.
        grades: of each pair; −1: nobody judged it.
        known: of each query, the grades above 0 of all documents, the highest first.
        level: lowest grade that counts as relevant.
    """

    systems: list[str]
    queries: Sequence[str]
    query: np.ndarray
    documents: list[str]
    ranks: np.ndarray
    grades: np.ndarray
    known: list[list[int]]
    level: int

    @cached_property
    def open(self) -> np.ndarray:
        """The pairs that nobody judged, ``[n]``."""
        return np.flatnonzero(self.grades < 0)

    @cached_property
    def relevant(self) -> np.ndarray:
        """Known relevant documents of each query, ``[queries]``."""
        return np.array([sum(grade >= self.level for grade in grades) for grades in self.known], dtype=float)

    @cached_property
    def covered(self) -> np.ndarray:
        """The share of each query's relevant documents that is in the pool, ``[queries]``, from its known ones and the
        share of all queries, which has the weight of one document."""
        inside, total = self.per_query(self.grades >= self.level), float(self.relevant.sum())
        of_all = float(inside.sum()) / total if total else 1.0
        shares: np.ndarray = (inside + of_all) / (self.relevant + 1)
        return shares

    @cached_property
    def is_graded(self) -> bool:
        """Whether a known grade is above the level, which open pairs count with; nDCG may then exceed its bounds."""
        return any(grade > self.level for grades in self.known for grade in grades)

    def per_query(self, values: np.ndarray, pairs: np.ndarray | slice = slice(None)) -> np.ndarray:
        """The sum over the pairs of each query, ``[queries]``."""
        sums: np.ndarray = np.bincount(self.query[pairs], values, len(self.queries))
        return sums

    def judged_share(self, system: int, cutoff: int) -> float:
        """The share of the first ``cutoff`` documents that is judged, over all queries (judged@k)."""
        shown = self.ranks[system] <= cutoff
        return float((self.grades[shown] >= 0).mean()) if shown.any() else 1.0


def pool_of(data: RetrievalData, runs: Runs, depth: int) -> JudgingPool:
    """The first ``depth`` documents of each query in each run."""
    corpus = set(data.document_ids)
    query, documents, document_ranks, grades = [], [], [], []
    relevant_grades: list[list[int]] = []
    for number, id in enumerate(data.query_ids):
        judged = data.qrels.get(id, {})
        relevant_grades.append(sorted((grade for grade in judged.values() if grade > 0), reverse=True))
        rankings = [_first(run.get(id, {}), depth) for run in runs.values()]
        for document in dict.fromkeys(chain.from_iterable(rankings)):
            if document in corpus:
                query.append(number)
                documents.append(document)
                document_ranks.append([ranking.get(document, NOWHERE) for ranking in rankings])
                grades.append(max(judged[document], 0) if document in judged else -1)
    return JudgingPool(
        [*runs],
        list(data.query_ids),
        np.array(query, dtype=np.int64),
        documents,
        np.array(document_ranks, dtype=np.int64).reshape(-1, len(runs)).T,
        np.array(grades, dtype=np.int64),
        relevant_grades,
        data.level,
    )


def _first(scores: Mapping[str, float], depth: int) -> dict[str, int]:
    """The ranks of the first ``depth`` documents."""
    return {document: rank for document, rank in ranks(scores).items() if rank <= depth}


@dataclass(frozen=True)
class Fraction:
    """A metric of all queries of a pool.

    Attributes:
        known: of each system and query, the gains of the documents that are known to be relevant.
        gains: of each system and open pair, its gain if it is relevant.
        factors: one over the denominator, of each query by the number of further relevant documents, from 0.
    """

    name: str
    known: np.ndarray = field(repr=False)
    gains: np.ndarray = field(repr=False)
    factors: np.ndarray = field(repr=False)


def fraction_of(name: str, pool: JudgingPool, limit: int) -> Fraction:
    """The metric ``name`` (``ndcg@10``) with up to ``limit`` further relevant documents of a query."""
    kind, _, text = name.partition("@")
    cutoff = int(text)
    inside = pool.ranks <= cutoff
    if kind == "ndcg":
        gains = np.where(inside, 1 / np.log2(np.minimum(pool.ranks, cutoff) + 1), 0.0)
        worth = np.maximum(pool.grades, 0).astype(float)
    else:
        gains = inside / (cutoff if kind == "precision" else 1.0)
        worth = (pool.grades >= pool.level).astype(float)
    known = np.array([pool.per_query(of_system * worth) for of_system in gains])
    factors = np.array([_factors(kind, cutoff, grades, pool.level, limit) for grades in pool.known])
    return Fraction(name, known, gains[:, pool.open] * (pool.level if kind == "ndcg" else 1), factors)


def _factors(kind: str, cutoff: int, grades: Sequence[int], level: int, limit: int) -> np.ndarray:
    more = np.arange(limit + 1)
    if kind == "precision":
        return np.ones(limit + 1)
    if kind == "recall":
        return 1 / np.maximum(sum(grade >= level for grade in grades) + more, 1)
    higher, lower = [g for g in grades if g >= level][:cutoff], [g for g in grades if g < level]
    discounts = 1 / np.log2(np.arange(2, cutoff + 2))
    room = cutoff - len(higher)  # further ones that change the ideal ranking
    ideal = []
    for count in range(min(limit, room) + 1):
        best = np.array([*higher, *[level] * count, *lower][:cutoff], dtype=float)
        ideal.append(float((best * discounts[: len(best)]).sum()))
    values = np.array(ideal)[np.minimum(more, room)]
    return np.divide(1, values, out=np.zeros(limit + 1), where=values > 0)


def bounds(pool: JudgingPool, metric: Fraction, system: int, against: int | None = None) -> tuple[float, float, float]:
    """The mean of the metric of a system as judged, or of its difference from another one; and the least and the most
    that it can be, whichever open pairs are relevant."""
    gains, known_gains = metric.gains[system], metric.known[system]
    if against is not None:
        gains, known_gains = gains - metric.gains[against], known_gains - metric.known[against]
    by_query: list[list[float]] = [[] for _ in pool.queries]
    for query, gain in zip(pool.query[pool.open].tolist(), gains.tolist(), strict=True):
        by_query[query].append(gain)
    ends = []
    for query, query_gains in enumerate(by_query):
        factors = metric.factors[query][: len(query_gains) + 1]
        highest, lowest = (
            (known_gains[query] + np.cumsum([0.0, *sorted(query_gains, reverse=down)])) * factors
            for down in (True, False)
        )
        ends.append((lowest.min(), highest.max()))
    lowest, highest = np.mean(ends, axis=0).tolist()
    return float((known_gains * metric.factors[:, 0]).mean()), lowest, highest
