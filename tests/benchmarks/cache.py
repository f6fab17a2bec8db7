"""Seconds of writing and reading the embedding cache: 50,000 pooled embeddings of 384 dimensions, and token maps.

    python tests/benchmarks/cache.py [ROUNDS]
    python tests/benchmarks/cache.py --keys 800000

Each round begins with an empty cache; shown are the medians of the processor's time and of the clock's. Other work on
the machine shows in the clock alone. With ``--keys`` so many embeddings of 16 dimensions are kept and looked up, which
shows how both grow.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from retrokit.encoders.cached import TOKENS, Store
from retrokit.encoders.store import EmbeddingCache

POOLED, MAPS, DIMENSION = 50_000, 2_000, 384
CHUNK = 2048  # embeddings that are made, and kept, at a time


def timed(action: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the processor and of the clock."""
    began, clock = time.process_time(), time.perf_counter()
    action()
    return time.process_time() - began, time.perf_counter() - clock


def by_keys(count: int, step: int = 200_000) -> None:
    """Print what each further ``step`` embeddings take to be kept, and what all take to be found."""
    keys = [number.to_bytes(16, "big")[::-1] for number in np.random.default_rng(0).permutation(count).tolist()]
    with tempfile.TemporaryDirectory() as folder:
        cache = EmbeddingCache(Path(folder), 10**10)

        def keep(start: int) -> None:
            for first in range(start, min(start + step, count), 8192):
                cache.add(b"key", {}, [(key, bytes(64)) for key in keys[first : min(first + 8192, start + step)]])

        def find() -> None:
            for first in range(0, count, 4096):
                cache.read(b"key", {}, keys[first : first + 4096])

        for start in range(0, count, step):
            print(
                f"kept, to {start + step:,}:",
                "{:.2f} s of the processor, {:.2f} by the clock".format(*timed(partial(keep, start))),
            )
        print(f"found, all {count:,}:", "{:.2f} s of the processor, {:.2f} by the clock".format(*timed(find)))


def main(rounds: int = 5) -> None:
    """Print a line per kind and direction."""
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(POOLED, DIMENSION)).astype(np.float32)
    texts = [f"text {number} {'of some length ' * 12}" for number in range(POOLED)]
    maps = [generator.normal(size=(20 + number % 180, DIMENSION)).astype(np.float16) for number in range(MAPS)]
    chunks = [np.arange(POOLED)[start : start + CHUNK] for start in range(0, POOLED, CHUNK)]

    def pooled(store: Store) -> None:
        store.embed(texts, "document", lambda missing: ((chunk, rows[chunk]) for chunk in chunks))

    def tokens(store: Store) -> None:
        store.tokens(texts[:MAPS], "document", lambda missing: maps)

    kinds = {f"{POOLED:,} pooled": ("pooled", pooled), f"{MAPS:,} token maps": (TOKENS, tokens)}
    taken: dict[str, list[tuple[float, float]]] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            for way in ("write", "read"):
                for name, (kind, use) in kinds.items():
                    identity = {"fingerprint": "benchmark", "dimension": DIMENSION}
                    store = Store(EmbeddingCache(Path(folder), 10**10), identity, "benchmark", kind)
                    taken.setdefault(f"{name}, {way}", []).append(timed(partial(use, store)))
    for name, times in taken.items():
        processor, clock = (statistics.median(side) for side in zip(*times, strict=True))
        print(f"{name:28} {processor:6.2f} s of the processor {clock:6.2f} s by the clock")


if __name__ == "__main__":
    by_keys(int(sys.argv[2])) if sys.argv[1:2] == ["--keys"] else main(*map(int, sys.argv[1:2]))
