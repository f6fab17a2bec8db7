"""The texts that augmentations work on, any JSONL file read as a stream, and the record of what became of them.

Nothing of a text is kept once the next one is read, so a corpus of millions of lines takes no more memory than one of
a hundred. What must be read once per epoch from a pipe goes through a temporary file.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

from retrokit.data.files import named
from retrokit.data.jsonl import read_jsonl, str_id, text_of
from retrokit.errors import DataError, UsageError, disk_errors

_EXPECTED = 'texts, one {"text": …} a line'


class Text(NamedTuple):
    """A text, the line of the file that it is on, and its identifier where it has one."""

    line: int
    id: str | None
    text: str


class Rows:
    """The objects of a JSONL file (``-`` and pipes too) with their line numbers, as a stream."""

    def __init__(self, path: str | Path) -> None:
        self.path = path
        self._copy: IO[bytes] | None = None
        self._is_copied = False

    @property
    def name(self) -> str:
        """How messages call the file."""
        return named(self.path)

    def keep(self) -> None:
        """Let a later iteration read everything again: what the first one takes from a pipe goes to a temporary file
        as well, which is removed with this object. A file is read again itself."""
        if self._copy is None and not os.path.isfile(self.path):
            self._copy = tempfile.NamedTemporaryFile(suffix=".jsonl")  # noqa: SIM115 # lives as long as the object

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Read from the start; raises :class:`DataError` as :func:`retrokit.data.jsonl.read_jsonl` does."""
        if self._copy is None:
            yield from read_jsonl(self.path, _EXPECTED)
        elif self._is_copied:
            yield from read_jsonl(self._copy.name, _EXPECTED)
        else:
            yield from read_jsonl(self.path, _EXPECTED, feed=self._keep)
            with self._copy_errors():
                self._copy.flush()
            self._is_copied = True

    def _keep(self, raw: bytes) -> None:
        assert self._copy is not None
        with self._copy_errors():
            self._copy.write(raw)

    def _copy_errors(self) -> AbstractContextManager[None]:
        return disk_errors(f"the copy of {self.name} in {tempfile.gettempdir()}")

    def text_of(self, row: dict[str, Any], line: int, key: str) -> str:
        """The string in the field ``key`` of ``row``; raises :class:`DataError` naming file, line and fields."""
        return text_of(row, key, self.path, line)

    def id_of(self, row: dict[str, Any], line: int) -> str | None:
        """The ``id`` or ``_id`` of ``row``, ``None`` where it has neither; raises :class:`DataError` for a bad one."""
        return str_id(row, self.path, line) if "id" in row or "_id" in row else None


class Texts:
    """The texts of a JSONL file, from the field ``field`` of its objects, as a stream.

    An empty text comes as ``""``: whoever reads counts it.

    Raises, when it is read:
        DataError: as :func:`retrokit.data.jsonl.read_jsonl`; a line without the field, or with no string in it; an
            identifier that is neither a string nor a whole number.
    """

    def __init__(self, path: str | Path, field: str = "text") -> None:
        self._rows = Rows(path)
        self._field = field

    @property
    def name(self) -> str:
        """How messages call the file."""
        return self._rows.name

    def keep(self) -> None:
        """Let a later iteration read the texts again, those of a pipe too (see :meth:`Rows.keep`)."""
        self._rows.keep()

    def __iter__(self) -> Iterator[Text]:
        rows = self._rows
        for line, row in rows:
            yield Text(line, rows.id_of(row, line), rows.text_of(row, line, self._field))


def read_texts(path: str | Path, field: str = "text") -> Iterator[Text]:
    """The texts of a JSONL file, once; ``path``, ``field`` and the errors are those of :class:`Texts`."""
    return iter(Texts(path, field))


def check_number(name: str, number: int) -> None:
    """Raise :class:`UsageError` unless ``number``, called ``name``, is 1 or more."""
    if number < 1:
        raise UsageError(f"{name}: expected at least 1, found {number}")


def pair_row(anchor: str, positive: str, identifier: str | None) -> dict[str, str]:
    """A row of training data; ``id`` is there for a text that has one."""
    row = {"anchor": anchor, "positive": positive}
    return row if identifier is None else {**row, "id": identifier}


@dataclass
class Counts:
    """What became of the texts: how many were read, how many pairs were made, and how many texts gave none and why.

    A text counts once, however many epochs it is read in; pairs count in every epoch.
    """

    texts: int = 0
    pairs: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    @property
    def used(self) -> int:
        """How many texts gave pairs."""
        return self.texts - self.dropped.total()

    def check_used(self, name: str, way_out: str) -> None:
        """Raise :class:`DataError` if no text of ``name`` gave a pair, with the reasons; ``way_out`` ends the line."""
        if not self.used:
            raise DataError(name, f"no text gives a pair: {_texts(self.texts)} ({_reasons(self)}); {way_out}")


def summary(counts: Counts) -> str:
    """The record in one line for a person.

    >>> summary(Counts(1200, 1196, Counter({"only one chunk": 3, "empty text": 1})))
    '1,200 texts: 1,196 gave pairs; 4 gave none (3: only one chunk; 1: empty text)'
    >>> summary(Counts(10, 50))
    '10 texts: 10 gave 50 pairs'
    """
    number = "" if counts.pairs == counts.used else f"{counts.pairs:,} "
    said = f"{_texts(counts.texts)}: {counts.used:,} gave {number}pairs"
    return f"{said}; {counts.dropped.total():,} gave none ({_reasons(counts)})" if counts.dropped else said


def _texts(count: int) -> str:
    return f"{count:,} text{'s' if count != 1 else ''}"


def _reasons(counts: Counts) -> str:
    ordered = sorted(counts.dropped.items(), key=lambda item: (-item[1], item[0]))
    return "; ".join(f"{count:,}: {reason}" for reason, count in ordered)
