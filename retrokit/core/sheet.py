"""The table of a result as data, for any output format. :mod:`retrokit.report.sheets` has the formats."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar

Row = TypeVar("Row")
Cell = tuple[str, ...]
"""What is in a cell, line by line; a form that has one line only joins them."""


@dataclass(frozen=True)
class Sheet:
    """A table. A cell or the notes given as a text are one line.

    Attributes:
        title: above the table; ``None``: there is none.
        columns: the heads; if all are empty, there is no head.
        words: how many columns come first that hold words; numbers follow.
        rows: a cell for each column; a row without cells is a rule.
        notes: lines below the table.
        last_words: how many of the last columns hold words again.
    """

    title: str | None
    columns: Sequence[str]
    words: int
    rows: Sequence[Sequence[Any]]
    notes: Sequence[str] = ()
    last_words: int = 0

    def __post_init__(self) -> None:
        rows = [[(cell,) if isinstance(cell, str) else cell for cell in row] for row in self.rows]
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "notes", (self.notes,) if isinstance(self.notes, str) else tuple(self.notes))

    @property
    def caption(self) -> str:
        """The notes on one line."""
        return "; ".join(self.notes)

    def is_number(self, column: int) -> bool:
        """Whether the column of that number, from 0, contains numbers."""
        return self.words <= column < len(self.columns) - self.last_words


def facts(title: str | None, rows: Mapping[str, str], are_numbers: bool = False) -> Sheet:
    """A table without a head: names, and what each of them is."""
    return Sheet(title, ["", ""], 1 if are_numbers else 2, list(rows.items()))


def grouped(rows: Iterable[Row], *names: str) -> dict[Any, list[Row]]:
    """The rows by what they have under a name, or under several names together, in order."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(attrgetter(*names)(row), []).append(row)
    return groups
