"""What 8f8341d wrote, the version before the third edition, is read: runs, an export, results, a baseline, a verifier.

All of ``tests/old`` was made there by that version, and the expected values too: ``learn`` and ``sfs`` by ``finetune
static:dim=8``, ``verifier`` by ``rerank train cnn --end-to-end`` and ``rerank calibrate``, ``export`` by ``learn``.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import retrokit
from retrokit import cli

NDCG = {"learn": 0.5528019782813453, "sfs": 0.4, "bm25": 0.3712414374216044}
FIRST_DIMENSIONS = {  # of a query's embedding, and of a document's
    "learn": ([-0.5895537, -0.0898225, -0.1985479, -0.0602939], [-0.3359396, -0.1632465, 0.6801362, -0.1571524]),
    "sfs": ([-0.5992316, -0.1519483, -0.239504, -0.0297091], [-0.3042445, -0.1943567, 0.6876881, -0.1503056]),
}
SCORES = {"learn": [0.2165695, 0.1182826], "sfs": [0.1160373, 0.4286196]}  # of the query and each document
QUERIES, DOCUMENTS = ["the cat sees red"], ["red fish runs", "a dog sleeps near the river"]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run ``retrokit`` in a copy of the files; exit code and standard output."""
    shutil.copytree(Path(__file__).parent / "old", tmp_path / "old")
    monkeypatch.chdir(tmp_path / "old")
    monkeypatch.setenv("TRANSFORMERS_VERBOSITY", "error")  # what a command sets ends with the test
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    return lambda words: (cli.run(words.split()), capsys.readouterr().out)


@pytest.mark.parametrize("folder", SCORES)
def test_runs(folder, run):
    encoder = retrokit.load(folder)
    queries, documents = encoder.embed(QUERIES, "query"), encoder.embed(DOCUMENTS, "document")
    for role, embeddings in enumerate((queries, documents)):
        assert embeddings[0, :4].tolist() == pytest.approx(FIRST_DIMENSIONS[folder][role], abs=1e-6)
    scores = pytest.approx(SCORES[folder], abs=1e-6)
    assert encoder.similarity.score(queries, documents)[0].tolist() == scores
    model = SentenceTransformer(folder, trust_remote_code=True)  # the package's own module prepares embeddings
    assert model.similarity(model.encode_query(QUERIES), model.encode_document(DOCUMENTS))[0].tolist() == scores


def test_an_export_is_searched_and_written_again(run):
    assert run("search --index-folder export --queries data -k 3 -o today.trec")[0] == 0
    old, today = (
        [line.split() for line in Path(name).read_text().splitlines()] for name in ("export.trec", "today.trec")
    )
    assert [line[:4] for line in today] == [line[:4] for line in old]
    assert [float(line[4]) for line in today] == pytest.approx([float(line[4]) for line in old], abs=1e-6)
    assert run("export learn --on data -o again")[0] == 0
    np.testing.assert_allclose(np.load("again/embeddings.npy"), np.load("export/embeddings.npy"), atol=1e-6)


def test_results_and_a_baseline(run):
    code, shown = run("eval --results results --json")
    assert code == 0
    assert {row["encoder"]: row["metrics"]["ndcg@10"] for row in json.loads(shown)["results"]} == NDCG
    code, shown = run("eval learn sfs bm25 --on beir:data --baseline baseline.json --max-drop 0.0001 --json")
    assert (code, {gate["verdict"] for gate in json.loads(shown)["gates"]}) == (0, {"passed"})
    assert {row["encoder"]: row["metrics"]["ndcg@10"] for row in json.loads(shown)["results"]} == pytest.approx(NDCG)


def test_a_verifier(run):
    assert run("rerank verify verifier judged.jsonl -o today.jsonl")[0] == 0
    old, today = (
        [json.loads(line) for line in Path(name).read_text().splitlines()] for name in ("verdicts.jsonl", "today.jsonl")
    )
    assert (
        [row["accepted"] for row in today] == [row["accepted"] for row in old] == [True, False, True, True, True, False]
    )
    assert [row["score"] for row in today] == pytest.approx([row["score"] for row in old], abs=1e-6)
