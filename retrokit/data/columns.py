"""Columns of training files by the names of public data sets.

A role is clear if exactly one of its names is there, or all columns of a known layout.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from retrokit.data.jsonl import IDENTIFIERS, TEXTS, fields_of

ANCHOR = ("anchor", "query", "question", "sentence", "text1")
POSITIVE = ("positive", "answer", "response", "pos", "passage", "document", "text2")
NEGATIVES = ("negatives", "negative", "neg", "hard_negatives", "hard_negative", "rejected_response")
SCORE = ("score", "label", "similarity")
POSITIVE_SCORE = ("positive_score", "positive_scores", "pos_scores")
NEGATIVE_SCORES = ("negative_scores", "neg_scores")
ALL_SCORES = ("scores", "score", "label")
FIRST = ("sentence1", "sentence_A", "sentence_a", "text1", "query")
SECOND = ("sentence2", "sentence_B", "sentence_b", "text2", "response")
_NUMBERED = re.compile(r"((?:hard_)?negative|neg)_?([0-9]{1,6})")


class Layout(NamedTuple):
    """Columns of pairs that belong together. Rows with one of ``negative_labels`` are no positive pairs."""

    name: str
    anchor: str
    positive: str
    negatives: tuple[str, ...] = ()
    label: str | None = None
    positives: tuple[Any, ...] = (1,)
    negative_labels: tuple[Any, ...] = (0, -1, None)


_NLI = (0, "entailment"), (1, 2, -1, "neutral", "contradiction", "-", None)
LAYOUTS = (
    Layout("Tevatron", "query", "positive_passages", ("negative_passages",)),
    Layout("DPR", "question", "positive_ctxs", ("hard_negative_ctxs", "negative_ctxs")),
    Layout("ms-swift", "messages", "positive_messages", ("negative_messages",)),
    Layout("sets of equal texts", "set", "set"),
    Layout("NLI", "premise", "hypothesis", (), "label", *_NLI),
    Layout("NLI", "sentence1", "sentence2", (), "gold_label", *_NLI),
    Layout("duplicate questions", "question1", "question2", label="is_duplicate"),
    *(
        Layout("sentence pairs", first, second, label=label)
        for first, second in zip(FIRST, SECOND, strict=True)
        for label in (*SCORE, None)
    ),
)
"""The first one that fits counts; of its ``negatives``, the first that is there."""


class PairColumns(NamedTuple):
    """The columns of pairs, and their :class:`Layout` if it is a known one."""

    anchor: str
    positive: str
    negatives: tuple[str, ...]
    layout: Layout | None = None


@lru_cache(maxsize=64)
def pair_columns(names: tuple[str, ...]) -> PairColumns:
    """The columns of pairs among ``names``; raises :class:`ValueError` for a role with no column or several."""
    for layout in LAYOUTS:
        if {layout.anchor, layout.positive, layout.label or layout.anchor} <= set(names):
            negatives = next(((name,) for name in layout.negatives if name in names), _negatives(names))
            return PairColumns(layout.anchor, layout.positive, negatives, layout)
    return PairColumns(_only(names, "anchor", ANCHOR), _only(names, "positive", POSITIVE), _negatives(names))


def _negatives(names: tuple[str, ...]) -> tuple[str, ...]:
    numbered = sorted((int(match[2]), match[1], match[0]) for match in map(_NUMBERED.fullmatch, names) if match)
    families = {base for _, base, _ in numbered}
    plain = [name for name in NEGATIVES if name in names]
    if len(plain) + len(families) > 1:
        ambiguous = [*plain, *(column for _, _, column in numbered)]
        raise ValueError(f"the negatives could be any of {fields_of(ambiguous)}; keep one")
    return tuple(plain) or tuple(column for _, _, column in numbered)


def used_columns(names: tuple[str, ...], kind: str) -> list[str]:
    """The columns among ``names`` that records of a kind (``training_rows.Kind``) need; raises :class:`ValueError`."""
    if kind == "texts":
        return [text_column(names)]
    if kind == "scored":
        return [*scored_columns(names)]
    anchor, positive, negatives, layout = pair_columns(names)
    teacher = teacher_columns(names) if kind == "taught" else ()
    label = layout.label if layout is not None and kind == "pairs" else None
    return [*dict.fromkeys(name for name in (anchor, positive, *negatives, label, *teacher) if name)]


def is_score(name: str) -> bool:
    """Whether a column of that name has numbers or labels."""
    return name in {*SCORE, *POSITIVE_SCORE, *NEGATIVE_SCORES, *ALL_SCORES, "is_duplicate"}


def is_negative(name: str) -> bool:
    """Whether a column of that name has negatives, which a row may lack."""
    return name in NEGATIVES or _NUMBERED.fullmatch(name) is not None


_NAMES = {
    *(*IDENTIFIERS, *TEXTS, "title", "near_miss"),
    *(*ANCHOR, *POSITIVE, *NEGATIVES, *SCORE, *POSITIVE_SCORE, *NEGATIVE_SCORES, *ALL_SCORES, *FIRST, *SECOND),
    *(name for layout in LAYOUTS for name in (layout.anchor, layout.positive, layout.label) if name),
}
_BY_CASE = {name.lower(): name for name in sorted(_NAMES)}
_LABELS = {"positive", "negative", "neg", "pos", "question", "answer", "sentence", "body", "content", "segment"}
"""Names of columns that may also be values."""


def usual_name(name: str) -> str:
    """The known name of a column that differs from it in case or white space only; else the name itself.

    >>> usual_name(" Query"), usual_name("Notes")
    ('query', 'Notes')
    """
    name = name.strip()
    return name if name in _NAMES else _BY_CASE.get(name.lower(), name)


def is_header(names: Sequence[str]) -> bool:
    """Whether the first line of a table names its columns: it has one known name, or two that may also be labels.

    >>> is_header(["text", "topic"]), is_header(["a good film", "positive"])
    (True, False)
    """
    names = [*map(usual_name, names)]
    known = [name for name in names if name in _NAMES or _NUMBERED.fullmatch(name)]
    return len(known) > 1 or not _LABELS.issuperset(known) or known == names


@lru_cache(maxsize=64)
def teacher_columns(names: tuple[str, ...]) -> tuple[str, str | None]:
    """The columns of a teacher's scores among ``names``: of positives and of negatives, or of all and ``None``. Raises
    as :func:`pair_columns`."""
    if {*POSITIVE_SCORE, *NEGATIVE_SCORES}.isdisjoint(names) and not set(ALL_SCORES).isdisjoint(names):
        return _only(names, "teacher's scores", ALL_SCORES), None
    positive = _only(names, "teacher's score of the positive", POSITIVE_SCORE)
    return positive, _only(names, "teacher's scores of the negatives", NEGATIVE_SCORES)


@lru_cache(maxsize=64)
def scored_columns(names: tuple[str, ...]) -> tuple[str, str, str]:
    """The columns of two sentences and their score among ``names``; raises as :func:`pair_columns`."""
    first, second = _only(names, "first sentence", FIRST), _only(names, "second sentence", SECOND)
    return first, second, _only(names, "score", SCORE)


@lru_cache(maxsize=64)
def text_column(names: tuple[str, ...]) -> str:
    """The column of texts among ``names``: ``text``, or another of :data:`TEXTS`; raises as :func:`pair_columns`."""
    return "text" if "text" in names else _only(names, "text", TEXTS)


def _only(names: Sequence[str], role: str, accepted: Sequence[str]) -> str:
    matches = [name for name in accepted if name in names]
    if len(matches) > 1:
        raise ValueError(f"the {role} could be any of {fields_of(matches)}; keep one")
    if not matches:
        choice = f"{accepted[0]!r}" + (f" (or {', '.join(accepted[1:])})" if accepted[1:] else "")
        raise ValueError(f"no field {choice} for the {role}; the fields are {fields_of(names)}")
    return matches[0]
