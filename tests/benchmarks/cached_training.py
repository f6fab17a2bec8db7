"""Pairs per second and memory of a gradient-cached step: retrokit's, and the library's cached in-batch loss.

    python tests/benchmarks/cached_training.py data/ml-abstracts/abstracts.jsonl [ENCODER] [BATCH] [MINI_BATCH]

Both train in fp32 on the same crops with the same batch, mini-batch and maximum length, in turns, each in a process of
its own. A rate is that of the steps after the first, by the clock and by the processor's time, which other processes
disturb less; memory is the highest resident size of the process, and what of it came after training began.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

LENGTH, STEPS, ROUNDS = 128, 2, 1
SCALE = 20.0


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


def ours(pairs: Path, folder: Path, encoder: str, batch: int, mini_batch: int) -> None:
    """``retrokit finetune``."""
    from retrokit.training import trainer
    from retrokit.training.config import FinetuneConfig
    from retrokit.training.finetune import plan
    from retrokit.training.run import carry_out

    options: dict[str, Any] = {"batch_size": batch, "mini_batch": mini_batch, "max_length": LENGTH, "scale": SCALE}
    planned = plan(
        FinetuneConfig(encoder, [str(pairs)], str(folder), steps=STEPS, precision="fp32", device="cpu", **options)
    )
    clock = Clock(batch)
    on_step_end = trainer.Conduct.on_step_end

    def timed(self: Any, *args: Any, **kwargs: Any) -> None:
        clock.end_step()
        on_step_end(self, *args, **kwargs)

    trainer.Conduct.on_step_end = timed  # type: ignore[method-assign]
    carry_out(planned)
    clock.report()


def library(pairs: Path, folder: Path, encoder: str, batch: int, mini_batch: int) -> None:
    """The library's trainer with ``CachedMultipleNegativesRankingLoss``."""
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.losses import CachedMultipleNegativesRankingLoss
    from transformers import TrainerCallback

    import retrokit
    from retrokit.data.jsonl import read_jsonl

    class Ends(TrainerCallback):
        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            clock.end_step()

    model = SentenceTransformer(modules=list(retrokit.encoder(encoder).to_train().model), device="cpu")
    model.max_seq_length = LENGTH
    rows = [{"anchor": row["anchor"], "positive": row["positive"]} for _, row in read_jsonl(pairs)]
    args = SentenceTransformerTrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=batch,
        learning_rate=2e-5,
        max_steps=STEPS,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    loss = CachedMultipleNegativesRankingLoss(model, scale=SCALE, mini_batch_size=mini_batch)
    data = Dataset.from_list(rows)
    clock = Clock(batch)
    SentenceTransformerTrainer(model=model, args=args, train_dataset=data, loss=loss, callbacks=[Ends()]).train()
    clock.report()


def main(source: str, encoder: str = "minilm", batch: str = "512", mini_batch: str = "32") -> None:
    """Print both, and their ratio."""
    found: dict[str, list[dict[str, float]]] = {"ours": [], "library": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pairs = folder / "pairs.jsonl"
        subprocess.run(["retrokit", "augment", "crops", source, "-o", str(pairs)], check=True, capture_output=True)
        for number in range(ROUNDS):
            for which, kept in found.items():
                words = [which, str(pairs), str(folder / f"{which}-{number}"), encoder, batch, mini_batch]
                done = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True, timeout=900)
                assert done.returncode == 0, done.stderr
                kept.append(json.loads(done.stdout.splitlines()[-1]))
    for which, kept in found.items():
        rates = ", ".join(f"{one['pairs/s']:.1f} pairs/s ({one['pairs/CPU s']:.1f} per CPU s)" for one in kept)
        print(f"{which:8} {rates}, peak {kept[0]['peak']:,.0f} MiB, {kept[0]['above']:,.0f} above the start")
    for unit in ("pairs/s", "pairs/CPU s"):
        best = {which: max(one[unit] for one in kept) for which, kept in found.items()}
        print(f"{unit}: {best['ours'] / best['library']:.2f} ×")


if __name__ == "__main__":
    if sys.argv[1] in ("ours", "library"):
        made = {"ours": ours, "library": library}[sys.argv[1]]
        made(Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4], int(sys.argv[5]), int(sys.argv[6]))
    else:
        main(*sys.argv[1:])
