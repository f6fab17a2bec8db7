"""What the embedding cache does for an embedding does not grow with what else it holds."""

import sqlite3
import time
from contextlib import closing

import pytest

from retrokit.encoders.store.database import FILE, EmbeddingCache


@pytest.mark.parametrize("work", ["read", "add"])
def test_other_blocks_cost_next_to_nothing(tmp_path, monkeypatch, work):
    """Steps of SQLite's machine, which no clock and no other program changes."""
    cache = EmbeddingCache(tmp_path, 10**9)
    cache.add(b"e", {}, [(b"k", b"row")])
    steps = [0]
    real = EmbeddingCache._open

    def opened(self: EmbeddingCache, mode: str) -> sqlite3.Connection:
        database = real(self, mode)
        database.set_progress_handler(lambda: steps.__setitem__(0, steps[0] + 1), 1)
        return database

    def cost() -> int:
        before = steps[0]
        if work == "read":
            assert EmbeddingCache(tmp_path, 10**9).read(b"e", {}, [b"k"]) == {b"k": b"row"}
        else:
            cache.add(b"e", {}, [(b"l", b"row")])
        return steps[0] - before

    cost()
    monkeypatch.setattr(EmbeddingCache, "_open", opened)
    few = cost()
    with closing(sqlite3.connect(tmp_path / FILE)) as database, database:
        rows = [(7, 1, 1, time.time())] * 1000
        database.executemany("INSERT INTO blocks (encoder, rows, size, used) VALUES (?, ?, ?, ?)", rows)
    assert 0 < few < 1000
    assert cost() - few <= (4000 if work == "add" else 0)  # which sums up their sizes
