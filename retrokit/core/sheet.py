"""The table of a result as data, for any output format. :mod:`retrokit.report.sheets` has the formats."""

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar, get_args, get_type_hints

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


@dataclass(frozen=True)
class Column:
    """A column of the table of records, declared in the type of a field: ``Annotated[float, Column("mean", ".4f")]``.

    Attributes:
        heading: above the column.
        form: a format such as ``.4f``, or a function of the record that returns the cell.
        attribute: of the field's value, if that is a record itself.
        absent: the cell of a field that is ``None``.
    """

    heading: str
    form: str | Callable[[Any], str] = ""
    attribute: str = ""
    absent: str = "–"

    def cell(self, record: Any, field: str) -> str:
        """What the column has of a record; ``field`` is the field that declares it."""
        if callable(self.form):
            return self.form(record)
        value = getattr(record, field)
        if value is None:
            return self.absent
        if self.attribute:
            value = getattr(value, self.attribute)
        return value if isinstance(value, str) else digits(value, self.form)


def record_sheet(
    title: str, records: Sequence[Any], notes: Sequence[str] = (), order: Sequence[str] | None = None
) -> Sheet:
    """The records as a table, by the :class:`Column` declarations of their class, or in another ``order`` of its
    fields. Fields without one are not shown, nor are columns that are empty in every row. The first columns contain
    words as long as their fields are texts.

    >>> from typing import Annotated
    >>> @dataclass(frozen=True)
    ... class Score:
    ...     system: Annotated[str, Column("system")]
    ...     value: Annotated[float | None, Column("nDCG", ".2f")]
    ...     seed: int = 0
    >>> sheet = record_sheet("scores", [Score("a", 0.5), Score("b", None)])
    >>> sheet.columns, sheet.rows, sheet.words
    (['system', 'nDCG'], [[('a',), ('0.50',)], [('b',), ('–',)]], 1)
    """
    headings: list[str] = []
    columns: list[list[str]] = []
    words = 0
    declared = columns_of(type(records[0]))
    if order is not None:
        declared.sort(key=lambda pair: order.index(pair[0]))
    for field, column in declared:
        cells = [column.cell(record, field) for record in records]
        if not any(cells):
            continue
        if words == len(columns) and isinstance(getattr(records[0], field), str):
            words += 1
        headings.append(column.heading)
        columns.append(cells)
    return Sheet(title, headings, words, list(zip(*columns, strict=True)), notes)


def columns_of(record: type) -> list[tuple[str, Column]]:
    """The declared columns of a class of records, each with the name of its field."""
    columns = []
    names = vars(sys.modules[record.__module__])  # which a postponed lambda finds later only if they are given here
    for field, hint in get_type_hints(record, names, include_extras=True).items():
        columns += [(field, declared) for declared in get_args(hint) if isinstance(declared, Column)]
    return columns


def digits(value: float | None, form: str = ".4f", absent: str = "–") -> str:
    """The value in a format; ``absent`` if it is undefined: ``None``, or no finite number.

    >>> digits(0.5), digits(None), digits(float("nan"), "+.2f", absent="")
    ('0.5000', '–', '')
    """
    if value is None or not math.isfinite(value):
        return absent
    return f"{value:{form}}"


def facts(title: str | None, rows: Mapping[str, str], are_numbers: bool = False) -> Sheet:
    """A table without a head: names, and what each of them is."""
    return Sheet(title, ["", ""], 1 if are_numbers else 2, list(rows.items()))


def grouped(rows: Iterable[Row], *names: str) -> dict[Any, list[Row]]:
    """The rows by what they have under a name, or under several names together, in order."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(attrgetter(*names)(row), []).append(row)
    return groups
