"""Training with examples held out: their loss and retrieval, in every kind of data, resumed, and across processes."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from retrokit.core.errors import DataError, UsageError
from retrokit.training import trainer
from retrokit.training.config import FinetuneConfig
from retrokit.training.finetune import finetune, plan
from retrokit.training.history import Outcome
from tests.models import sentences

TEXTS = sentences(120)
ROWS: dict[str, list[dict[str, Any]]] = {
    "pairs": [{"anchor": TEXTS[i], "positive": TEXTS[60 + i], "negatives": TEXTS[i + 1 : i + 3]} for i in range(40)],
    "taught": [
        {"anchor": TEXTS[i], "positive": TEXTS[60 + i], "negatives": [TEXTS[61 + i]], "scores": [0.9, i / 40]}
        for i in range(40)
    ],
    "scored": [{"sentence1": TEXTS[i], "sentence2": TEXTS[60 + i], "score": i % 6} for i in range(40)],
    "texts": [{"text": f"{TEXTS[i]}. {TEXTS[i + 60]}. {TEXTS[59 - i]}."} for i in range(40)],
}
OPTIONS: dict[str, dict[str, Any]] = {
    "pairs": {},
    "taught": {"loss": "kl+infonce:0.5"},
    "scored": {"loss": "mse"},
    "texts": {"augment": ("crops:1,min_chars=1",)},
}
SMALL = {"steps": 4, "batch_size": 4, "lr": 0.05, "eval_every": 2, "holdout": 0.25, "device": "cpu"}


def written(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def values(outcome: Outcome) -> list[dict[str, float]]:
    return [row["evaluation"] for row in outcome.evaluations]


@pytest.mark.parametrize("kind", ROWS)
def test_every_kind_of_data(tmp_path: Path, kind: str) -> None:
    data = [written(tmp_path / "data.jsonl", ROWS[kind])]
    outcome = finetune(FinetuneConfig("static:8", data, str(tmp_path / "run"), **SMALL, **OPTIONS[kind]))
    main = "holdout:spearman" if kind == "scored" else "holdout:ndcg@10"
    assert [set(found) for found in values(outcome)] == [{main, "holdout:loss"}] * 3
    assert outcome.metric == main
    losses = [found["holdout:loss"] for found in values(outcome)]
    assert len(set(losses)) == 3, "the loss of the weights as they are"


def test_the_loss_by_hand(tmp_path: Path) -> None:
    """Cosine at 20 of the held-out pairs, in the batches that are said, with all positives and negatives of a batch."""
    rows = [{"anchor": f"{TEXTS[i]} {i}", "positive": f"{TEXTS[60 + i]} {i}"} for i in range(40)]
    data = [written(tmp_path / "data.jsonl", rows)]
    made = plan(FinetuneConfig("static:8", data, None, **SMALL))
    encoder, batches = made.encoder, list(made.held_out.batches())
    expected, count = 0.0, 0
    for examples, weight in batches:
        assert weight == len(examples) <= 4
        anchors, positives = zip(*((one.record.anchor, one.record.positive) for one in examples), strict=True)
        queries, documents = (torch.from_numpy(encoder.embed(side, "document")) for side in (anchors, positives))
        scores = 20 * torch.nn.functional.normalize(queries) @ torch.nn.functional.normalize(documents).T
        expected += torch.nn.functional.cross_entropy(scores, torch.arange(len(scores)), reduction="sum").item()
        count += len(examples)
    assert count == made.held_out.data.sources[0].counts["records"]
    outcome = finetune(FinetuneConfig("static:8", data, str(tmp_path / "run"), **SMALL))
    assert values(outcome)[0]["holdout:loss"] == pytest.approx(expected / count, rel=1e-5)


def test_a_resumed_run_is_the_uninterrupted_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = [written(tmp_path / "data.jsonl", ROWS["pairs"])]
    options = SMALL | {"save_every": 1, "keep_checkpoints": 9}
    whole = finetune(FinetuneConfig("static:8", data, str(tmp_path / "whole"), **options))
    step = trainer.FinetuneTrainer.compute_loss

    def stops(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.state.global_step == 3:
            raise KeyboardInterrupt
        return step(self, *args, **kwargs)

    monkeypatch.setattr(trainer.FinetuneTrainer, "compute_loss", stops)
    with pytest.raises(KeyboardInterrupt):
        finetune(FinetuneConfig("static:8", data, str(tmp_path / "run"), **options))
    monkeypatch.undo()
    resumed = finetune(FinetuneConfig("static:8", data, str(tmp_path / "run"), resume=True, **options))
    assert values(resumed) == values(whole)
    with pytest.raises(UsageError, match="finished"):
        finetune(FinetuneConfig("static:8", data, str(tmp_path / "run"), resume=True, **options))


@pytest.mark.parametrize(
    ("kind", "options", "problem"),
    [
        ("pairs", {"holdout": 0.0001}, "leaves nothing to hold out"),
        ("pairs", {"holdout": 100}, "leaves nothing to train on"),
        ("pairs", {"holdout": 0}, "`holdout=` 0 must be above 0"),
        ("pairs", {"best_metric": "spearman"}, "spearman"),
        ("texts", {"augment": ("dropout:1,min_chars=1",), "dropout": 0.1}, "every held-out anchor is its own positive"),
        ("pairs", {"holdout": None}, "`eval_every=` needs `eval=` or `holdout=`"),
    ],
)
def test_what_cannot_be_held_out(tmp_path: Path, kind: str, options: dict[str, Any], problem: str) -> None:
    data = [written(tmp_path / "data.jsonl", ROWS[kind])]
    with pytest.raises((UsageError, DataError), match=problem):
        plan(FinetuneConfig("static:8", data, None, **SMALL | OPTIONS[kind] | options))
