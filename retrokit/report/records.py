"""The records that commands print with ``--json``: a registry by ``kind``, from which each is read and shown again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from retrokit.core.registry import Entry, Registry, imported
from retrokit.core.sheet import Sheet
from retrokit.probing import ProbeEntry
from retrokit.probing import registry as probes


@dataclass(frozen=True)
class RecordEntry(Entry):
    """A kind of record. The target is its class, which has ``from_json``.

    Attributes:
        sheets: ``"module:function"``, which returns the table or tables of a record; empty: its method ``sheets`` does.
    """

    sheets: str = ""

    def read(self, plain: Mapping[str, Any]) -> Any:
        """The record of plain values. Raises :class:`TypeError` or :class:`ValueError` for what is not whole."""
        record_class: Any = self.load()
        return record_class.from_json(plain)

    def sheets_of(self, record: Any) -> list[Sheet]:
        """The tables of a record."""
        tables = imported(self.sheets)(record) if self.sheets else record.sheets()
        return [tables] if isinstance(tables, Sheet) else tables


class RecordRegistry(Registry):
    """Records by their kind; the findings of each probe are one too, ``probe-NAME``."""

    def _scan(self) -> None:
        if not self._scanned:
            for probe in probes.entries():
                if isinstance(probe, ProbeEntry):
                    self.add(RecordEntry(f"probe-{probe.name}", probe.summary, probe.findings))
        super()._scan()


registry = RecordRegistry(
    "kind of record",
    "retrokit.records",
    [
        RecordEntry(
            "evaluation",
            "What eval measured.",
            "retrokit.evaluation.comparison.comparison:Evaluation",
            sheets="retrokit.report.evaluation:evaluation_sheets",
        ),
        RecordEntry(
            "reranking",
            "What rerank measured.",
            "retrokit.evaluation.two_stage:Reranking",
            sheets="retrokit.report.reranking:reranking_sheets",
        ),
        RecordEntry(
            "build-sure",
            "A finished SURE benchmark.",
            "retrokit.sure.build:Built",
            sheets="retrokit.report.tables:build_sheets",
        ),
        RecordEntry(
            "agreement",
            "How far annotators of a SURE benchmark agree.",
            "retrokit.sure.agreement:Agreement",
            sheets="retrokit.report.tables:agreement_sheets",
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
