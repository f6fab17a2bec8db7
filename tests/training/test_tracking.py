"""What trackers hold of a run is what its ``metrics.jsonl`` holds, once."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from transformers.integrations import TensorBoardCallback

from retrokit.core.errors import MissingExtra, ServiceError, UsageError
from retrokit.data.jsonl import write_jsonl
from retrokit.training.callback import numbers_of
from retrokit.training.config import TRACKERS, FinetuneConfig
from retrokit.training.finetune import finetune, plan
from tests.models import sentences

Told = dict[tuple[str, int], float]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    texts = sentences(96)
    rows = [{"anchor": a, "positive": b, "negatives": [c]} for a, b, c in zip(*[iter(texts)] * 3, strict=True)]
    write_jsonl(tmp_path / "pairs.jsonl", rows)
    return tmp_path / "pairs.jsonl"


def config(encoder: Path | str, data: Path, output: Path, **options: Any) -> FinetuneConfig:
    options = {"steps": 8, "batch_size": 4, "precision": "fp32", "log_every": 2, "holdout": 0.2} | options
    return FinetuneConfig(str(encoder), [str(data)], str(output), **options, device="cpu")


def written(run: Path) -> Told:
    """The numbers of ``metrics.jsonl`` by name and step."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {(name, row["step"]): number for row in rows for name, number in numbers_of(row).items()}


def in_tensorboard(run: Path) -> Told:
    events = EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    found = [(tag, event.step, event.value) for tag in events.Tags()["scalars"] for event in events.Scalars(tag)]
    assert len({one[:2] for one in found}) == len(found), "each is told once"
    names = {tag: tag.removeprefix("train/").replace("eval/", "eval_", 1) for tag, _, _ in found}
    return {(names[tag], step): value for tag, step, value in found}


def assert_same(told: Told, expected: Told) -> None:
    assert told == {key: pytest.approx(value, rel=1e-6) for key, value in expected.items()}


def test_tensorboard_holds_what_the_run_holds(tiny_bert, pairs, tmp_path):
    loss = f"infonce:guide={tiny_bert},margin=0.001"
    finetune(config(tiny_bert, pairs, tmp_path / "run", track=("tensorboard",), eval_every=4, sim="learn", loss=loss))
    told = in_tensorboard(tmp_path / "run")
    assert_same(told, written(tmp_path / "run"))
    assert {("loss", 8), ("lr", 2), ("masked_by_guide", 4), ("eval_holdout:ndcg@10", 0)} <= set(told)
    (text,) = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload().Tensors("args/text_summary")
    about = json.loads(text.tensor_proto.string_val[0])
    assert (about["encoder"], about["sim"], about["processes"]) == (str(tiny_bert), "learn", 1)


def test_a_tracker_that_is_not_there(tiny_bert, pairs, tmp_path, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name in TRACKERS else real(name))
    for name in TRACKERS:
        with pytest.raises(MissingExtra, match=rf"`track=` {name} needs .* 'retrokit-ir\[{name}\]'"):
            plan(config("static:8", pairs, tmp_path / "run", track=(name,)))
    with pytest.raises(UsageError, match="`track=` comet is none of tensorboard, trackio, wandb, mlflow"):
        config("static:8", pairs, tmp_path / "run", track=("comet",))
    assert not (tmp_path / "run").exists()


def failing(*_: Any, **__: Any) -> None:
    raise ConnectionError("no such host")


def test_a_tracker_that_fails_does_not_end_a_run(pairs, tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO", "retrokit")
    monkeypatch.setattr(TensorBoardCallback, "on_log", failing)
    assert finetune(config("static:8", pairs, tmp_path / "run", track=("tensorboard",))).steps == 8
    assert "`track=` tensorboard ends at step 0: ConnectionError: no such host" in caplog.messages
    monkeypatch.setattr(TensorBoardCallback, "on_train_begin", failing)
    with pytest.raises(ServiceError, match="`track=` tensorboard: ConnectionError: no such host"):
        finetune(config("static:8", pairs, tmp_path / "other", track=("tensorboard",)))
