"""Training with examples held out: their loss and retrieval, in every kind of data, resumed, and across processes."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from retrokit.core.errors import DataError, UsageError
from retrokit.data.pairs import read_source
from retrokit.data.training_rows import text_id
from retrokit.training import trainer
from retrokit.training.batches import TrainingSet
from retrokit.training.callback import seconds_per_step
from retrokit.training.config import FinetuneConfig
from retrokit.training.finetune import finetune, plan
from retrokit.training.held_out import HeldOut
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
    "taught": {"loss": "kl+infonce=0.5"},
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


def test_a_lower_loss_is_better_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([3.0, 1.0, 0.5, 0.7, 0.9])
    monkeypatch.setattr(trainer.FinetuneTrainer, "_held_out_loss", lambda self, held_out: next(found))
    data = [written(tmp_path / "data.jsonl", ROWS["pairs"])]
    options = SMALL | {"steps": 40, "patience": 2, "best_metric": "loss"}
    outcome = finetune(FinetuneConfig("static:8", data, str(tmp_path / "run"), **options))
    assert (outcome.steps, outcome.best_step, outcome.gain) == (8, 4, 2.5)
    assert outcome.metric == "holdout:loss"


def test_sources_weights_batches_and_known_positives(tmp_path: Path) -> None:
    first, second = (written(tmp_path / f"{name}.jsonl", ROWS["pairs"][part]) for name, part in PARTS.items())
    made = plan(FinetuneConfig("static:8", [first, f"{second},weight=2"], None, **SMALL))
    parts = [made.data, made.held_out.data]
    anchors = [{data[place].record.anchor for place in range(len(data))} for data in parts]
    assert anchors[0].isdisjoint(anchors[1])
    assert anchors[0] | anchors[1] == {row["anchor"] for row in ROWS["pairs"]}
    for examples, weight in made.held_out.batches():
        source = made.held_out.data.sources[examples[0].source]
        assert {one.source for one in examples} == {examples[0].source}
        assert weight == source.weight * len(examples)
    assert len(made.loss().positives) == 40
    assert [batch for batch, _ in made.held_out.batches()] == [batch for batch, _ in made.held_out.batches()]


PARTS = {"first": slice(0, 15), "second": slice(15, 40)}


def test_batches_of_a_source_differ_by_one_at_most(tmp_path: Path) -> None:
    source = read_source(written(tmp_path / "data.jsonl", ROWS["pairs"]), "pairs")
    held_out = HeldOut(TrainingSet([source]), 16, 0)
    batches = [batch for batch, _ in held_out.batches()]
    assert sorted(map(len, batches)) == [13, 13, 14]
    anchors = [example.anchor_id for batch in batches for example in batch]
    assert sorted(anchors) == sorted(text_id(row["anchor"]) for row in ROWS["pairs"])


def test_dropout_and_the_random_state_are_left_alone(tiny_bert: Path, tmp_path: Path) -> None:
    """Evaluations between make no difference to the weights; and two at the same weights give the same loss."""
    data = [written(tmp_path / "data.jsonl", ROWS["pairs"])]
    options = SMALL | {"lr": 1e-3, "dropout": 0.5}
    runs = []
    for name, every in (("often", 1), ("seldom", 4)):
        run = tmp_path / name
        runs.append(finetune(FinetuneConfig(str(tiny_bert), data, str(run), **options | {"eval_every": every})))
    assert values(runs[0])[0] == values(runs[1])[0]
    assert values(runs[0])[-1] == values(runs[1])[-1]


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


def test_one_score_correlates_with_nothing(tmp_path: Path) -> None:
    rows = [{**row, "score": 1} for row in ROWS["scored"]]
    with pytest.raises(UsageError, match="held-out pairs have one score"):
        plan(FinetuneConfig("static:8", [written(tmp_path / "d.jsonl", rows)], None, loss="mse", **SMALL))


def test_the_start_is_step_0_under_a_time_budget_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measuring the speed of a step makes some."""
    monkeypatch.setattr("retrokit.training.run.seconds_per_step", lambda trainer: (seconds_per_step(trainer), 25.0)[1])
    data, options = [written(tmp_path / "data.jsonl", ROWS["pairs"])], SMALL | {"steps": None, "time_budget": 100.0}
    outcome = finetune(FinetuneConfig("static:8", data, str(tmp_path / "run"), **options))
    assert [row["step"] for row in outcome.evaluations] == [0, 2, 4]
    assert outcome.gain is not None
