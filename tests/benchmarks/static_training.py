"""Seconds of an epoch when a table of embeddings is trained: retrokit's by rows, and the library's trainer.

    python tests/benchmarks/static_training.py data/ml-abstracts/abstracts.jsonl
    python tests/benchmarks/static_training.py data/ml-abstracts/abstracts.jsonl --encoder static:dim=768 --batch 64
    python tests/benchmarks/static_training.py data/ml-abstracts/abstracts.jsonl --study --turns 3

Both train on the same pairs, the halves of texts, in turns, with the same vocabulary, batch, learning rate and AdamW.
Each turn has an empty cache: the first epoch includes the tokens. Medians of the turns; the library's first is warm.

``--study`` times ``retrokit study run`` of 5 similarities and 3 seeds, one epoch each, from the command to its report,
beside 15 times the first epoch of the library in a process that has imported it already.
"""

import argparse
import itertools
import json
import math
import os
import statistics
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

RATE = 0.2
MATRIX = {"sim": ["cosine", "dot", "qnorm", "dnorm", "l2"], "seed": [0, 1, 2]}


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


def study(arguments: argparse.Namespace, pairs: Path, folder: Path) -> list[float]:
    """Seconds of the command of a study, whose runs save their models."""
    folder.mkdir()
    table = {"encoder": arguments.encoder, "data": [str(pairs)], "batch_size": arguments.batch, "lr": RATE}
    table |= {"epochs": 1, "precision": "fp32"}
    lines = [f"{name} = {json.dumps(value)}" for name, value in table.items()]
    lines += [f"matrix.{name} = {json.dumps(values)}" for name, values in MATRIX.items()]
    (folder / "study.toml").write_text("\n".join(["[finetune]", *lines]), encoding="utf-8")
    command = ["study", "run", str(folder / "study.toml"), "--output", str(folder / "out")]
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "retrokit", *command, "--jobs", str(arguments.jobs)],
        env={**os.environ, "RETROKIT_CACHE": str(folder / "cache")},
        check=True,
    )
    return [time.perf_counter() - began]


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


def library_runs(arguments: argparse.Namespace, pairs: Path, folder: Path) -> list[float]:
    """Seconds of as many runs of the library as the study has, of one that was measured, without its start."""
    runs = math.prod(map(len, MATRIX.values()))
    return [runs * library(arguments, pairs, folder)[0]]


def differences(values: list[float]) -> list[float]:
    """Of each value and the one before."""
    return [after - before for before, after in itertools.pairwise(values)]


def main(arguments: argparse.Namespace) -> None:
    """Print the seconds of the first epoch and of a later one, or of a study, and the ratios."""
    arguments.steps = arguments.pairs // arguments.batch
    sides = {"retrokit": ours, "library": library}
    parts = {"first epoch": slice(0, 1), "later epoch": slice(1, None)}
    if arguments.study:
        sides = {"retrokit": study, "library": library_runs}
        parts = {"study": slice(None)}
        arguments.epochs = 1
    taken: dict[str, list[list[float]]] = {who: [] for who in sides}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pairs = folder / "pairs.jsonl"
        halves(Path(arguments.source), pairs, arguments.steps * arguments.batch)
        for turn in range(arguments.turns):
            for who, side in sides.items():
                taken[who].append(side(arguments, pairs, folder / f"{who}-{turn}"))
                print(who, " ".join(f"{seconds:.2f}" for seconds in taken[who][-1]), flush=True)
    for title, epochs in parts.items():
        rounds = {who: [statistics.mean(turn[epochs]) for turn in turns] for who, turns in taken.items()}
        medians = {who: statistics.median(seconds) for who, seconds in rounds.items()}
        ratio = statistics.median(
            theirs / own for theirs, own in zip(rounds["library"], rounds["retrokit"], strict=True)
        )
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
    parser.add_argument("--study", action="store_true")
    parser.add_argument("--jobs", type=int, default=2, help="of the study")
    return parser.parse_args()


if __name__ == "__main__":
    main(parsed())
