"""Seconds that commands take to start: more than ``import torch`` does, or in times of an empty Typer program.

    python tests/benchmarks/startup.py [ENCODER] [ROUNDS]

Each round runs every command once, on a folder of 64 texts; shown are medians over the rounds of the seconds, of those
of the processor, and of both less what ``import torch`` took in the same round. The embedding cache has the vectors,
but for a new query, and but for the commands that say so.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RETROKIT = "import sys; sys.argv[0] = 'retrokit'; from retrokit.cli import main; main()"
EMPTY = """
import typer

app = typer.Typer()

@app.command()
def empty(name: str) -> None: ...

app()
"""
FIRST_STEP = """
import os
from retrokit.training.table_trainer import TableTrainer

TableTrainer.training_step = lambda *_: os._exit(0)
"""


def write_data(folder: Path) -> None:
    """A BEIR folder and training pairs of 64 texts."""
    (folder / "few" / "qrels").mkdir(parents=True)
    texts = [{"_id": str(number), "text": f"text number {number} of a few"} for number in range(64)]
    for name in ("corpus", "queries"):
        (folder / "few" / f"{name}.jsonl").write_text("".join(json.dumps(text) + "\n" for text in texts))
    judged = "".join(f"{number}\t{number}\t1\n" for number in range(64))
    (folder / "few" / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    pairs = [{"anchor": text["text"], "positive": f"that is {text['text']}"} for text in texts]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))


def spent(code: str, words: list[str], folder: Path, cache: str) -> tuple[float, float]:
    """Seconds of a process, and of the processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=folder,
        env={**os.environ, "RETROKIT_CACHE": cache},
        capture_output=True,
        check=True,
        timeout=300,
    )
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(encoder: str = "minilm", rounds: int = 5) -> None:
    """Print a line per command."""
    search = ["search", encoder, "--corpus", "few"]
    static = ["finetune", "static:dim=256", "--data", "pairs.jsonl", "-o", "run", "--overwrite"]
    evaluated = ["eval", encoder, "--on", "beir:few"]
    commands = {
        "import torch": ("import torch", [], "off"),
        "import sentence_transformers": ("import sentence_transformers", [], "off"),
        "an empty Typer program --help": (EMPTY, ["--help"], "off"),
        "retrokit --help": (RETROKIT, ["--help"], "off"),
        "eval, all vectors cached": (RETROKIT, evaluated, "cache"),
        "search, all vectors cached": (RETROKIT, [*search, "--queries", "few"], "cache"),
        "search, a new query": (RETROKIT, search, "cache"),
        "eval, without a cache": (RETROKIT, evaluated, "off"),
        "finetune static --dry-run": (RETROKIT, [*static, "--dry-run"], "cache"),
        "finetune static, to its first step": (FIRST_STEP + RETROKIT, static, "cache"),
    }
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder)
        for number in range(rounds + 1):
            for command, (code, words, cache) in commands.items():
                query = ["--query", f"what is asked {number}"] if command == "search, a new query" else []
                times = spent(code, [*words, *query], folder, str(folder / "cache") if cache == "cache" else cache)
                if number:  # the first round fills the caches
                    taken[command].append(times)
    torch = taken["import torch"]
    for command, times in taken.items():
        medians = [statistics.median(column) for column in zip(*times, strict=True)]
        more = [
            statistics.median(ours[kind] - theirs[kind] for ours, theirs in zip(times, torch, strict=True))
            for kind in (0, 1)
        ]
        print(f"{command:36} {medians[0]:6.2f} s {medians[1]:6.2f} s of the processor, {more[0]:+.2f} {more[1]:+.2f}")
    pairs = zip(taken["retrokit --help"], taken["an empty Typer program --help"], strict=True)
    ratio = statistics.median(ours[0] / theirs[0] for ours, theirs in pairs)
    print(f"retrokit --help is {ratio:.2f} × the empty program")


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:3]))
