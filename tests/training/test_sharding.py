"""Weights that processes share (FSDP2): the same losses and weights come out as where each has them all, and what is
saved is whole."""

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import Qwen3Config, Qwen3Model

import retrokit
from retrokit.training.config import FinetuneConfig
from retrokit.training.finetune import finetune
from retrokit.training.trainer import RunTrainer
from tests.close import assert_rounded
from tests.models import sentences
from tests.processes import retrokit_in
from tests.training.test_distributed import said

DECODER = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 8}


@pytest.fixture(scope="module")
def decoder(tiny_llama, tmp_path_factory) -> Path:
    """A tiny Qwen3, with the tokenizer of the tiny LLaMA."""
    folder = tmp_path_factory.mktemp("decoder") / "qwen"
    shutil.copytree(tiny_llama, folder)
    (folder / "model.safetensors").unlink()
    vocabulary = json.loads((tiny_llama / "config.json").read_text())["vocab_size"]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = Qwen3Config(vocab_size=vocabulary, num_key_value_heads=1, max_position_embeddings=64, **DECODER)
        Qwen3Model(config).save_pretrained(folder)
    return folder


def sharded(rank: int) -> None:
    """As ``accelerate launch --use_fsdp --fsdp_version 2`` starts a process; it tells how much of the model it has."""
    from retrokit.encoders import engine
    from retrokit.training import loss

    os.environ |= {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}
    loss.tokens_at_once = lambda device: 24 + 24 * rank  # so that texts go through in several parts, not equally many
    assert engine.tokens_at_once(torch.device("cpu")) > 48
    real = RunTrainer.training_step

    def step(self, *given):
        parameters = [one for one in self.model.parameters() if one.requires_grad]
        here, whole = (sum(map(count, parameters)) for count in (lambda one: one.to_local().numel(), torch.numel))
        print(f"has {here / whole:.2f} of the model", file=sys.stderr)
        return real(self, *given)

    RunTrainer.training_step = step


OPTIONS = ["--lr", 1e-3, "--precision", "fp32", "--dropout", 0, "--max-grad-norm", 0.5, "--device", "cpu"]
SAME = {"lr": 1e-3, "precision": "fp32", "dropout": 0.0, "max_grad_norm": 0.5, "device": "cpu", "batch_size": 8}


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["--sim", "learn", "--steps", 5], {"sim": "learn", "steps": 5}),
        (["--lora", 2, "--steps", 4], {"lora": 2, "steps": 4}),
        (
            "--steps 3 --gradient-checkpointing --loss infonce:directions=both --freeze first:1 --accumulate 2".split(),
            {"steps": 3, "loss": "infonce:directions=both", "freeze": "first:1", "accumulate": 2},
        ),
    ],
    ids=["learn", "lora", "checkpointed"],
)
def test_shared_weights_end_where_whole_ones_do(decoder, triplets, tmp_path, words, options):
    given = ["finetune", decoder, "--data", triplets, "--batch-size", 4, "--log-every", 1, *OPTIONS, *words]
    ended = retrokit_in(2, tmp_path, [*given, "-o", "two"], sharded)
    assert [one.code for one in ended] == [0, 0], said(ended)
    shares = {float(line.split()[1]) for line in said(ended).splitlines() if line.endswith("of the model")}
    assert shares
    assert all(0.3 < share < 0.7 for share in shares), "each has about half"
    finetune(FinetuneConfig(str(decoder), [str(triplets)], str(tmp_path / "one"), log_every=1, **SAME, **options))
    losses = [
        [json.loads(line)["loss"] for line in (tmp_path / run / "metrics.jsonl").read_text().splitlines()]
        for run in ("one", "two")
    ]
    # the first is of the same weights; then Adam makes full steps of gradients that are nothing but rounding
    assert_rounded(losses[1][0], losses[0][0])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)
    texts = sentences(20, seed=5)
    start, one, two = (
        retrokit.encoder(str(folder)).embed(texts, "query", "fp32")
        for folder in (decoder, tmp_path / "one", tmp_path / "two")
    )
    assert np.abs(two - one).max() < 1e-3 * np.abs(one - start).max()
    names = [{path.name for path in (tmp_path / run).iterdir()} for run in ("one", "two")]
    assert names[0] | {"plots"} == names[1]
    plain = SentenceTransformer(str(tmp_path / "two"), device="cpu", trust_remote_code=True)
    assert plain.encode(texts).shape == two.shape


BY_LAYER = {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2", "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP"}


@pytest.mark.parametrize(
    ("environment", "words", "message"),
    [
        (
            {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "1"},
            [],
            "FSDP1 is not supported; start with `accelerate launch --use_fsdp --fsdp_version 2`",
        ),
        (BY_LAYER, ["--mini-batch", 2], "--mini-batch and FSDP exclude each other"),
        (
            {**BY_LAYER, "FSDP_TRANSFORMER_CLS_TO_WRAP": "Block"},
            [],
            "FSDP: no layers called Block; expected Qwen3DecoderLayer",
        ),
    ],
)
def test_what_cannot_be_shared_is_one_line(decoder, triplets, tmp_path, environment, words, message):
    given = ["finetune", decoder, "--data", triplets, "--batch-size", 4, "--steps", 2, *OPTIONS, *words, "-o", "out"]
    ended = retrokit_in(2, tmp_path, given, Environment(environment))
    lines = [line for line in said(ended).splitlines() if line.startswith("retrokit: ")]
    assert len(lines) == 1, said(ended)
    assert message in lines[0]
    assert {one.code for one in ended} == {2}
    assert not (tmp_path / "out").exists()


class Environment:
    """Sets variables."""

    def __init__(self, variables: dict[str, str]) -> None:
        self.variables = variables

    def __call__(self, rank: int) -> None:
        os.environ |= self.variables
