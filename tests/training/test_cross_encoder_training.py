"""`rerank train cross-encoder` on a tiny model: the library's losses and scores, resuming, mistakes."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder

from retrokit import encoders
from retrokit.core.errors import DataError, UsageError
from retrokit.data.jsonl import write_jsonl
from retrokit.ranking.reranking import registry
from retrokit.ranking.reranking.verify import calibrate, verify
from retrokit.training.rerankers.config import LOSSES, VerifierConfig
from retrokit.training.rerankers.cross_encoder import CrossEncoderRun
from retrokit.training.rerankers.verifier import plan_verifier, train_verifier
from retrokit.training.run import _options, folder_of
from tests.close import assert_rounded
from tests.models import make_bert, sentences
from tests.ranking.test_library import make_cross_encoder
from tests.runs import assert_same_weights, killed_after

TEXTS = sentences(60, seed=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Triplets whose negatives are dogs, and the same with a teacher's scores, of one negative or two."""
    path = tmp_path_factory.mktemp("data")
    rows = [{"anchor": text, "positive": f"cat {text}", "negatives": ["dog dog dog"]} for text in TEXTS]
    write_jsonl(path / "triplets.jsonl", rows)
    for i, row in enumerate(rows):
        row |= {"positive_score": 4.0, "negative_scores": [-1.0, 0.5][: 1 + i % 2]}
        row["negatives"] = [*row["negatives"], TEXTS[i - 1]][: 1 + i % 2]
    write_jsonl(path / "taught.jsonl", rows)
    make_bert(path / "still", dropout=0.0)
    return path


def configure(folder: Path, base: object, output: Path | None = None, **options) -> VerifierConfig:
    taught = options.get("loss") in LOSSES[3:]
    data = str(folder / ("taught.jsonl" if taught else "triplets.jsonl"))
    defaults = {"steps": 4, "batch_size": 8, "precision": "fp32", "lr": 1e-2, "device": "cpu", "eval_every": 2}
    return VerifierConfig(
        "cross-encoder", str(base), (data,), None if output is None else str(output), **(defaults | options)
    )


def train(*given, **options):
    return train_verifier(configure(*given, **options))


def test_it_learns_and_its_folder_is_the_librarys(tiny_bert, tmp_path):
    rows = [{"anchor": text, "positive": "cat cat cat", "negatives": ["dog dog dog"]} for text in TEXTS]
    write_jsonl(tmp_path / "triplets.jsonl", rows)
    outcome = train(tmp_path, tiny_bert, tmp_path / "run", steps=30, eval_every=15)
    start, *learned = (row["evaluation"]["roc_auc"] for row in outcome.evaluations)
    assert max(learned) > start + 0.1  # over 20 seeds 0.51 more, with an SD of 0.08
    theirs = CrossEncoder(str(tmp_path / "run"), device="cpu")
    asked = TEXTS[:5]
    texts = ["dog dog dog" if i % 2 else "cat cat cat" for i in range(5)]
    expected = theirs.predict(list(zip(asked, texts, strict=True)))
    for spec in ("cross-encoder", "verifier"):
        assert_rounded(registry.create(f"{spec}:{tmp_path / 'run'}", device="cpu").score_pairs(asked, texts), expected)
    assert 0 <= min(expected) < max(expected) <= 1
    assert "CrossEncoder(" in (tmp_path / "run" / "README.md").read_text()
    assert 'loss = "binary"' in (tmp_path / "run" / "config.toml").read_text()
    again = train(tmp_path, tmp_path / "run", tmp_path / "more", steps=1, eval_every=1)
    assert again.evaluations[0]["evaluation"]["roc_auc"] == pytest.approx(max(learned)), "it keeps its head"
    found = calibrate(str(tmp_path / "run"), str(tmp_path / "triplets.jsonl"), 0.05)
    assert found.false_accepts.value <= 0.05
    # over 20 seeds 0.88 more, with an SD of 0.09
    assert found.true_accepts.value > found.false_accepts.value + 0.4
    write_jsonl(tmp_path / "pairs.jsonl", [{"query": q, "document": d} for q, d in zip(asked, texts, strict=True)])
    verify(str(tmp_path / "run"), str(tmp_path / "pairs.jsonl"), str(tmp_path / "out.jsonl"))
    judged = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["accepted"] for row in judged] == (expected >= found.threshold).tolist()
    assert_rounded(np.array([row["score"] for row in judged]), expected)


def logits_of(model: CrossEncoder, scored: list) -> list[torch.Tensor]:
    return [
        model.predict([(anchor, text) for text in documents], activation_fn=torch.nn.Identity(), convert_to_tensor=True)
        for anchor, documents, _ in scored
    ]


