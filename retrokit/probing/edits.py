"""What a system makes of edits: scores of the texts before and after each. ``probe stress`` and ``probe near-miss`` are
two views of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from retrokit.augmentation.edits.generator import EditCase
from retrokit.core.errors import UsageError
from retrokit.ranking.retrieval.base import TextList

Scores = Callable[[TextList, TextList], np.ndarray]
"""Scores ``[n]`` of query i with text i."""


@dataclass(frozen=True)
class ScoredEdit:
    """The scores of an edit; higher is more similar.

    Attributes:
        original: of the query with the document before the edit.
        edited: of the edited query with the document after it.
        harmless, unrelated: of the query with each of these documents.
    """

    case: EditCase
    original: float
    edited: float
    harmless: list[float]
    unrelated: list[float]

    @property
    def fall(self) -> float:
        """By how much the edit lowers the score."""
        return self.original - self.edited


def score_edits(score: Scores, cases: Sequence[EditCase], name: str) -> list[ScoredEdit]:
    """The edits with the scores of the system ``name``; every distinct pair is scored once. Raises :class:`UsageError`
    if a pair has no score."""
    pairs = list(dict.fromkeys(pair for case in cases for pair in _pairs(case)))
    score_of = dict(zip(pairs, score_pairs(score, pairs, name).tolist(), strict=True))
    edits = []
    for case in cases:
        original, edited, *others = (score_of[pair] for pair in _pairs(case))
        harmless = others[: len(case.harmless)]
        unrelated = others[len(case.harmless) :]
        edits.append(ScoredEdit(case, original, edited, harmless, unrelated))
    return edits


def score_pairs(score: Scores, pairs: Sequence[tuple[str, str]], name: str) -> np.ndarray:
    """The scores float64 ``[n]`` of queries with texts. Raises :class:`UsageError` if a pair has no score."""
    queries = TextList(query for query, _ in pairs)
    texts = TextList(text for _, text in pairs)
    scores = score(queries, texts).astype(np.float64)
    if np.isnan(scores).any():
        raise UsageError(f"{name}: has no score of a pair of texts")
    return scores


def _pairs(case: EditCase) -> Iterator[tuple[str, str]]:
    yield case.query, case.edit.before
    yield case.edited_query, case.edit.after
    for text in (*case.harmless, *case.unrelated):
        yield case.query, text
