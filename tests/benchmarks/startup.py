"""Seconds from typing a command to its first batch, against ``python -c 'import sentence_transformers'``.

    python tests/benchmarks/startup.py [ENCODER] [ROUNDS]

``eval``, ``rerank`` and ``finetune`` run on a folder of a few texts until the first forward pass (``finetune``: the
first training step), with the embedding cache off. Each round runs all of them and the import, one after another; shown
are medians over the rounds, and the median of the rounds' ratios.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

IMPORT = "import sentence_transformers; import time; print('AT', time.time())"
FIRST_PASS = """
import os, sys, time
import torch

def stop(*_):
    print("AT", time.time(), flush=True)
    os._exit(0)

torch.nn.modules.module.register_module_forward_pre_hook(stop)
"""
FIRST_STEP = """
import gc, os, sys, time

gc.disable()  # as the command does while it imports
from retrokit.training import trainer
gc.enable()

def stop(*_):
    print("AT", time.time(), flush=True)
    os._exit(0)

trainer.FinetuneTrainer.training_step = stop
"""
RUN = "\nsys.argv = ['retrokit', *sys.argv[1:]]\nfrom retrokit.cli import main\nmain()\n"


def write_data(folder: Path) -> None:
    """A BEIR folder and training pairs of 64 texts."""
    (folder / "beir" / "qrels").mkdir(parents=True)
    texts = [{"_id": str(number), "text": f"text number {number} of a few"} for number in range(64)]
    for name in ("corpus", "queries"):
        (folder / "beir" / f"{name}.jsonl").write_text("".join(json.dumps(text) + "\n" for text in texts))
    judged = "".join(f"{number}\t{number}\t1\n" for number in range(64))
    (folder / "beir" / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    pairs = [{"anchor": text["text"], "positive": f"that is {text['text']}"} for text in texts]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))


def seconds(code: str, arguments: list[str], folder: Path) -> float:
    """From the start of the process until it says ``AT``."""
    began = time.time()
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env={**os.environ, "RETROKIT_CACHE": "off"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    said = [line for line in done.stdout.splitlines() if line.startswith("AT ")]
    assert said, done.stderr
    return float(said[-1].split()[1]) - began


def main(encoder: str = "minilm", rounds: int = 5) -> None:
    """Print a line per command."""
    commands = {
        "import sentence_transformers": (IMPORT, []),
        "eval": (FIRST_PASS + RUN, ["eval", encoder, "--on", "beir:beir"]),
        "rerank": (FIRST_PASS + RUN, ["rerank", encoder, "--on", "beir:beir", "--with", "maxsim"]),
        "finetune": (FIRST_STEP + RUN, ["finetune", encoder, "--data", "pairs.jsonl", "-o", "run", "--overwrite"]),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder)
        taken: dict[str, list[float]] = {command: [] for command in commands}
        for number in range(rounds + 1):
            for command, (code, arguments) in commands.items():
                found = seconds(code, arguments, folder)
                if number:  # the first round fills the disk's cache
                    taken[command].append(found)
    base = taken["import sentence_transformers"]
    for command, times in taken.items():
        ratio = statistics.median(ours / theirs for ours, theirs in zip(times, base, strict=True))
        print(f"{command:30} {statistics.median(times):6.2f} s {ratio:6.2f} ×")


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:3]))