def by_hand(loss: str, logits: list[torch.Tensor], values: list[torch.Tensor], weight: float) -> torch.Tensor:
    pairs, worth = torch.cat(logits), torch.cat(values)
    if loss == "mse":
        return (pairs - worth).square().mean()
    if loss == "binary":
        return torch.nn.functional.binary_cross_entropy_with_logits(pairs, worth, 1 + (weight - 1) * worth)
    if loss == "kl":
        parts = [-(v.softmax(0) * s.log_softmax(0)).sum() for s, v in zip(logits, values, strict=True)]
        return torch.stack(parts).mean()
    gaps = torch.cat([s[0] - s[1:] for s in logits])
    if loss == "margin-mse":
        return (gaps - torch.cat([v[0] - v[1:] for v in values])).square().mean()
    return -torch.nn.functional.logsigmoid(gaps).mean() / np.log(2)


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss != "lambda"])
def test_losses_are_those_that_are_named(folder, tmp_path, loss):
    planned = plan_verifier(configure(folder, folder / "still", tmp_path / "run", loss=loss))
    trainer = planned.trainer(_options(planned, folder_of(planned.config)))
    assert isinstance(trainer, CrossEncoderRun)
    batch = next(iter(trainer.loader))
    scored = trainer.scored(batch["batch"].examples)
    assert all(values[0] == max(values) for _, _, values in scored)
    assert len(scored) == 8
    if not planned.config.is_taught:
        assert all(len(documents) == 4 and values == [1, 0, 0, 0] for _, documents, values in scored)
        assert planned.weight == 3.0
    found = trainer.compute_loss(planned.model, batch)
    values = [torch.tensor(values) for _, _, values in scored]
    expected = by_hand(loss, logits_of(planned.model, scored), values, planned.weight)
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("loss", ["binary", "lambda", "margin-mse"])
def test_a_resumed_run_ends_at_the_same_weights(folder, tiny_bert, tmp_path, loss):
    train(folder, tiny_bert, tmp_path / "whole", loss=loss)
    with killed_after(3):
        train(folder, tiny_bert, tmp_path / "run", loss=loss)
    with pytest.raises(UsageError, match="its training is not finished"):
        registry.create(f"cross-encoder:{tmp_path / 'run'}", device="cpu")
    with pytest.raises(UsageError, match=r"loss was .*, now ranknet"):
        train(folder, tiny_bert, tmp_path / "run", loss="ranknet", resume=True)
    train(folder, tiny_bert, tmp_path / "run", loss=loss, resume=True)
    assert_same_weights(tmp_path / "whole", tmp_path / "run")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"end_to_end": True, "cache": "x"}, "`end_to_end=` and `verifier=` cross-encoder exclude each other"),
        ({"start": "x"}, "`start=` and `verifier=` cross-encoder exclude each other"),
        ({"encoder_lr": 1e-5}, "^`encoder_lr=` and `verifier=` cross-encoder exclude each other$"),
        ({"loss": "infonce"}, "`loss=` infonce is none of binary, lambda, ranknet, kl, margin-mse, mse"),
        ({"loss": "kl", "in_batch": 3}, "`in_batch=` and `loss=` kl exclude each other"),
        ({"teacher_temperature": 2.0}, "`teacher_temperature=` needs `loss=` kl"),
        ({"precision": "int8"}, "`precision=` int8 is none of auto, fp32, bf16, fp16"),
    ],
)
def test_options_that_do_not_apply_are_refused(folder, options, message):
    with pytest.raises(UsageError, match=message):
        configure(folder, "minilm", **options)


def test_what_cannot_begin_is_told_before_a_step(folder, tiny_bert, tmp_path):
    three = make_cross_encoder(tmp_path / "three", outputs=3)
    for base, problem in (
        ("static:dim=8", "has no transformer"),
        (three, "has 3 outputs .*; a reranker needs one output"),
        (f"model:{make_cross_encoder(tmp_path / 'cross')},pooling=cls", "a cross-encoder to start from has no options"),
    ):
        with pytest.raises(UsageError, match=problem):
            plan_verifier(configure(folder, base))
    with pytest.raises(UsageError, match="more than the model's 64 positions"):
        plan_verifier(configure(folder, tiny_bert, max_length=65))
    with pytest.raises(UsageError, match="fp16 needs a GPU"):
        plan_verifier(configure(folder, tiny_bert, precision="fp16"))
    with pytest.raises(DataError, match="scores"):
        plan_verifier(VerifierConfig("cross-encoder", str(tiny_bert), (str(folder / "triplets.jsonl"),), loss="mse"))
    few = [{"anchor": text, "positive": text, "score": 1.0} for text in TEXTS]
    write_jsonl(tmp_path / "few.jsonl", few)
    with pytest.raises(DataError):
        plan_verifier(VerifierConfig("cross-encoder", str(tiny_bert), (str(tmp_path / "few.jsonl"),), loss="kl"))
    train(folder, tiny_bert, tmp_path / "run", steps=1, eval_every=1)
    with pytest.raises(UsageError, match="leave out encoder and cache"):
        registry.create(f"verifier:{tmp_path / 'run'},encoder=minilm")
    with pytest.raises(UsageError, match="is not a cnn, but cross-encoder: write cross-encoder:"):
        registry.create(f"cnn:{tmp_path / 'run'}")
    with pytest.raises((UsageError, DataError), match="cross-encoder"):
        encoders.registry.create(str(tmp_path / "run"), device="cpu")
