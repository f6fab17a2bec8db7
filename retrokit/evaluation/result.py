"""What an evaluation yields: one record per (encoder, similarity, task)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from retrokit.errors import UsageError, did_you_mean
from retrokit.metrics.bootstrap import Draws, draw

if TYPE_CHECKING:  # results are read, compared and shown where no model is loaded
    from retrokit.encoders.encoder import Encoder
    from retrokit.similarities.base import Similarity


@dataclass(frozen=True)
class Resampled:
    """A metric that is no mean over items (a correlation, an area): ``value(rows)`` is it on the items at ``rows``, of
    ``items`` in all, or NaN where those leave it undefined."""

    items: int
    value: Callable[[np.ndarray], float]


def draws_of(metric: Resampled | Draws) -> Draws:
    """The metric on items drawn anew."""
    return metric if isinstance(metric, Draws) else draw(metric.value, metric.items)


@dataclass(frozen=True)
class Result:
    """Metrics of one encoder under one similarity on one task.

    Attributes:
        metrics: by name (``ndcg@10``); NaN where one is undefined.
        per_query: of the metrics that are means over queries (or texts, or pairs), each one's value, by name and id.
        counts: what was used and what was left out.
        norms: mean, deviation and coefficient of variation of the raw embeddings' norms, by role.
        configuration: what made the result: precision, dimensions, fingerprint, versions.
        run: the ranking, ``{query: {document: score}}``; empty for tasks that do not rank documents.
        own_scale: metrics on the scale of the scores, which no two systems need to share: they are not compared.
        resampled: of the metrics that are no means, how to compute them on items drawn anew; or, of a result that was
            read from a file, what they were on those.
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
    resampled: Mapping[str, Resampled | Draws] = field(repr=False, default_factory=dict)
    own_scale: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What tells it from the others of a table."""
        return f"{self.encoder} {self.similarity}"

    @property
    def precision(self) -> str | None:
        """What it was computed in, such as ``bfloat16``; ``None`` where nothing tells."""
        return self.configuration.get("precision")

    def to_json(self, with_queries: bool = False) -> dict[str, Any]:
        """Plain values for strict JSON."""
        shown = {
            key: getattr(self, key)
            for key in ("encoder", "similarity", "task", "main_metric", "metrics", "counts", "norms", "configuration")
        }
        shown["metrics"] = {name: known(value) for name, value in self.metrics.items()}
        return {**shown, "per_query": self.per_query} if with_queries else shown


def known(value: float | None) -> float | None:
    """The number, or ``None`` for what is undefined: strict JSON has no NaN."""
    return value if value is not None and math.isfinite(value) else None


def settled(result: Result) -> Result:
    """The result with NaN for every metric that is no finite number, and without its values per item, so that nothing
    is tested with them."""
    undefined = [name for name, value in result.metrics.items() if not math.isfinite(value)]
    if not undefined:
        return result
    return replace(
        result,
        metrics={**result.metrics, **dict.fromkeys(undefined, math.nan)},
        per_query={name: values for name, values in result.per_query.items() if name not in undefined},
        resampled={name: metric for name, metric in result.resampled.items() if name not in undefined},
    )


class Task(Protocol):
    """What ``retrokit eval --on`` and ``retrokit finetune --eval`` can run.

    Attributes:
        main_metric: decides which of two results is better; higher is better.
        shown_metrics: the columns of a table, and what a training run tracks.
        default_metrics: what is computed where nothing else is asked for.
        symmetric: whether the texts are of one kind, so that a similarity must not depend on the roles (MAG, 2.1).
    """

    spec: str
    main_metric: str
    shown_metrics: tuple[str, ...]
    default_metrics: tuple[str, ...]
    symmetric: ClassVar[bool]

    def check_metrics(self, names: list[str]) -> None:
        """Raise :class:`UsageError` if the task does not measure one of ``names``."""

    def describe(self) -> str:
        """One line of what is used and what is left out."""

    def digest(self) -> str | None:
        """A digest of all data that a result depends on, beside the task's spec; ``None``: there is none to be had (a
        pipe, a service), and a result that was kept must not be used again."""

    def scored_with(self, encoder: Encoder, similarities: Sequence[Similarity]) -> list[Similarity]:
        """The similarities that the task scores with when it is asked for ``similarities``."""

    def evaluate(
        self,
        encoder: Encoder,
        similarities: list[Similarity],
        metrics: list[str] | None = None,
        precision: str = "auto",
        dims: int | None = None,
    ) -> list[Result]:
        """One result per similarity that the task scores with; the texts are encoded once."""


def check_known(names: Sequence[str], known: Sequence[str], task: str) -> None:
    """Raise :class:`UsageError` for a metric that is none of the ``known`` ones of ``task``, with the nearest one; of
    many the first forty are listed."""
    for name in names:
        if name not in known:
            raise UsageError(f"unknown metric {name!r}{did_you_mean(name, known)}; {task} has {', '.join(known[:40])}")
