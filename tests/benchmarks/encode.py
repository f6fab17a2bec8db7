"""Documents per second: retrokit's encoding, in float32 and in the hardware's own precision, and the library's default.

    python tests/benchmarks/encode.py data/scifact [DOCUMENTS]

All encode the same documents, in turns; the fastest of three rounds, with the difference to the library's float32.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

import retrokit
from retrokit.data.beir import corpus_file
from retrokit.data.corpus import read_corpus
from retrokit.encoders.engine import choose_precision

ENCODER, ROUNDS = "minilm", 3


def main(folder: str, count: int = 1000) -> None:
    """Print a row per way of encoding."""
    os.environ["RETROKIT_CACHE"] = "off"
    documents = list(read_corpus(corpus_file(folder)))
    step = max(1, len(documents) // count)  # all lengths, in the file's order
    texts = [document.full_text for document in documents[::step]][:count]
    encoder = retrokit.encoder(ENCODER, device="cpu")
    library = SentenceTransformer(modules=list(encoder.model), device="cpu")
    fast = str(choose_precision("auto", encoder.device)).removeprefix("torch.")
    ways: dict[str, Callable[[], np.ndarray]] = {
        "library, batch 32": lambda: library.encode(texts, batch_size=32),
        "retrokit, fp32": lambda: encoder.embed(texts, "document", "fp32"),
        f"retrokit, auto ({fast})": lambda: encoder.embed(texts, "document", "auto"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    made: dict[str, np.ndarray] = {}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            began = time.perf_counter()
            made[name] = way()
            seconds[name].append(time.perf_counter() - began)
    first = next(iter(ways))
    print(f"{len(texts)} documents, {torch.get_num_threads()} threads")
    for name in ways:
        rate, ratio = len(texts) / min(seconds[name]), min(seconds[first]) / min(seconds[name])
        difference = np.abs(made[name] - made[first]).max()
        print(f"{name:28} {rate:7.1f} documents/s   {ratio:5.2f} ×   largest difference {difference:.1e}")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
