"""The texts that augmentations work on, any JSONL file read as a stream, and the counts of what they gave.

No text outlives the next one, so a corpus of millions of lines takes no more memory than one of a hundred.
"""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from retrokit.core.errors import DataError, UsageError
from retrokit.core.files import named
from retrokit.data.jsonl import Row
from retrokit.data.pairs import unlabelled_file
from retrokit.data.tables import read_rows
from retrokit.data.training_rows import WITHOUT_NAMES


class Text(NamedTuple):
    """A text, the line of the file that it is on, and its identifier where it has one."""

    line: int
    id: str | None
    text: str


class Rows:
    """The objects of a JSONL file (``-`` and pipes too), of the corpus of a BEIR folder, or of ``docstrings``, with
    their line numbers, as a stream."""

    def __init__(self, path: str | Path) -> None:
        self.path, self.name = unlabelled_file(str(path)), named(path)

    def check(self, epochs: int) -> None:
        """Raise :class:`UsageError` for more than one epoch of a pipe, which can be read once."""
        if epochs > 1 and not os.path.isfile(self.path):
            raise UsageError(f"{self.name}: {epochs} epochs need a file; a pipe can be read once")

    def __iter__(self) -> Iterator[tuple[int, Row]]:
        """Read from the start; raises :class:`DataError` as :func:`retrokit.data.tables.read_rows` does."""
        return read_rows(self.path, 'texts, one {"text": …} a line', columns=WITHOUT_NAMES["texts"])


class Texts:
    """The texts of a JSONL file, from the field ``field``, as a stream; an empty one is ``""``. Reading raises
    :class:`DataError` as :func:`retrokit.data.tables.read_rows` does, and for a line without a string in the field."""

    def __init__(self, path: str | Path, field: str = "text") -> None:
        self._rows, self._field = Rows(path), field
        self.name, self.check = self._rows.name, self._rows.check

    def __iter__(self) -> Iterator[Text]:
        return (Text(line, row.id_if_any, row.text_of(self._field)) for line, row in self._rows)


def pair_row(anchor: str, positive: str, identifier: str | None) -> dict[str, str]:
    """A row of training data; ``id`` is there for a text that has one."""
    return {"anchor": anchor, "positive": positive} | ({} if identifier is None else {"id": identifier})


@dataclass
class Counts:
    """Texts read, pairs created, and texts without a pair by reason.

    A text counts once, however many epochs it is read in; pairs count in every epoch.
    """

    texts: int = 0
    pairs: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    @property
    def used(self) -> int:
        """How many texts gave pairs."""
        return self.texts - self.dropped.total()

    def summary(self) -> str:
        """The counts in a line.

        >>> Counts(1200, 1196, Counter({"only one chunk": 3, "empty text": 1})).summary()
        '1,200 texts: 1,196 gave pairs; 4 gave none (3: only one chunk; 1: empty text)'
        >>> Counts(10, 50).summary()
        '10 texts: 10 gave 50 pairs'
        """
        number = "" if self.pairs == self.used else f"{self.pairs:,} "
        dropped = f"; {self.dropped.total():,} gave none ({self._reasons()})" if self.dropped else ""
        return f"{self._read()}: {self.used:,} gave {number}pairs{dropped}"

    def check_used(self, name: str, way_out: str) -> None:
        """Raise :class:`DataError` if no text of ``name`` gave a pair, with the reasons; ``way_out`` ends the line."""
        if not self.used:
            raise DataError(name, f"no text gives a pair: {self._read()} ({self._reasons()}); {way_out}")

    def _read(self) -> str:
        return f"{self.texts:,} text{'s' if self.texts != 1 else ''}"

    def _reasons(self) -> str:
        ordered = sorted(self.dropped.items(), key=lambda item: (-item[1], item[0]))
        return "; ".join(f"{count:,}: {reason}" for reason, count in ordered)
