"""Low-rank updates beside a frozen base: in the type that it computes in, and in 4 and 8 bits."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from transformers import AutoModel

import retrokit
from retrokit.core.errors import UsageError
from retrokit.training.config import FinetuneConfig
from retrokit.training.finetune import finetune, plan
from tests.models import sentences

with_bits = pytest.mark.skipif(importlib.util.find_spec("bitsandbytes") is None, reason="needs the extra bits")


def configure(encoder: object, pairs: Path, output: Path | None = None, **options: Any) -> FinetuneConfig:
    options = {"steps": 4, "batch_size": 8, "device": "cpu", "lora": 2, "lr": 1e-2, "dropout": 0.0, **options}
    return FinetuneConfig(str(encoder), [str(pairs)], None if output is None else str(output), **options)


def types(model: torch.nn.Module, part: str) -> set[torch.dtype]:
    return {value.dtype for name, value in model.named_parameters() if part in name}


def gradients(made: Any) -> dict[str, torch.Tensor]:
    batch = next(iter(made.loader))
    with torch.autocast("cpu", torch.bfloat16, enabled=made.precision == torch.bfloat16):
        made.loss()([batch["query"], batch["document"]], None).backward()
    return {name: value.grad for name, value in made.model.named_parameters() if value.grad is not None}


@pytest.mark.parametrize("model", ["tiny_bert", "tiny_llama"])
def test_a_base_that_stays_lies_in_the_type_that_it_computes_in(request, pairs, tmp_path, model):
    encoder = request.getfixturevalue(model)
    light = plan(configure(encoder, pairs, precision="bf16"))
    heavy = plan(configure(encoder, pairs, precision="bf16", lora="2,merge=true"))
    assert types(light.model, "base_layer") == {torch.bfloat16}
    assert types(heavy.model, "base_layer") == {torch.float32}
    assert types(light.model, "lora_") == types(heavy.model, "lora_") == {torch.float32}
    sides = [gradients(made) for made in (light, heavy, plan(configure(encoder, pairs, precision="fp32")))]
    assert sides[0].keys() == sides[1].keys()
    ours, autocast, exact = (torch.cat([side[name].flatten() for name in sorted(side)]) for side in sides)
    # both round to bf16; over 20 seeds 1.2 times as far with BERT and 1.9 with Llama, with SDs of 0.3 and 0.7
    assert (ours - exact).norm() < 6 * (autocast - exact).norm()
    embedded = light.model(light.model.preprocess(["a cat"], prompt=None, task="query"))["sentence_embedding"]
    assert embedded.dtype == torch.float32
    memory = [made.preflight.memory for made in (light, heavy)]
    assert memory[0]["weights"] < 0.7 * memory[1]["weights"]
    finetune(configure(encoder, pairs, tmp_path / "run", precision="bf16"))
    adapter = load_file(tmp_path / "run" / "adapter_model.safetensors")
    assert {value.dtype for value in adapter.values()} == {torch.float32}
    before, after = retrokit.encoder(str(encoder)), retrokit.load(str(tmp_path / "run"))
    assert np.abs(before.embed(["a cat"], "query", "fp32") - after.embed(["a cat"], "query", "fp32")).max() > 1e-3


@pytest.mark.parametrize(
    ("lora", "expected"),
    [
        (2, (2, 4, 0.0, {"query", "key", "value", "dense"})),
        ("2,alpha=8", (2, 8, 0.0, {"query", "key", "value", "dense"})),
        ("rank=3,dropout=0.25,targets=query+value", (3, 6, 0.25, {"query", "value"})),
        ("1,targets=attention.output.dense", (1, 2, 0.0, {"dense"})),
    ],
)
@pytest.mark.parametrize("ending", ["", ",merge=true"])
def test_updates_are_as_asked(tiny_bert, pairs, tmp_path, lora, expected, ending):
    made = plan(configure(tiny_bert, pairs, tmp_path / "run", lora=f"{lora}{ending}", dropout=0.1))
    parts = {place: part for place, part in made.model.named_modules() if hasattr(part, "lora_A")}
    part, rank = next(iter(parts.values())), expected[0]
    dropout = getattr(part.lora_dropout["default"], "p", 0.0)
    names = {place.rpartition(".")[2] for place in parts}
    assert (part.r["default"], rank * part.scaling["default"], dropout, names) == expected
    assert part.get_base_layer().weight.requires_grad is False
    if "attention.output" in str(lora):
        assert all("attention.output" in place for place in parts)


def test_an_adapter_opens_in_the_libraries(tiny_bert, pairs, tmp_path):
    """PEFT beside the base, sentence-transformers and this package compute the same embeddings."""
    run = str(tmp_path / "run")
    finetune(configure(tiny_bert, pairs, run, lora="2,targets=query", sim="dot"))
    assert set(load_file(tmp_path / "run" / "adapter_model.safetensors")) == {
        f"base_model.model.encoder.layer.{layer}.attention.self.query.lora_{side}.weight"
        for layer in (0, 1)
        for side in "AB"
    }
    library = SentenceTransformer(run, device="cpu")
    expected = library.encode(["a cat"])
    np.testing.assert_allclose(retrokit.load(run).embed(["a cat"], "query", "fp32"), expected, atol=1e-5)
    assert np.abs(SentenceTransformer(str(tiny_bert), device="cpu").encode(["a cat"]) - expected).max() > 1e-3
    library[0].model = peft.PeftModel.from_pretrained(AutoModel.from_pretrained(tiny_bert), run)
    np.testing.assert_allclose(library.encode(["a cat"]), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("lora", "message"),
    [
        (
            "2,targets=query+quary",
            r"no linear layer called quary \(did you mean query\?\); it has dense, key, query, v",
        ),
        ("2,targets=ery", "no linear layer called ery"),
        ("2,targets=embeddings", "no linear layer called embeddings"),
        ("alpha=3", "needs rank"),
        ("0", "rank=0 is out of range"),
        ("2,alpha=0", "alpha=0 is out of range"),
        ("2,dropout=1", "dropout=1 is out of range"),
        ("2,rang=3", "has no parameter 'rang'"),
    ],
)
def test_wrong_updates_are_one_line(tiny_bert, pairs, lora, message):
    with pytest.raises(UsageError, match=message) as caught:
        plan(configure(tiny_bert, pairs, lora=lora))
    assert "\n" not in str(caught.value)


@with_bits
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("model", ["tiny_bert", "tiny_llama"])
def test_a_base_of_few_bits_takes_low_rank_updates(request, pairs, tmp_path, model, bits):
    encoder = f"model:{request.getfixturevalue(model)},bits={bits}"
    with pytest.raises(UsageError, match="quantised weights are not trained"):
        plan(configure(encoder, pairs, lora=None))
    with pytest.raises(UsageError, match="quantised weights cannot be merged; leave out merge of `lora=`"):
        plan(configure(encoder, pairs, lora="2,merge=true"))
    made = plan(configure(encoder, pairs))
    assert not {value.dtype for value in made.model.parameters() if value.requires_grad} - {torch.float32}
    stored = sum(value.nbytes for value in made.model.parameters())
    states = (getattr(value, "quant_state", None) for value in made.model.parameters())
    stored += sum(state.absmax.nbytes for state in states if state is not None)
    assert made.preflight.memory["weights"] == pytest.approx(stored, rel=0.1)
    for more in ({}, {"gradient_checkpointing": True, "mini_batch": 4}):
        finetune(configure(encoder, pairs, tmp_path / "run", overwrite=bool(more), **more))
        run = retrokit.load(str(tmp_path / "run"))
        base = retrokit.encoder(str(request.getfixturevalue(model)))
        found = [one.embed(sentences(4), "query", "fp32") for one in (base, run)]
        assert np.abs(found[0] - found[1]).max() > 1e-3


@pytest.mark.parametrize(
    ("encoder", "options", "message"),
    [
        ("BERT", {"lora": "2,load=4bit,merge=true"}, "load and merge exclude each other"),
        ("BERT", {"lora": "2,load=2bit"}, "load=2bit is none of 4bit, 8bit"),
        ("BERT,bits=8", {}, "both name bits; give one"),
        ("minilm", {}, "minilm cannot be loaded in bits; give a folder or a hub id"),
    ],
)
def test_what_cannot_be_loaded_in_bits_is_one_line(tiny_bert, pairs, encoder, options, message):
    with pytest.raises(UsageError, match=message) as caught:
        configure(encoder.replace("BERT", str(tiny_bert)), pairs, **{"lora": "2,load=4bit", **options})
    assert "\n" not in str(caught.value)
