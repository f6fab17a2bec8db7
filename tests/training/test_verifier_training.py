"""`rerank train` on a tiny model: it learns, it resumes to the same weights, its folder scores, mistakes are told."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import retrokit
from retrokit import cli
from retrokit.core.errors import DataError, UsageError
from retrokit.data.jsonl import write_jsonl
from retrokit.data.pairs import read_source
from retrokit.ranking.reranking import registry
from retrokit.ranking.reranking.verifier import shrink
from retrokit.training.batches import TrainingSet
from retrokit.training.loss import KnownPairs
from retrokit.training.rerankers import verifier as recipe
from retrokit.training.rerankers.config import VerifierConfig
from retrokit.training.rerankers.job import draw_candidates
from retrokit.training.rerankers.verifier import plan_verifier, train_verifier, verifier_loss
from tests.codes import codes
from tests.models import sentences
from tests.runs import assert_same_weights, history_of, killed_after, weights


@pytest.fixture(scope="module")
def triplets(tmp_path_factory) -> Path:
    """Sentences, and near-misses with the words in the opposite order."""
    rows = [{"anchor": t, "positive": t, "negatives": [" ".join(t.split()[::-1])]} for t in sentences(80, seed=8)]
    rows = [row for row in rows if row["anchor"] not in row["negatives"]]
    path = tmp_path_factory.mktemp("data") / "triplets.jsonl"
    write_jsonl(path, rows)
    return path


def configure(verifier: str, encoder: Path, data: Path, output: Path | None, **options) -> VerifierConfig:
    defaults = {"steps": 6, "batch_size": 8, "precision": "fp32", "lr": 1e-2, "device": "cpu", "eval_every": 2}
    folder = None if output is None else str(output)
    return VerifierConfig(verifier, str(encoder), (str(data),), folder, **(defaults | options))


def train(*given, **options):
    return train_verifier(configure(*given, **options))


@pytest.mark.parametrize("verifier", ["cnn:channels=8", "transformer:dim=32,patch=2"])
def test_it_learns_what_no_reduction_sees(tiny_bert, triplets, tmp_path, verifier):
    outcome = train(verifier, tiny_bert, triplets, tmp_path / "run", steps=80, eval_every=40)
    first, last = outcome.evaluations[0]["evaluation"], outcome.evaluations[-1]["evaluation"]
    # chance is 0.5; over 20 seeds 1 without a deviation, and an untrained network may tell reversals by luck
    assert last["roc_auc"] > 1 / 2
    assert last["negative_score"] < first["negative_score"] - 0.1  # over 20 seeds 0.47 less, with an SD of 0.07
    name = verifier.partition(":")[0]
    reranker = registry.create(f"{name}:{tmp_path / 'run'}", device="cpu")
    texts = sentences(20, seed=1)
    same, turned = (
        reranker.score_pairs(texts, others) for others in (texts, [" ".join(text.split()[::-1]) for text in texts])
    )
    assert turned.mean() < same.mean()  # over 20 seeds 0.89 more for one text, with an SD of 0.2
    assert 0 <= min(*turned, *same) < max(*turned, *same) <= 1
    described = json.loads((tmp_path / "run" / "retrokit.json").read_text())
    assert described["parameters"]["verifier"] == sum(v.numel() for v in weights(tmp_path / "run").values())
    assert not (tmp_path / "run" / "tokens").exists()


@pytest.mark.parametrize(
    ("verifier", "options"),
    [("cnn:channels=4", {}), ("transformer:dim=8,heads=2", {"end_to_end": True}), ("soft", {"cache": "kept"})],
)
def test_a_resumed_run_ends_at_the_same_weights(tiny_bert, triplets, tmp_path, verifier, options):
    if "cache" in options:
        options = {"cache": str(tmp_path / "kept")}
    train(verifier, tiny_bert, triplets, tmp_path / "whole", **options)
    with killed_after(3):
        train(verifier, tiny_bert, triplets, tmp_path / "run", **options)
    (tmp_path / "run" / "checkpoints" / "checkpoint-5").mkdir()  # a checkpoint that a kill left incomplete
    with pytest.raises(UsageError, match="exists; give `overwrite=`"):
        train(verifier, tiny_bert, triplets, tmp_path / "run", **options)
    with pytest.raises(UsageError, match=r"lr was 0.01, now 0.02"):
        train(verifier, tiny_bert, triplets, tmp_path / "run", **options, lr=0.02, resume=True)
    train(verifier, tiny_bert, triplets, tmp_path / "run", **options, resume=True)
    assert_same_weights(tmp_path / "whole", tmp_path / "run")
    assert history_of(tmp_path / "whole") == history_of(tmp_path / "run")
    with pytest.raises(UsageError, match="is finished"):
        train(verifier, tiny_bert, triplets, tmp_path / "run", **options, resume=True)


def test_wrong_use_is_told_before_a_step(tiny_bert, triplets, tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="maxsim has no weights to learn; give `end_to_end=`"):
        plan_verifier(configure("maxsim", tiny_bert, triplets, None))
    with pytest.raises(UsageError) as caught:
        configure("cnn", tiny_bert, triplets, None, lr=-1, epochs=1, best_metric="mrr", cache="x", end_to_end=True)
    for part in (
        "`lr=` -1 must be above 0",
        "`steps=` and `epochs=` exclude each other",
        "`best_metric=` mrr",
        "`cache=` and `end_to_end=` exclude",
    ):
        assert part in str(caught.value)
    with pytest.raises(UsageError, match="unknown verifier 'cn'"):
        configure("cn", tiny_bert, triplets, None)
    with pytest.raises(UsageError, match="give an output folder"):
        train("cnn", tiny_bert, triplets, None)
    few = tmp_path / "few.jsonl"
    write_jsonl(few, [{"anchor": text, "positive": text} for text in sentences(2)])
    with pytest.raises(DataError, match="leaves nothing to hold out; anchors: 2"):
        plan_verifier(configure("cnn", tiny_bert, few, None))
    with pytest.raises(UsageError, match="have no negatives"):
        plan_verifier(configure("cnn", tiny_bert, triplets, None, dev=(str(few),), best_metric="roc_auc"))
    real = recipe.verifier_loss
    monkeypatch.setattr(recipe, "verifier_loss", lambda *arguments: real(*arguments) * float("inf"))
    with pytest.raises(DataError, match=r"the loss is (inf|nan) at step 2; lower `lr=`"):
        train("cnn", tiny_bert, triplets, tmp_path / "run")


def test_candidates_are_the_positive_the_negatives_and_others_that_are_no_positives(tmp_path):
    rows = [
        {"anchor": "a", "positive": "pa", "negatives": ["na1", "na2"]},
        {"anchor": "b", "positive": "pb", "negatives": ["nb"]},
        {"anchor": "a", "positive": "pa2"},
    ]
    write_jsonl(tmp_path / "rows.jsonl", rows)
    data = TrainingSet([read_source(str(tmp_path / "rows.jsonl"), "pairs")])
    found = draw_candidates([data[i] for i in range(3)], KnownPairs(data.positives), 9, np.random.default_rng(0))
    lists = [[found.documents[j] for j in row if j >= 0] for row in found.columns.tolist()]
    mine = [row[:count] for row, count in zip(lists, (3, 2, 1), strict=True)]
    assert mine == [["pa", "na1", "na2"], ["pb", "nb"], ["pa2"]]
    assert sorted(lists[0][3:]) == ["nb", "pb"], "pa2 is a positive of a too"
    assert sorted(lists[1][2:]) == ["na1", "na2", "pa", "pa2"]
    assert found.is_negative.sum(dim=1).tolist() == [2, 1, 0]
    fewer = draw_candidates([data[i] for i in range(3)], KnownPairs(data.positives), 1, np.random.default_rng(0))
    assert [(row >= 0).sum().item() for row in fewer.columns] == [4, 3, 2]
    np.testing.assert_array_equal(data.positives.numpy(), codes({"a": ["pa", "pa2"], "b": ["pb"]}))


def test_the_loss_by_hand():
    scores = torch.tensor([[2.0, 1.0, -torch.inf], [0.0, 0.0, 1.0]])
    own = torch.tensor([[False, True, False], [False, False, False]])
    ranking = (np.log(1 + np.exp(-1)) + np.log(2 + np.e)) / 2
    binary = (np.log(1 + np.exp(-2)) + np.log(2)) / 2 + np.log(1 + np.e)
    assert verifier_loss(scores, own, learns_logits=True).item() == pytest.approx(ranking + binary, rel=1e-5)
    scaled = (np.log(1 + np.exp(-20)) + np.log(2 + np.exp(20))) / 2
    assert verifier_loss(scores, own, learns_logits=False).item() == pytest.approx(scaled, rel=1e-5)


def test_low_rank_updates_alone_are_trained_and_a_small_copy_holds_them(tiny_bert, triplets, tmp_path, capsys):
    run, small = tmp_path / "run", tmp_path / "small"
    lora = "rank=2,last=1,targets=query+value"
    train("cnn", tiny_bert, triplets, run, end_to_end=True, lora=lora, encoder_dropout=0.0, encoder_lr=1e-2)
    before, after = (retrokit.encoder(str(path)).model[0].auto_model.state_dict() for path in (tiny_bert, run))
    changed = {name for name, value in before.items() if not torch.equal(value, after[name])}
    last = f"encoder.layer.{max(int(name.split('.')[2]) for name in before if 'encoder.layer' in name)}.attention.self."
    assert changed == {f"{last}query.weight", f"{last}value.weight"}
    assert shrink(str(run), str(small), rank=2) == pytest.approx(1, abs=1e-5)
    assert not (small / "model.safetensors").exists()
    texts = sentences(9, seed=1)
    whole, copied = (
        registry.create(f"cnn:{path}", device="cpu").score_pairs(texts, texts[::-1]) for path in (run, small)
    )
    np.testing.assert_allclose(copied, whole, rtol=1e-2)  # half precision
    untouched = registry.create(f"maxsim:{tiny_bert}", device="cpu").encoder.to_train().model[0].auto_model.state_dict()
    assert torch.equal(untouched[f"{last}query.weight"], before[f"{last}query.weight"])
    assert 0 < shrink(str(run), str(tmp_path / "smaller"), rank=1) < 1
    capsys.readouterr()
    assert cli.run(["rerank", "shrink", str(run), "-o", str(tmp_path / "typed"), "--rank", "2"]) == 0
    line = f"{tmp_path / 'typed'}: 100.00% of the change of the encoder's weights retained\n"
    assert capsys.readouterr().err.endswith(line)
    with pytest.raises(UsageError, match="has no encoder of its own: train it with `end_to_end=`"):
        shrink(str(small), str(tmp_path / "again"))
    (small / "encoder-update.safetensors").write_bytes(b"cut")
    with pytest.raises(DataError, match=r"encoder-update.safetensors.*contains no update of an encoder"):
        registry.create(f"cnn:{small}", device="cpu")
