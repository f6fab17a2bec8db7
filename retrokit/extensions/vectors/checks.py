"""Whether encoders and tasks suit the vectors of an export."""

from collections.abc import Sequence

import torch

from retrokit.core.errors import UsageError
from retrokit.data.exports import Export
from retrokit.encoders.base import Encoder
from retrokit.encoders.precision import name_of
from retrokit.encoders.towers import tower_of
from retrokit.evaluation import registry
from retrokit.evaluation.tasks.base import SearchTask
from retrokit.ranking.retrieval.vectors import listed_rows


def check_documents(encoder: Encoder) -> None:
    """Raise :class:`UsageError` unless documents are embedded by weights in float32, in which a model is saved: others
    would get another fingerprint, which their stored vectors do not fit."""
    for weight in tower_of(encoder.to_train().model, "document").parameters():
        if weight.is_floating_point() and weight.dtype != torch.float32:
            raise UsageError(
                f"{encoder.spec}: its weights are {name_of(weight.dtype)}; give dtype=fp32 and export again"
            )


def check_whole(encoder: Encoder) -> None:
    """Raise :class:`UsageError` if embeddings are cut to their first dimensions, which comes after a model's map."""
    if (first := encoder.to_train().model.truncate_dim) is not None:
        raise UsageError(
            f"{encoder.spec}: cuts embeddings to {first} dimensions (truncate_dim), which a map cannot follow"
        )


def search_tasks(specs: Sequence[str], stored: Export, name: str, device: str | None) -> list[SearchTask]:
    """The tasks of an option called ``name``, whose documents are ``stored``. Raises :class:`UsageError` for others."""
    tasks = retrieval_tasks(specs, name, device)
    for task in tasks:
        listed_rows(stored, task.documents.ids)
    return tasks


def retrieval_tasks(specs: Sequence[str], name: str, device: str | None) -> list[SearchTask]:
    """The tasks of an option called ``name``. Raises :class:`UsageError` for one that searches nothing."""
    tasks = []
    for task in [registry.create_on(spec, device) for spec in specs]:
        if not isinstance(task, SearchTask):
            raise UsageError(f"`{name}=` {task.spec}: stored documents are searched; give a task of retrieval")
        tasks.append(task)
    return tasks
