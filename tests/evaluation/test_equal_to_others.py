"""Runs that are given, evaluated and fused, against pytrec_eval: values of every query, to 1e-9.

Ties are where tools differ: trec_eval ranks by the score in single precision, and equal ones by descending document id.
"""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytrec_eval

from retrokit import cli
from retrokit.data.trec import read_run, write_run
from tests.evaluation.fakes import write_folder

RNG = np.random.default_rng(8)
DOCUMENTS = [f"d{place}" for place in range(150)]
QUERIES = [f"q{place}" for place in range(40)]
TREC = {"ndcg@10": "ndcg_cut_10", "ndcg@100": "ndcg_cut_100", "recall@5": "recall_5", "recall@100": "recall_100"}
TREC |= {"map@100": "map_cut_100", "precision@5": "P_5", "accuracy@1": "success_1", "mrr@1000": "recip_rank"}


def graded() -> dict[str, dict[str, int]]:
    """Grades from −1 to 3; the last query has no relevant document."""
    judged = {query: dict.fromkeys(RNG.choice(DOCUMENTS, 25, replace=False).tolist(), 0) for query in QUERIES}
    drawn = {query: {document: int(RNG.integers(-1, 4)) for document in one} for query, one in judged.items()}
    return {**drawn, QUERIES[-1]: dict.fromkeys(drawn[QUERIES[-1]], 0)}


def made(kind: str) -> dict[str, dict[str, float]]:
    """Scores of 120 documents a query, the first query left out: ``distinct``, with many ``ties``, or different in
    double precision alone (``close``)."""
    found = {}
    for query in QUERIES[1:]:
        documents = RNG.choice(DOCUMENTS, 120, replace=False).tolist()
        values = RNG.permutation(120).astype(float)
        values = values // 12 if kind == "ties" else 1 + values * 1e-9 if kind == "close" else values
        found[query] = dict(zip(documents, values.tolist(), strict=True))
    return found


KINDS = ("distinct", "ties", "close")
QRELS = graded()
RUNS = {kind: made(kind) for kind in KINDS}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for kind, run in RUNS.items():
        write_run(tmp_path / kind, run, "x")
        assert read_run(tmp_path / kind) == run
    return write_folder(tmp_path / "data", dict.fromkeys(DOCUMENTS, "x"), dict.fromkeys(QUERIES, "y"), QRELS)


def by_trec_eval(run: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """pytrec_eval's values, 0 for the query that the run lacks."""
    cut = {f"{name}.{k}" for name in ("ndcg_cut", "recall", "map_cut", "P", "success") for k in (1, 5, 10, 100)}
    values = pytrec_eval.RelevanceEvaluator(QRELS, {*cut, "recip_rank"}).evaluate(run)
    return {metric: {query: values.get(query, {}).get(name, 0.0) for query in QUERIES} for metric, name in TREC.items()}


def told(
    folder: Path, capsys: pytest.CaptureFixture[str], *words: str, metrics: str = ",".join(TREC)
) -> dict[str, Any]:
    command = ["eval", *words, "--on", f"beir:{folder}", "--metrics", metrics, "--json", "--per-query"]
    capsys.readouterr()
    assert cli.run(command) == 0
    return json.loads(capsys.readouterr().out)


def test_a_run_file_is_measured_as_pytrec_eval_measures_it(folder, capsys):
    specs = {kind: f"run:{folder.parent / kind}" for kind in KINDS}
    found = told(folder, capsys, *specs.values(), "--explain", "1000")
    expected = {kind: by_trec_eval(run) for kind, run in RUNS.items()}
    for kind, result in zip(KINDS, found["results"], strict=True):
        for metric, values in expected[kind].items():
            assert result["per_query"][metric] == pytest.approx(values, abs=1e-9)
            assert result["metrics"][metric] == pytest.approx(np.mean(list(values.values())), abs=1e-9)
    for one in found["comparisons"]:
        kind = next(kind for kind, spec in specs.items() if f"{spec} own" == one["result"])
        gains = [expected[kind][one["metric"]][q] - expected[KINDS[0]][one["metric"]][q] for q in QUERIES]
        assert one["test"]["difference"] == pytest.approx(np.mean(gains), abs=1e-9)
    for explained, kind in zip(found["explanations"], KINDS[1:], strict=True):
        before, after = (expected[one]["ndcg@10"] for one in (KINDS[0], kind))
        changed = {query: after[query] - before[query] for query in QUERIES if after[query] != before[query]}
        gains = {one["id"]: one["after"] - one["before"] for one in explained["queries"]}
        assert gains == pytest.approx(changed, abs=1e-9)
        assert all(abs(a) >= abs(b) for a, b in pairwise(gains.values()))
