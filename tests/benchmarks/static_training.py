"""Steps per second of training a table of embeddings: retrokit's by rows, and the library's trainer with dense AdamW.

    python tests/benchmarks/static_training.py data/ml-abstracts/abstracts.jsonl

Both train on the same crops, in turns, with the same vocabulary, batch and learning rate; the fastest of three rounds.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from transformers import TrainerCallback

import retrokit
from retrokit.data.jsonl import read_jsonl
from retrokit.training.config import FinetuneConfig
from retrokit.training.finetune import finetune

ENCODER, BATCH, RATE = "static:dim=768", 64, 0.5
WARM_UP, STEPS = 10, 60


def ours(pairs: Path, folder: Path) -> float:
    """Steps a second of ``retrokit finetune``, without checkpoints: the library writes none here either."""
    settings: dict[str, Any] = {
        "steps": STEPS,
        "batch_size": BATCH,
        "lr": RATE,
        "precision": "fp32",
        "save_every": 10 * STEPS,
    }
    finetune(FinetuneConfig(ENCODER, [str(pairs)], str(folder), log_every=WARM_UP, **settings))
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    seconds = {row["step"]: row["seconds"] for row in rows}
    return (STEPS - WARM_UP) / (seconds[STEPS] - seconds[WARM_UP])


class Clock(TrainerCallback):
    """When each step ended."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        """Note the time."""
        self.ends.append(time.perf_counter())


def library(pairs: Path, folder: Path) -> float:
    """Steps a second of the library's trainer with its in-batch loss."""
    clock = Clock()
    model = SentenceTransformer(modules=list(retrokit.encoder(ENCODER).to_train().model), device="cpu")
    rows = [{"anchor": row["anchor"], "positive": row["positive"]} for _, row in read_jsonl(pairs)]
    args = SentenceTransformerTrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=BATCH,
        learning_rate=RATE,
        max_steps=STEPS,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    loss = MultipleNegativesRankingLoss(model)
    SentenceTransformerTrainer(
        model=model, args=args, train_dataset=Dataset.from_list(rows), loss=loss, callbacks=[clock]
    ).train()
    return (STEPS - WARM_UP) / (clock.ends[-1] - clock.ends[WARM_UP - 1])


def main(source: str) -> None:
    """Print both rates and their ratio."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pairs = folder / "pairs.jsonl"
        subprocess.run(["retrokit", "augment", "crops", source, "-o", str(pairs)], check=True, capture_output=True)
        rounds = [(ours(pairs, folder / f"ours-{i}"), library(pairs, folder / f"library-{i}")) for i in range(3)]
    best = [max(rates) for rates in zip(*rounds, strict=True)]
    print(f"retrokit {best[0]:.1f} steps/s, the library {best[1]:.1f}: {best[0] / best[1]:.1f} ×")
    print("rounds:", ", ".join(f"{a:.1f} / {b:.1f}" for a, b in rounds))


if __name__ == "__main__":
    main(sys.argv[1])
