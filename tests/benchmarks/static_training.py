"""Seconds of an epoch when a table of embeddings is trained: retrokit's by rows, and the library's trainer.

    python tests/benchmarks/static_training.py data/ml-abstracts/abstracts.jsonl
    python tests/benchmarks/static_training.py data/ml-abstracts/abstracts.jsonl --encoder static:dim=768 --batch 64

Both train on the same pairs, the halves of texts, in turns, with the same vocabulary, batch, learning rate and AdamW.
Each turn has an empty cache: the first epoch includes the tokens. Medians of the turns; the library's first is warm.
"""

import argparse
import itertools
import json
import os
import statistics
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

RATE = 0.2


def halves(source: Path, pairs: Path, count: int) -> None:
    """Write pairs of a text's first and second half."""
    with pairs.open("w", encoding="utf-8") as file:
        for _, row in itertools.islice(read_jsonl(source), count):
            words = row["text"].split()
            middle = len(words) // 2
            pair = {"anchor": " ".join(words[:middle]), "positive": " ".join(words[middle:])}
            file.write(json.dumps(pair) + "\n")


def ours(arguments: argparse.Namespace, pairs: Path, folder: Path) -> list[float]:
    """Seconds of each epoch of ``retrokit finetune``, without checkpoints: the library writes none here either."""
    os.environ["RETROKIT_CACHE"] = str(folder / "cache")
    steps = arguments.steps
    settings: dict[str, Any] = {"epochs": arguments.epochs, "batch_size": arguments.batch, "lr": RATE}
    settings |= {"precision": "fp32", "save_every": 10 * steps * arguments.epochs, "log_every": steps}
    finetune(FinetuneConfig(arguments.encoder, [str(pairs)], str(folder / "model"), **settings))
    lines = (folder / "model" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    seconds = {row["step"]: row["seconds"] for row in map(json.loads, lines)}
    return differences([0.0, *(seconds[steps * epoch] for epoch in range(1, arguments.epochs + 1))])


class Clock(TrainerCallback):
    """When each step ended."""

    def __init__(self) -> None:
        self.ends = [time.perf_counter()]

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        """Note the time."""
        self.ends.append(time.perf_counter())


def library(arguments: argparse.Namespace, pairs: Path, folder: Path) -> list[float]:
    """Seconds of each epoch of the library's trainer with its in-batch loss."""
    model = SentenceTransformer(modules=list(retrokit.encoder(arguments.encoder).to_train().model), device="cpu")
    rows = [{"anchor": row["anchor"], "positive": row["positive"]} for _, row in read_jsonl(pairs)]
    args = SentenceTransformerTrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=arguments.batch,
        learning_rate=RATE,
        max_steps=arguments.steps * arguments.epochs,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    loss = MultipleNegativesRankingLoss(model)
    data = Dataset.from_list(rows)
    trainer = SentenceTransformerTrainer(model=model, args=args, train_dataset=data, loss=loss)
    clock = Clock()
    trainer.add_callback(clock)
    trainer.train()
    return differences(clock.ends[:: arguments.steps])


def differences(values: list[float]) -> list[float]:
    """Of each value and the one before."""
    return [after - before for before, after in itertools.pairwise(values)]


def main(arguments: argparse.Namespace) -> None:
    """Print the seconds of the first epoch and of a later one, and the ratios."""
    arguments.steps = arguments.pairs // arguments.batch
    taken: dict[str, list[list[float]]] = {"retrokit": [], "library": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pairs = folder / "pairs.jsonl"
        halves(Path(arguments.source), pairs, arguments.steps * arguments.batch)
        for turn in range(arguments.turns):
            taken["retrokit"].append(ours(arguments, pairs, folder / f"retrokit-{turn}"))
            taken["library"].append(library(arguments, pairs, folder / f"library-{turn}"))
            for who, turns in taken.items():
                print(who, " ".join(f"{seconds:.2f}" for seconds in turns[-1]), flush=True)
    for title, epochs in (("first epoch", slice(0, 1)), ("later epoch", slice(1, None))):
        medians = {who: statistics.median(statistics.mean(turn[epochs]) for turn in taken[who]) for who in taken}
        ratio = medians["library"] / medians["retrokit"]
        print(f"{title}: retrokit {medians['retrokit']:.2f} s, library {medians['library']:.2f} s: {ratio:.2f} ×")


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("--encoder", default="static:dim=256")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--pairs", type=int, default=19_968)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main(parsed())
