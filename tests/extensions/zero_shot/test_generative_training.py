"""``rerank train generative``: a decoder learns to answer, with and without low-rank updates, and loads as it was."""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from retrokit.core.errors import MissingExtra, UsageError
from retrokit.ranking.reranking import registry
from retrokit.report.tables import verifier_preflight_sheets
from retrokit.training.rerankers.config import VerifierConfig
from retrokit.training.rerankers.verifier import plan_verifier, train_verifier
from tests.evaluation.fakes import write_lines
from tests.models import sentences

TEXTS = sentences(60, seed=5)


@pytest.fixture(scope="module")
def base(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "decoder"
    tokenizer = AutoTokenizer.from_pretrained(tiny_llama)
    tokenizer.add_tokens(["yes", "no", "Yes", "No"])
    tokenizer.model_max_length = 512
    tokenizer.save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        size = {
            "vocab_size": len(tokenizer),
            "max_position_embeddings": 512,
            "pad_token_id": None,
            "initializer_range": 0.3,
        }
        LlamaForCausalLM(LlamaConfig.from_pretrained(tiny_llama, **size)).save_pretrained(folder)
    return folder


def rows(folder: Path, taught: bool = False, name: str = "pairs", texts: Sequence[str] = TEXTS) -> Path:
    """Positives begin with one word, negatives with another."""
    lines = [{"anchor": text, "positive": f"cat {text}", "negative": f"dog {text}"} for text in texts]
    if taught:
        lines = [{**line, "scores": [3.0, -1.0]} for line in lines]
    return write_lines(folder / f"{name}.jsonl", lines)


def config(base: Path, data: Path, output: Path, verifier: str = "generative", **options: object) -> VerifierConfig:
    given = {"epochs": 3, "batch_size": 8, "lr": 1e-2, "in_batch": 1, "device": "cpu", "precision": "fp32"} | options
    return VerifierConfig(verifier, str(base), [str(data)], output=str(output), **given)


def test_the_package_for_low_rank_updates_is_needed_before_anything_is_read(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingExtra, match=r"'retrokit-ir\[lora\]'"):
        config(tmp_path / "none", tmp_path / "none.jsonl", tmp_path / "run", lora=2)


def test_options_of_a_verifier_on_token_maps_are_refused(tmp_path):
    options = {"cache": "cache", "start": "default", "end_to_end": True}
    with pytest.raises(UsageError) as caught:
        config(tmp_path, tmp_path, tmp_path / "run", in_batch=None, **options)
    for name in options:
        assert f"`{name}=` and `verifier=` generative exclude each other" in str(caught.value)
    with pytest.raises(UsageError, match="`loss=` needs `verifier=` cross-encoder or `verifier=` generative"):
        config(tmp_path, tmp_path, tmp_path / "run", verifier="cnn", loss="lambda")


def test_low_rank_updates_learn_and_are_merged(base, tmp_path):
    data = rows(tmp_path)
    plan = plan_verifier(config(base, data, tmp_path / "plan", lora=4))
    parameters = plan.preflight.parameters
    (sheet,) = (sheet for sheet in verifier_preflight_sheets(plan.preflight, VerifierConfig) if sheet.title == "plan")
    assert [("parameters of the decoder",), (f"{parameters['verifier']:,}",)] in sheet.rows
    assert 0 < parameters["trainable"] < parameters["verifier"] / 2
    texts = sentences(3, seed=9)
    dev = rows(tmp_path, name="dev", texts=texts)
    verifier, options = 'generative:template="{query} {document}"', {"lora": 4, "epochs": 8, "eval_every": 100}
    outcome = train_verifier(config(base, data, tmp_path / "run", verifier, dev=[str(dev)], **options))
    assert "A decoder, which reads two texts together" in (tmp_path / "run" / "README.md").read_text()
    queries, documents = texts * 2, [f"{word} {text}" for word in ("cat", "dog") for text in texts]
    ours = registry.create(f"cross-encoder:{tmp_path / 'run'}", device="cpu").score_pairs(queries, documents)
    theirs = CrossEncoder(str(tmp_path / "run"), device="cpu").predict(list(zip(queries, documents, strict=True)))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
    raw = registry.create(f"generative:{tmp_path / 'run'}", device="cpu").score_pairs(queries, documents)
    np.testing.assert_allclose(1 / (1 + np.exp(-raw)), ours, atol=1e-5)
    start, trained = (row["evaluation"]["negative_score"] for row in outcome.evaluations)
    assert start != pytest.approx(trained, rel=1e-3)
    assert ours[3:].mean() == pytest.approx(trained, rel=1e-4), "what was learned is in the folder"


def test_a_teachers_scores_and_the_whole_model(base, tmp_path):
    data = rows(tmp_path, taught=True)
    texts = sentences(3, seed=9)
    dev = rows(tmp_path, taught=True, name="dev", texts=texts)
    options = {"loss": "margin-mse", "in_batch": None, "lr": 1e-3, "dev": [str(dev)], "eval_every": 100}
    outcome = train_verifier(config(base, data, tmp_path / "run", **options))
    assert outcome.steps > 0
    start, trained = (row["evaluation"]["negative_score"] for row in outcome.evaluations)
    assert start != pytest.approx(trained, rel=1e-3)
    scores = registry.create(f"generative:{tmp_path / 'run'}", device="cpu").score_pairs(
        texts, [f"dog {text}" for text in texts]
    )
    assert scores.mean() == pytest.approx(trained, rel=1e-4), "what was learned is in the folder"
