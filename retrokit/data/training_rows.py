"""The records of training data, and how each is built from a row of a file."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from retrokit.core.errors import DataError, out_of_range
from retrokit.core.files import named
from retrokit.core.notices import notice
from retrokit.data.columns import (
    DOCUMENTS,
    LABELS,
    NLI,
    PairColumns,
    is_label,
    pair_columns,
    scored_columns,
    teacher_columns,
    text_column,
    used_columns,
)
from retrokit.data.images import Image, content_of
from retrokit.data.jsonl import IDENTIFIERS, Row, fields_of, is_gathering, kind_of
from retrokit.data.pair_labels import has_score, is_positive, number_of
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


def digest64(data: bytes | bytearray) -> int:
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


Rows = Iterable[tuple[int, Mapping[str, Any]]]


def iterate_records(rows: Rows, kind: Kind, where: str) -> Iterator[Any]:
    """The records of numbered rows of ``where`` (a path or a data set). Raises :class:`DataError` for missing columns
    and wrong values."""
    yield from RecordBuilder(kind).records(rows, where)


def training_records(
    rows: Rows, kind: Kind, where: str, level: float | None = None, names: Sequence[str] = ()
) -> Iterator[Any]:
    """As :func:`iterate_records`, with a notice at the end: the layout, unused columns (of ``names`` too), and numbers
    of rows left out. ``level`` is the lowest score of a positive pair."""
    builder = RecordBuilder(kind, level)
    yield from builder.records(rows, where)
    parts = builder.summary(names)
    if parts and not is_gathering():
        notice(f"{named(where)}: {'; '.join(parts)}", once=True)


class RecordBuilder:
    """Builds the records of one kind from rows, and counts what it leaves out.

    Attributes:
        level: the lowest score of a positive pair; ``None``: labels decide.
        layout: what the rows are read as, for a notice; empty for pairs without labels.
        fields: all columns of the rows.
        used: the columns that the records are built from.
        counts: numbers of rows and texts left out, as the notice reports them.
        assumes_nli: whether numbers were read as labels of NLI.
    """

    def __init__(self, kind: Kind, level: float | None = None) -> None:
        self.kind = kind
        self.level = level
        self.layout = ""
        self.fields: dict[str, None] = {}
        self.used: dict[str, None] = {}
        self.counts: Counter[str] = Counter()
        self.assumes_nli = False
        self._row_fields: tuple[str, ...] | None = None

    def records(self, rows: Rows, where: str) -> Iterator[Any]:
        """As :func:`iterate_records`."""
        makers: dict[str, Callable[[Mapping[str, Any]], list[Any]]]
        makers = {"pairs": self._pairs, "taught": self._taught_pairs, "scored": _scored_of, "texts": _unlabelled_of}
        records_of = makers[self.kind]
        kinds: tuple[str, ...] | None = None
        for line, row in rows:
            try:
                self._note_columns(tuple(row))
                records = records_of(row)
                if not records:
                    self.counts["rows left out that are no positive pair"] += 1
                for record in records:
                    if isinstance(record, Pair):
                        kinds = same_kinds(record, kinds)
                    yield record
            except ValueError as error:
                raise DataError(where, str(error), line) from error

    def summary(self, names: Sequence[str]) -> list[str]:
        """The parts of a notice about all rows; ``names`` are columns that the rows may lack."""
        parts = []
        if self.layout:
            parts.append(f"read as {self.layout} ({', '.join(self.used)})")
        if self.assumes_nli:
            parts.append("labels have no names: 0 is read as entailment")
        expected = {*self.used, *IDENTIFIERS}
        unused = [name for name in dict.fromkeys([*self.fields, *names]) if name not in expected]
        if unused:
            parts.append(f"columns not used: {fields_of(unused)}")
        parts += [f"{what}: {count:,}" for what, count in self.counts.items()]
        return parts

    def _note_columns(self, fields: tuple[str, ...]) -> None:
        if fields == self._row_fields:
            return
        self._row_fields = fields
        self.fields.update(dict.fromkeys(fields))
        used = used_columns(fields, self.kind)
        if self.kind == "pairs":
            columns = pair_columns(fields)
            used = [name for name in used if name != columns.label]  # which is used if it is not a teacher's score
            if columns.layout is not None:
                self.layout = columns.layout.name
        self.used.update(dict.fromkeys(used))

    def _pairs(self, row: Mapping[str, Any]) -> list[Pair]:
        columns = pair_columns(tuple(row))
        if columns.label is None:
            return self._pairs_without_label(row, columns)
        label = row[columns.label]
        if isinstance(label, list):
            return self._pairs_of_list(row, columns, columns.label, label)
        if not self._is_positive(label, columns, columns.label):
            return []
        return self._anchored(row, columns, _documents_of(row, columns), _negatives_of(row, columns))

    def _pairs_without_label(self, row: Mapping[str, Any], columns: PairColumns) -> list[Pair]:
        """The pairs of a row without a field of labels, whose documents may have labels of their own."""
        column, labels = _labels_within(row[columns.positive])
        if labels:
            return self._pairs_of_list(row, columns, column, labels)
        if columns.positive in DOCUMENTS:
            raise ValueError(
                f"no field 'labels' for the texts in {columns.positive!r}; the fields are {fields_of(row)}"
            )
        if self.level is not None:
            raise ValueError(f"no field of scores, which level={self.level:g} needs; the fields are {fields_of(row)}")
        return self._anchored(row, columns, _documents_of(row, columns), _negatives_of(row, columns))

    def _pairs_of_list(
        self, row: Mapping[str, Any], columns: PairColumns, column: str, labels: list[Any]
    ) -> list[Pair]:
        """The pairs of a list of documents, divided by the labels in ``column``. Scores of a positive and its negatives
        are a teacher's, which pairs do not need."""
        documents, negatives = _documents_of(row, columns), _negatives_of(row, columns)
        is_taught = columns.negatives and (not is_label(column) or has_score(labels))
        if is_taught:
            return self._anchored(row, columns, documents, negatives)
        if not any(documents):
            return []
        if len(labels) == len(documents) + len(negatives):
            documents += negatives
            negatives = []
        if len(labels) != len(documents):
            expected = f"expected {len(documents)}, as texts in {columns.positive!r}"
            raise ValueError(f"field {column!r} has {len(labels)} labels; {expected}")
        by_meaning: dict[bool | None, list[str]] = {True: [], False: [], None: []}
        for document, label in zip(documents, labels, strict=True):
            by_meaning[self._is_positive(label, columns, column)].append(document)
        labelled_negatives = list(filter(None, by_meaning[False]))
        pairs = self._anchored(row, columns, by_meaning[True], [*negatives, *labelled_negatives])
        if pairs and labelled_negatives:
            self.counts["texts used as negatives by their label"] += len(labelled_negatives)
        return pairs

    def _is_positive(self, label: Any, columns: PairColumns, column: str) -> bool | None:
        self.used[column] = None
        self.layout = self.layout or "labelled pairs"
        is_nli = columns.layout is not None and columns.layout.name == NLI and is_label(column) and self.level is None
        meaning = is_positive(label, column, self.level, is_nli)
        if is_nli and meaning is not None and not isinstance(label, bool) and number_of(label) is not None:
            self.assumes_nli = True
        return meaning

    def _anchored(
        self, row: Mapping[str, Any], columns: PairColumns, documents: Sequence[str], negatives: Sequence[str]
    ) -> list[Pair]:
        """A pair for each of the documents that is not empty."""
        positives = [document for document in documents if document]
        if not positives:
            return []
        if len(positives) < len(documents):
            self.counts["empty positives left out"] += len(documents) - len(positives)
        anchor = _anchor_of(row, columns)
        return [Pair(anchor, positive, tuple(negatives)) for positive in positives]

    def _taught_pairs(self, row: Mapping[str, Any]) -> list[Pair]:
        columns = pair_columns(tuple(row))
        of_positives, of_negatives = teacher_columns(tuple(row))
        documents, negatives = _documents_of(row, columns), _negatives_of(row, columns)
        if not any(documents):
            return []
        first = _numbers(row, of_positives)
        if of_negatives is None:
            positive_scores, negative_scores = first[:1], first[1:]
        else:
            positive_scores, negative_scores = first, _numbers(row, of_negatives)
        for column, scores, texts, what in (
            (of_positives, positive_scores, documents, "positives"),
            (of_negatives or of_positives, negative_scores, negatives, "negatives"),
        ):
            if len(scores) != len(texts):
                raise ValueError(f"field {column!r} has scores of {len(scores)} {what}; expected {len(texts)}")
        pairs = self._anchored(row, columns, documents, negatives)
        positive_scores = [score for document, score in zip(documents, positive_scores, strict=True) if document]
        return [
            replace(pair, scores=(score, *negative_scores)) for pair, score in zip(pairs, positive_scores, strict=True)
        ]


