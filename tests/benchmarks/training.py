"""Pairs per second and memory of a step of training on a CPU: retrokit's, and the library's own trainer.

    python tests/benchmarks/training.py data/ml-abstracts/abstracts.jsonl [PRECISION] [LENGTH] [BATCH] [MINI_BATCH]
    python tests/benchmarks/training.py shares data/ml-abstracts/abstracts.jsonl [PRECISION] [LENGTH]

``shares`` prints where the time of retrokit's steps goes, by PyTorch's profiler.

Both train minilm on the same pairs of title and abstract with the same batch, mini-batch (0: no gradient caching),
precision and maximum length, in turns, each in a process of its own. A rate is that of the steps after the first, by
the clock and by the processor's time, which other processes disturb less; memory is the highest resident size of the
process, and what of it came after training began.
"""

import json
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

STEPS, ROUNDS = 5, 5
CACHED_STEPS = 2
SCALE = 20.0

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
    """Says when each step ended, and what memory the process has had."""

    def __init__(self, batch: int) -> None:
        self.batch, self.ends = batch, [(0.0, 0.0)]
        self.before = _peak()

    def end_step(self) -> None:
        """Note the time, and what the process has computed."""
        self.ends.append((time.perf_counter(), time.process_time()))

    def report(self) -> None:
        """Print a line of JSON."""
        pairs = self.batch * (len(self.ends) - 2)
        taken, computed = (last - first for first, last in zip(self.ends[1], self.ends[-1], strict=True))
        memory = {"peak": _peak(), "above": _peak() - self.before}
        print(json.dumps({"pairs/s": pairs / taken, "pairs/CPU s": pairs / computed, **memory}))


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def ours(pairs: Path, folder: Path, precision: str, length: int, batch: int, mini_batch: int) -> None:
    """``retrokit finetune``."""
    from retrokit.training.callback import TrainingCallback
    from retrokit.training.config import FinetuneConfig
    from retrokit.training.finetune import plan
    from retrokit.training.run import carry_out

    options: dict[str, Any] = {"batch_size": batch, "mini_batch": mini_batch or None, "max_length": length}
    options |= {"scale": SCALE, "precision": precision, "device": "cpu", "steps": _steps(mini_batch)}
    planned = plan(FinetuneConfig("minilm", [str(pairs)], str(folder), **options))
    clock = Clock(batch)
    on_step_end = TrainingCallback.on_step_end

    def timed(self: Any, *args: Any, **kwargs: Any) -> None:
        clock.end_step()
        on_step_end(self, *args, **kwargs)

    TrainingCallback.on_step_end = timed  # type: ignore[method-assign]
    carry_out(planned)
    clock.report()


def library(pairs: Path, folder: Path, precision: str, length: int, batch: int, mini_batch: int) -> None:
    """The library's trainer with its in-batch loss."""
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.losses import (
        CachedMultipleNegativesRankingLoss,
        MultipleNegativesRankingLoss,
    )
    from transformers import TrainerCallback

    import retrokit
    from retrokit.data.jsonl import read_jsonl

    class Ends(TrainerCallback):
        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            clock.end_step()

    model = SentenceTransformer(modules=list(retrokit.encoder("minilm").to_train().model), device="cpu")
    model.max_seq_length = length
    rows = [{"anchor": row["anchor"], "positive": row["positive"]} for _, row in read_jsonl(pairs)]
    args = SentenceTransformerTrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=batch,
        learning_rate=2e-5,
        max_steps=_steps(mini_batch),
        bf16=precision == "bf16",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    loss: Any = MultipleNegativesRankingLoss(model, scale=SCALE)
    if mini_batch:
        loss = CachedMultipleNegativesRankingLoss(model, scale=SCALE, mini_batch_size=mini_batch)
    data = Dataset.from_list(rows)
    clock = Clock(batch)
    SentenceTransformerTrainer(model=model, args=args, train_dataset=data, loss=loss, callbacks=[Ends()]).train()
    clock.report()


def shares(source: str, precision: str = "fp32", length: str = "128") -> None:
    """Print the share of each part in the time of retrokit's steps after the first, forward and backward."""
    from torch.profiler import ProfilerActivity, profile

    from retrokit.training.callback import TrainingCallback

    watch, on_step_end, steps = profile(activities=[ProfilerActivity.CPU]), TrainingCallback.on_step_end, 0

    def watched(self: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal steps
        steps += 1
        if steps == 1:
            watch.start()
        elif steps == STEPS:
            watch.stop()
        on_step_end(self, *args, **kwargs)

    TrainingCallback.on_step_end = watched  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as name:
        ours(_pairs(source, 32, Path(name)), Path(name, "out"), precision, int(length), 32, 0)
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


def _pairs(source: str, batch: int, folder: Path) -> Path:
    rows = map(json.loads, Path(source).read_text(encoding="utf-8").splitlines()[: batch * STEPS])
    lines = [json.dumps({"anchor": row["title"], "positive": row["text"]}) for row in rows]
    pairs = folder / "pairs.jsonl"
    pairs.write_text("\n".join(lines), encoding="utf-8")
    return pairs


def _steps(mini_batch: int) -> int:
    return CACHED_STEPS if mini_batch else STEPS


def main(source: str, precision: str = "fp32", length: str = "128", batch: str = "32", mini_batch: str = "0") -> None:
    """Print both, and their ratio."""
    found: dict[str, list[dict[str, float]]] = {"ours": [], "library": []}
    with tempfile.TemporaryDirectory() as name:
        pairs = _pairs(source, int(batch), Path(name))
        for number in range(ROUNDS):
            for which, kept in found.items():
                words = [which, str(pairs), str(Path(name, f"{which}-{number}")), precision, length, batch, mini_batch]
                done = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True, timeout=1800)
                assert done.returncode == 0, done.stderr
                kept.append(json.loads(done.stdout.splitlines()[-1]))
    for which, kept in found.items():
        rates = ", ".join(f"{one['pairs/s']:.1f} pairs/s ({one['pairs/CPU s']:.1f} per CPU s)" for one in kept)
        print(f"{which:8} {rates}, peak {kept[0]['peak']:,.0f} MiB, {kept[0]['above']:,.0f} above the start")
    for unit in ("pairs/s", "pairs/CPU s"):
        middle = {which: statistics.median(one[unit] for one in kept) for which, kept in found.items()}
        print(f"{unit}: {middle['ours'] / middle['library']:.2f} ×")


if __name__ == "__main__":
    if sys.argv[1] in ("ours", "library"):
        made = {"ours": ours, "library": library}[sys.argv[1]]
        made(Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4], *map(int, sys.argv[5:]))
    elif sys.argv[1] == "shares":
        shares(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
