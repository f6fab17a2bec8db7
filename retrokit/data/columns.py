"""Which columns of a training file hold what: the names that public data sets use, and the one that is meant.

Sentence-transformers' own documentation, its published data sets and BEIR's training files use a dozen names for the
same three things. A role is clear when exactly one of its names is there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from retrokit.data.jsonl import fields_of

ANCHOR = ("anchor", "query", "question", "sentence", "text1")
POSITIVE = ("positive", "answer", "response", "pos", "passage", "document", "text2")
NEGATIVES = ("negatives", "negative", "neg", "hard_negatives", "hard_negative")
SCORE = ("score", "label", "similarity")
POSITIVE_SCORE = ("positive_score", "positive_scores", "pos_scores")
NEGATIVE_SCORES = ("negative_scores", "neg_scores")
ALL_SCORES = ("scores", "score", "label")
_NUMBERED = re.compile(r"((?:hard_)?negative|neg)_?([0-9]{1,6})")


class PairColumns(NamedTuple):
    """The columns of pairs; ``negatives`` is none, one, or numbered ones in order."""

    anchor: str
    positive: str
    negatives: tuple[str, ...]


class TeacherColumns(NamedTuple):
    """The columns of a teacher's scores: of the positive, or of each, and of the negatives; or all in one, which is
    ``positive`` then."""

    positive: str
    negatives: str | None


class ScoredColumns(NamedTuple):
    """The columns of scored pairs."""

    sentence1: str
    sentence2: str
    score: str


@lru_cache(maxsize=64)
def pair_columns(names: tuple[str, ...]) -> PairColumns:
    """The columns of pairs among ``names``.

    Raises:
        ValueError: a role has no column or several; the message says which, and what is there.
    """
    numbered = sorted((int(match[2]), match[1], match[0]) for match in map(_NUMBERED.fullmatch, names) if match)
    families = {base for _, base, _ in numbered}
    plain = [name for name in NEGATIVES if name in names]
    if len(plain) + len(families) > 1:
        ambiguous = [*plain, *(column for _, _, column in numbered)]
        raise ValueError(f"the negatives could be any of {fields_of(ambiguous)}; keep one")
    return PairColumns(
        _only(names, "anchor", ANCHOR),
        _only(names, "positive", POSITIVE),
        tuple(plain) or tuple(column for _, _, column in numbered),
    )


@lru_cache(maxsize=64)
def teacher_columns(names: tuple[str, ...]) -> TeacherColumns:
    """The columns of a teacher's scores among ``names``.

    Raises:
        ValueError: as for :func:`pair_columns`.
    """
    apart = {*POSITIVE_SCORE, *NEGATIVE_SCORES}
    if apart.isdisjoint(names) and not set(ALL_SCORES).isdisjoint(names):
        return TeacherColumns(_only(names, "teacher's scores", ALL_SCORES), None)
    return TeacherColumns(
        _only(names, "teacher's score of the positive", POSITIVE_SCORE),
        _only(names, "teacher's scores of the negatives", NEGATIVE_SCORES),
    )


@lru_cache(maxsize=64)
def scored_columns(names: tuple[str, ...]) -> ScoredColumns:
    """The columns of scored pairs among ``names``.

    Raises:
        ValueError: as for :func:`pair_columns`.
    """
    return ScoredColumns(
        _only(names, "first sentence", ("sentence1",)),
        _only(names, "second sentence", ("sentence2",)),
        _only(names, "score", SCORE),
    )


@lru_cache(maxsize=64)
def text_column(names: tuple[str, ...]) -> str:
    """The column of texts among ``names``: ``text``.

    Raises:
        ValueError: there is none; the message says what is there.
    """
    return _only(names, "text", ("text",))


def _only(names: Sequence[str], role: str, accepted: Sequence[str]) -> str:
    found = [name for name in accepted if name in names]
    if len(found) > 1:
        raise ValueError(f"the {role} could be any of {fields_of(found)}; keep one")
    if not found:
        choice = f"{accepted[0]!r}" + (f" (or {', '.join(accepted[1:])})" if accepted[1:] else "")
        raise ValueError(f"no field {choice} for the {role}; the fields are {fields_of(names)}")
    return found[0]
