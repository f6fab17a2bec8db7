"""What exporting texts, searching in an exported folder and training a query side for it take: seconds, the
processor's seconds, memory.

    python tests/benchmarks/index_folder.py FOLDER --documents 10000000 --dimension 128 --dtype float16
    python tests/benchmarks/index_folder.py FOLDER --texts corpus.jsonl --dimension 128
    python tests/benchmarks/index_folder.py FOLDER --documents 100000 --dimension 384 --dtype float32 --steps 1000

The first writes random vectors in the shape of an export, into FOLDER, and searches them; the second exports texts by
``static``; the third trains a map of 256 of 10,000 queries a step too. Each line is a command of its own, from its
start to its end. Memory is the most that is no page of a file. Left for inspection: FOLDER.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from retrokit.data.exports import CHUNK, ExportWriter, Quantization, open_export
from retrokit.data.jsonl import write_jsonl


def spent(*words: object) -> tuple[float, float, float]:
    """Run a command of retrokit: its seconds, those of the processor, and MiB at most."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "retrokit", "--no-cache", *map(str, words)], stdout=subprocess.DEVNULL
    )
    most = 0
    while (ended := os.wait4(process.pid, os.WNOHANG))[0] == 0:
        found = re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
        most = max(most, int(found[1]) if found else 0)
        time.sleep(0.01)
    if ended[1]:
        sys.exit(f"failed: {words}")
    return time.perf_counter() - start, ended[2].ru_utime + ended[2].ru_stime, most / 1024


def measured(*words: object) -> str:
    """What a command took, in words."""
    seconds, used, memory = spent(*words)
    return f"{seconds:8.1f} s, {used:8.1f} s of the processor, {memory:6.0f} MiB"


def synthetic(folder: Path, documents: int, dimension: int, dtype: str) -> None:
    """Random vectors of length 1 as an export of ``static`` would hold them."""
    write_jsonl(folder / "few.jsonl", [{"id": str(number), "text": f"text {number}"} for number in range(10)])
    words = ["export", f"static:dim={dimension}", "--on", folder / "few.jsonl", "-o", folder / "few", "--dtype", dtype]
    measured(*words)
    note = open_export(folder / "few").note
    (folder / "vectors").mkdir()
    generator = np.random.default_rng(0)

    def rows(count: int) -> np.ndarray:
        made = generator.standard_normal((count, dimension), dtype=np.float32)
        return made / np.linalg.norm(made, axis=1, keepdims=True)

    with ExportWriter(folder / "vectors", Quantization(dtype, dimension), None) as writer:
        writer.calibrate(lambda: rows(CHUNK))
        for start in range(0, documents, CHUNK):
            ids = [f"doc-{number}" for number in range(start, min(start + CHUNK, documents))]
            writer.add(ids, rows(len(ids)))
        writer.finish({**note, "count": writer.count})


def main() -> None:
    """Make what is not there yet, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--dimension", type=int, default=128)
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--texts", help="JSONL of texts to export in place of random vectors")
    parser.add_argument("--queries", type=int, nargs="+", default=[1, 100, 1000])
    parser.add_argument("--index", help="of faiss")
    parser.add_argument("--steps", type=int, default=0, help="of training a query side")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    vectors = given.folder / "vectors"
    if not vectors.exists():
        start = time.perf_counter()
        if given.texts:
            words = [
                "export",
                f"static:dim={given.dimension}",
                "--on",
                given.texts,
                "-o",
                vectors,
                "--dtype",
                given.dtype,
            ]
            print("export:", measured(*words))
        else:
            synthetic(given.folder, given.documents, given.dimension, given.dtype)
            print(f"written: {time.perf_counter() - start:.0f} s")
    note = open_export(vectors).note
    size = sum(file.stat().st_size for file in vectors.iterdir()) / 2**20
    print(f"{note['count']:,} × {note['dimension']} {note['dtype']}, {size:,.0f} MiB on the disk")
    for count in given.queries:
        asked = given.folder / "queries.jsonl"
        write_jsonl(
            asked, [{"id": str(number), "text": f"a question about the number {number}"} for number in range(count)]
        )
        words = ["search", "--index-folder", vectors, "--queries", asked, "-k", 100, "-o", given.folder / "run.trec"]
        print(f"{count:6,} queries:", measured(*words, *(["--index", given.index] if given.index else [])), flush=True)
    if given.steps:
        chosen = np.random.default_rng(1).integers(0, note["count"], 10_000)
        ids = open_export(vectors).ids_at(chosen.tolist())
        pairs = ({"anchor": f"question {number}", "positive": ids[row]} for number, row in enumerate(chosen.tolist()))
        write_jsonl(given.folder / "pairs.jsonl", pairs)
        words = ["vectors", "train", vectors, "--data", given.folder / "pairs.jsonl"]
        words += ["--batch-size", 256, "--steps", given.steps, "--overwrite", "-o", given.folder / "run"]
        print(f"{given.steps:6,} steps:", measured(*words), flush=True)


if __name__ == "__main__":
    main()
