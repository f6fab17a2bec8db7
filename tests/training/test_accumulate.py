"""Several batches of an optimizer step: its gradient is the mean of theirs, and steps are what is counted."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import retrokit.training.run
from retrokit.data.jsonl import write_jsonl
from retrokit.training.callback import TrainingCallback
from retrokit.training.config import FinetuneConfig
from retrokit.training.finetune import finetune, plan
from retrokit.training.processes import is_first, leave
from tests.close import assert_rounded
from tests.models import sentences
from tests.processes import in_processes

Gradients = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pairs with a negative each and a teacher's scores; scored pairs."""
    folder, texts = tmp_path_factory.mktemp("data"), sentences(72)
    taught = [
        {"anchor": texts[i], "positive": texts[24 + i], "negatives": [texts[48 + i]]}
        | {"positive_score": i % 5, "negative_scores": [i % 3 - 2]}
        for i in range(24)
    ]
    scored = [{"sentence1": texts[i], "sentence2": texts[24 + i], "score": i % 6} for i in range(24)]
    made = {"pairs": folder / "pairs.jsonl", "scored": folder / "scored.jsonl"}
    write_jsonl(made["pairs"], taught)
    write_jsonl(made["scored"], scored)
    return made


def config(encoder: Path | str, data: dict[str, Path], output: Path | None, **options: Any) -> FinetuneConfig:
    options = {"lr": 1e-3, "precision": "fp32", "dropout": 0.0, "max_grad_norm": 1e9, "log_every": 1} | options
    source = data["scored" if options.get("loss") == "mse" else "pairs"]
    return FinetuneConfig(str(encoder), [str(source)], output and str(output), **options, device="cpu")


def dense(model: torch.nn.Module) -> Gradients:
    found = {name: value.grad for name, value in model.named_parameters() if value.grad is not None}
    return {name: value.to_dense().clone() if value.is_sparse else value.clone() for name, value in found.items()}


def of_steps(monkeypatch: pytest.MonkeyPatch, asked: FinetuneConfig) -> tuple[list[Gradients], list[float]]:
    """The gradients of each step of a run, and the losses that it logs."""
    seen: list[Gradients] = []
    capture = staticmethod(lambda *_, model, **__: seen.append(dense(getattr(model, "module", model))))
    monkeypatch.setattr(TrainingCallback, "on_pre_optimizer_step", capture, raising=False)
    outcome = finetune(asked)
    lines = (Path(outcome.folder) / "metrics.jsonl").read_text().splitlines()
    return seen, [json.loads(line)["loss"] for line in lines]


def by_hand(asked: FinetuneConfig, count: int) -> tuple[Gradients, float]:
    """Mean gradients and mean loss of the first ``count`` batches."""
    made = plan(asked)
    made.model.train()
    loss, total = made.loss(), 0.0
    for _, batch in zip(range(count), made.loader, strict=False):
        value = loss([batch["query"], batch["document"]], batch.get("label"))
        (value / count).backward()
        total += value.item() / count
    return dense(made.model), total


def assert_same(found: Gradients, expected: Gradients) -> None:
    largest = max(float(value.abs().max()) for value in expected.values())
    assert found.keys() == expected.keys()
    assert largest > 0
    for name, value in expected.items():
        assert_rounded(found[name], value, size=largest)


CASES: dict[str, dict[str, Any]] = {
    "infonce": {"sim": "learn", "loss": "infonce:directions=both"},
    "cached": {"sim": "qnorm", "mini_batch": 3},
    "checkpointed": {"gradient_checkpointing": True, "mini_batch": 3, "no_duplicates": True},
    "taught": {"loss": "infonce+kl:0.5"},
    "mse": {"loss": "mse"},
    "rows": {"encoder": "static:16"},
    "rows-mse": {"encoder": "static:16", "loss": "mse"},
}


@pytest.mark.parametrize("case", CASES)
def test_a_step_is_the_mean_of_its_batches(tiny_bert, data, tmp_path, monkeypatch, case):
    options = {"encoder": tiny_bert, "batch_size": 4} | CASES[case]
    steps, losses = of_steps(monkeypatch, config(**options, data=data, output=tmp_path / "run", steps=1, accumulate=3))
    expected, loss = by_hand(config(**options, data=data, output=None), 3)
    assert_same(steps[0], expected)
    assert losses == [pytest.approx(loss, rel=1e-5)]
    joint, value = by_hand(config(**options | {"batch_size": 12}, data=data, output=None), 1)
    if options.get("loss") == "mse":
        assert_same(steps[0], joint)
        assert losses == [pytest.approx(value, rel=1e-5)]
    else:
        assert value > loss, "more candidates for each anchor can only raise its loss"


def save_gradients(encoder: Path, data: dict[str, Path]) -> None:
    """The gradients of a step of two batches, cached and whole, in a file that the first process writes."""
    retrokit.training.run.leave = lambda: None
    with pytest.MonkeyPatch.context() as patch:
        found = {
            case: of_steps(patch, config(encoder, data, Path(case), **CASES[case], **_TWO, batch_size=2))[0][0]
            for case in ("infonce", "cached")
        }
    if is_first():
        torch.save(found, "gradients.pt")
    leave()


_TWO: dict[str, Any] = {"steps": 1, "accumulate": 2}


def test_processes_accumulate_the_joint_batches(tiny_bert, data, tmp_path, monkeypatch):
    ended = in_processes(2, tmp_path, save_gradients, (tiny_bert, data))
    assert [process.code for process in ended] == [0, 0], [process.err for process in ended]
    for case, found in torch.load(tmp_path / "gradients.pt", weights_only=True).items():
        one, _ = of_steps(
            monkeypatch, config(tiny_bert, data, tmp_path / case / "1", **CASES[case], **_TWO, batch_size=4)
        )
        assert_same(found, one[0])
