"""How well an encoder does on a task: one number, and each item's share in it, for probes that measure many parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from retrokit import evaluation
from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.encoders.base import Encoder
from retrokit.evaluation.task import Request, Task
from retrokit.evaluation.tasks.retrieval import Retrieval
from retrokit.similarities.base import Similarity


@dataclass(frozen=True)
class Quality:
    """A metric's value, and what it is over each query or text by id (empty for a metric that is no mean)."""

    value: float
    per_item: Mapping[str, float] = field(repr=False, default_factory=dict)


def read_task(spec: str, metric: str | None, preferred: str | None = None) -> tuple[Task, str]:
    """The task that ``spec`` names, and the metric to measure it by: the one asked for, else ``preferred`` where the
    task has it, else the task's main one."""
    task: Task = evaluation.registry.create(spec)
    if metric is not None:
        task.check_metrics([metric])
    elif preferred is not None and preferred in task.default_metrics:
        metric = preferred
    notice(task.describe())
    return task, metric or task.main_metric


def read_retrieval(spec: str) -> Retrieval:
    """The task that ``spec`` names, which must have queries, documents and judgements."""
    task = evaluation.registry.create(spec)
    if not isinstance(task, Retrieval):
        raise UsageError(f"`on=` {spec}: this probe needs queries and documents, as in beir:PATH")
    return task


def quality(task: Task, encoder: Encoder, similarity: Similarity, metric: str, precision: str = "auto") -> Quality:
    """How well ``encoder`` does on ``task`` by ``metric`` under ``similarity``; nothing else is computed."""
    (result,) = task.evaluate(Request(encoder, [similarity], [metric], precision, alone=True))
    return Quality(result.metrics[metric], result.per_query.get(metric, {}))
