"""Two processes against one with the joint batch: the same weights come out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import retrokit
from retrokit.data.jsonl import write_jsonl
from tests.models import sentences

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]


@pytest.fixture
def triplets(tmp_path: Path) -> Path:
    """Pairs of which some have hard negatives, and not equally many; one anchor has two positives."""
    texts = sentences(120)
    rows = [
        {"anchor": texts[i], "positive": texts[32 + i], "negatives": texts[64 + i : 64 + i + i % 3]} for i in range(32)
    ]
    rows[1]["anchor"] = rows[0]["anchor"]
    write_jsonl(tmp_path / "triplets.jsonl", rows)
    return tmp_path / "triplets.jsonl"


ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}

GRADIENTS = """
import os, sys
import torch
from torch.nn.parallel import DistributedDataParallel
from retrokit.training.batches import Collator, Loader
from retrokit.training.config import FinetuneConfig
from retrokit.training.finetune import _loss, plan

encoder, data, sim, directions, mini_batch, batch, output = sys.argv[1:]
joint = int(os.environ.get("WORLD_SIZE", "1")) > 1
if joint:
    torch.distributed.init_process_group("gloo")
made = plan(FinetuneConfig(encoder, [data], sim=sim, directions=directions, mini_batch=int(mini_batch) or None,
                           batch_size=int(batch), steps=1, precision="fp32", dropout=0.0, device="cpu"))
loss = _loss(made)
made.model.train()
if joint:
    loss.model = DistributedDataParallel(made.model)
collator = Collator(made.model.preprocess, made.data.sources, made.encoder.prompts, None)
features = next(iter(Loader(made.data, made.batches, collator)))
value = loss([features["query"], features["document"]], None)
value.backward()
values = value.detach().clone()
if joint:
    torch.distributed.all_reduce(values)
    values /= 2
if os.environ.get("RANK", "0") == "0":
    gradients = {name: p.grad for name, p in made.model.named_parameters() if p.requires_grad}
    torch.save({"loss": values, **gradients}, output)
if joint:
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
os._exit(0)  # threads of the collective backend can abort an interpreter that shuts down
"""


@pytest.mark.parametrize("mini_batch", [0, 3], ids=["whole", "cached"])
@pytest.mark.parametrize(("sim", "directions"), [("learn", "query-to-document"), ("cosine", "both")])
def test_gradients_equal_those_of_the_joint_batch(tiny_bert, triplets, tmp_path, sim, directions, mini_batch):
    script = tmp_path / "gradients.py"
    script.write_text(GRADIENTS)
    found = []
    for launcher, batch in (([sys.executable], 8), (TORCHRUN, 4)):
        output = tmp_path / f"{batch}.pt"
        words = [*launcher, script, tiny_bert, triplets, sim, directions, mini_batch, batch, output]
        done = subprocess.run(
            [str(word) for word in words], env=ENVIRONMENT, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        found.append(torch.load(output, weights_only=True))
    one, two = found
    assert one.keys() == two.keys()
    assert ("2.similarity.query_gamma_logit" in one) == (sim == "learn")
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, atol=1e-5, rtol=1e-4, msg=name)
        assert value.abs().max() > 0 or "key.bias" in name


def train(launcher: list[str], tiny_bert: Path, data: Path, folder: Path, batch: int, options: list[str]) -> None:
    words = [*launcher, "-m", "retrokit", "finetune", str(tiny_bert), "--data", str(data), "-o", str(folder)]
    words += ["--batch-size", str(batch), "--steps", "5", "--lr", "1e-3", "--precision", "fp32", "--dropout", "0"]
    words += ["--max-grad-norm", "1000", "--device", "cpu", *options]
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_torchrun_equals_one_process_with_the_joint_batch(tiny_bert, triplets, tmp_path):
    options = ["--sim", "learn"]
    train([sys.executable], tiny_bert, triplets, tmp_path / "one", 8, options)
    train(TORCHRUN, tiny_bert, triplets, tmp_path / "two", 4, options)
    one, two = (retrokit.load(str(tmp_path / name)) for name in ("one", "two"))
    texts = sentences(20, seed=5)
    start = retrokit.encoder(str(tiny_bert)).embed(texts, "query", "fp32")
    # Weights themselves differ where a gradient is nothing but rounding: Adam makes full steps of that.
    assert np.abs(one.embed(texts, "query", "fp32") - two.embed(texts, "query", "fp32")).max() < 1e-4
    assert np.abs(one.embed(texts, "query", "fp32") - start).max() > 1e-2
    assert two.similarity.statistics() == pytest.approx(one.similarity.statistics(), abs=1e-5)
    lines = [len((tmp_path / name / "metrics.jsonl").read_text().splitlines()) for name in ("one", "two")]
    assert lines[0] == lines[1]
