"""Pairs per second and memory of a step of training: retrokit's, and the library's own trainer.

    python tests/benchmarks/training.py data/ml-abstracts/abstracts.jsonl [PRECISION] [LENGTH] [BATCH] [MINI_BATCH]
    python tests/benchmarks/training.py shares data/ml-abstracts/abstracts.jsonl [PRECISION] [LENGTH]

``shares`` prints where the time of retrokit's steps goes, by PyTorch's profiler.

Both train minilm on the same pairs of title and abstract with the same batch, mini-batch (0: no gradient caching),
precision and maximum length, in turns, each in a process of its own. A rate is that of the steps after the first, by
the clock and by the processor's time, which other processes disturb less; memory is the highest of the process (of
the GPU with ``--device cuda``), and what of it came after training began. ``--what cross-encoder`` trains one, each
title with two other abstracts; ``--what verifier`` a verifier end to end, which the library does not have: instead the
same step with the library's attention and dropout.
"""

import argparse
import json
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

CACHED_STEPS, STEPS, TURNS = 2, 5, 5
SCALE = 20.0
OTHERS = 2  # documents that a cross-encoder compares with the positive

PARTS = {
    "optimizer": "Optimizer",
    "casts": "aten::_to_copy|ToCopy",
    "attention": "_Attention",
    "dropout": "_Dropout",
    "token table": "[Ee]mbedding",
    "GELU": "[Gg]elu",
    "layer norm": "[Ll]ayer_?[Nn]orm",
    "linear layers": "aten::linear|aten::t?addmm|aten::mm|AddmmBackward|SumBackward|aten::sum",
}
"""Parts of a step and the names of PyTorch's operations; the first that fits an operation, or one around it, counts."""


class Clock:
    """Says when each step ended, and what memory was taken."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.ends = options, [(0.0, 0.0)]
        self.before = self.peak()

    def end_step(self) -> None:
        """Note the time, and what the process has computed."""
        if self.options.device != "cpu" and len(self.ends) in (1, self.options.steps):
            torch.cuda.synchronize()
        self.ends.append((time.perf_counter(), time.process_time()))

    def peak(self) -> float:
        """MiB."""
        if self.options.device != "cpu":
            return torch.cuda.max_memory_allocated() / 2**20
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    def report(self) -> dict[str, float]:
        """Pairs a second of the steps after the first, and memory in MiB."""
        pairs = self.options.batch * (len(self.ends) - 2)
        taken, computed = (last - first for first, last in zip(self.ends[1], self.ends[-1], strict=True))
        memory = {"peak": self.peak(), "above": self.peak() - self.before}
        return {"pairs/s": pairs / taken, "pairs/CPU s": pairs / computed, **memory}


def ours(pairs: Path, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """``retrokit finetune`` and ``rerank train``."""
    from retrokit.training.callback import TrainingCallback
    from retrokit.training.config import FinetuneConfig
    from retrokit.training.finetune import plan
    from retrokit.training.rerankers.config import VerifierConfig
    from retrokit.training.rerankers.verifier import plan_verifier
    from retrokit.training.run import carry_out

    common: dict[str, Any] = {"batch_size": options.batch, "precision": options.precision, "device": options.device}
    common |= {"steps": options.steps, "output": str(folder)}
    planned: Any
    if options.what == "retriever":
        common |= {"mini_batch": options.mini_batch or None, "scale": SCALE, "max_length": options.length}
        planned = plan(FinetuneConfig(options.model, [str(pairs)], **common))
    else:
        common |= {"eval_every": options.steps + 1, "in_batch": OTHERS}
        if options.what == "verifier":
            encoder = f"{options.model}{',' if ':' in options.model else ':'}max_length={options.length}"
            planned = plan_verifier(VerifierConfig("cnn", encoder, [str(pairs)], **common, end_to_end=True))
        else:
            common |= {"max_length": options.length}
            planned = plan_verifier(VerifierConfig(options.what, options.model, [str(pairs)], **common))
    clock = Clock(options)
    on_step_end = TrainingCallback.on_step_end

    def timed(self: Any, *args: Any, **kwargs: Any) -> None:
        clock.end_step()
        on_step_end(self, *args, **kwargs)

    with patch.object(TrainingCallback, "on_step_end", timed):
        carry_out(planned)
    return clock.report()


def plain(pairs: Path, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """The same with the library's attention and dropout."""
    from retrokit.training import trainer

    with patch.multiple(trainer, fast_attention=nullcontext, replace_dropout=lambda model: None):
        return ours(pairs, folder, options)


