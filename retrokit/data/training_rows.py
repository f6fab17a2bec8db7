"""The records of training data, and how each is built from a row of a file."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from retrokit.core.errors import DataError
from retrokit.core.files import named
from retrokit.core.notices import notice
from retrokit.data.columns import pair_columns, scored_columns, teacher_columns, text_column, used_columns
from retrokit.data.images import Image, content_of
from retrokit.data.jsonl import Row, fields_of, is_gathering, kind_of
from retrokit.data.words import normalized

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

Kind = Literal["pairs", "taught", "scored", "texts"]
"""Pairs; pairs with a teacher's scores; scored pairs; texts."""


@dataclass(frozen=True, slots=True)
class Pair:
    """An anchor, its positive and its negatives: texts or images. ``scores`` are a teacher's, of the positive and of
    each negative; higher is more relevant; may be empty."""

    anchor: str
    positive: str
    negatives: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """Two sentences and their similarity by people, on the data's own scale; higher is more similar."""

    sentence1: str
    sentence2: str
    score: float


@dataclass(frozen=True, slots=True)
class Unlabelled:
    """A text without a label, from which an augmentation makes a pair."""

    text: str


WITHOUT_NAMES: dict[Kind, dict[int, tuple[str, ...]]] = {
    "pairs": {2: ("anchor", "positive"), 3: ("anchor", "positive", "negative")},
    "taught": {},
    "scored": {3: ("sentence1", "sentence2", "score")},
    "texts": {1: ("text",), 2: ("id", "text")},
}
"""The columns of rows without names, by how many there are (:func:`retrokit.data.tables.read_rows`)."""

_ODD = 0x9E3779B97F4A7C15 - (1 << 64)  # as a signed 64-bit number; any large odd one would do
Codes = TypeVar("Codes", "np.ndarray", "Tensor")
Records = Sequence[Pair] | Sequence[ScoredPair] | Sequence[Unlabelled]


def texts_of_record(record: Pair | ScoredPair | Unlabelled) -> tuple[str, tuple[str, ...]]:
    """The anchor of a record, and its documents, a positive first."""
    if isinstance(record, Pair):
        return record.anchor, (record.positive, *record.negatives)
    if isinstance(record, Unlabelled):
        return record.text, (record.text,)
    return record.sentence1, (record.sentence2,)


def text_id(text: str) -> int:
    """A number from 0 to 2⁶³ − 1 that stands for ``text``, or for an image. Two different ones share it by chance only
    (one in 10¹⁰ for a million of them)."""
    return digest64(content_of(text)) >> 1


def digest64(data: bytes) -> int:
    """64 bits of the BLAKE2b digest of ``data``."""
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


def pair_codes(anchors: Codes, documents: Codes) -> Codes:
    """One int64 for each pair of text ids (int64 arrays or tensors that broadcast), in arithmetic modulo 2⁶⁴."""
    return anchors * _ODD + documents


def normal_form(item: str) -> str:
    """A text as :func:`~retrokit.data.words.normalized` has it, with single spaces; an image as it is.

    >>> normal_form("What  is BM25? ")
    'what is bm25?'
    """
    return item if isinstance(item, Image) else " ".join(normalized(item).split())


def iterate_records(rows: Iterable[tuple[int, Mapping[str, Any]]], kind: Kind, where: str) -> Iterator[Any]:
    """The records of numbered rows of ``where`` (a path or a data set). Raises :class:`DataError` for missing columns
    and wrong values."""
    makers: dict[str, Callable[[Mapping[str, Any]], list[Any]]]
    makers = {"pairs": _pairs_of, "taught": _taught_pairs_of, "scored": _scored_of, "texts": _unlabelled_of}
    records_of = makers[kind]
    kinds: tuple[str, ...] | None = None
    for line, row in rows:
        try:
            for record in records_of(row):
                if isinstance(record, Pair):
                    kinds = same_kinds(record, kinds)
                yield record
        except ValueError as error:
            raise DataError(named(where), str(error), line) from error


Rows = Iterable[tuple[int, Mapping[str, Any]]]


def training_rows(rows: Rows, kind: Kind, where: str, names: Sequence[str] = ()) -> Iterator[tuple[int, Any]]:
    """Numbered rows of ``where`` without those that are no positive pair by their label, or have no positive. A notice
    at the end has the layout, unused columns (of ``names`` too), and the number of rows left out. Raises
    :class:`DataError` for another label."""
    unused: dict[str, None] = {}
    used: Sequence[str] = ()
    columns, layout, before, left_out = None, None, None, 0
    for line, row in rows:
        if (fields := (*row,)) != before:
            before, columns = fields, None
            with suppress(ValueError):  # which iterate_records raises for such a row
                used = used_columns(fields, kind)
                unused.update(dict.fromkeys(name for name in (*fields, *names) if name not in used))
                columns = pair_columns(fields) if kind == "pairs" else None
        if columns is not None and columns.layout is not None:
            layout = columns.layout
            label = row[layout.label] if layout.label else None
            is_positive = layout.label is None or isinstance(label, list) or label in layout.positives
            if not is_positive and label not in layout.negative_labels:
                problem = f"field {layout.label!r} of a pair should be 0 or 1, found {label!r}"
                raise DataError(named(where), f"{problem}; to train on scores, choose `loss=mse`", line)
            if not is_positive or row[columns.positive] == []:
                left_out += 1
                continue
        yield line, row
    parts = [f"read as {layout.name} ({', '.join(used)})"] if layout is not None else []
    parts += [f"columns not used: {fields_of(unused)}"] if unused else []
    parts += [f"rows left out that are no positive pair: {left_out:,}"] if left_out else []
    if parts and not is_gathering():
        notice(f"{named(where)}: {'; '.join(parts)}", once=True)


