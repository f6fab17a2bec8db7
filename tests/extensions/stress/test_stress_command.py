"""``retrokit probe stress`` from the words of the command line to tables, JSON, CSV, gates and edits."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

from retrokit.report.records import read_record
from tests.evaluation.fakes import write_lines

Command = Callable[..., tuple[int, str, str]]


def test_stress_writes_all_and_fails_a_gate(typed: Command, tiny_bert: Path, tmp_path: Path) -> None:
    texts = [f"In {1950 + i} the {'red' if i % 2 else 'blue'} truck number {i} did not reach Kenya." for i in range(40)]
    corpus = write_lines(tmp_path / "corpus.jsonl", [{"text": text} for text in texts])
    words = (
        "probe",
        "stress",
        tiny_bert,
        "bm25",
        "--texts",
        corpus,
        "--with",
        "none",
        "--capabilities",
        "dates,negation,typos",
    )
    gates = ("--fail-under", "dates=0", "--fail-under", "typos=1", "--junit", "gates.xml")
    code, out, err = typed(*words, *gates, "--plot", "p", "--save-edits", "edits.jsonl", "--json")
    assert code == 1, err
    found = json.loads(out)
    rate = next(row["rate"] for row in found["rates"] if row["capability"] == "typos")
    assert err.strip().splitlines()[-1] == f"retrokit: {tiny_bert} on {corpus}: typos = {rate:.4f} is under 1"
    verdicts = sorted((gate["metric"], gate["verdict"]) for gate in found["gates"])
    assert verdicts == [*[("dates", "passed")] * 2, ("typos", "failed"), ("typos", "passed")]
    assert {row["capability"]: row["texts"] for row in found["counts"]} == {"dates": 40, "negation": 40, "typos": 40}
    junit = ElementTree.parse(tmp_path / "gates.xml").getroot()
    assert (junit.get("tests"), junit.get("failures")) == ("4", "1")
    assert {path.name for path in (tmp_path / "p").iterdir()} == {
        "stress.png",
        "stress.svg",
        "rates.csv",
        "counts.csv",
        "worst.csv",
        "gates.csv",
    }
    edits = [json.loads(line) for line in (tmp_path / "edits.jsonl").read_text().splitlines()]
    assert len(edits) == sum(row["edits"] for row in found["counts"])
    (tmp_path / "stress.json").write_text(out)
    source = read_record(str(tmp_path / "stress.json"), "a probe")
    assert source is not None
    conclusion = found["conclusion"].replace(str(tiny_bert), tiny_bert.name)
    assert source.conclusion == f"Probe stress: {conclusion}"
    code, shown, _ = typed(*words)
    assert code == 0
    assert " ".join(shown.split()).endswith(" ".join(conclusion.split()))
    code, shown, _ = typed(
        "probe", "stress", "--texts", corpus, "--save-edits", "again.jsonl", "--capabilities", "dates"
    )
    assert (code, "1980" in (tmp_path / "again.jsonl").read_text()) == (0, True)
    assert shown.rstrip().endswith("40 edits of 40 texts.")


def test_a_missing_package_is_known_before_anything_is_read(typed, monkeypatch):
    monkeypatch.setitem(sys.modules, "inflect", None)
    code, out, err = typed(*"probe stress no/model --texts none.jsonl --capabilities negation".split())
    assert (code, out) == (3, "")
    (line,) = err.splitlines()
    assert "retrokit-ir[negatives]" in line
