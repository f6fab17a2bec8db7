"""The records that commands print with ``--json``: a registry by ``kind``, from which each is read and shown again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from retrokit.core.errors import DataError
from retrokit.core.registry import Entry, WordRegistry, imported
from retrokit.core.sheet import Sheet
from retrokit.data.jsonl import read_json, restored
from retrokit.evaluation.comparison.names import for_people
from retrokit.probing import ProbeEntry
from retrokit.probing import registry as probes


@dataclass(frozen=True)
class RecordEntry(Entry):
    """A kind of record. The target is its class, which has ``from_json``.

    Attributes:
        sheets: ``"module:function"``, which returns the table or tables of a record; empty: its method ``sheets`` does.
        sentence: ``"module:function"``, which returns the conclusion of a record; empty: it has its own.
        prefix: what a conclusion begins with.
    """

    sheets: str = ""
    sentence: str = ""
    prefix: str = ""

    def read(self, plain: Mapping[str, Any]) -> Any:
        """The record of plain values. Raises :class:`TypeError` or :class:`ValueError` for what is not whole."""
        record_class: Any = self.load()
        return record_class.from_json(plain)

    def sheets_of(self, record: Any) -> list[Sheet]:
        """The tables of a record."""
        record = for_people(record)
        tables = imported(self.sheets)(record) if self.sheets else record.sheets()
        return [tables] if isinstance(tables, Sheet) else tables

    def conclusion_of(self, record: Any) -> str:
        """What a report says of the record; may be empty."""
        record = for_people(record)
        text: str = imported(self.sentence)(record) if self.sentence else record.conclusion
        return f"{self.prefix}{text}" if text else ""


class RecordRegistry(WordRegistry):
    """Records by their kind; the findings of each probe are one too, ``probe-NAME``."""

    def _scan(self) -> None:
        if not self._scanned:
            for probe in probes.entries():
                kind = f"probe-{probe.name}"
                if isinstance(probe, ProbeEntry) and kind not in self._entries:
                    self.add(RecordEntry(kind, probe.summary, probe.findings, prefix=f"Probe {probe.name}: "))
        super()._scan()


registry = RecordRegistry(
    "kind of record",
    "retrokit.records",
    [
        RecordEntry(
            "evaluation",
            "What eval or rerank measured.",
            "retrokit.evaluation.comparison.comparison:Evaluation",
            sheets="retrokit.report.evaluation:evaluation_sheets",
            sentence="retrokit.report.words:conclusion",
        ),
        RecordEntry(
            "build-sure",
            "A finished SURE benchmark.",
            "retrokit.sure.build:Built",
            sheets="retrokit.report.tables:build_sheets",
        ),
        RecordEntry("check", "Faults of data sets.", "retrokit.evaluation.check:DataCheck"),
        RecordEntry(
            "training",
            "What a training yielded.",
            "retrokit.training.history:Outcome",
            sheets="retrokit.report.tables:outcome_sheet",
        ),
        RecordEntry(
            "calibration",
            "The acceptance threshold of a verifier.",
            "retrokit.ranking.reranking.verify:Calibration",
            sheets="retrokit.report.tables:calibration_sheet",
        ),
    ],
)


class RecordSource(NamedTuple):
    """A record, where it was read, its kind, and its tables."""

    path: str
    entry: RecordEntry
    record: Any
    sheets: list[Sheet]

    @property
    def conclusion(self) -> str:
        """What a report says of it; may be empty."""
        with whole(self.path):
            return self.entry.conclusion_of(self.record)


def read_record(path: str, expected: str) -> RecordSource | None:
    """The record in a file of ``--json`` output; ``None`` if it is JSON of something else. Raises :class:`DataError`
    for a file that is not JSON, or not whole."""
    content = read_json(path, expected, Any)
    kind = content.get("kind") if isinstance(content, dict) else None
    entry = registry.entry(kind) if kind in registry.names() else None
    if not isinstance(entry, RecordEntry):
        return None
    with whole(path):
        record = entry.read(content)
        sheets = entry.sheets_of(record)  # which also finds what does not fit together
        restored({"conclusion?": str}, content)
        if not sheets or record.is_empty():
            raise ValueError("there is no result")
    return RecordSource(path, entry, record, sheets)


@contextmanager
def whole(path: str) -> Iterator[None]:
    """Raise :class:`DataError` for a file whose values do not fit each other, where they are read or drawn."""
    try:
        yield
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        problem = f"looks like a result, but is not whole ({type(error).__name__}: {error})"
        raise DataError(path, problem) from error