def _labels_within(documents: Any) -> tuple[str, list[Any]]:
    """The field of labels of a list of documents that have one, and their labels; no labels of anything else."""
    if isinstance(documents, list) and documents and all(isinstance(document, dict) for document in documents):
        for name in LABELS:
            if name in documents[0]:
                return name, [document.get(name) for document in documents]
    return "", []


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


def _anchor_of(row: Mapping[str, Any], columns: PairColumns) -> str:
    if columns.anchor == columns.positive:
        return next(filter(None, _items(row, columns.positive, allow_empty=True)))
    return _item(row, columns.anchor)


def _documents_of(row: Mapping[str, Any], columns: PairColumns) -> list[str]:
    """The texts or images of the column of positives, empty ones too; those of a set without its anchor."""
    documents = _items(row, columns.positive, allow_empty=True)
    if columns.anchor == columns.positive:
        return [document for document in documents if document][1:]
    return documents


def _negatives_of(row: Mapping[str, Any], columns: PairColumns) -> list[str]:
    negatives: list[str] = []
    for column in columns.negatives:
        if row[column] is not None:
            negatives += _items(row, column)
    return negatives


def _numbers(row: Mapping[str, Any], column: str) -> list[float]:
    value = row[column]
    return [_number(item, column) for item in (value if isinstance(value, list) else [value])]


