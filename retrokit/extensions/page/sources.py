"""Sources of a report: results folders, model folders, and ``--json`` output, recognised by their content."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from retrokit.core.errors import DataError
from retrokit.core.notices import heard
from retrokit.data.runs import Run, is_run, read_metrics, read_run
from retrokit.evaluation.evaluate import evaluate
from retrokit.report.records import RecordEntry, RecordSource, read_record, registry

EXPECTED = (
    "a results folder (`results=` of an evaluation), a run's folder, or what --json of eval, rerank, probe, check, "
    "build-sure or another command with a result has printed"
)


class RunSource(NamedTuple):
    """A run's folder, its description, and the lines of its ``metrics.jsonl``."""

    path: str
    run: Run
    rows: list[dict[str, Any]]


@dataclass
class Sources:
    """All sources of a report; ``notices`` are from reading them."""

    records: list[RecordSource] = field(default_factory=list)
    runs: list[RunSource] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def of(self, record_class: type[Any]) -> list[RecordSource]:
        """The records of that class."""
        return [source for source in self.records if isinstance(source.record, record_class)]


def read_sources(paths: Sequence[str]) -> Sources:
    """The sources at the ``paths``. Raises :class:`DataError` for a path that a report cannot show."""
    sources = Sources()
    with heard() as sources.notices:
        for path in paths:
            if os.path.isdir(path):
                _read_folder(path, sources)
                continue
            source = read_record(path, EXPECTED)
            if source is None:
                raise DataError(path, f"is JSON of something else; expected {EXPECTED}")
            sources.records.append(source)
    return sources


def _read_folder(path: str, sources: Sources) -> None:
    if is_run(path):
        sources.runs.append(RunSource(path, read_run(path), list(read_metrics(path))))
        return
    try:
        evaluation = evaluate(results=path)
    except DataError as error:
        raise DataError(path, f"contains nothing to report; expected {EXPECTED}") from error
    entry = registry.entry("evaluation")
    assert isinstance(entry, RecordEntry)
    sources.records.append(RecordSource(path, entry, evaluation, entry.sheets_of(evaluation)))
