"""What an evaluation yields: one record per (encoder, similarity, task)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from retrokit.encoders.encoder import Encoder
from retrokit.similarities.base import Similarity


@dataclass(frozen=True)
class Result:
    """Metrics of one encoder under one similarity on one task.

    Attributes:
        metrics: mean over queries, by name (``ndcg@10``).
        per_query: the same by name and query id.
        counts: what was used and what was left out.
        norms: mean, deviation and coefficient of variation of the raw embeddings' norms, by role.
        configuration: what made the result: precision, dimensions, fingerprint, versions.
        run: the ranking, ``{query: {document: score}}``.
    """

    encoder: str
    similarity: str
    task: str
    main_metric: str
    metrics: dict[str, float]
    per_query: dict[str, dict[str, float]] = field(repr=False)
    counts: dict[str, int]
    norms: dict[str, float]
    configuration: dict[str, Any]
    run: dict[str, dict[str, float]] = field(repr=False, default_factory=dict)

    @property
    def name(self) -> str:
        """What tells it from the others of a table."""
        return f"{self.encoder} {self.similarity}"

    def to_json(self, with_queries: bool = False) -> dict[str, Any]:
        """Plain values for strict JSON."""
        shown = {
            key: getattr(self, key)
            for key in ("encoder", "similarity", "task", "main_metric", "metrics", "counts", "norms", "configuration")
        }
        return {**shown, "per_query": self.per_query} if with_queries else shown


class Task(Protocol):
    """What ``retrokit eval --on`` and ``retrokit finetune --eval`` can run."""

    spec: str
    main_metric: str
    shown_metrics: tuple[str, ...]
    default_metrics: tuple[str, ...]

    def check_metrics(self, names: list[str]) -> None:
        """Raise :class:`UsageError` if the task does not measure one of ``names``."""

    def describe(self) -> str:
        """One line of what is used and what is left out."""

    def evaluate(
        self,
        encoder: Encoder,
        similarities: list[Similarity],
        metrics: list[str] | None = None,
        precision: str = "auto",
        dims: int | None = None,
    ) -> list[Result]:
        """One result per similarity; the texts are encoded once."""
