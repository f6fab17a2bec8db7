"""Rerankers and verifiers as they are uploaded: the upload loads, and scores as the run does."""

import json
import shutil

import numpy as np
import pytest
from huggingface_hub import ModelCard
from sentence_transformers import CrossEncoder

from retrokit.core.errors import UsageError
from retrokit.data.jsonl import write_jsonl
from retrokit.extensions.publishing import push
from retrokit.ranking.reranking import registry
from retrokit.ranking.reranking.verifier import shrink
from retrokit.training.rerankers.config import VerifierConfig
from retrokit.training.rerankers.verifier import train_verifier
from tests.models import sentences

TEXTS = sentences(24, seed=3)
"""Of which 4 are held out."""


@pytest.fixture(scope="module")
def runs(tiny_bert, tmp_path_factory):
    """A cross-encoder, a verifier, a verifier with an encoder of its own and its small copy."""
    folder = tmp_path_factory.mktemp("rerankers")
    write_jsonl(folder / "data.jsonl", [{"anchor": t, "positive": t, "negatives": ["dog dog"]} for t in TEXTS])
    shared = {"steps": 2, "batch_size": 8, "precision": "fp32", "device": "cpu", "eval_every": 2}
    data = [str(folder / "data.jsonl")]
    for name, verifier, more in (
        ("cross", "cross-encoder", {}),
        ("cnn", "cnn:channels=2", {}),
        ("whole", "cnn:channels=2", {"end_to_end": True}),
    ):
        train_verifier(VerifierConfig(verifier, str(tiny_bert), data, str(folder / name), **shared, **more))
    shrink(str(folder / "whole"), str(folder / "small"), rank=2)
    return folder


def scores(spec: str, **options) -> np.ndarray:
    return registry.create(spec, device="cpu", **options).score_pairs(TEXTS[:4], TEXTS[4:8])


def test_a_cross_encoder_loads_in_the_library(runs, tmp_path):
    push(str(runs / "cross"), "me/cross", license="mit", base_model="org/bert", dry_run=str(tmp_path / "upload"))
    model = CrossEncoder(str(tmp_path / "upload"), device="cpu")
    expected = scores(f"cross-encoder:{runs / 'cross'}")
    theirs = model.predict(list(zip(TEXTS[:4], TEXTS[4:8], strict=True)))
    np.testing.assert_allclose(theirs, expected, rtol=1e-5)
    np.testing.assert_allclose(scores(f"verifier:{tmp_path / 'upload'}"), expected, rtol=1e-5)
    card = ModelCard((tmp_path / "upload" / "README.md").read_text())
    tags = {"cross-encoder", "generated_from_trainer", "dataset_size:20", "loss:BinaryCrossEntropyLoss"}
    assert tags <= set(card.data.tags)
    assert card.data.base_model == "org/bert"
    assert "--with cross-encoder:me/cross`" in card.text
    assert not [text for text in TEXTS if text in card.text]


@pytest.mark.parametrize("name", ["cnn", "whole", "small"])
def test_a_verifier_scores_as_before(runs, tiny_bert, tmp_path, name):
    upload = tmp_path / "upload"
    push(str(runs / name), "me/cnn", license="mit", base_model="org/bert", dry_run=str(upload))
    assert str(runs) not in (upload / "retrokit.json").read_text()
    assert json.loads((upload / "retrokit.json").read_text())["made_for"]["encoder"] == "org/bert"
    encoder = "" if name == "whole" else f",encoder={tiny_bert}"
    np.testing.assert_array_equal(scores(f"verifier:{upload}{encoder}"), scores(f"verifier:{runs / name}"))
    card = ModelCard((upload / "README.md").read_text())
    assert (card.data.license, card.data.base_model) == ("mit", "org/bert")
    assert "retrokit rerank org/bert --on TASK --with verifier:cnn" in card.text
    assert not [text for text in TEXTS if text in card.text]


def test_a_verifier_of_a_local_encoder_needs_its_hub_id(runs, tmp_path):
    with pytest.raises(UsageError, match="is not on the Hub; give its Hub id as `base_model=`"):
        push(str(runs / "cnn"), "me/cnn", dry_run=str(tmp_path / "upload"))
    with pytest.raises(UsageError, match=r"`results=` is for encoders, and .* is a reranker"):
        push(str(runs / "cnn"), "me/cnn", base_model="org/bert", results=[str(runs)])
    assert not (tmp_path / "upload").exists()


def test_a_calibrated_threshold_is_uploaded_without_its_evidence(runs, tmp_path):
    run = shutil.copytree(runs / "cnn", tmp_path / "run")
    description = json.loads((run / "retrokit.json").read_text())
    description["calibration"] = {"threshold": 0.25, "data": "/home/me/pairs.jsonl"}
    (run / "retrokit.json").write_text(json.dumps(description))
    push(str(run), "me/cnn", license="mit", base_model="org/bert", dry_run=str(tmp_path / "upload"))
    assert json.loads((tmp_path / "upload" / "retrokit.json").read_text())["calibration"] == {"threshold": 0.25}
