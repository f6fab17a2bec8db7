"""How fast `retrokit augment` makes pairs and near-misses on one core, and how much memory it takes.

    python tests/benchmarks/augment.py data/ml-abstracts/abstracts.jsonl

Rates are per second of processor time, reading and writing files included; memory is the peak of a fresh process.
"""

import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMANDS = {
    "crops": (["crops"], 100_000),
    "crops, multilingual": (["crops", "--splitter", "multilingual"], 100_000),
    "dropout": (["dropout"], 100_000),
    "near-misses": (["near-misses"], 3_000),
}


def write_corpus(source: Path, target: Path, count: int) -> None:
    """``count`` texts of ``source``, over and over, each time with another ending so that none repeats."""
    texts = [json.loads(line)["text"] for line in source.read_text(encoding="utf-8").splitlines()]
    with open(target, "w", encoding="utf-8") as stream:
        for number, text in zip(range(count), itertools.cycle(texts)):
            stream.write(json.dumps({"text": f"{text} This is copy {number // len(texts)}."}) + "\n")


# the operating system's own count starts at the parent's size; a process's status file does not
MEASURED = """
import re, runpy, sys
sys.argv = ["retrokit", *sys.argv[1:]]
try:
    runpy.run_module("retrokit", run_name="__main__")
except SystemExit as end:
    assert not end.code
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024)
"""


def measure(words: list[str], corpus: Path, target: Path) -> tuple[float, float, int]:
    """Processor and wall seconds, and peak memory in bytes, of one command in a fresh process."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, "augment", *words, str(corpus), "-o", str(target)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, wall, int(done.stdout)


def main() -> None:
    """Print a row per command, for a corpus and for a tenth of it."""
    source = Path(sys.argv[1])
    print("| command | texts | sentences | texts/s | sentences/s | peak memory |")
    print("|---|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        corpus, target = Path(folder) / "corpus.jsonl", Path(folder) / "out.jsonl"
        for name, (words, count) in COMMANDS.items():
            for texts in (count // 10, count):
                write_corpus(source, corpus, texts)
                cpu, _, memory = measure(words, corpus, target)
                sentences = corpus.read_text(encoding="utf-8").count(". ") + texts
                print(
                    f"| {name} | {texts:,} | {sentences:,} | {texts / cpu:,.0f} | {sentences / cpu:,.0f} "
                    f"| {memory / 2**20:.0f} MiB |"
                )


if __name__ == "__main__":
    main()
