"""``retrokit build-sure audit``, ``judge`` and ``agreement`` from the words of the command line to files and output."""

import json

from retrokit.extensions.sure_judging.audit import draw_sample
from tests.test_architecture import HEAVY, RUN, imports_of
from tests.test_cli_completion import complete as complete


def test_audit_judge_and_agreement(build_sure, tmp_path, data, llm):
    assert build_sure(data, "--llm", llm, "-o", tmp_path / "sure")[0] == 0
    code, _, said = build_sure("audit", tmp_path / "sure", "--sample", 3, "-o", tmp_path / "page.html")
    assert code == 0
    assert "15 variants of 3 queries" in said
    assert "<!DOCTYPE html>" in (tmp_path / "page.html").read_text()
    words = ("judge", tmp_path / "sure", "--sample", 3, "--llm", llm, "--annotator", "M")
    code, _, said = build_sure(*words, "-o", tmp_path / "m.jsonl")
    assert code == 0
    assert "15 qualified, 0 unqualified" in said
    sample = draw_sample(tmp_path / "sure", 3)
    rows = [
        {"query": item.query_id, "kind": item.kind, "qualified": i > 0, "annotator": "H", "sample": sample.digest}
        for i, item in enumerate(sample.items)
    ]
    (tmp_path / "h.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, shown, _ = build_sure("agreement", tmp_path / "h.jsonl", tmp_path / "m.jsonl")
    assert code == 0
    assert "H & M" in shown
    assert "all say the same of 93.3%" in shown
    code, shown, _ = build_sure("agreement", tmp_path / "h.jsonl")
    assert (code, "say the same" in shown) == (0, False), "one annotator agrees with nobody"
    found = json.loads(build_sure("agreement", tmp_path / "h.jsonl", tmp_path / "m.jsonl", "--json")[1])
    assert found["joint"][-1] == {"annotators": ["H", "M"], "qualified": 14, "unqualified": 1}
    code, shown, _ = build_sure(*words, "-o", "-", "--store", tmp_path / "s.sqlite")
    assert len([json.loads(line) for line in shown.splitlines()]) == 15
    code, _, said = build_sure(*words, "-o", "-")
    assert (code, "keeps the answers: --store" in said) == (2, True)


def test_the_commands_are_completed(complete):
    assert complete("retrokit build-sure a") == ["audit", "agreement"]


def test_help_imports_nothing_heavy():
    names, output = imports_of(
        RUN.replace("not end.code", "end.code in (None, 0)"), "build-sure", "agreement", "--help-all"
    )
    assert "Cohen" in output
    assert names & HEAVY == set()
