"""What a command yields, as plain values for ``--json``, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from retrokit.core.sheet import Sheet, columns_of, record_sheet
from retrokit.data.jsonl import restored

if TYPE_CHECKING:
    from typing import Self


def plain(value: Any) -> Any:
    """The value as plain values for strict JSON, in which null is NaN. A dataclass becomes a dictionary of its fields,
    but for those that equality leaves out, and of the properties that its ``derived`` names.

    >>> @dataclass(frozen=True)
    ... class Spread:
    ...     derived = ("middle",)
    ...     low: float
    ...     high: float
    ...     @property
    ...     def middle(self) -> float:
    ...         return (self.low + self.high) / 2
    >>> plain([Spread(0.5, 1.5), math.nan])
    [{'low': 0.5, 'high': 1.5, 'middle': 1.0}, None]
    """
    if is_dataclass(value):
        value = _shown_fields(value)
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and math.isnan(value):
        return None
    return value


def _shown_fields(record: Any) -> dict[str, Any]:
    names = [field.name for field in fields(record) if field.compare]
    return {name: getattr(record, name) for name in (*names, *getattr(record, "derived", ()))}


@dataclass(frozen=True)
class PrintedRecord:
    """A result that a command prints and a report reads again. Its fields are plain values or dataclasses."""

    @property
    def conclusion(self) -> str:
        """The result in one plain sentence, with which a report begins; may be empty."""
        return ""

    @property
    def seconds(self) -> float | None:
        """How long it took, of which a report shows the sum; ``None``: not known."""
        return None

    def is_empty(self) -> bool:
        """Whether there is no result, so that a report refuses it."""
        return False

    def sheets(self) -> list[Sheet]:
        """The tables for people: of each list of records that declare a :class:`~retrokit.core.sheet.Column`."""
        lists = {field.name: getattr(self, field.name) for field in fields(self)}
        return [
            record_sheet(name.replace("_", " "), rows)
            for name, rows in lists.items()
            if isinstance(rows, list) and rows and columns_of(type(rows[0]))
        ]

    def missing(self) -> list[Sheet]:
        """What failed or is not there yet, as tables."""
        return []

    def to_json(self) -> dict[str, Any]:
        """Plain values for strict JSON."""
        values: dict[str, Any] = plain(self)
        return values

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        """What :meth:`to_json` gave. Raises :class:`TypeError` or :class:`ValueError` for what is not whole."""
        return restored(cls, plain)
