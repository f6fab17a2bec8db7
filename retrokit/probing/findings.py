"""What a probe yields: numbers in lists of rows, and one sentence."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from retrokit.core.frames import frame

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Findings(ABC):
    """Its lists are of rows, dataclasses too: each list is a table."""

    @property
    @abstractmethod
    def conclusion(self) -> str:
        """One plain sentence: what the numbers mean for the user."""

    def to_json(self) -> dict[str, Any]:
        """Plain values for strict JSON."""
        return {**asdict(self), "conclusion": self.conclusion}

    def to_frame(self, table: str | None = None) -> DataFrame:
        """One of its tables, by its name among :meth:`rows`; by default the first."""
        tables = self.rows()
        return frame(tables[next(iter(tables)) if table is None else table])

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """The data as tables to keep, each a list of flat rows, by name."""
        tables = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: [asdict(row) for row in rows] for name, rows in tables.items() if isinstance(rows, list)}
