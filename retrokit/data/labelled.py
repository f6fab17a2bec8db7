"""Labelled texts (``text`` and ``label`` a line) with their division into training and test texts; and labelled pairs.

CROP (3.3) divides one file 9:1 at random, unstratified, with seed 42; a benchmark with a test file of its own keeps it.
Near-misses are read as ``retrokit augment near-misses`` writes them (``anchor``, ``positive``, ``negatives``,
``family``), or as ``text``, ``near_miss`` and optionally ``positive`` and ``family``; labelled pairs as
``sentence1``, ``sentence2``, ``label``."""

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from retrokit.core.errors import DataError, UsageError
from retrokit.core.files import named
from retrokit.core.outputs import check_outputs
from retrokit.core.settings import FILE
from retrokit.data.jsonl import Row, fields_of, kind_of, write_jsonl
from retrokit.data.packed_records import PackedTexts
from retrokit.data.tables import read_rows

SEED = 42
TEST_SHARE = 0.1
_EXPECTED = 'labelled texts, one {"text": …, "label": …} a line'


@dataclass(frozen=True)
class LabelledTexts:
    """Texts with their labels, in file order; ``ids`` are line numbers. ``classes`` are the distinct labels: whole
    numbers in order, else in alphabetical order, in which scikit-learn decides ties. ``digest`` is that of the lines
    read."""

    name: str
    ids: Sequence[str]
    texts: Sequence[str]
    labels: list[str]
    classes: list[str]
    digest: str | None = None

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of texts, labels, and texts without text (included as empty)."""
        empty = sum(not text.strip() for text in self.texts)
        return {"texts": len(self.texts), "labels": len(self.classes), "texts_without_text": empty}


@dataclass(frozen=True)
class LabelledSplit:
    """Labelled texts with the positions of ``train`` and ``test`` texts. ``labels`` are positions in ``classes``."""

    name: str
    ids: Sequence[str]
    texts: Sequence[str]
    labels: list[int]
    classes: list[str]
    train: list[int]
    test: list[int]
    digest: str | None = None

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of texts and labels, and of test texts with a label that no training text has."""
        trained = {self.labels[i] for i in self.train}
        return {
            "test_texts": len(self.test),
            "train_texts": len(self.train),
            "labels": len(self.classes),
            "texts_without_text": sum(not text.strip() for text in self.texts),
            "test_texts_of_unknown_label": sum(self.labels[i] not in trained for i in self.test),
        }


def short_name(path: str | Path) -> str:
    """A file with its folder.

    >>> short_name("data/stsb/test.jsonl")
    'stsb/test.jsonl'
    """
    return named(path) if str(path) == "-" else "/".join(Path(path).parts[-2:])


def read_labelled(path: str | Path, sample: int | None = None, least: int = 2) -> LabelledTexts:
    """Read text and ``label`` (a string or a whole number) of every line, or of a ``sample`` drawn with seed 42, in
    file order. Raises :class:`DataError` for other lines, labels of two types, or fewer than ``least`` labels."""
    seen = hashlib.sha256()
    lines, texts = PackedTexts(), PackedTexts()
    labels: list[Any] = []
    seen_labels: dict[Any, Any] = {}
    for line, row in read_rows(path, _EXPECTED, seen.update):
        texts.append(row.content)
        lines.append(str(line))
        label = _label(row)
        labels.append(seen_labels.setdefault(label, label))  # one object for each label
    _check_one_type(path, lines, labels)
    rows: Sequence[int] = range(len(labels))
    if sample is not None and sample < len(rows):
        rows = sorted(random.Random(SEED).sample(rows, sample))
        lines, texts = (PackedTexts(values[row] for row in rows) for values in (lines, texts))
    names = {label: str(label) for label in sorted({labels[row] for row in rows})}
    if len(names) < least:
        problem = f"every text has the label {str(labels[rows[0]])!r}; expected at least two labels"
        raise DataError(path, problem)
    return LabelledTexts(
        name=short_name(path),
        ids=lines,
        texts=texts,
        labels=[names[labels[row]] for row in rows],
        classes=list(names.values()),
        digest=f"sha256:{seen.hexdigest()}",
    )


_TYPES = {int: "whole number", str: "string"}


def _check_one_type(path: str | Path, lines: Sequence[str], labels: Sequence[Any]) -> None:
    """Raise :class:`DataError` for labels of two types."""
    for index, label in enumerate(labels):
        if type(label) is not type(labels[0]):
            kind = _TYPES[type(labels[0])]
            problem = f"this label is not a {kind}, as the one on line {lines[0]} is; expected one kind"
            raise DataError(path, problem, int(lines[index]))


def _label(row: Row) -> Any:
    label = row.required("label")
    if type(label) not in _TYPES:
        kind = "a fraction" if isinstance(label, float) else kind_of(label)
        raise row.wrong(f"field 'label' should be a string or a whole number, found {kind}")
    return label


