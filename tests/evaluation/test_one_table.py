"""Encoders, a trained one, words, and two stages in one table under one correction; encoders that rerank."""

import json
from pathlib import Path

import pytest

from retrokit import cli
from retrokit.metrics.significance import holm
from tests.evaluation.fakes import write_folder, write_lines
from tests.models import sentences

COUNT = 24
TEXTS = sentences(COUNT, seed=11)


@pytest.fixture
def data(tmp_path: Path) -> str:
    documents = {f"d{place}": text for place, text in enumerate(TEXTS)}
    queries = {f"q{place}": " ".join(text.split()[:2]) for place, text in enumerate(TEXTS)}
    folder = write_folder(
        tmp_path / "data", documents, queries, {f"q{place}": {f"d{place}": 1} for place in range(COUNT)}
    )
    return f"beir:{folder}"


def told(words: list[str], capsys: pytest.CaptureFixture[str], code: int = 0) -> dict:
    capsys.readouterr()
    assert cli.run([*words, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_all_systems_stand_in_one_table_with_one_correction(data, tmp_path, capsys):
    write_lines(tmp_path / "pairs.jsonl", ({"anchor": text.split()[0], "positive": text} for text in TEXTS))
    run = tmp_path / "run"
    training = f"finetune static:32 --data {tmp_path / 'pairs.jsonl'} --batch-size 8 --epochs 1 -o {run}"
    assert cli.run(training.split()) == 0
    two_stages = [
        "two-stage:bm25,reranker=maxsim:static",
        "two-stage:bm25,reranker=static",
        "two-stage:bm25,reranker=maxsim:static,depth=3",
    ]
    systems = ["static:32", str(run), "bm25", *two_stages, "hybrid:a=bm25,b=static"]
    kept = str(tmp_path / "kept")
    words = ["eval", *systems, "--on", data, "--metrics", "mrr@10", "--baseline-system", "bm25", "--results", kept]
    found = told(words, capsys)
    names = [f"{result['encoder']} {result['similarity']}" for result in found["results"]]
    assert names == [
        "bm25 own",
        "static:32 cosine",
        f"{run} cosine",
        f"{two_stages[0]} own + maxsim:static",
        f"{two_stages[1]} own + static",
        "two-stage:bm25,depth=3,reranker=maxsim:static own + maxsim:static, depth 3",
        "hybrid:a=bm25,b=static own",
    ]
    family = [one for one in found["comparisons"] if one["metric"] == "mrr@10"]
    assert [one["result"] for one in family] == names[1:]
    assert {one["baseline"] for one in family} == {names[0]}
    largest = [max(one["test"]["p"], one["randomisation_p"]) for one in family]
    assert [one["corrected_p"] for one in family] == pytest.approx(holm(largest))
    assert min(one["corrected_p"] for one in family) > min(largest), "six comparisons are one family"
    again = told(words, capsys)
    assert [one["metrics"] for one in again["results"]] == [one["metrics"] for one in found["results"]]
    assert "7 results used again, 0 computed" in _said(words, capsys)


def _said(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.run(words) == 0
    return capsys.readouterr().err


def test_several_first_stages_are_reranked_and_kept(data, tmp_path, capsys):
    kept = str(tmp_path / "kept")
    words = ["rerank", "bm25", "static:32", "--on", data, "--with", "maxsim:static", "--with", "static"]
    words += ["--results", kept, "--metrics", "mrr@10"]
    found = told([*words, "--save-run", str(tmp_path / "runs"), "--plot", str(tmp_path / "plots")], capsys)
    stages = [("bm25", "own"), ("static:32", "cosine")]
    expected = [
        (encoder, f"{similarity}{behind}")
        for encoder, similarity in stages
        for behind in ("", " + maxsim:static", " + static")
    ]
    assert [(one["encoder"], one["similarity"]) for one in found["results"]] == expected
    assert len([one for one in found["comparisons"] if one["metric"] == "mrr@10"]) == 5
    assert len(list((tmp_path / "runs").iterdir())) == 4
    err = _said(words, capsys)
    assert "6 results used again, 0 computed" in err
    assert "1 results used again, 0 computed" in _said(
        ["eval", "static:32", "--on", data, "--metrics", "mrr@10", "--results", kept], capsys
    )
    shown = told(["eval", "--results", kept], capsys)
    assert sorted((one["encoder"], one["similarity"]) for one in shown["results"]) == sorted(expected)
    assert told(words, capsys)["results"] == found["results"]
    (Path(data.removeprefix("beir:")) / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td2\t1\n")
    assert "0 results used again, 6 computed" in _said(words, capsys)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bm25", "--with", "maxsin"], "did you mean maxsim"),
        (["bm25", "--with", "statik:3"], "unknown reranker 'statik'"),
        (["bm25", "--with", "dense:static,sim=sfs:7"], "size 7 does not divide"),
        (["bm25", "static", "--with", "static", "--run", "x"], "takes the place of bm25, static: give it as run:x"),
        (["bm25", "static", "--with", "static", "--save-run", "-"], "standard output takes one run"),
        (["bm25", "--with", "static", "--baseline-system", "minilm"], "--baseline-system minilm is none of bm25"),
        (["bm25", "--with", "static", "--gate-metric", "ndgc@3"], "did you mean ndcg"),
    ],
)
def test_wrong_use_is_one_line(words, message, data, capsys):
    assert cli.run(["rerank", *words, "--on", data]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("retrokit: ")]
    assert len(lines) == 1
    assert message in lines[0]
