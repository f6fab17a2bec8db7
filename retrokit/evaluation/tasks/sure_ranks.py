"""What a retriever and a reference say of SURE's queries: lists, scores, ranks, and what is averaged of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from retrokit.data.sure import ORIGINAL
from retrokit.evaluation.tasks.sure_reference import SureCandidates


class Found(NamedTuple):
    """What a retriever says of one query: its list, best first, and its scores of the query's variants.

    Attributes:
        scores: of the list, ``[n]``.
        passages: the list: positions in the task's passages, int64 ``[n]``.
        variant_scores: ``[v]``, on the same scale.
    """

    scores: np.ndarray
    passages: np.ndarray
    variant_scores: np.ndarray


class ReferenceScores(NamedTuple):
    """The reference's scores of a query: of its list, ``[n]``, and of variants, ``[v]``; NaN where unknown."""

    listed: np.ndarray
    variants: np.ndarray

    @classmethod
    def of(cls, scores: np.ndarray, ranking: Found) -> ReferenceScores:
        """Those of the list of ``ranking`` and, after them, of variants."""
        return cls(scores[: len(ranking.passages)], scores[len(ranking.passages) :])


@dataclass(frozen=True)
class RankedTestbed:
    """Ranks of one testbed's passages, in the order of :data:`TESTBEDS`, from 1, int64 ``[q, n]``: by the retriever and
    by the ``reference``; the positions of the ``queries`` that have both, int64 ``[q]``, and how many have not."""

    queries: np.ndarray
    ranks: np.ndarray
    reference: np.ndarray
    dropped: dict[str, int]


def retrieved_order(ranking: Found, chosen: np.ndarray) -> np.ndarray:
    """Positions in the list with the variants ``chosen`` after it, in the retriever's order, int64 ``[n + v]``."""
    return np.argsort(-np.concatenate([ranking.scores, ranking.variant_scores[chosen]]), kind="stable")


def position_of(passages: np.ndarray, passage: int) -> int | None:
    """Where ``passage`` stands in a list of passages."""
    positions = np.flatnonzero(passages == passage)
    return int(positions[0]) if len(positions) else None


def in_order(kinds: Sequence[str], original: int, variants: np.ndarray) -> np.ndarray:
    """The ranks of the passages ``kinds``, given that of the original and those of the variants in their order."""
    left = iter(variants.tolist())
    return np.array([original if kind == ORIGINAL else next(left) for kind in kinds], dtype=np.int64)


class MeanOfMeans:
    """The mean over testbeds of the mean over those of the queries at ``rows`` that a testbed has (not NaN); NaN if
    it has none of them."""

    def __init__(self, columns: Sequence[np.ndarray]) -> None:
        self._columns = columns

    def __call__(self, rows: np.ndarray) -> float:
        taken = [column[rows] for column in self._columns]
        present = [part[~np.isnan(part)] for part in taken]
        return float(np.mean([part.mean() if len(part) else np.nan for part in present]))


class SureRun(Mapping[str, dict[str, float]]):
    """The lists and the variants of all queries as ``{query: {id: score}}``, which is made for one query at a time: two
    thousand passages for each of thousands of queries would fill the memory."""

    def __init__(self, candidates: SureCandidates, rankings: Sequence[Found], variants: Sequence[np.ndarray]) -> None:
        self._candidates = candidates
        self._rankings = rankings
        self._variants = variants
        self._position = {query: position for position, query in enumerate(candidates.queries.ids)}

    def __getitem__(self, query: str) -> dict[str, float]:
        position = self._position[query]
        ranking = self._rankings[position]
        entries = np.concatenate([ranking.passages, self._variants[position]]).tolist()
        scores = np.concatenate([ranking.scores, ranking.variant_scores]).tolist()
        return {self._candidates.ids[entry]: score for entry, score in zip(entries, scores, strict=True)}

    def __iter__(self) -> Iterator[str]:
        return iter(self._candidates.queries.ids)

    def __len__(self) -> int:
        return len(self._candidates.queries)