def same_kinds(pair: Pair | ScoredPair | Unlabelled, before: tuple[str, ...] | None) -> tuple[str, ...]:
    """The kinds (text or image) of anchor and documents; raises :class:`ValueError` if they differ from those
    ``before``, for a batch goes through one tower on either side."""
    anchor, documents = texts_of_record(pair)
    kind_pairs = [
        tuple("an image" if isinstance(item, Image) else "a text" for item in (anchor, document))
        for document in documents
    ]
    first = before or kind_pairs[0]
    other = next((kind_pair for kind_pair in kind_pairs if kind_pair != first), None)
    if other is not None:
        found_pair, expected = (" and ".join(kinds) for kinds in (other, first))
        raise ValueError(f"anchor and document are {found_pair}; expected {expected}, as in all pairs of one source")
    return first


def _pairs_of(row: Mapping[str, Any]) -> list[Pair]:
    columns = pair_columns(tuple(row))
    negatives: list[str] = []
    for column in columns.negatives:
        if row[column] is not None:
            negatives += _items(row, column)
    positives = _items(row, columns.positive)
    if columns.anchor == columns.positive:
        anchor, *positives = positives or [""]
    else:
        anchor = _item(row, columns.anchor)
    if not positives:
        raise ValueError(f"field {columns.positive!r} is an empty list")
    return [Pair(anchor, positive, tuple(negatives)) for positive in positives]


def _taught_pairs_of(row: Mapping[str, Any]) -> list[Pair]:
    pairs = _pairs_of(row)
    of_positives, of_negatives = teacher_columns(tuple(row))
    first = _numbers(row, of_positives)
    if of_negatives is None:
        given, rest = [first[:1]], first[1:]
    else:
        given, rest = [[score] for score in first], _numbers(row, of_negatives)
    for column, scores, texts, what in (
        (of_positives, given, pairs, "positives"),
        (of_negatives or of_positives, rest, pairs[0].negatives, "negatives"),
    ):
        if len(scores) != len(texts):
            raise ValueError(f"field {column!r} has scores of {len(scores)} {what}; expected {len(texts)}")
    return [replace(pair, scores=(*score, *rest)) for pair, score in zip(pairs, given, strict=True)]


def _numbers(row: Mapping[str, Any], column: str) -> list[float]:
    value = row[column]
    return [_number(item, column) for item in (value if isinstance(value, list) else [value])]


def _number(value: Any, column: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"field {column!r} should be a number, found {kind_of(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"field {column!r} should be a finite number")
    return number


def _scored_of(row: Mapping[str, Any]) -> list[ScoredPair]:
    first, second, column = scored_columns(tuple(row))
    score = _number(row[column], column)
    return [ScoredPair(_not_blank(_string(row, first), first), _not_blank(_string(row, second), second), score)]


def _unlabelled_of(row: Mapping[str, Any]) -> list[Unlabelled]:
    return [Unlabelled(_string(row, text_column(tuple(row))))]


def _string(row: Mapping[str, Any], column: str) -> str:
    value = row[column]
    if not isinstance(value, str):
        raise ValueError(f"field {column!r} should be a string, found {kind_of(value)}")
    return value


def _item(row: Mapping[str, Any], column: str) -> str:
    text = _composed(row[column])
    return _image(row, row[column]) or _not_blank(_string(row, column) if text is None else text, column)


def _composed(value: Any) -> str | None:
    """The text of a passage (``title``, ``text``) or of a list of messages (``content``), or ``None``."""
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        return " ".join(part for part in (value.get("title"), value["text"]) if part).strip()
    if isinstance(value, list) and value and all(isinstance(message, dict) for message in value):
        contents = [message.get("content") for message in value]
        if all(isinstance(content, str) for content in contents):
            return "\n".join(contents)
    return None


def _items(row: Mapping[str, Any], column: str) -> list[str]:
    value = row[column]
    if isinstance(value, str) or _names_image(row, value) or _composed(value) is not None:
        return [_item(row, column)]
    if not isinstance(value, list):
        raise ValueError(f"field {column!r} should be a string or a list of strings, found {kind_of(value)}")
    for item in value:
        if not (isinstance(item, str) or _names_image(row, item) or _composed(item) is not None):
            raise ValueError(f"field {column!r} should hold strings, found {kind_of(item)} in its list")
    return [_image(row, item) or _not_blank(_composed(item) or item, column) for item in value]


def _names_image(row: Mapping[str, Any], value: Any) -> bool:
    """Whether ``value`` is ``{"image": PATH}``, in a row of a file, to which a path can be relative."""
    return isinstance(row, Row) and isinstance(value, dict) and isinstance(value.get("image"), str)


def _image(row: Mapping[str, Any], value: Any) -> Image | None:
    return row.image(value["image"]) if isinstance(row, Row) and _names_image(row, value) else None


def _not_blank(text: str, column: str) -> str:
    if not text or text.isspace():
        raise ValueError(f"field {column!r} is empty")
    return text
