"""Records that commands print: each is read back from its JSON, and a third party's is on the page like the core's."""

import json
from pathlib import Path
from typing import Any

import pytest

from retrokit.core.registry import EXTENSIONS, Entry
from retrokit.core.sheet import Sheet
from retrokit.data.check import CheckedData, DataFault
from retrokit.data.jsonl import to_json
from retrokit.data.records import PrintedRecord
from retrokit.evaluation.check import DataCheck
from retrokit.metrics.significance import Share
from retrokit.probing import registry as probes
from retrokit.ranking.reranking.verify import Calibration
from retrokit.report.records import RecordEntry, read_record, registry
from retrokit.sure.build import Built
from retrokit.training.history import Outcome
from tests import plugins
from tests.report import gallery

SHARE = Share(0.25, 0.1, 0.5, 8)
KIND = {"tried": 4, "at_once": 3, "after_retries": 0, "dropped": 1, "rejections": {"too long": 1}}
RECORDS: dict[str, PrintedRecord] = {
    "evaluation": gallery.reranking(["a", "b", "c"], ["swap"]),
    "build-sure": Built(
        Path(),
        {"testbeds": {"precision": {"kept": 3, "dropped": {"summary": 1}}}, "kinds": {"summary": KIND}},
        {"calls": 7, "from_store": 2, "prompt_tokens": 1000, "completion_tokens": 234},
    ),
    "check": DataCheck(
        [
            CheckedData(
                "beir:a",
                "test",
                {"queries": 2},
                [DataFault("unjudged-queries", "queries", 1, 4, examples=["d1: text"])],
            )
        ],
        ["unjudged-queries"],
    ),
    "training": Outcome(
        "runs/a", 10, None, 5, None, [{"step": 0, "evaluation": {"ndcg@10": 0.3}}], [], metric="ndcg@10"
    ),
    "calibration": Calibration(0.5, (0.4, 0.6), 0.05, SHARE, SHARE, {"swap": SHARE}, 1, {"path": "pairs.jsonl"}),
}
PLUGIN = """
from dataclasses import dataclass

from retrokit.core.sheet import Sheet
from retrokit.data.records import PrintedRecord
from retrokit.report.records import RecordEntry

ENTRY = RecordEntry("words", "Counted words.", "counting:Words")


@dataclass(frozen=True)
class Words(PrintedRecord):
    counts: dict[str, int]

    def sheets(self):
        return [Sheet("words of texts", ["text", "words"], 1, [[name, str(n)] for name, n in self.counts.items()])]
"""


def entry_of(kind: str) -> RecordEntry:
    entry = registry.entry(kind)
    assert isinstance(entry, RecordEntry)
    return entry


def test_every_kind_of_the_core_is_tried_here_or_is_a_probe():
    core = {entry.name for entry in registry.entries() if _is_core(entry)}
    assert core == {*RECORDS, *(f"probe-{probe.name}" for probe in probes.entries() if _is_core(probe))}


def _is_core(entry: Entry) -> bool:
    return not entry.target.startswith(f"{EXTENSIONS}.")


@pytest.mark.parametrize("kind", RECORDS)
def test_a_record_is_the_same_from_its_json(kind: str):
    entry, record = entry_of(kind), RECORDS[kind]
    plain = json.loads(to_json(record.to_json()))
    again = entry.read(plain)
    assert json.loads(to_json(again.to_json())) == plain
    assert cells(entry.sheets_of(again)) == cells(entry.sheets_of(record)) != []


def cells(sheets: list[Sheet]) -> list[Any]:
    return [(sheet.title, sheet.columns, sheet.rows) for sheet in sheets]


@pytest.mark.parametrize("kind", RECORDS)
def test_a_record_that_is_not_whole_names_the_field(kind: str):
    plain = json.loads(to_json(RECORDS[kind].to_json()))
    name = next(name for name, value in plain.items() if isinstance(value, (list, dict)) and value)
    with pytest.raises(TypeError, match=name):
        entry_of(kind).read({**plain, name: 1})


def test_a_third_partys_record_is_read_as_the_cores_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    plugins.install(tmp_path / "site", "counting", {"counting": PLUGIN}, "[retrokit.records]\nwords = counting:ENTRY\n")
    plugins.look_in(tmp_path / "site", registry, monkeypatch)
    (tmp_path / "words.json").write_text('{"kind": "words", "version": 1, "counts": {"a": 7}}')
    source = read_record(str(tmp_path / "words.json"), "a result")
    assert source is not None
    assert cells(source.sheets) == [("words of texts", ["text", "words"], [[("a",), ("7",)]])]
    assert source.conclusion == ""
