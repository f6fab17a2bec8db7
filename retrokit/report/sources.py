"""Sources of a report: results folders, model folders, and ``--json`` output, recognised by their content."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from retrokit.core.errors import DataError
from retrokit.core.notices import heard
from retrokit.core.sheet import Sheet
from retrokit.data.jsonl import read_json, restored
from retrokit.data.runs import Run, is_run, read_metrics, read_run
from retrokit.evaluation.evaluate import evaluate
from retrokit.probing.base import Findings
from retrokit.report.evaluation import evaluation_sheets
from retrokit.report.records import RecordEntry, registry

EXPECTED = (
    "a results folder (`results=` of an evaluation), a run's folder, or what --json of eval, rerank, probe, check, "
    "build-sure or another command with a result has printed"
)
R = TypeVar("R")


@dataclass(frozen=True)
class RecordSource(Generic[R]):
    """A record of a kind, where it was read, and its tables."""

    path: str
    kind: str
    record: R
    sheets: list[Sheet]


class RunSource(NamedTuple):
    """A run's folder, its description, and the lines of its ``metrics.jsonl``."""

    path: str
    run: Run
    rows: list[dict[str, Any]]


@dataclass
class Sources:
    """All sources of a report; ``notices`` are from reading them."""

    records: list[RecordSource[Any]] = field(default_factory=list)
    runs: list[RunSource] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def of(self, record_class: type[R]) -> list[RecordSource[R]]:
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
            content = read_json(path, EXPECTED, Any)
            with whole(path):
                sources.records.append(_read_record(path, content))
    return sources


@contextmanager
def whole(path: str) -> Iterator[None]:
    """Raise :class:`DataError` for a file whose values do not fit each other, where they are read or drawn."""
    try:
        yield
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        problem = f"looks like a result, but is not whole ({type(error).__name__}: {error})"
        raise DataError(path, problem) from error


def _read_folder(path: str, sources: Sources) -> None:
    if is_run(path):
        sources.runs.append(RunSource(path, read_run(path), list(read_metrics(path))))
        return
    try:
        found = evaluate(results=path)
    except DataError as error:
        raise DataError(path, f"contains nothing to report; expected {EXPECTED}") from error
    sources.records.append(RecordSource(path, "evaluation", found, evaluation_sheets(found)))


def _read_record(path: str, content: Any) -> RecordSource[Any]:
    kind = content.get("kind") if isinstance(content, dict) else None
    entry = registry.entry(kind) if kind in registry.names() else None
    if not isinstance(entry, RecordEntry):
        raise DataError(path, f"is JSON of something else; expected {EXPECTED}")
    record = entry.read(content)
    sheets = entry.sheets_of(record)  # which also finds what does not fit together
    if isinstance(record, Findings):
        restored({"conclusion": str}, content)
    if not sheets or (isinstance(record, Findings) and not any(record.rows().values())):
        raise ValueError("there is no result")
    return RecordSource(path, entry.name, record, sheets)
