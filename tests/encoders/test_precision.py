"""Which processors and devices ``auto`` computes in bf16 on."""

from contextlib import nullcontext

import pytest
import torch

import retrokit
from retrokit.core.errors import UsageError
from retrokit.encoders import precision
from retrokit.encoders.precision import choose_precision

CPU = torch.device("cpu")
INTEL, AMD = "GenuineIntel", "AuthenticAMD"


@pytest.fixture
def machine(monkeypatch):
    """Sets the processor."""

    def use(vendor: str, flags: str) -> None:
        precision._gains.cache_clear()  # as a new process
        monkeypatch.setattr(precision, "first_processor", lambda: {"vendor_id": vendor, "flags": flags})

    yield use
    precision._gains.cache_clear()


@pytest.mark.parametrize(
    ("vendor", "flags", "dtype"),
    [
        (INTEL, "avx2 avx512_bf16 amx_bf16", torch.bfloat16),
        (INTEL, "avx512_bf16", torch.float32),
        (AMD, "avx512_bf16", torch.bfloat16),
        (AMD, "", torch.float32),
    ],
)
def test_auto_goes_by_the_processor(machine, vendor, flags, dtype):
    machine(vendor, flags)
    assert choose_precision("auto", CPU) == dtype


@pytest.mark.parametrize(("number", "dtype"), [(0, torch.float32), (1, torch.bfloat16)])
def test_a_gpu_is_asked_itself_and_not_the_current_one(monkeypatch, number, dtype):
    asked: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "device", lambda device: asked.append(device) or nullcontext())
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: asked[-1].index == 1)
    assert choose_precision("auto", torch.device("cuda", number)) == dtype


def test_names_of_precisions(tiny_bert):
    for name, dtype in precision.PRECISIONS.items():
        assert choose_precision(name, CPU) == dtype
    assert choose_precision("auto", torch.device("mps")) == torch.float32
    with pytest.raises(UsageError, match="precision 'fp8' is none of auto, fp32, bf16, fp16"):
        choose_precision("fp8", CPU)
    encoder = retrokit.encoder(str(tiny_bert), device="cpu")
    assert [encoder.computes_in(name) for name in ("fp32", "bf16", "fp16")] == ["float32", "bfloat16", "float16"]


def test_training_goes_by_the_same_rule(machine):
    from retrokit.training.config import FinetuneConfig
    from retrokit.training.run import training_precision

    config = FinetuneConfig("minilm", ("pairs.jsonl",), "runs/a")
    model, table = torch.nn.Linear(2, 2), torch.nn.EmbeddingBag(2, 2)
    machine(INTEL, "avx512_bf16")
    assert training_precision(config, model, CPU) == torch.float32
    machine(AMD, "avx512_bf16")
    assert training_precision(config, model, CPU) == torch.bfloat16
    assert training_precision(config, table, CPU) == torch.float32


def test_a_table_is_not_rounded(machine, tmp_path):
    """It has nothing to multiply, so that ``auto`` is the same on every processor, loaded or remembered."""
    machine(AMD, "avx512_bf16")
    table = retrokit.encoder("static:8")
    table.to_train().model.save(str(tmp_path / "table"))
    encoders = [table, *(retrokit.encoder(str(tmp_path / "table")) for _ in range(2))]
    assert [encoder.computes_in() for encoder in encoders] == ["float32"] * 3
    assert encoders[0].computes_in("bf16") == "bfloat16"
    rows = [encoder.embed(["a cat"], "query") for encoder in encoders]
    assert all((row == table.embed(["a cat"], "query", "fp32")).all() for row in rows)
