"""Results as data frames of pandas: a row for each thing that was measured."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

from retrokit.core.files import writing
from retrokit.core.notices import harmless

if TYPE_CHECKING:  # it is imported where it is asked for
    from pandas import DataFrame

_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""How a cell begins that a spreadsheet computes."""


def frame(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None) -> DataFrame:
    """The rows as a data frame. Whole numbers stay whole where some are missing (``Int64``).

    >>> print(frame([{"name": "a", "count": 1}, {"name": "b"}]).to_csv(index=False), end="")
    name,count
    a,1
    b,
    """
    from pandas import DataFrame

    records = [{_utf8(name): _utf8(value) for name, value in row.items()} for row in rows]
    columns = columns or list(dict.fromkeys(name for row in records for name in row))
    result = DataFrame(records, columns=list(columns))
    for name in columns:
        types = {type(row.get(name)) for row in records}
        if types == {int, NoneType}:
            result[name] = result[name].astype("Int64")
    return result


def _utf8(value: Any) -> Any:
    """A text without halves of surrogate pairs, which pandas refuses: a byte of a path becomes its escape."""
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value


def to_csv(rows: DataFrame) -> str:
    """The rows as CSV that does no harm in a spreadsheet or on a terminal: a text that would be a formula gets an
    apostrophe in front, as OWASP recommends, and control characters are written as their escapes.

    >>> print(to_csv(frame([{"name": "=1+1", "cost": -0.5}, {"name": "-1"}])), end="")
    name,cost
    '=1+1,-0.5
    -1,
    """

    from pandas.api.types import is_numeric_dtype

    def plain(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        starts_formula = value.startswith(_FORMULAS) and not re.fullmatch(r"[+-]?[\d.]+(e[+-]?\d+)?", value)
        return "'" * starts_formula + harmless(value)

    table = rows.rename(columns=plain)
    for index, dtype in enumerate(table.dtypes):
        if not is_numeric_dtype(dtype):
            table.isetitem(index, table.iloc[:, index].map(plain))
    return table.to_csv(index=False, lineterminator="\n")


def write_csv(tables: Mapping[str, Sequence[Mapping[str, Any]]], folder: str | Path) -> list[Path]:
    """Write each table as ``NAME.csv`` into the folder; returns the files. A value that there is none of is empty."""
    files = []
    for name, rows in tables.items():
        files.append(Path(folder) / f"{name}.csv")
        with writing(files[-1]) as stream:
            stream.write(to_csv(frame(rows)))
    return files


def flat(record: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """The record without records in it: their values stand under both names with a dot between.

    >>> flat({"a": 1, "b": {"c": 2}})
    {'a': 1, 'b.c': 2}
    """
    result: dict[str, Any] = {}
    for name, value in record.items():
        result |= flat(value, f"{before}{name}.") if isinstance(value, Mapping) else {f"{before}{name}": value}
    return result