def _number(value: Any, column: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"field {column!r} should be a number, found {kind_of(value)}")
    if expected := out_of_range(value):
        raise ValueError(f"field {column!r} should be {expected}")
    return float(value)


def _scored_of(row: Mapping[str, Any]) -> list[ScoredPair]:
    first, second, column = scored_columns(tuple(row))
    texts, scores = _items(row, second), _numbers(row, column)
    if len(texts) != len(scores):
        raise ValueError(f"field {column!r} has {len(scores)} scores; expected {len(texts)}, as texts in {second!r}")
    anchor = _item(row, first)
    if any(isinstance(text, Image) for text in (anchor, *texts)):
        raise ValueError(f"fields {first!r} and {second!r} should be texts, found an image")
    return [ScoredPair(anchor, text, score) for text, score in zip(texts, scores, strict=True)]


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
    if isinstance(value, dict):
        return _passage(value)
    if not isinstance(value, list) or not value:
        return None
    contents: list[str] = []
    for message in value:
        content = message.get("content") if isinstance(message, dict) else None
        if not isinstance(content, str):
            return None
        contents.append(content)
    return "\n".join(contents)


def _passage(value: Mapping[str, Any]) -> str | None:
    """Title and text of a passage, if it has a text or null."""
    text = value.get("text", 0)
    if text is not None and not isinstance(text, str):
        return None
    return " ".join(filter(None, (value.get("title"), text))).strip()


def _items(row: Mapping[str, Any], column: str, allow_empty: bool = False) -> list[str]:
    """The texts or images of a field: one, or a list. If ``allow_empty``, what is null or has no text is ``""``."""
    value = row[column]
    if value is None and allow_empty:
        return []
    if isinstance(value, str) or _names_image(row, value) or _composed(value) is not None:
        return [_item_of_list(row, column, value, allow_empty)]
    if not isinstance(value, list):
        raise ValueError(f"field {column!r} should be a string or a list of strings, found {kind_of(value)}")
    return [_item_of_list(row, column, item, allow_empty) for item in value]


def _item_of_list(row: Mapping[str, Any], column: str, item: Any, allow_empty: bool) -> str:
    image = _image(row, item)
    if image is not None:
        return image
    text = item if isinstance(item, str) else _composed(item)
    if allow_empty and (item in (None, [], {}) or (text is not None and not text.strip())):
        return ""
    if text is None:
        raise ValueError(f"field {column!r} should hold strings, found {kind_of(item)} in its list")
    return _not_blank(text, column)


def _names_image(row: Mapping[str, Any], value: Any) -> bool:
    """Whether ``value`` is ``{"image": PATH}``, in a row of a file, to which a path can be relative."""
    return isinstance(row, Row) and isinstance(value, dict) and isinstance(value.get("image"), str)


def _image(row: Mapping[str, Any], value: Any) -> Image | None:
    return row.image(value["image"]) if isinstance(row, Row) and _names_image(row, value) else None


def _not_blank(text: str, column: str) -> str:
    if not text or text.isspace():
        raise ValueError(f"field {column!r} is empty")
    return text
