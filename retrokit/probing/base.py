"""What all probes share: what they yield, and how well an encoder does on a task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from retrokit import encoders as encoder_names
from retrokit import evaluation
from retrokit.core.errors import UsageError
from retrokit.core.frames import frame
from retrokit.core.notices import notice
from retrokit.core.registry import Registry, Spec, parse_all
from retrokit.data.records import PrintedRecord, plain
from retrokit.encoders.base import Encoder
from retrokit.evaluation.comparison.comparison import Gate
from retrokit.evaluation.task import Request, Task
from retrokit.evaluation.tasks.retrieval import Retrieval
from retrokit.similarities.base import Similarity

if TYPE_CHECKING:
    from pandas import DataFrame

    from retrokit.probing.settings import ProbeSettings


@dataclass(frozen=True)
class Findings(PrintedRecord, ABC):
    """What a probe yields. Its lists are of rows, dataclasses too: each list is a table of data."""

    derived: ClassVar[Sequence[str]] = ("conclusion",)
    pictures: ClassVar[Mapping[str, str]] = {}
    """What each picture shows, by the beginning of its file's name."""

    @property
    @abstractmethod
    def conclusion(self) -> str:
        """What the numbers mean, in one sentence."""

    def plot(self, folder: str | Path) -> list[Path]:
        """Draw the pictures as PNG and SVG into the folder; returns the files written."""
        return []

    @property
    def verdicts(self) -> Sequence[Gate]:
        """The gates that were set; none by default."""
        return ()

    def to_frame(self, table: str | None = None) -> DataFrame:
        """One of its tables, by its name among :meth:`rows`; by default the first."""
        tables = self.rows()
        return frame(tables[next(iter(tables)) if table is None else table])

    def is_empty(self) -> bool:
        """Whether no table has a row."""
        return not any(self.rows().values())

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """The data as tables to keep, each a list of flat rows, by name."""
        tables = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: [plain(row) for row in rows] for name, rows in tables.items() if isinstance(rows, list)}


def parse_names(encoders: Sequence[str], *others: tuple[Registry, str]) -> list[Spec]:
    """The ``others``, parsed. Raises :class:`UsageError` for wrong names, those of encoders too, in one message."""
    return parse_all([*((encoder_names.registry, spec) for spec in encoders), *others])[len(encoders) :]


def encoders_of(settings: ProbeSettings) -> Iterator[Encoder]:
    """The encoders to probe, one after the other."""
    for spec in settings.encoders:
        yield encoder_names.registry.create(spec, device=settings.device)


@dataclass(frozen=True)
class Quality:
    """A metric's value, and what it is over each query or text by id (empty for a metric that is no mean)."""

    value: float
    per_item: Mapping[str, float] = field(repr=False, default_factory=dict)


def read_task(spec: str, metric: str | None, preferred: str | None = None) -> tuple[Task, str]:
    """The task that ``spec`` names, and the metric to measure it by: the requested one, else ``preferred`` where the
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
