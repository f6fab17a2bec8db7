"""Columns of training files by the names of public data sets.

A role is clear if exactly one of its names is there, or all columns of a known layout.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from retrokit.data.jsonl import IDENTIFIERS, TEXTS, fields_of

SENTENCES = ("text1", "sentence1", "sentence_A", "sentence_a")
"""Anchors of pairs whose label is usually a score."""
ANCHOR = ("anchor", "query", "question", "sentence", *SENTENCES)
POSITIVE = (
    *("positive", "answer", "response", "pos", "passage", "document"),
    *("text2", "sentence2", "sentence_B", "sentence_b"),
)
DOCUMENTS = ("docs", "documents", "passages")
"""Lists of which only the labels say what is positive."""
NEGATIVES = ("negatives", "negative", "neg", "hard_negatives", "hard_negative", "rejected_response")
LABELS = ("label", "labels", "gold_label", "is_duplicate", "is_relevant")
SCORES = ("score", "scores", "similarity", "similarity_score", "relevance", "relevance_score")
"""Labels of pairs without one of :data:`LABELS`."""
SCORE = (*SCORES, "label", "labels")
POSITIVE_SCORE = ("positive_score", "positive_scores", "pos_scores")
NEGATIVE_SCORES = ("negative_scores", "neg_scores")
ALL_SCORES = ("scores", "score", "label")
NLI = "NLI"
_NUMBERED = re.compile(r"((?:hard_)?negative|neg)_?([0-9]{1,6})")


class Layout(NamedTuple):
    """Columns of pairs that belong together. It needs one of the columns ``labels``, if it has any."""

    name: str
    anchor: str
    positive: str
    negatives: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    def fits(self, names: tuple[str, ...], label: str | None) -> bool:
        """Whether the columns ``names``, one of which is the ``label`` of pairs, are of this layout."""
        has_label = not self.labels or (label is not None and usual_name(label) in self.labels)
        return has_label and {self.anchor, self.positive}.issubset(names)


LAYOUTS = (
    Layout("Tevatron", "query", "positive_passages", ("negative_passages",)),
    Layout("DPR", "question", "positive_ctxs", ("hard_negative_ctxs", "negative_ctxs")),
    Layout("ms-swift", "messages", "positive_messages", ("negative_messages", "rejected_messages")),
    Layout("sets of equal texts", "set", "set"),
    Layout(NLI, "premise", "hypothesis", labels=(*LABELS, *SCORES)),
    Layout(NLI, "question", "sentence", labels=LABELS),
    Layout(NLI, "sentence1", "sentence2", labels=("gold_label",)),
    Layout("duplicate questions", "question1", "question2", labels=(*LABELS, *SCORES)),
)
"""The first one that fits counts; of its ``negatives``, the first that is there."""


class PairColumns(NamedTuple):
    """The columns of pairs, the one of their labels if there is one, and their :class:`Layout` if it is a known one."""

    anchor: str
    positive: str
    negatives: tuple[str, ...]
    label: str | None = None
    layout: Layout | None = None


@lru_cache(maxsize=64)
def pair_columns(names: tuple[str, ...]) -> PairColumns:
    """The columns of pairs among ``names``; raises :class:`ValueError` for a role with no column or several."""
    label = _label(names)
    for layout in LAYOUTS:
        if layout.fits(names, label):
            negatives = next(((name,) for name in layout.negatives if name in names), _negatives(names))
            return PairColumns(layout.anchor, layout.positive, negatives, label, layout)
    anchor = _only(names, "anchor", ANCHOR)
    has_documents = set(POSITIVE).isdisjoint(names) and not set(DOCUMENTS).isdisjoint(names)
    positive = _only(names, "positive", DOCUMENTS if has_documents else POSITIVE)
    return PairColumns(anchor, positive, _negatives(names), label)


def _label(names: tuple[str, ...]) -> str | None:
    for candidates in (LABELS, SCORES):
        matches = [name for name in names if usual_name(name) in candidates]
        if len(matches) > 1:
            raise ValueError(f"the label could be any of {fields_of(matches)}; keep one")
        if matches:
            return matches[0]
    return None


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
    anchor, positive, negatives, label, _ = pair_columns(names)
    teacher = teacher_columns(names) if kind == "taught" else ()
    label = label if kind == "pairs" else None
    return [*dict.fromkeys(name for name in (anchor, positive, *negatives, label, *teacher) if name)]


def is_score(name: str) -> bool:
    """Whether a column of that name has numbers or labels."""
    return usual_name(name) in {*LABELS, *SCORES, *POSITIVE_SCORE, *NEGATIVE_SCORES}


def is_label(name: str) -> bool:
    """Whether a column of that name has labels of pairs, rather than scores."""
    return usual_name(name) in LABELS


def is_negative(name: str) -> bool:
    """Whether a column of that name has negatives, which a row may lack."""
    return name in NEGATIVES or _NUMBERED.fullmatch(name) is not None


_NAMES = {
    *(*IDENTIFIERS, *TEXTS, "title", "near_miss"),
    *(*ANCHOR, *POSITIVE, *DOCUMENTS, *NEGATIVES, *LABELS, *SCORES, *POSITIVE_SCORE, *NEGATIVE_SCORES),
    *(name for layout in LAYOUTS for name in (layout.anchor, layout.positive)),
}
_BY_CASE = {name.lower(): name for name in sorted(_NAMES)}
_VALUES = {"positive", "negative", "neg", "pos", "question", "answer", "sentence", "body", "content", "segment"}
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
    return len(known) > 1 or not _VALUES.issuperset(known) or known == names


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
    """The columns of two texts and their score among ``names``; raises as :func:`pair_columns`."""
    columns = pair_columns(names)
    return columns.anchor, columns.positive, _only(names, "score", SCORE)


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
