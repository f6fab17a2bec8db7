"""Pairs of texts that do or do not mean the same: near-misses of a family, and pairs labelled 0 or 1.

Near-misses are read as ``retrokit augment negatives`` writes them (``anchor``, ``positive``, ``negatives``,
``family``), or as ``text``, ``near_miss`` and optionally ``positive`` and ``family``; labelled pairs as
``sentence1``, ``sentence2``, ``label``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from retrokit.core.errors import DataError, UsageError
from retrokit.core.files import named
from retrokit.data.jsonl import Row, fields_of, kind_of
from retrokit.data.tables import read_rows

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
    that of :func:`retrokit.core.files.read_lines`, ``family`` the field that names a near-miss's family.

    Raises:
        UsageError: a ``family`` of labelled pairs.
        DataError: no line has the field ``family`` that was asked for, another layout, a line of another layout than
            the first, a near-miss that is its own text, or labelled pairs of one label only.
    """
    rows = [row for _, row in read_rows(path, f"pairs, one object a line with {_LAYOUTS}", feed)]
    first = rows[0]
    if "label" in first and "sentence1" in first:
        if family != FAMILY:
            raise UsageError(f"{named(path)} holds labelled pairs, which have no families: leave out family={family}")
        pairs = []
        for row in rows:
            label = row.get("label")
            if label not in (0, 1):
                shown = label if isinstance(label, (int, float, str)) else kind_of(label)
                raise row.wrong(f"field 'label' should be 0 or 1, found {shown}")
            pairs.append(LabelledPair(str(row.line), row.text("sentence1"), row.text("sentence2"), bool(label)))
        if len({pair.same for pair in pairs}) < 2:
            raise DataError(named(path), f"every pair has the label {int(pairs[0].same)}; expected both 0 and 1")
        return pairs
    if family != FAMILY and not any(family in row for row in rows):
        raise first.wrong(f"no line has a field {family!r}; the fields are {fields_of(first)}")
    if "near_miss" not in first and not ("anchor" in first and "negatives" in first):
        raise first.wrong(f"expected {_LAYOUTS}; the fields are {fields_of(first)}")
    is_simple = "near_miss" in first
    return [near_miss for row in rows for near_miss in _near_misses(row, is_simple, family)]


def _near_misses(row: Row, is_simple: bool, family: str) -> Iterator[LabelledNearMiss]:
    anchor = row.text("text" if is_simple else "anchor")
    positive = row.text("positive", anchor if is_simple else None)
    negatives = [row.text("near_miss")] if is_simple else row.get("negatives")
    if not isinstance(negatives, list) or not negatives or not all(isinstance(text, str) for text in negatives):
        raise row.wrong("field 'negatives' should be a list of near-misses, one or more strings")
    for number, text in enumerate(negatives, 1):
        if text == anchor:
            raise row.wrong("the near-miss is the text itself")
        identifier = f"{row.line}.{number}" if len(negatives) > 1 else str(row.line)
        yield LabelledNearMiss(identifier, anchor, positive, text, row.text(family, ""))
