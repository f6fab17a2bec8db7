"""What training does for a GPU, with a stand-in for one: memory that runs out, pinned memory, TF32, determinism,
tables; and what it refuses of several."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from retrokit.core.errors import UsageError
from retrokit.training import table_trainer, trainer
from retrokit.training.config import FinetuneConfig
from retrokit.training.finetune import Plan, finetune, plan
from retrokit.training.rerankers.config import VerifierConfig
from retrokit.training.rerankers.verifier import plan_verifier
from retrokit.training.run import carry_out
from retrokit.training.trainer import FinetuneTrainer, RunTrainer


def configure(encoder: object, pairs: Path, output: Path | None = None, **options: Any) -> FinetuneConfig:
    options = {"steps": 2, "batch_size": 8, "device": "cpu", "precision": "fp32", **options}
    return FinetuneConfig(str(encoder), [str(pairs)], None if output is None else str(output), **options)


def test_memory_that_runs_out_in_training_is_one_line(tiny_bert, pairs, tmp_path, monkeypatch):
    def step(*given: Any) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(FinetuneTrainer, "training_step", step)
    with pytest.raises(UsageError, match=r"memory of cpu ran out in training; give `mini_batch=`") as caught:
        finetune(configure(tiny_bert, pairs, tmp_path / "run"))
    assert "\n" not in str(caught.value)


def test_batches_lie_in_pinned_memory_beside_a_gpu_and_are_copied_meanwhile(tiny_bert, pairs, monkeypatch):
    made = plan(configure(tiny_bert, pairs))
    assert not made.loader.pin_memory
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert made.loader.pin_memory
    asked = []
    monkeypatch.setattr(torch.Tensor, "to", lambda self, *where, **how: asked.append((where, how)) or self)
    trainer = object.__new__(RunTrainer)
    trainer.args = type("Arguments", (), {"device": "cuda:0"})()
    trainer.on_device({"query": {"input_ids": torch.zeros(2), "task": "query"}})
    assert asked == [(("cuda:0",), {"non_blocking": True})]


def test_tf32_is_asked_for_and_of_a_gpu(tiny_bert, pairs, tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="`tf32=` needs an NVIDIA GPU, and this runs on cpu"):
        plan(configure(tiny_bert, pairs, tf32=True))
    seen: list[list[str]] = []
    real, backends = FinetuneTrainer.training_step, torch.backends

    def now() -> list[str]:
        return [place.fp32_precision for place in (backends, backends.cuda.matmul, backends.cudnn.conv)]

    def step(self: Any, *given: Any) -> Any:
        seen.append(now())
        return real(self, *given)

    monkeypatch.setattr(FinetuneTrainer, "training_step", step)
    for precision in ("high", "highest"):
        torch.set_float32_matmul_precision(precision)
        before = now()
        finetune(configure(tiny_bert, pairs, tmp_path / precision))
        made = plan(configure(tiny_bert, pairs, tmp_path / f"{precision}-fast"))
        carry_out(replace(made, config=replace(made.config, tf32=True)))
        assert now() == before, "it is again what it was"
        assert seen == [before, before, ["tf32"] * 3, ["tf32"] * 3]
        seen.clear()


@pytest.mark.parametrize(("device", "expected"), [("cpu", "TableTrainer"), ("cuda", "FinetuneTrainer")])
def test_a_table_is_stepped_by_rows_on_a_cpu_and_whole_on_a_gpu(pairs, monkeypatch, device, expected):
    made = plan(configure("static:16", pairs))
    monkeypatch.setattr(Plan, "device", torch.device(device))
    monkeypatch.setattr(trainer, "FinetuneTrainer", lambda *given, **more: "FinetuneTrainer")
    monkeypatch.setattr(table_trainer, "TableTrainer", lambda *given, **more: "TableTrainer")
    assert made.trainer(None) == expected


@pytest.mark.parametrize("name", ["MEGATRON_LM", "DEEPSPEED"])
def test_what_shares_a_model_among_processes_is_refused_before_the_work(pairs, monkeypatch, name):
    monkeypatch.setenv(f"ACCELERATE_USE_{name}", "true")
    with pytest.raises(UsageError, match=f"{name} is not supported here; start with `accelerate launch --use_fsdp"):
        plan(configure("no-such-encoder", pairs))


@pytest.mark.parametrize("name", ["FSDP", "DEEPSPEED"])
def test_a_verifier_is_not_shared(tiny_bert, pairs, monkeypatch, name):
    monkeypatch.setenv(f"ACCELERATE_USE_{name}", "true")
    with pytest.raises(UsageError, match=f"{name} is not supported here; start with torchrun"):
        plan_verifier(VerifierConfig("soft", str(tiny_bert), data=[str(pairs)]))
