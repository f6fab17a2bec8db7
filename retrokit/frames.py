"""Results as data frames of pandas: a row for each thing that was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # it is imported where it is asked for
    from pandas import DataFrame


def frame(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None) -> DataFrame:
    """The rows as a data frame. Whole numbers stay whole where some are missing (``Int64``).

    >>> print(frame([{"name": "a", "count": 1}, {"name": "b"}]).to_csv(index=False), end="")
    name,count
    a,1
    b,
    """
    from pandas import DataFrame

    kept = [dict(row) for row in rows]
    columns = columns or list(dict.fromkeys(name for row in kept for name in row))
    made = DataFrame(kept, columns=list(columns))
    for name in columns:
        given = [row[name] for row in kept if row.get(name) is not None]
        if len(given) < len(kept) and given and all(type(value) is int for value in given):
            made[name] = made[name].astype("Int64")
    return made


def flat(record: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """The record without records in it: their values stand under both names with a dot between.

    >>> flat({"a": 1, "b": {"c": 2}})
    {'a': 1, 'b.c': 2}
    """
    found: dict[str, Any] = {}
    for name, value in record.items():
        found |= flat(value, f"{before}{name}.") if isinstance(value, Mapping) else {f"{before}{name}": value}
    return found
