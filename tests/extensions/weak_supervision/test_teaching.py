"""A teacher's scores beside pairs, from any reranker, and a training that learns from them."""

import json
from pathlib import Path

import numpy as np
import pytest

from retrokit import cli
from retrokit.core.errors import Interrupted, UsageError
from retrokit.data.jsonl import write_jsonl
from retrokit.extensions.weak_supervision.teaching import score
from retrokit.ranking import reranking
from retrokit.ranking.reranking import kept
from retrokit.ranking.reranking.base import PairwiseReranker
from tests.models import sentences


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Thirty-two pairs of nought to two negatives."""
    texts, path = sentences(96), tmp_path / "pairs.jsonl"
    negatives = [texts[64 + place : 64 + place + place % 3] for place in range(32)]
    write_jsonl(path, ({"anchor": texts[i], "positive": texts[32 + i], "negatives": negatives[i]} for i in range(32)))
    return path


def rows_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_scores_are_the_rerankers(tiny_bert, pairs, tmp_path):
    spec, out = f"maxsim:{tiny_bert}", tmp_path / "taught.jsonl"
    assert score([str(pairs)], str(out), teacher=spec) == 32
    teacher = reranking.registry.create(spec)
    for given, row in zip(rows_of(pairs), rows_of(out), strict=True):
        assert {name: row[name] for name in given} == given
        documents = [given["positive"], *given["negatives"]]
        expected = teacher.score_pairs([given["anchor"]] * len(documents), documents)
        np.testing.assert_allclose([row["positive_score"], *row["negative_scores"]], expected, rtol=1e-5)
    assert {path.name for path in tmp_path.iterdir()} == {"pairs.jsonl", "taught.jsonl"}


class Lengths(PairwiseReranker):
    """Scores a document by its length, and is interrupted at a query that holds ``stop_at``."""

    spec, stop_at = "lengths", ""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def fingerprint(self) -> str:
        return "lengths"

    def score_pairs(self, queries, documents):
        if self.stop_at in queries:
            raise KeyboardInterrupt
        self.asked += queries
        return np.array([len(document) / 3 for document in documents], dtype=np.float32)


def test_scores_outlive_a_break(pairs, tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "PAIRS_AT_ONCE", 8)
    teacher, out = Lengths(), tmp_path / "out.jsonl"
    monkeypatch.setattr(reranking.registry, "create_on", lambda spec, device: teacher)
    score([str(pairs)], str(tmp_path / "whole.jsonl"), teacher="maxsim:static:8")
    everything, teacher.asked = teacher.asked, []
    teacher.stop_at = rows_of(pairs)[20]["anchor"]
    with pytest.raises(Interrupted, match=r"scoring stopped; the scores so far are in .*out\.jsonl\.work"):
        score([str(pairs)], str(out), teacher="maxsim:static:8")
    assert not out.exists()
    teacher.stop_at = ""
    score([str(pairs)], str(out), teacher="maxsim:static:8")
    assert teacher.asked == everything
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert not (tmp_path / "out.jsonl.work").exists()


@pytest.mark.parametrize("loss", ["kl", "margin-mse", "infonce+kl:0.5"])
def test_scored_and_learnt_from(tiny_bert, pairs, tmp_path, capsys, loss):
    taught, run = tmp_path / "taught.jsonl", tmp_path / "run"
    assert cli.run(["augment", "score", str(pairs), "--with", f"maxsim:{tiny_bert}", "-o", str(taught)]) == 0
    assert "32 rows scored" in capsys.readouterr().err
    words = ["--data", str(taught), "-o", str(run), "--loss", loss, "--sim", "qnorm", "--batch-size", "8"]
    rate = ["--steps", "8", "--lr", "0.001", "--log-every", "1", "--device", "cpu", "--precision", "fp32"]
    assert cli.run(["finetune", str(tiny_bert), *words, *rate, "--dropout", "0"]) == 0, capsys.readouterr().err
    losses = [row["loss"] for row in rows_of(run / "metrics.jsonl") if "loss" in row]
    assert np.mean(losses[4:]) < np.mean(losses[:4])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--loss", "kl"], "pairs.jsonl:1: no field 'positive_score'"),
        (["--loss", "kl:0"], "kl:0: weight=0 must be above 0"),
        (["--loss", "infonce+mse"], "--loss infonce+mse: mse is for scored pairs, and no part of a sum"),
        (["--loss", "kl:temperature=0"], "kl:temperature=0: temperature=0 must be above 0"),
        (["--loss", "margin-mse", "--scale", "auto"], "--scale auto is for --loss infonce, kl or mse"),
        (["--loss", "kl:directions=both"], "kl has no parameter 'directions'; it takes weight, temperature"),
    ],
)
def test_what_cannot_be_learnt_is_one_line(pairs, tmp_path, capsys, words, message):
    run = tmp_path / "run"
    assert cli.run(["finetune", "static:8", "--data", str(pairs), "-o", str(run), *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not run.exists()


def test_a_listwise_teacher_is_refused(pairs, tmp_path, monkeypatch):
    teacher = Lengths()
    teacher.listwise = True
    monkeypatch.setattr(reranking.registry, "create_on", lambda spec, device: teacher)
    with pytest.raises(UsageError, match=r"^maxsim:static:8: listwise reranker; a teacher must score pairs$"):
        score([str(pairs)], str(tmp_path / "out.jsonl"), teacher="maxsim:static:8")
