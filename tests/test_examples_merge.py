"""The example that averages the weights of models."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

import retrokit
from tests.models import sentences

EXAMPLE = Path(__file__).parents[1] / "examples" / "merge.py"


def test_every_weight_is_the_average(tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [str(tmp_path / name) for name in ("first", "second")]
    model = SentenceTransformer(str(tiny_bert), device="cpu")
    for folder in folders:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.5)
        model.save(folder)
    soup = str(tmp_path / "soup")
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), soup, *folders])
    runpy.run_path(str(EXAMPLE))
    first, second, average = (SentenceTransformer(name, device="cpu").state_dict() for name in (*folders, soup))
    for name, value in average.items():
        np.testing.assert_allclose(value, (first[name] + second[name]) / 2, atol=1e-6)
        assert not value.is_floating_point() or not value.any() or (first[name] != second[name]).any()
    assert np.isfinite(retrokit.encoder(soup, device="cpu").embed(sentences(3), "query", "fp32")).all()