def read_split(path: str | Path, test: str | Path | None = None, sample: int | None = None) -> LabelledSplit:
    """The texts of ``path``, divided 9:1 (scikit-learn's ``train_test_split``, seed 42); or all of ``path`` for
    training and all of the file ``test``.

    Raises:
        UsageError: both ``sample`` and ``test``.
        DataError: as for :func:`read_labelled`, or all training texts have one label.
    """
    if test is not None and sample is not None:
        raise UsageError("sample= draws from the one file that is divided; leave it out if test= is set")
    data = read_labelled(path, sample)
    count = len(data.texts)
    if test is None:
        train, held_out = _divided(count)
    else:
        tested = read_labelled(test, least=1)
        data = LabelledTexts(
            f"{data.name} → {tested.name}",
            [*(f"train {i}" for i in data.ids), *tested.ids],
            [*data.texts, *tested.texts],
            [*data.labels, *tested.labels],
            [*dict.fromkeys([*data.classes, *tested.classes])],
            f"{data.digest} {tested.digest}",
        )
        train, held_out = list(range(count)), list(range(count, len(data.texts)))
    codes = {label: number for number, label in enumerate(data.classes)}
    labels = [codes[label] for label in data.labels]
    if len({labels[i] for i in train}) < 2:
        raise DataError(path, f"the texts to learn from ({len(train)} of {count}) have one label only")
    return LabelledSplit(data.name, data.ids, data.texts, labels, data.classes, train, held_out, data.digest)


def write_split(path: str | Path, train: str | Path, test: str | Path) -> tuple[int, int]:
    """Write the training rows of :func:`read_split` to ``train``, the others to ``test`` (CROP, Table S4), unchanged
    and in their order, and return their numbers.

    Raises:
        UsageError: an output is the input, or the other output.
        DataError: a wrong line, fewer than two rows, or an output that cannot be written.
    """
    check_outputs([(train, FILE), (test, FILE)], [str(path)])
    rows = [row for _, row in read_rows(path, _EXPECTED)]
    if len(rows) < 2:
        raise DataError(path, "contains one row, which cannot be divided")
    train_indices, test_indices = map(sorted, _divided(len(rows)))
    write_jsonl(train, (rows[index] for index in train_indices))
    write_jsonl(test, (rows[index] for index in test_indices))
    return len(train_indices), len(test_indices)


def _divided(count: int) -> tuple[list[int], list[int]]:
    """Positions of the training texts, and of the test texts."""
    from sklearn.model_selection import train_test_split

    train, test = train_test_split(range(count), test_size=TEST_SHARE, random_state=SEED)
    return train, test


FAMILY = "family"
_LAYOUTS = "anchor, positive and negatives; or text and near_miss; or sentence1, sentence2 and label"


@dataclass(frozen=True)
class LabelledNearMiss:
    """A text, one that means the same (or the text itself), and a near-miss; ``family`` is the kind of edit or
    empty."""

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
    """Read a file of near-misses or of labelled pairs, as its first line is. Ids are line numbers. ``feed`` is that of
    :func:`retrokit.core.files.read_lines`, ``family`` the field of a near-miss's family.

    Raises:
        UsageError: a ``family`` of labelled pairs. DataError: another layout, no line with the field ``family``, a
        near-miss that is its own text, or one label only.
    """
    rows = [row for _, row in read_rows(path, f"pairs, one object a line with {_LAYOUTS}", feed)]
    first = rows[0]
    if {"label", "sentence1"} <= first.keys():
        if family != FAMILY:
            problem = "contains labelled pairs, which have no families"
            raise UsageError(f"{named(path)} {problem}: leave out family={family}")
        return _labelled_pairs(path, rows)
    if family != FAMILY and not any(family in row for row in rows):
        raise first.wrong(f"no line has a field {family!r}; the fields are {fields_of(first)}")
    if "near_miss" in first:
        read = _near_miss
    elif {"anchor", "negatives"} <= first.keys():
        read = _near_misses
    else:
        raise first.wrong(f"expected {_LAYOUTS}; the fields are {fields_of(first)}")
    return [*chain.from_iterable(read(row, family) for row in rows)]


def _labelled_pairs(path: str | Path, rows: Iterable[Row]) -> list[LabelledPair]:
    pairs = []
    for row in rows:
        label = row.get("label")
        if label not in (0, 1):
            problem = label if isinstance(label, (int, float, str)) else kind_of(label)
            raise row.wrong(f"field 'label' should be 0 or 1, found {problem}")
        pairs.append(LabelledPair(str(row.line), row.text("sentence1"), row.text("sentence2"), bool(label)))
    if len({pair.same for pair in pairs}) < 2:
        raise DataError(path, f"every pair has the label {int(pairs[0].same)}; expected both 0 and 1")
    return pairs


def _near_miss(row: Row, family: str) -> Iterator[LabelledNearMiss]:
    """Of a row with ``text`` and ``near_miss``; what means the same is the text itself unless there is a field."""
    anchor = row.text("text")
    return _built(row, anchor, row.text("positive", anchor), [row.text("near_miss")], family)


def _near_misses(row: Row, family: str) -> Iterator[LabelledNearMiss]:
    """Of a row with ``anchor``, ``positive`` and ``negatives``."""
    anchor, positive, negatives = row.text("anchor"), row.text("positive"), row.get("negatives")
    if not isinstance(negatives, list) or not negatives or not all(isinstance(text, str) for text in negatives):
        raise row.wrong("field 'negatives' should be a list of near-misses, one or more strings")
    return _built(row, anchor, positive, negatives, family)


def _built(row: Row, anchor: str, positive: str, near_misses: Sequence[str], family: str) -> Iterator[LabelledNearMiss]:
    for number, text in enumerate(near_misses, 1):
        if text == anchor:
            raise row.wrong("the near-miss is the text itself")
        identifier = f"{row.line}.{number}" if len(near_misses) > 1 else str(row.line)
        yield LabelledNearMiss(identifier, anchor, positive, text, row.text(family, ""))
