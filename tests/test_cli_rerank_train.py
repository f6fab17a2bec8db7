"""`retrokit rerank train`, `calibrate` and `verify` as typed: a pipe from data to verdicts, exit codes, messages."""

import io
import json
import sys
from pathlib import Path

import pytest

from retrokit.data.jsonl import write_jsonl
from tests import schemas
from tests.models import sentences


@pytest.fixture
def triplets(tmp_path: Path) -> Path:
    rows = [{"anchor": t, "positive": t, "negatives": [" ".join(t.split()[::-1])]} for t in sentences(60, seed=8)]
    write_jsonl(tmp_path / "triplets.jsonl", [row for row in rows if row["anchor"] not in row["negatives"]])
    return tmp_path / "triplets.jsonl"


QUICK = ("--steps", 12, "--batch-size", 8, "--precision", "fp32", "--device", "cpu", "--lr", 0.01)


def test_from_triplets_to_verdicts(typed, tiny_bert, triplets, monkeypatch):
    command = ("rerank", "train", "cnn:channels=8", tiny_bert, "--data", "triplets.jsonl", "-o", "run", *QUICK)
    code, out, err = typed(*command)
    assert code == 0, err
    assert "parameters of the verifier" in err
    assert "None" not in err
    assert "roc_auc" in out
    code, out, err = typed("rerank", "verify", "run", "triplets.jsonl")
    assert code == 2
    assert "run retrokit rerank calibrate" in err
    assert out == ""
    code, out, err = typed("rerank", "calibrate", "run", "triplets.jsonl", "--false-accept-rate", 0.1, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["false_accepts"]["value"] <= 0.1
    code, out, _ = typed("rerank", "calibrate", "run", "triplets.jsonl", "--false-accept-rate", 0.1)
    assert "true-accept rate" in out
    line = json.dumps({"text": "cat sees dog", "candidate": "dog sees cat"}) + "\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(line.encode())))
    code, out, err = typed("rerank", "verify", "run", "-", "--threshold", 2, "--fail-on-reject")
    assert code == 1
    schemas.check("file-verdict", *out.splitlines())
    assert json.loads(out)["accepted"] is False
    assert "1 of 1 pairs rejected" in err
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(line.encode())))
    code, out, err = typed("rerank", "verify", "run", "--threshold", -1, "--fail-on-reject", "--keep", "accepted")
    assert code == 0, err
    assert json.loads(out)["candidate"] == "dog sees cat"
    line = json.dumps({"text": "cat sees dog", "candidate": "cat  sees dog"}) + "\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(line.encode())))
    code, out, err = typed("rerank", "verify", "run", "--threshold", 2)
    assert (json.loads(out)["accepted"], json.loads(out)["remarks"]) == (True, ["identical"])
    assert "1 of 1 pairs have identical texts, and are accepted" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train", "cnn", "minilm", "--data", "triplets.jsonl"), "give an output folder"),
        (("train", "nn", "minilm", "--data", "triplets.jsonl", "-o", "x"), "unknown verifier 'nn'"),
        (("train", "cnn:layer=2", "minilm", "--data", "t.jsonl", "-o", "x"), "did you mean layers"),
        (("verify", "nowhere", "triplets.jsonl"), "nowhere is not a verifier: it does not exist"),
        (("calibrate", "nowhere", "triplets.jsonl"), "nowhere is not a verifier: it does not exist"),
    ],
)
def test_mistakes_are_one_clear_line(typed, triplets, words, message):
    code, _, err = typed("rerank", *words)
    assert code == 2
    assert message in err
    assert "Traceback" not in err
