"""Pairs of texts that do or do not mean the same: near-misses of a family, and pairs labelled 0 or 1.

Near-misses are read as ``retrokit augment negatives`` writes them (``anchor``, ``positive``, ``negatives``,
``family``), or as ``text``, ``near_miss`` and optionally ``positive`` and ``family``; labelled pairs as
``sentence1``, ``sentence2``, ``label``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retrokit.data.files import named
from retrokit.data.jsonl import fields_of, kind_of, read_jsonl, text_of
from retrokit.errors import DataError, UsageError

FAMILY = "family"
_LAYOUTS = "anchor, positive and negatives; or text and near_miss; or sentence1, sentence2 and label"


@dataclass(frozen=True)
class LabelledNearMiss:
    """A text, one that means the same (or the text itself), and one that differs in few words and in meaning.

    ``family`` is the kind of edit; empty where the file does not say.
    """

    id: str
    anchor: str
    positive: str
    near_miss: str
    family: str


@dataclass(frozen=True)
class LabelledPair:
    """Two texts, and whether they mean the same."""

    id: str
    first: str
    second: str
    same: bool


def read_labelled_pairs(
    path: str | Path, feed: Callable[[bytes], object] | None = None, family: str = FAMILY
) -> list[LabelledNearMiss] | list[LabelledPair]:
    """Read a file of near-misses or of labelled pairs; its first line decides which. Ids are line numbers. ``feed`` is
    that of :func:`retrokit.data.files.read_lines`, ``family`` the field that names a near-miss's family.

    Raises:
        UsageError: a ``family`` of labelled pairs.
        DataError: no line has the field ``family`` that was asked for, another layout, a line of another layout than
            the first, a near-miss that is its own text, or labelled pairs of one label only.
    """
    rows = list(read_jsonl(path, f"pairs, one object a line with {_LAYOUTS}", feed))
    first_line, first = rows[0]
    if "label" in first and "sentence1" in first:
        if family != FAMILY:
            raise UsageError(f"{named(path)} holds labelled pairs, which have no families: leave out family={family}")
        pairs = [_labelled(row, path, line) for line, row in rows]
        if len({pair.same for pair in pairs}) < 2:
            label = int(pairs[0].same)
            raise DataError(named(path), f"every pair has the label {label}; expected both 0 and 1")
        return pairs
    if family != FAMILY and not any(family in row for _, row in rows):
        raise DataError(named(path), f"no line has a field {family!r}; the fields are {fields_of(first)}", first_line)
    if "near_miss" in first:
        return [_simple(row, path, line, family) for line, row in rows]
    if "anchor" in first and "negatives" in first:
        return [example for line, row in rows for example in _augmented(row, path, line, family)]
    raise DataError(named(path), f"expected {_LAYOUTS}; the fields are {fields_of(first)}", first_line)


def _labelled(row: Mapping[str, Any], path: str | Path, line: int) -> LabelledPair:
    label = row.get("label")
    if label not in (0, 1):
        shown = label if isinstance(label, (int, float, str)) else kind_of(label)
        raise DataError(named(path), f"field 'label' should be 0 or 1, found {shown}", line)
    first, second = text_of(row, "sentence1", path, line), text_of(row, "sentence2", path, line)
    return LabelledPair(str(line), first, second, bool(label))


def _simple(row: Mapping[str, Any], path: str | Path, line: int, family: str) -> LabelledNearMiss:
    text = text_of(row, "text", path, line)
    positive = text_of(row, "positive", path, line) if row.get("positive") is not None else text
    near_miss = text_of(row, "near_miss", path, line)
    return _checked(
        LabelledNearMiss(str(line), text, positive, near_miss, _family(row, path, line, family)), path, line
    )


def _augmented(row: Mapping[str, Any], path: str | Path, line: int, family: str) -> list[LabelledNearMiss]:
    anchor, positive = text_of(row, "anchor", path, line), text_of(row, "positive", path, line)
    negatives = row.get("negatives")
    if not isinstance(negatives, list) or not negatives or not all(isinstance(text, str) for text in negatives):
        raise DataError(named(path), "field 'negatives' should be a list of near-misses, one or more strings", line)
    ids = [str(line)] if len(negatives) == 1 else [f"{line}.{i}" for i in range(1, len(negatives) + 1)]
    edit = _family(row, path, line, family)
    return [
        _checked(LabelledNearMiss(identifier, anchor, positive, text, edit), path, line)
        for identifier, text in zip(ids, negatives, strict=True)
    ]


def _family(row: Mapping[str, Any], path: str | Path, line: int, family: str) -> str:
    return text_of(row, family, path, line) if row.get(family) is not None else ""


def _checked(example: LabelledNearMiss, path: str | Path, line: int) -> LabelledNearMiss:
    if example.near_miss == example.anchor:
        raise DataError(named(path), "the near-miss is the text itself", line)
    return example
