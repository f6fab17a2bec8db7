"""Fills an embedding cache with embeddings that the text alone decides; light, so that tests can start and kill many.

python -m tests.encoders.filling FOLDER FIRST LAST [PAUSE]    texts FIRST to LAST, with a pause before each chunk
"""

import hashlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from retrokit.encoders import cached as embeddings
from retrokit.encoders.cached import Store
from retrokit.encoders.store import EmbeddingCache

DIMENSION = 24
CHUNK = 8


def vector(text: str) -> np.ndarray:
    """Float32 ``[d]``."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return np.random.default_rng(list(digest)).normal(size=DIMENSION).astype(np.float32)


def vectors(texts: Sequence[str]) -> np.ndarray:
    """Float32 ``[n, d]``."""
    return np.stack([vector(text) for text in texts]) if texts else np.zeros((0, DIMENSION), dtype=np.float32)


def texts(first: int, last: int) -> list[str]:
    """Of different lengths, in no order of length."""
    return [f"{'long ' * (number * 7 % 11)}{number}" for number in range(first, last)]


class Counting:
    """Encodes as the engine does: longest first, chunk by chunk. ``encoded`` is what it was asked for."""

    def __init__(self, before: Callable[[int], Any] = lambda number: None) -> None:
        self.encoded: list[str] = []
        self._before = before

    def __call__(self, texts: Sequence[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        made = vectors(texts)
        order = np.argsort([-len(text) for text in texts], kind="stable")
        for number, start in enumerate(range(0, len(texts), CHUNK)):
            self._before(number)
            part = order[start : start + CHUNK]
            self.encoded += [texts[position] for position in part]
            yield part, made[part]


def store(folder: Path, limit: int = 10**9, name: str = "given") -> Store:
    """As a new process opens it."""
    return Store(EmbeddingCache(folder, limit), {"fingerprint": name, "dimension": DIMENSION}, name)


def fill(folder: Path, first: int, last: int, pause: float) -> None:
    """Embed the texts, and check what comes."""
    embeddings.SECONDS_AT_RISK = 0.0
    asked = texts(first, last)
    made = store(folder).embed(asked, "document", Counting(lambda number: time.sleep(pause)))
    assert np.array_equal(made, vectors(asked))


if __name__ == "__main__":
    fill(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]) if len(sys.argv) > 4 else 0.0)
