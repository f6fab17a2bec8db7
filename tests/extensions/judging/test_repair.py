"""Repaired copies: what changes, with its reason, and that nothing else does."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from retrokit import cli
from retrokit.data.beir import read_beir
from retrokit.data.jsonl import read_jsonl
from tests.evaluation.fakes import write_folder, write_lines

DOCUMENTS = {"a": "one text", "b": "ONE  text", "c": "un cafÃ© noir", "d": "the last", "e": "more"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A test set with a copy, a wrong encoding, an absent document, a repeated line and two ids for one text."""
    qrels = {"q": {"a": 2, "gone": 1}, "r": {"d": 1}}
    folder = write_folder(tmp_path / "set", DOCUMENTS, {"q": "query", "r": "other"}, qrels)
    with (folder / "corpus.jsonl").open("a") as stream:
        stream.write('{"_id": "d", "text": "the last"}\n{"_id": "e", "text": "another one"}\n')
    (folder / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\tscore\nr\te\t1\n")
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def changes(folder: Path) -> list[tuple[str, str, str]]:
    return [(row["where"], row["change"], row["reason"]) for _, row in read_jsonl(folder / "changes.jsonl")]


def rows(path: Path) -> list[dict[str, Any]]:
    return [dict(row) for _, row in read_jsonl(path)]


def test_a_test_set_is_repaired_with_its_verdicts(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "run.trec").write_text("q Q0 c 1 3 x\nq Q0 d 2 2 x\nr Q0 a 1 3 x\n")
    words = [f"beir:{folder}", "--systems", f"run:{tmp_path / 'run.trec'}", "--metrics", "ndcg@10"]
    assert cli.run(["judge", "pool", *words, "--sample", "3", "--pairs", str(tmp_path / "pairs.csv")]) == 0
    with (tmp_path / "pairs.csv").open() as stream:
        drawn = sorted(csv.DictReader(stream), key=lambda row: (row["query-id"], row["document-id"]))
    verdicts = write_lines(
        tmp_path / "v.jsonl", [{**row, "relevant": r} for row, r in zip(drawn, (True, False, True), strict=True)]
    )
    before = content(folder)
    repair = ["judge", "repair", f"beir:{folder}", "--verdicts", str(verdicts)]
    assert cli.run([*repair, "-o", str(tmp_path / "out")]) == 0
    assert content(folder) == before
    assert changes(tmp_path / "out") == [
        ("corpus.jsonl:6", "line left out", "repeated"),
        ("corpus.jsonl:7", "line left out", "colliding"),
        ("document c", "decoded again", "encoding"),
        ("test: q gone", "judgement 1 left out", "absent-documents"),
        ("test: q c", "judged 1", "verdict"),
        ("test: q d", "judged 0", "verdict"),
        ("test: r a", "judged 1", "verdict"),
        ("test: q b", "judged 2, as a", "repeated-texts"),
        ("test: r b", "judged 1, as a", "repeated-texts"),
    ]
    data = read_beir(tmp_path / "out" / "set")
    assert data.qrels == {"q": {"a": 2, "c": 1, "d": 0, "b": 2}, "r": {"d": 1, "a": 1, "b": 1}}
    assert dict(zip(data.document_ids, data.documents, strict=True)) == {**DOCUMENTS, "c": "un café noir"}
    assert read_beir(tmp_path / "out" / "set", "dev").qrels == {"r": {"e": 1}}


def test_a_repaired_set_has_no_fault_left(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["judge", "repair", str(folder), "-o", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    assert cli.run(["check", str(tmp_path / "out" / "set"), "--json"]) == 0
    (data,) = json.loads(capsys.readouterr().out)["data"]
    assert [(fault["kind"], fault["cost"]) for fault in data["faults"]] == [("repeated-texts", {})]  # which stay
    assert cli.run(["judge", "repair", str(tmp_path / "out" / "set"), "-o", str(tmp_path / "again")]) == 0
    assert (tmp_path / "again" / "changes.jsonl").read_text() == ""
    assert content(tmp_path / "again" / "set") == content(tmp_path / "out" / "set")


def test_pairs_are_repaired(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "pairs.jsonl",
        [
            {"anchor": "x", "positive": "yes", "negatives": ["no", "YES ", "also"]},
            {"anchor": "X", "positive": "also", "negatives": ["cafÃ©"]},
            {"anchor": "same", "positive": "Same"},
            {"anchor": "z", "positive": "kept"},
            {"anchor": "z", "positive": "kept"},
        ],
    )
    before = path.read_bytes()
    assert cli.run(["judge", "repair", str(path), "-o", str(tmp_path / "out")]) == 0
    assert path.read_bytes() == before
    assert rows(tmp_path / "out" / "pairs.jsonl") == [
        {"anchor": "x", "positive": "yes", "negatives": ["no"]},
        {"anchor": "X", "positive": "also", "negatives": ["café"]},
        {"anchor": "z", "positive": "kept"},
    ]
    assert changes(tmp_path / "out") == [
        ("record 5", "left out", "repeated-lines"),
        ("record 1: YES ", "negative left out", "contradicting-labels"),
        ("record 1: also", "negative left out", "contradicting-labels"),
        ("record 2: negative", "decoded again", "encoding"),
        ("record 3", "left out", "self-pairs"),
    ]


@pytest.mark.parametrize("relabel", [False, True])
def test_negatives_that_a_reranker_prefers(
    tmp_path: Path, tiny_bert: Path, capsys: pytest.CaptureFixture[str], relabel: bool
) -> None:
    """An encoder scores a text with itself highest."""
    path = write_lines(
        tmp_path / "pairs.jsonl",
        [
            {"anchor": "a cat sat", "positive": "far from it", "negatives": ["a cat sat", "what else"]},
            {"anchor": "two dogs", "positive": "two dogs", "negatives": ["nothing of it"]},
        ],
    )
    words = [str(path), "--with", str(tiny_bert), "--device", "cpu"]
    assert cli.run(["judge", "negatives", *words, "--examples", "1", "--json"]) == 0
    (data,) = json.loads(capsys.readouterr().out)["data"]
    assert (data["of"], data["examples"]) == (3, ["a cat sat | a cat sat"])
    assert cli.run(["judge", "negatives", *words, "--fail"]) == 1
    count = data["count"]  # the text itself, and perhaps another one by chance
    assert f"{count} negatives that rerankers score above the positive" in capsys.readouterr().err
    assert cli.run(["judge", "repair", *words, "-o", str(tmp_path / "out"), *["--relabel"] * relabel, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changes"] == {"rerankers": count}
    written = rows(tmp_path / "out" / "pairs.jsonl")
    assert len(changes(tmp_path / "out")) == count >= 1
    assert {row["anchor"] for row in written} == {"a cat sat", "two dogs"}
    positives = [row["positive"] for row in written if row["anchor"] == "a cat sat"]
    assert ("a cat sat" in positives) == relabel
    assert all("a cat sat" not in row.get("negatives", []) for row in written)
    assert [row for row in written if row["anchor"] == "two dogs"] == [
        {"anchor": "two dogs", "positive": "two dogs", "negatives": ["nothing of it"]}
    ]


@pytest.mark.parametrize(
    ("query", "document", "problem"),
    [
        ("q", "gone", "query 'q' and document 'gone' are not both in set"),
        ("z", "c", "query 'z' and document 'c' are not both in set"),
        ("q", "a", "query 'q' and document 'a' are judged in set already"),
    ],
)
def test_verdicts_on_other_data_change_nothing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], query: str, document: str, problem: str
) -> None:
    row = {"query-id": query, "document-id": document, "probability": 0.5, "of": 4, "sample": "a-b", "relevant": 1}
    verdicts = write_lines(tmp_path / "v.jsonl", [row])
    words = ["judge", "repair", str(folder), "--verdicts", str(verdicts), "-o", str(tmp_path / "out")]
    assert cli.run(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"retrokit: {verdicts}: {problem}; give the data of the draw"
    assert not (tmp_path / "out").exists()
