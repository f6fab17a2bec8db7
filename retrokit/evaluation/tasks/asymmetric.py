"""Base of the tasks over texts of two kinds, queries and documents: any similarity fits them (MAG, 2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from retrokit.encoders.encoder import Encoder
from retrokit.evaluation.result import check_known
from retrokit.similarities.base import Similarity


class AsymmetricTask:
    """A task that scores queries with documents, which are encoded in roles of their own."""

    symmetric: ClassVar[bool] = False
    spec = ""
    default_metrics: tuple[str, ...]

    def scored_with(self, encoder: Encoder, similarities: Sequence[Similarity]) -> list[Similarity]:
        """The given ones."""
        return list(similarities)

    def check_metrics(self, names: Sequence[str]) -> None:
        """Raise :class:`UsageError` for a name that this task does not measure."""
        check_known(names, self.default_metrics, self.spec)