def library(pairs: Path, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """The library's trainers, with its in-batch loss and its binary cross-entropy."""
    from datasets import Dataset
    from sentence_transformers import CrossEncoder, SentenceTransformer, SentenceTransformerTrainer
    from sentence_transformers import SentenceTransformerTrainingArguments as Arguments
    from sentence_transformers.cross_encoder import CrossEncoderTrainer, CrossEncoderTrainingArguments
    from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss
    from sentence_transformers.sentence_transformer import losses
    from transformers import TrainerCallback

    import retrokit
    from retrokit.data.jsonl import read_jsonl

    class Ends(TrainerCallback):
        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            clock.end_step()

    more: dict[str, Any] = {
        "output_dir": str(folder),
        "learning_rate": 2e-5,
        "max_steps": options.steps,
        "bf16": options.precision == "bf16",
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": options.device == "cpu",
    }
    rows = [{"anchor": row["anchor"], "positive": row["positive"]} for _, row in read_jsonl(pairs)]
    encoder = retrokit.encoder(options.model, device=options.device).to_train().model
    loss: Any
    if options.what == "retriever":
        model = SentenceTransformer(modules=list(encoder), device=options.device)
        model.max_seq_length = options.length
        loss = losses.MultipleNegativesRankingLoss(model, scale=SCALE)
        if options.mini_batch:
            size = options.mini_batch
            loss = losses.CachedMultipleNegativesRankingLoss(model, scale=SCALE, mini_batch_size=size)
        args = Arguments(per_device_train_batch_size=options.batch, **more)
        trainer: Any = SentenceTransformerTrainer
    else:
        encoder.save(str(folder / "start"))
        model = CrossEncoder(str(folder / "start"), num_labels=1, max_length=options.length, device=options.device)
        loss, trainer = BinaryCrossEntropyLoss(model), CrossEncoderTrainer
        args = CrossEncoderTrainingArguments(per_device_train_batch_size=options.batch * (1 + OTHERS), **more)
        rows = [
            {"query": row["anchor"], "document": rows[(i + place) % len(rows)]["positive"], "label": float(not place)}
            for i, row in enumerate(rows)
            for place in range(1 + OTHERS)
        ]
    clock = Clock(options)
    trainer(model=model, args=args, train_dataset=Dataset.from_list(rows), loss=loss, callbacks=[Ends()]).train()
    return clock.report()


WAYS: dict[str, Callable[[Path, Path, argparse.Namespace], dict[str, float]]] = {
    "ours": ours,
    "plain": plain,
    "library": library,
}


def shares(options: argparse.Namespace) -> None:
    """Print the share of each part in the time of retrokit's steps after the first, forward and backward."""
    from torch.profiler import ProfilerActivity, profile

    from retrokit.training.callback import TrainingCallback

    watch, on_step_end, steps = profile(activities=[ProfilerActivity.CPU]), TrainingCallback.on_step_end, 0

    def watched(self: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal steps
        steps += 1
        if steps == 1:
            watch.start()
        elif steps == options.steps:
            watch.stop()
        on_step_end(self, *args, **kwargs)

    with tempfile.TemporaryDirectory() as name, patch.object(TrainingCallback, "on_step_end", watched):
        ours(write_pairs(options, Path(name)), Path(name, "out"), options)
    times: Counter[tuple[str, str]] = Counter()
    for event in watch.events():
        chain, parent = [event.name], event.cpu_parent
        while parent is not None:
            chain.append(parent.name)
            parent = parent.cpu_parent
        found = [part for part, names in PARTS.items() if any(re.search(names, name) for name in chain)]
        is_backward = any(name.startswith("autograd::engine") for name in chain)
        times[(found or ["the rest"])[0], "backward" if is_backward else "forward"] += event.self_cpu_time_total
    whole = sum(times.values())
    for part in [*PARTS, "the rest"]:
        sides = [f"{times[part, side] / whole:.1%} {side}" for side in ("forward", "backward")]
        print(f"{part}: {', '.join(sides)}")


def write_pairs(options: argparse.Namespace, folder: Path) -> Path:
    """As many titles and abstracts as the steps take."""
    rows = map(json.loads, Path(options.source).read_text(encoding="utf-8").splitlines())
    wanted = zip(range(options.batch * (options.steps + 1)), rows, strict=False)
    lines = [json.dumps({"anchor": row["title"], "positive": row["text"]}) for _, row in wanted]
    pairs = folder / "pairs.jsonl"
    pairs.write_text("\n".join(lines), encoding="utf-8")
    return pairs


def compare(options: argparse.Namespace) -> None:
    """Print both, and their ratio."""
    ways = ("ours", "plain" if options.what == "verifier" else "library")
    found: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as name:
        pairs = write_pairs(options, Path(name))
        for number in range(options.turns):
            for way, kept in found.items():
                words = [sys.executable, __file__, *sys.argv[1:], "--run", f"{way},{pairs},{Path(name, way)}-{number}"]
                done = subprocess.run(words, capture_output=True, text=True, timeout=1800)
                assert done.returncode == 0, done.stderr
                kept.append(json.loads(done.stdout.splitlines()[-1]))
    for way, kept in found.items():
        rates = ", ".join(f"{one['pairs/s']:.1f} pairs/s ({one['pairs/CPU s']:.1f} per CPU s)" for one in kept)
        print(f"{way:8} {rates}, peak {kept[0]['peak']:,.0f} MiB, {kept[0]['above']:,.0f} above the start")
    for unit in ("pairs/s", "pairs/CPU s"):
        mine, theirs = (statistics.median(one[unit] for one in kept) for kept in found.values())
        print(f"{unit}: {mine / theirs:.2f} ×")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("precision", nargs="?", default="fp32")
    parser.add_argument("length", nargs="?", type=int, default=128)
    parser.add_argument("batch", nargs="?", type=int, default=32)
    parser.add_argument("mini_batch", nargs="?", type=int, default=0)
    parser.add_argument("--what", choices=("retriever", "cross-encoder", "verifier"), default="retriever")
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    is_profile = sys.argv[1:2] == ["shares"]
    options = parser.parse_args(sys.argv[2:] if is_profile else None)
    options.steps = options.steps or (CACHED_STEPS if options.mini_batch else STEPS)
    if is_profile:
        shares(options)
    elif options.run:
        way, pairs, folder = options.run.split(",")
        print(json.dumps(WAYS[way](Path(pairs), Path(folder), options)))
    else:
        compare(options)


if __name__ == "__main__":
    main()
