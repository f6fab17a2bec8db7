"""``retrokit rerank`` from the words of the command line to the bytes of its output, and its exit codes."""

import csv
import io
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from retrokit.data.trec import read_run, write_run
from tests.evaluation.fakes import write_folder, write_lines
from tests.models import sentences
from tests.ranking.scorers import hashed, register
from tests.trec import trec_order

Command = Callable[..., tuple[int, str, str]]

TEXTS = sentences(34, seed=7)
DOCUMENTS = {f"d{i}": text for i, text in enumerate(TEXTS[:24])}
QUERIES = {f"q{i}": text for i, text in enumerate(TEXTS[24:])}
QRELS = {query: {f"d{i}": 1, f"d{i + 10}": 2} for i, query in enumerate(QUERIES)}
RUN = {query: {f"d{i}": -float((i + int(query[1:]) * 7) % 24) for i in range(24)} for query in QUERIES}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_run(tmp_path / "first.trec", RUN, "x")
    return write_folder(tmp_path / "small", DOCUMENTS, QUERIES, QRELS)


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    rows = [
        {
            "anchor": text,
            "positive": f"so {text}",
            "negatives": [f"not {text}"],
            "family": ("negation", "spatial")[i % 2],
        }
        for i, text in enumerate(TEXTS[:12])
    ]
    return write_lines(tmp_path / "pairs.jsonl", rows)


@pytest.fixture
def rerank(typed: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run ``retrokit rerank …``."""
    register(monkeypatch, fake=hashed, other=lambda query, document: -hashed(document, query))
    return partial(typed, "rerank")


def test_the_tables(rerank: Command, folder: Path, tiny_bert: Path) -> None:
    code, out, err = rerank(tiny_bert, "--on", f"beir:{folder}", "--with", "fake", "--with", "other", "--depth", 5)
    assert code == 0
    assert "small (test): 10 queries, 24 documents, 20 judgements" in err
    text = " ".join(out.replace("│", " ").split())
    for part in ("cosine + fake", "cosine + other", "ndcg@10", "accuracy@1", "mrr@10", "reachable recall", "Holm"):
        assert part in text
    assert rerank("run", tiny_bert, "--on", f"beir:{folder}", "--with", "fake", "--depth", 5)[0] == 0


def test_a_run_is_a_filter(rerank: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("--on", f"beir:{folder}", "--with", "fake", "--depth", 6)
    first = folder.parent / "first.trec"
    save = folder.parent / "second.trec"
    assert rerank("--run", first, *words, "--save-run", save)[0] == 0
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(first.read_bytes())))
    code, out, err = rerank("--run", "-", *words, "--save-run", "-")
    assert code == 0
    assert out == save.read_text(), "the run and nothing else"
    assert "cosine" not in err
    assert "own + fake" in err
    assert not Path(f"{save}.work").exists()
    for query, scores in read_run(save).items():
        before = trec_order(RUN[query])
        assert trec_order(scores)[6:] == before[6:]
        assert set(trec_order(scores)[:6]) == set(before[:6])


def test_forms_of_output(rerank: Command, folder: Path, tiny_bert: Path, pairs: Path, tmp_path: Path) -> None:
    words = (tiny_bert, "--on", f"beir:{folder}", "--on", f"pairs:{pairs}", "--with", "fake", "--precision", "fp32")
    plots = tmp_path / "plots"
    code, out, _ = rerank(*words, "--json", "--plot", plots, "--metrics", "ndcg@5")
    assert code == 0
    found = json.loads(out)
    assert [(r["task"].split(":")[0], r["similarity"]) for r in found["results"]] == [
        ("beir", "cosine"),
        ("beir", "cosine + fake"),
        ("pairs", "cosine"),
        ("pairs", "own"),
    ]
    assert {"ndcg@5", "recall@100"} <= set(found["results"][1]["metrics"])
    assert found["results"][1]["configuration"]["cost"]["pairs"] == 240
    families = [(row["scorer"], row["family"]) for row in found["near_misses"]]
    assert families == [(s, f) for s in (str(tiny_bert), "fake") for f in ("all", "negation", "spatial")]
    assert found["near_misses"][0]["near_misses"] == 12
    assert "per_query" not in found["results"][0]
    names = sorted(path.stem.split("-0")[0] + path.suffix for path in plots.iterdir())
    assert names == sorted(
        f"{name}{suffix}" for name in ("reranking", "near-misses") for suffix in (".png", ".svg", ".csv")
    )
    with open(plots / "near-misses.csv") as stream:
        rows = list(csv.DictReader(stream))
    assert [float(row["roc_auc"]) for row in rows] == [row["roc_auc"] for row in found["near_misses"]]
    with open(plots / "reranking.csv") as stream:
        assert [row["metric"] for row in csv.DictReader(stream)] == ["ndcg@5", "ndcg@5"]
    code, out, _ = rerank(*words, "--format", "markdown")
    assert (code, out.count("\n| ---")) == (0, 4), "rankings, tests, near-misses, cost"
    words = (*words[:3], *words[5:])
    code, out, _ = rerank(*words, "--format", "csv")
    assert out.startswith("task,encoder,similarity")
    code, out, _ = rerank(*words, "--format", "latex")
    assert (code, out.count(r"\toprule")) == (0, 3)
    code, out, _ = rerank(*words, "--json", "--per-query", "--fusion", "rrf")
    assert len(json.loads(out)["results"][1]["per_query"]["ndcg@10"]) == 10


def test_gates_can_be_that_a_reranker_moves_something(rerank: Command, folder: Path) -> None:
    words = ("--run", folder.parent / "first.trec", "--on", f"beir:{folder}", "--with", "fake", "--fail-if-idle")
    assert rerank(*words, "--junit", folder.parent / "gates.xml")[0] == 0
    assert 'failures="0"' in (folder.parent / "gates.xml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--on", "beir:{folder}", "--with", "maxsin", "--run", "x"], "maxsim"),
        (["--on", "beir:{folder}", "--with", "fake", "--run", "{folder}/none"], "none: does not exist"),
        (["--on", "beir:{folder}", "--with", "fake", "--run", "x", "--json", "--save-run", "-"], "give one"),
        (["--on", "beir:{folder}", "--with", "fake", "--with", "other", "--run", "x", "--save-run", "-"], "one run"),
        (
            ["--on", "beir:{folder}", "--with", "fake", "--run", "x", "--save-run", "{folder}/corpus.jsonl/x"],
            "Not a directory",
        ),
        (["--on", "beir:{folder}", "--with", "fake", "--run", "x", "--format", "tabel"], "did you mean table"),
        (["--on", "beir:{folder}", "--with", "fake", "--run", "x", "--per-query"], "--per-query adds to --json"),
        (["--on", "pairs:{folder}/../pairs.jsonl", "--with", "fake", "--save-run", "x"], "no task here ranks"),
        (["--on", "pairs:{folder}/../pairs.jsonl", "--with", "fake", "--blend", "0.3"], "are for rankings"),
    ],
)
def test_wrong_use(rerank: Command, folder: Path, pairs: Path, words: list[str], message: str) -> None:
    code, out, err = rerank(*(word.replace("{folder}", str(folder)) for word in words))
    assert code == 2
    assert out == ""
    assert message in err
