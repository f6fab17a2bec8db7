"""``eval --explain``: the queries that changed most, against ranks counted by hand."""

import json
from pathlib import Path

import pytest

from retrokit import cli
from tests.evaluation.fakes import write_folder

DOCUMENTS = {f"d{place}": f"text number {place} " + "word " * 40 for place in range(12)}
QUERIES = {f"q{place}": f"question {place}" for place in range(4)}
QRELS = {
    "q0": {"d0": 1},
    "q1": {"d1": 1, "d2": 0},
    "q2": {f"d{place}": 1 + place % 2 for place in range(8)},
    "q3": {"d3": 1},
}
RANKINGS = {
    "first": {"q0": "d0 d1", "q1": "d5 d6 d1", "q2": "d8 d0 d1 d2 d3 d4 d5 d6 d7", "q3": "d3 d4"},
    "second": {"q0": "d1 d2 d3 d4 d0", "q1": "d1 d5", "q2": "d0 d8 d1 d2 d3 d4 d5 d6 d7", "q3": "d3 d4"},
}


@pytest.fixture
def told(tmp_path: Path) -> list[str]:
    data = write_folder(tmp_path / "data", DOCUMENTS, QUERIES, QRELS)
    for name, lists in RANKINGS.items():
        lines = [
            f"{query} Q0 {document} {rank} {-rank} x\n"
            for query, found in lists.items()
            for rank, document in enumerate(found.split(), start=1)
        ]
        (tmp_path / name).write_text("".join(lines))
    runs = [f"run:{tmp_path / name}" for name in RANKINGS]
    return ["eval", *runs, "--on", f"beir:{data}", "--metrics", "mrr@10"]


def test_those_that_changed_most_come_first(told, capsys):
    assert cli.run([*told, "--explain", "2", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["explanations"]
    assert (found["metric"], found["better"], found["worse"], found["equal"]) == ("mrr@10", 2, 1, 1)
    first, second = found["queries"]
    assert (first["id"], first["before"], first["after"]) == ("q0", 1.0, pytest.approx(0.2))
    assert first["documents"] == [{"id": "d0", "grade": 1, "before": 1, "after": 5, "text": DOCUMENTS["d0"].strip()}]
    assert (second["id"], second["after"]) == ("q1", 1.0)
    assert [(one["id"], one["before"], one["after"]) for one in second["documents"]] == [("d1", 3, 1)]
    assert cli.run([*told, "--explain", "9", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["explanations"]
    assert [one["id"] for one in found["queries"]] == ["q0", "q1", "q2"], "what is equal does not change"
    many = found["queries"][2]
    assert (len(many["documents"]), many["others"]) == (5, 3)
    assert (many["documents"][0]["id"], many["documents"][0]["before"], many["documents"][0]["after"]) == ("d0", 2, 1)


def test_a_table_tells_ranks_and_texts(told, tmp_path, capsys):
    assert cli.run([*told, "--explain", "3", "--format", "markdown"]) == 0
    shown = capsys.readouterr().out
    assert "| q0 | question 0 | 1.0000 → 0.2000 | d0 | text number 0" in shown
    assert "1 → 5" in shown
    assert "and 3 more" in shown
    assert "2 queries are better, 1 worse, 1 equal" in shown
    kept = [*told, "--explain", "1", "--results", str(tmp_path / "results"), "--json"]
    for _ in range(2):  # rankings are not kept, so that they are made again
        assert cli.run(kept) == 0
        assert json.loads(capsys.readouterr().out)["explanations"][0]["queries"][0]["documents"][0]["after"] == 5
