"""What a command yields, as plain values for ``--json``, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from retrokit.core.sheet import Sheet
from retrokit.data.jsonl import restored

if TYPE_CHECKING:
    from typing import Self


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

    def missing(self) -> list[Sheet]:
        """What failed or is not there yet, as tables."""
        return []

    def to_json(self) -> dict[str, Any]:
        """Plain values for strict JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        """What :meth:`to_json` gave. Raises :class:`TypeError` or :class:`ValueError` for what is not whole."""
        return restored(cls, plain)
