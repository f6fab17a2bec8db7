"""What an evaluation yields: one record per (encoder, similarity, task)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np

from retrokit.data.jsonl import COUNT, restored
from retrokit.metrics.significance import Draws, draw


@dataclass(frozen=True)
class Resampled:
    """A metric that is no mean over items (a correlation, ROC-AUC): ``value(rows)`` is it on the items at ``rows``, of
    ``items`` in all, or NaN where those leave it undefined."""

    items: int
    value: Callable[[np.ndarray], float]


def draws_of(metric: Resampled | Draws) -> Draws:
    """The metric on resampled items."""
    return metric if isinstance(metric, Draws) else draw(metric.value, metric.items)


_CONFIGURATION: dict[str, Any] = {
    **dict.fromkeys(("precision?", "device?", "retrokit?", "fingerprint?", "index?", "quantize?"), str | None),
    **dict.fromkeys(("dims?", "depth?"), COUNT),
    "prompts?": dict[str, str | None],
    "reranker?": str,
    "index_recall?": Annotated[dict[str, float] | None, {"queries": COUNT}],
    "cost?": {
        **{"pairs": COUNT, "pairs_computed": COUNT, "seconds": float},
        **dict.fromkeys(("milliseconds_per_pair?", "milliseconds_per_query?"), float | None),
    },
    **{"mteb_cache?": str, "mteb_results?": list[str]},
    "notes?": list[str],
    "weight?": float,
    "tuned_on?": {"queries": COUNT, "split": str, "metric": str},
}
_CONFIGURATION |= dict.fromkeys(("a?", "b?", "first_stage?"), _CONFIGURATION)
"""What is read of a configuration, which has further fields."""


@dataclass(frozen=True)
class Result:
    """Metrics of one encoder under one similarity on one task.

    Attributes:
        metrics: by name (``ndcg@10``); NaN where one is undefined.
        per_query: of the metrics that are means over queries (or texts, or pairs), each one's value, by name and id.
        counts: used and left out.
        norms: mean, SD and coefficient of variation of the raw embeddings' norms, by role.
        configuration: how it was computed: precision, dimensions, fingerprint, versions.
        run: the ranking, ``{query: {document: score}}``; empty for tasks that do not rank documents.
        own_scale: metrics on the scale of the scores, which no two systems need to share: they are not compared.
        resampled: of the metrics that are no means, how to compute them on resampled items; or, of a result from a
            file, their values on those.
    """

    encoder: str
    similarity: str
    task: str
    main_metric: str
    metrics: dict[str, float]
    per_query: dict[str, dict[str, float]] = field(repr=False)
    counts: dict[str, int | float]
    norms: dict[str, float]
    configuration: Annotated[dict[str, Any], _CONFIGURATION]
    run: Mapping[str, Mapping[str, float]] = field(repr=False, default_factory=dict)
    resampled: Mapping[str, Draws | Resampled] = field(repr=False, default_factory=dict)
    own_scale: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name in tables."""
        return f"{self.encoder} {self.similarity}"

    @property
    def precision(self) -> str | None:
        """What it was computed in, such as ``bfloat16``; ``None`` if unknown."""
        return self.configuration.get("precision")

    def without(self, metrics: Set[str]) -> Result:
        """The result without these metrics."""
        return replace(
            self,
            metrics=_without(self.metrics, metrics),
            per_query=_without(self.per_query, metrics),
            resampled=_without(self.resampled, metrics),
        )

    def to_json(self, with_queries: bool = False) -> dict[str, Any]:
        """Plain values for strict JSON."""
        names = ["encoder", "similarity", "task", "main_metric", "metrics", "counts", "norms", "configuration"]
        if with_queries:
            names.append("per_query")
        plain = {name: getattr(self, name) for name in names}
        plain["metrics"] = {name: known(value) for name, value in self.metrics.items()}
        return plain

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Result:
        """What :meth:`to_json` gave. Raises :class:`TypeError` or :class:`ValueError` for what is not whole."""
        return restored(cls, {"per_query": {}, **plain})


def _without(by_metric: Mapping[str, Any], metrics: Set[str]) -> dict[str, Any]:
    return {name: value for name, value in by_metric.items() if name not in metrics}


def known(value: float | None) -> float | None:
    """The number, or ``None`` for what is undefined: strict JSON has no NaN."""
    return value if value is not None and math.isfinite(value) else None


def settled(result: Result) -> Result:
    """The result with NaN for every metric that is no finite number, and without its values per item, so that nothing
    is tested with them."""
    undefined = {name for name, value in result.metrics.items() if not math.isfinite(value)}
    metrics = {name: math.nan if name in undefined else value for name, value in result.metrics.items()}
    return replace(result.without(undefined), metrics=metrics) if undefined else result
