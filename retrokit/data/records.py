"""What a command yields, as plain values for ``--json``, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from retrokit.data.jsonl import restored

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True)
class Record:
    """A result that a command prints and a report reads again. Its fields are plain values or dataclasses."""

    def to_json(self) -> dict[str, Any]:
        """Plain values for strict JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        """What :meth:`to_json` gave. Raises :class:`TypeError` or :class:`ValueError` for what is not whole."""
        return restored(cls, plain)
