"""Which processors and devices ``auto`` computes in bf16 on: by a table, by one timing that is kept, or not at all."""

import math
import sqlite3
from contextlib import closing, nullcontext

import pytest
import torch

import retrokit
from retrokit.core.errors import UsageError
from retrokit.encoders import precision
from retrokit.encoders.precision import Processor, choose_precision, measure_gain
from retrokit.encoders.store.database import FILE

CPU = torch.device("cpu")
INTEL, AMD, ARM = "vendor_id GenuineIntel, model 85", "vendor_id AuthenticAMD, model 17", "CPU part 0xd40"


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Sets the processor and the gain that its timing finds; the list counts the timings."""
    timings: list[float] = []
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache"))

    def use(name: str, flags: str, gain: float = math.nan) -> list[float]:
        precision._gains.cache_clear()  # as a new process
        monkeypatch.setattr(precision, "describe_processor", lambda: Processor(name, frozenset(flags.split())))
        monkeypatch.setattr(precision, "measure_gain", lambda: timings.append(gain) or gain)
        return timings

    yield use
    precision._gains.cache_clear()


@pytest.mark.parametrize(
    ("name", "flags", "gain", "dtype"),
    [
        (INTEL, "avx512_bf16 amx_bf16", None, torch.bfloat16),
        (AMD, "avx512_bf16", None, torch.bfloat16),
        (AMD, "", None, torch.float32),
        (INTEL, "", None, torch.float32),
        (ARM, "", None, torch.float32),
        (INTEL, "avx512_bf16", 0.6, torch.float32),
        (INTEL, "avx512_bf16", 1.19, torch.float32),
        (INTEL, "avx512_bf16", 1.2, torch.bfloat16),
        (ARM, "bf16 svebf16", 1.8, torch.bfloat16),
        (ARM, "bf16", 1.0, torch.float32),
    ],
)
def test_auto_goes_by_the_processor_and_times_only_what_it_does_not_know(machine, name, flags, gain, dtype):
    timings = machine(name, flags, math.nan if gain is None else gain)
    assert choose_precision("auto", CPU) == dtype
    assert timings == ([] if gain is None else [gain])


def test_a_processor_is_timed_once_and_another_or_another_pytorch_anew(machine, monkeypatch):
    machine(INTEL, "avx512_bf16", 1.5)
    assert choose_precision("auto", CPU) == torch.bfloat16
    timings = machine(INTEL, "avx512_bf16", 0.5)
    assert choose_precision("auto", CPU) == torch.bfloat16  # as it was found then
    assert timings == [1.5]
    machine(ARM, "bf16", 0.5)
    assert choose_precision("auto", CPU) == torch.float32
    monkeypatch.setattr(torch, "__version__", "99.0")
    machine(INTEL, "avx512_bf16", 0.7)
    assert choose_precision("auto", CPU) == torch.float32
    assert timings == [1.5, 0.5, 0.7]


def test_a_damaged_record_is_made_again(machine, tmp_path):
    timings = machine(INTEL, "avx512_bf16", 1.5)
    assert choose_precision("auto", CPU) == torch.bfloat16
    with closing(sqlite3.connect(tmp_path / "cache" / FILE)) as opened, opened:
        opened.execute("UPDATE facts SET content = '0.5'")
    timings = machine(INTEL, "avx512_bf16", 1.5)
    assert choose_precision("auto", CPU) == torch.bfloat16
    assert timings == [1.5, 1.5]


@pytest.mark.parametrize("place", ["off", "/dev/null/nowhere"])
def test_without_a_cache_each_process_times_once(machine, monkeypatch, tmp_path, place):
    monkeypatch.setenv("RETROKIT_CACHE", place)
    timings = machine(INTEL, "avx512_bf16", 1.5)
    assert [choose_precision("auto", CPU) for _ in range(2)] == [torch.bfloat16] * 2
    assert timings == [1.5]
    assert list(tmp_path.iterdir()) == []


def test_the_timing_is_a_proportion_and_leaves_the_random_numbers_alone():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    assert 0 < measure_gain(tokens=8) < math.inf
    assert torch.equal(torch.rand(2), expected)


def test_the_processor_at_hand_is_named():
    found = precision.describe_processor()
    assert found.name
    assert found.flags <= precision._BF16


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
    machine(INTEL, "avx512_bf16", 0.6)
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
