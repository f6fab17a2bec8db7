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
        "bm25 own + maxsim:static",
        "bm25 own + static",
        "bm25 own + maxsim:static, depth 3",
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


def test_reranking_is_an_evaluation_of_composed_systems(data, tmp_path, capsys):
    store = ["--results", str(tmp_path / "kept")]
    metrics = ["--metrics", "ndcg@10,accuracy@1,mrr@10"]
    words = ["static:32", "--on", data, "--with", "maxsim:static", "--with", "static:8", "--dims", "8", "--depth", "5"]
    composed = [f"two-stage:static:32,reranker={reranker},depth=5" for reranker in ("maxsim:static", "static:8")]
    evaluation = ["eval", "static:32", *composed, "--on", data, "--dims", "8", *metrics, *store]
    reranking = told(["rerank", *words, *store], capsys)
    assert "3 results used again, 0 computed" in _said(evaluation, capsys)
    evaluated = told(evaluation, capsys)
    assert evaluated["results"] == reranking["results"]
    assert evaluated["comparisons"] == reranking["comparisons"]
    assert evaluated["results"][0]["configuration"]["dims"] == 8
    tables = []
    for command in (["rerank", *words, *store], evaluation):
        assert cli.run(command) == 0
        tables.append(capsys.readouterr().out)
    assert tables[0] == tables[1]
    assert "reachable recall" in tables[0]


def test_each_result_counts_its_own_pairs(data, capsys):
    spec = "two-stage:bm25,reranker=maxsim:static,depth=3"
    same = data.replace("/data", "/./data")
    both = told(["eval", spec, "--on", data, "--on", same], capsys)["results"]
    counts = [result["counts"]["reranked_pairs"] for result in both]
    costs = [result["configuration"]["cost"]["pairs"] for result in both]
    assert counts[0] == counts[1] == costs[0] == costs[1] > 0


def test_scores_of_a_composed_system_are_kept(data, tmp_path, capsys):
    spec = f"two-stage:bm25,reranker=maxsim:static,work={tmp_path / 'work'}"
    first, second = (told(["eval", spec, "--on", data], capsys)["results"][0] for _ in range(2))
    assert (first["encoder"], first["similarity"]) == ("bm25", "own + maxsim:static")
    cost = [result["configuration"]["cost"] for result in (first, second)]
    assert cost[0]["pairs_computed"] == cost[0]["pairs"] == cost[1]["pairs"] > 0
    assert cost[1]["pairs_computed"] == 0
    assert second["metrics"] == first["metrics"]


def test_near_misses_are_a_gate_for_composed_systems(tmp_path, capsys):
    rows = [{"anchor": text, "positive": f"so {text}", "negatives": [f"not {text}"]} for text in TEXTS]
    near = write_lines(tmp_path / "near.jsonl", rows)
    reranked = told(["rerank", "static:32", "--on", f"pairs:{near}", "--with", "maxsim:static"], capsys)
    words = ["eval", "static:32", "two-stage:static:32,reranker=maxsim:static", "--on", f"pairs:{near},gate=true"]
    words += ["--results", str(tmp_path / "kept")]
    evaluated = told(words, capsys)
    assert [one["metrics"] for one in evaluated["results"]] == [one["metrics"] for one in reranked["results"]]
    assert evaluated["comparisons"] == reranked["comparisons"]
    assert "2 results used again, 0 computed" in _said(words, capsys)
    alone = told(["eval", "two-stage:reranker=maxsim:static", "--on", f"pairs:{near},gate=true"], capsys)
    assert [one["metrics"] for one in alone["results"]] == [evaluated["results"][1]["metrics"]]
    assert cli.run(["eval", "two-stage:reranker=maxsim:static", "--on", f"pairs:{near}"]) == 2
    assert "needs embeddings" in capsys.readouterr().err


def test_an_encoder_as_baseline_is_the_one_without_a_reranker(data, capsys):
    composed = "two-stage:static:32,reranker=maxsim:static"
    words = ["eval", composed, "static:32", "--on", data, "--baseline-system"]
    for name, leads in (("static:32", "static:32 cosine"), (composed, "static:32 cosine + maxsim:static")):
        comparisons = told([*words, name], capsys)["comparisons"]
        assert {one["baseline"] for one in comparisons} == {leads}


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


def test_rankings_and_near_misses_in_one_call(data, tmp_path, capsys):
    """Settings of rankings leave near-misses alone; there, encoders come first, and all scores are computed."""
    rows = (
        {"anchor": text, "positive": text.upper(), "negatives": [f"no {text}"], "family": "number"} for text in TEXTS
    )
    pairs = write_lines(tmp_path / "pairs.jsonl", rows)
    words = f"rerank bm25 static:32 --on {data} --on {data} --on pairs:{pairs} --with maxsim:static --index Flat"
    found = told([*words.split(), "--metrics", "near_miss/number,roc_auc,mrr@10"], capsys)
    on_pairs = [result["encoder"] for result in found["results"] if result["task"].startswith("pairs:")]
    assert on_pairs == ["static:32", "maxsim:static"]
    assert len(found["results"]) == 4 + len(on_pairs)
    assert {row["family"] for row in found["near_misses"]} == {"all", "number"}
    hybrid = "hybrid:a=bm25,b=static,weight=auto"
    words = ["rerank", hybrid, "--on", f"pairs:{pairs}", "--with", "maxsim:static"]
    assert [result["encoder"] for result in told(words, capsys)["results"]] == ["maxsim:static"]


def test_a_folder_of_scores_may_have_the_name_of_a_searcher(data, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert told(["rerank", "bm25", "--on", data, "--with", "static", "--work", "run"], capsys)["results"]
