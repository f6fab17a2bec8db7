"""The embedding cache by itself, with embeddings that the text alone decides."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrokit.encoders import store as stores
from retrokit.encoders.store import EmbeddingCache, cache_folder, open_cache, read_size
from retrokit.errors import DataError, UsageError
from retrokit.notices import listening
from tests.encoders.filling import CHUNK, DIMENSION, Counting, store, texts, vectors
from tests.evaluation.fakes import Notices

ROW_BYTES = 4 * DIMENSION
RECORD_BYTES = 24


def embed(folder: Path, asked: list[str], role: str = "document", name: str = "given") -> tuple[np.ndarray, list[str]]:
    """As a new process does: the embeddings, and which texts were encoded."""
    encode = Counting()
    return store(folder, name=name).embed(asked, role, encode), encode.encoded


def files(folder: Path, kind: str) -> list[Path]:
    return sorted(folder.glob(f"*/*.{kind}"))


# --- what is found, and what is not


def test_a_text_is_encoded_once_whatever_it_stands_among(tmp_path):
    first, second = texts(0, 20), texts(15, 30)
    assert len(embed(tmp_path, first)[1]) == 20
    rows, encoded = embed(tmp_path, second)
    assert sorted(encoded) == sorted(texts(20, 30))
    assert rows.dtype == np.float32
    assert np.array_equal(rows, vectors(second))
    rows, encoded = embed(tmp_path, [*second[::-1], *first, second[0]])
    assert encoded == []
    assert np.array_equal(rows, vectors([*second[::-1], *first, second[0]]))


def test_another_role_or_encoder_shares_nothing(tmp_path):
    embed(tmp_path, ["a", "b"])
    assert embed(tmp_path, ["a"], role="query")[1] == ["a"]
    assert embed(tmp_path, ["b"], name="another")[1] == ["b"]
    assert [embed(tmp_path, ["a"], role)[1] for role in ("query", "document")] == [[], []]


def test_repeated_texts_are_encoded_once_within_a_call(tmp_path):
    asked = ["b", "", "a", "b", "", "b"]
    rows, encoded = embed(tmp_path, asked)
    assert sorted(encoded) == ["", "a", "b"]
    assert np.array_equal(rows, vectors(asked))
    assert embed(tmp_path, [])[0].shape == (0, DIMENSION)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.text(st.characters(), max_size=6), max_size=12), max_size=6))
def test_any_calls_give_what_encoding_gives(tmp_path_factory, calls):
    folder = tmp_path_factory.mktemp("cache")
    known: set[str] = set()
    for asked in calls:
        rows, encoded = embed(folder, asked)
        assert np.array_equal(rows, vectors(asked))
        assert sorted(encoded) == sorted(set(asked) - known)
        known |= set(asked)
    assert sum(held.rows for held in EmbeddingCache(folder, 10**9).held()) == len(known)


def test_many_shards_are_searched(tmp_path, monkeypatch):
    monkeypatch.setattr(stores, "SECONDS_AT_RISK", 0.0)
    limit = 8 * 20 * (ROW_BYTES + RECORD_BYTES)  # shards of 20 rows
    made = store(tmp_path, limit).embed(texts(0, 100), "document", Counting())
    assert np.array_equal(made, vectors(texts(0, 100)))
    assert [path.name for path in files(tmp_path, "rows")] == [f"{n:06d}.rows" for n in range(1, 6)]
    assert embed(tmp_path, texts(0, 100))[1] == []


def test_what_is_not_finite_is_not_kept(tmp_path):
    def broken(asked):
        made = vectors(asked)
        made[1] = np.nan
        yield np.arange(len(asked)), made

    store(tmp_path).embed(["a", "b", "c"], "document", broken)
    assert embed(tmp_path, ["a", "b", "c"])[1] == ["b"]


# --- damage


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def flip(path: Path, at: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(bytes(raw))


DAMAGES = {
    "rows cut within a row": ("rows", lambda path: cut(path, 10 * ROW_BYTES + 5), 10),
    "rows cut to nothing": ("rows", lambda path: cut(path, 0), 20),
    "rows removed": ("rows", Path.unlink, 20),
    "rows too long": ("rows", lambda path: path.write_bytes(path.read_bytes() + b"tail"), 0),
    "rows shifted": ("rows", lambda path: path.write_bytes(path.read_bytes()[ROW_BYTES:]), 20),
    "a bit of a row": ("rows", lambda path: flip(path, 7 * ROW_BYTES + 9), 1),
    "index cut within a record": ("index", lambda path: cut(path, 15 * RECORD_BYTES + 5), 5),
    "index cut to nothing": ("index", lambda path: cut(path, 0), 20),
    "index removed": ("index", Path.unlink, 20),
    "a bit of a text's digest": ("index", lambda path: flip(path, 3 * RECORD_BYTES), 1),
    "the other half of it": ("index", lambda path: flip(path, 3 * RECORD_BYTES + 9), 1),
    "a bit of a checksum": ("index", lambda path: flip(path, 3 * RECORD_BYTES + 16), 1),
    "zeros": ("rows", lambda path: path.write_bytes(bytes(path.stat().st_size)), 20),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_is_made_again(tmp_path, damage):
    kind, do, lost = DAMAGES[damage]
    asked = texts(0, 20)
    embed(tmp_path, asked)
    (path,) = files(tmp_path, kind)
    do(path)
    rows, encoded = embed(tmp_path, asked)
    assert np.array_equal(rows, vectors(asked))
    assert len(encoded) == lost
    rows, encoded = embed(tmp_path, asked)
    assert np.array_equal(rows, vectors(asked))
    assert encoded == []


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_noticed_by_who_has_the_cache_open(tmp_path, damage):
    kind, do, _ = DAMAGES[damage]
    asked = texts(0, 20)
    opened = store(tmp_path)
    opened.embed(asked, "document", Counting())
    (path,) = files(tmp_path, kind)
    do(path)
    for _ in range(2):
        assert np.array_equal(opened.embed(asked, "document", Counting()), vectors(asked))
    assert embed(tmp_path, asked)[1] == []


# --- breaks


class Kill(BaseException):
    pass


@pytest.mark.parametrize("at", [0, 1, 3, 6])
@pytest.mark.parametrize("where", ["encoding", "before rows", "before index"])
def test_after_a_break_the_rest_falls_into_the_same_chunks(tmp_path, monkeypatch, where, at):
    monkeypatch.setattr(stores, "SECONDS_AT_RISK", 0.0)
    asked = texts(0, 60)
    whole = Counting()
    store(tmp_path / "whole").embed(asked, "document", whole)
    if where == "encoding":

        def stop(number: int) -> None:
            if number == at:
                raise Kill

        broken, kept = Counting(stop), at
    else:
        count = itertools.count()
        append = stores._append

        def stopping(*arguments) -> None:
            if next(count) == 2 * at + (where == "before index"):
                raise Kill
            append(*arguments)

        monkeypatch.setattr(stores, "_append", stopping)
        broken, kept = Counting(), at
    with pytest.raises(Kill):
        store(tmp_path / "broken").embed(asked, "document", broken)
    monkeypatch.undo()
    rows, encoded = embed(tmp_path / "broken", asked)
    assert encoded == whole.encoded[kept * CHUNK :]
    assert np.array_equal(rows, vectors(asked))
    for kind in ("rows", "index"):
        made, expected = (files(tmp_path / name, kind)[0].read_bytes() for name in ("broken", "whole"))
        assert made == expected


def start(*words: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.encoders.filling", *map(str, words)]
    return subprocess.Popen(command, cwd=Path(__file__).parents[2])


def kill_while_filling(folder: Path, count: int, moment: float) -> None:
    process = start(folder, 0, count, 0.01)
    before = sum(path.stat().st_size for path in files(folder, "index"))
    while process.poll() is None and sum(path.stat().st_size for path in files(folder, "index")) == before:
        time.sleep(0.005)
    time.sleep(moment)
    process.send_signal(signal.SIGKILL)
    process.wait(60)


def check_resumed(tmp_path: Path, count: int) -> None:
    assert start(tmp_path / "whole", 0, count).wait(120) == 0
    rows, _ = embed(tmp_path / "broken", texts(0, count))
    assert np.array_equal(rows, vectors(texts(0, count)))
    for kind in ("rows", "index"):
        made, expected = (files(tmp_path / name, kind)[0].read_bytes() for name in ("broken", "whole"))
        assert made == expected


def test_a_killed_process_leaves_what_it_has_done(tmp_path):
    kill_while_filling(tmp_path / "broken", 2000, 0.05)
    kept = sum(path.stat().st_size for path in files(tmp_path / "broken", "index")) // RECORD_BYTES
    assert 0 < kept < 2000
    check_resumed(tmp_path, 2000)


@pytest.mark.slow
def test_kills_at_any_moment(tmp_path):
    chance = random.Random(7)
    for _ in range(25):
        kill_while_filling(tmp_path / "broken", 20_000, chance.uniform(0, 0.2))
    check_resumed(tmp_path, 20_000)


def test_several_processes_fill_at_once(tmp_path):
    ranges = [(0, 600), (300, 900), (0, 600)]
    processes = [start(tmp_path, first, last, 0.002) for first, last in ranges]
    assert [process.wait(120) for process in processes] == [0, 0, 0]
    (held,) = EmbeddingCache(tmp_path, 10**9).held()
    assert held.rows == 900, "no row twice"
    assert embed(tmp_path, texts(0, 900))[1] == []


def test_the_cache_may_be_cleared_while_others_fill_it(tmp_path):
    process = start(tmp_path, 0, 800, 0.005)
    while process.poll() is None:
        EmbeddingCache(tmp_path, 10**9).shrink(0)
        time.sleep(0.02)
    assert process.returncode == 0
    rows, _ = embed(tmp_path, texts(0, 800))
    assert np.array_equal(rows, vectors(texts(0, 800)))


# --- limits


def used(folder: Path, name: str, seconds: float) -> None:
    """Have it that the encoder was last used then."""
    (index,) = (path for path in files(folder, "index") if name in (path.parent / "about.json").read_text())
    os.utime(index, (seconds, seconds))


def specs(folder: Path) -> list[str]:
    return [held.spec for held in EmbeddingCache(folder, 10**9).held()]


def test_what_was_not_used_for_longest_goes_first(tmp_path):
    size = 10 * (ROW_BYTES + RECORD_BYTES)
    for seconds, name in enumerate(("one", "two", "three"), start=1):
        embed(tmp_path, texts(0, 10), name=name)
        used(tmp_path, name, seconds)
    assert specs(tmp_path) == ["three", "two", "one"]
    embed(tmp_path, texts(0, 5), name="one")  # reading is use
    assert specs(tmp_path) == ["one", "three", "two"]
    found = EmbeddingCache(tmp_path, 10**9)
    assert found.shrink(3 * size) == 0
    assert found.shrink(2 * size + 1) == size
    assert specs(tmp_path) == ["one", "three"]
    assert found.shrink(0) == 2 * size
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]
    assert EmbeddingCache(tmp_path / "none", 10).shrink(0) == 0
    assert not (tmp_path / "none").exists()


def test_writing_keeps_to_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(stores, "SECONDS_AT_RISK", 0.0)
    size = ROW_BYTES + RECORD_BYTES
    limit = 80 * size  # shards of 16 rows at most
    for seconds, name in enumerate(("one", "two", "three"), start=1):
        made = store(tmp_path, limit, name).embed(texts(0, 40), "document", Counting())
        assert np.array_equal(made, vectors(texts(0, 40)))
        for index in files(tmp_path, "index"):
            if name in (index.parent / "about.json").read_text():
                os.utime(index, (seconds, seconds))
        assert sum(held.size for held in EmbeddingCache(tmp_path, limit).held()) <= limit
    assert specs(tmp_path) == ["three", "two"]
    made = store(tmp_path, limit, "large").embed(texts(0, 500), "document", Counting())  # more than the limit
    assert np.array_equal(made, vectors(texts(0, 500)))
    (held,) = EmbeddingCache(tmp_path, limit).held()
    assert 64 * size <= held.size <= limit
    rows, encoded = embed(tmp_path, texts(0, 500), name="large")
    assert np.array_equal(rows, vectors(texts(0, 500)))
    assert len(encoded) == 500 - held.rows


@pytest.mark.parametrize("at_risk", [0.0, 1e9])
@pytest.mark.parametrize("others", [0, 40])
def test_what_a_command_has_made_is_there_the_second_time(tmp_path, monkeypatch, at_risk, others):
    """A corpus far above the limit, kept bit by bit or in one go, where another's embeddings fill the cache or not."""
    monkeypatch.setattr(stores, "SECONDS_AT_RISK", at_risk)
    notices: list[str] = []
    monkeypatch.setattr(stores, "notice", notices.append)
    limit = 80 * (ROW_BYTES + RECORD_BYTES)
    asked = texts(0, 500)
    if others:
        store(tmp_path, limit, "another").embed(texts(0, others), "document", Counting())
    for number, expected in enumerate([500, 420, 420]):  # as three commands
        encoded = Counting()
        made = store(tmp_path, limit, "large").embed(asked, "document", encoded)
        assert np.array_equal(made, vectors(asked))
        assert len(encoded.encoded) == expected
        (held,) = EmbeddingCache(tmp_path, limit).held()
        assert (held.rows, held.size) == (80, limit)
        assert len(notices) == number + 1
        assert "RETROKIT_CACHE_LIMIT" in notices[-1]
    within = store(tmp_path, limit, "large")  # as one command that reads and makes
    encoded = Counting()
    for _ in range(3):
        within.embed(asked, "document", encoded)
    assert len(encoded.encoded) == 3 * 420
    # another command with another encoder gets the room
    store(tmp_path, limit, "new").embed(texts(0, 80), "document", Counting())
    assert specs(tmp_path) == ["new"]


@pytest.mark.parametrize("limit", [0, 1, ROW_BYTES + RECORD_BYTES - 1])
def test_a_limit_below_one_row_keeps_nothing(tmp_path, limit):
    made = store(tmp_path, limit).embed(texts(0, 5), "document", Counting())
    assert np.array_equal(made, vectors(texts(0, 5)))
    assert EmbeddingCache(tmp_path, limit).held() == []
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


@pytest.mark.parametrize("cached", [0, 30, 100])
@pytest.mark.parametrize("repeats", [1, 2])
def test_repeated_texts_take_no_second_array(tmp_path, monkeypatch, cached, repeats):
    monkeypatch.setattr(stores, "SPREAD", 7)
    known = texts(0, 100)
    asked = [text for text in known for _ in range(repeats)] + known[:1]
    store(tmp_path).embed(known[:cached], "document", Counting())
    assert np.array_equal(store(tmp_path).embed(asked, "document", Counting()), vectors(asked))


def test_memory_of_repeated_texts(tmp_path, monkeypatch):
    monkeypatch.setattr(stores, "SECONDS_AT_RISK", 0.0)  # nothing waits in memory
    count, width = 4000, 1024
    asked = [str(number) for number in range(count)] + ["0"]
    opened = EmbeddingCache(tmp_path, 10**9).store({"fingerprint": "wide"}, width, "wide")
    size = 4 * width * len(asked)

    def encode(given: Any) -> Any:
        for part in np.array_split(np.arange(len(given)), 16):
            yield part, np.ones((len(part), width), dtype=np.float32)

    tracemalloc.start()
    made = opened.embed(asked, "document", encode)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert made.nbytes == size
    assert peak < 1.5 * size


def test_a_strangers_files_stay(tmp_path):
    embed(tmp_path, ["a"])
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "000001.index").write_text("mine")
    (files(tmp_path, "json")[0].parent / "notes.txt").write_text("mine")
    EmbeddingCache(tmp_path, 10**9).shrink(0)
    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"lock", "notes.txt", "000001.index"}
    assert EmbeddingCache(tmp_path, 10**9).held() == []


def test_an_encoder_goes_by_the_spec_that_it_was_last_seen_under(tmp_path):
    found = EmbeddingCache(tmp_path, 10**9)
    for spec in ("runs/a", "runs/b"):
        found.store({"fingerprint": "f", "dimension": DIMENSION}, DIMENSION, spec).embed(["a"], "document", Counting())
    (held,) = found.held()
    assert (held.spec, held.rows, held.dimension, held.fingerprint) == ("runs/b", 1, DIMENSION, "f")
    files(tmp_path, "json")[0].write_text("{")
    (held,) = found.held()
    assert (held.spec, held.rows) == ("unknown", 1)


# --- where it lies


def test_a_cache_that_cannot_be_written_does_not_end_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    listener = Notices()
    with listening(listener):
        opened = store(tmp_path / "file" / "cache")
        for asked in (texts(0, 20), texts(10, 30)):
            assert np.array_equal(opened.embed(asked, "document", Counting()), vectors(asked))
    (message,) = listener.messages
    assert "embeddings cannot be kept (Not a directory); going on without" in message


def test_a_cache_that_cannot_be_shrunk_says_so(tmp_path, monkeypatch):
    embed(tmp_path, ["a"])

    def refuse(*arguments: object, **named: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(DataError, match="could not be written: Permission denied"):
        EmbeddingCache(tmp_path, 10**9).shrink(0)


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for values, expected in (
        ({}, tmp_path / ".cache/retrokit/embeddings"),
        ({"XDG_CACHE_HOME": "/xdg"}, Path("/xdg/retrokit/embeddings")),
        ({"RETROKIT_CACHE": "/else", "XDG_CACHE_HOME": "/xdg"}, Path("/else")),
        ({"RETROKIT_CACHE": "~/else"}, tmp_path / "else"),
        ({"RETROKIT_CACHE": "off"}, None),
        ({"RETROKIT_CACHE": "OFF"}, None),
    ):
        for name in ("RETROKIT_CACHE", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        for name, value in values.items():
            monkeypatch.setenv(name, value)
        assert cache_folder() == expected
        opened = open_cache()
        assert (opened and opened.folder) == expected
    assert list(tmp_path.iterdir()) == [], "nothing is written before there is something to keep"


def test_sizes(monkeypatch):
    assert [read_size(text) for text in ("7", "2KB", "1.5 mb", "20GB", "1TB")] == [
        *(7, 2000, 1_500_000, 20 * 10**9, 10**12)
    ]
    for text in ("", "GB", "-1GB", "5x", "1e9", "nan"):
        with pytest.raises(UsageError, match="is no size; expected for example 500MB or 20GB"):
            read_size(text)
    monkeypatch.setenv("RETROKIT_CACHE", "/somewhere")
    monkeypatch.setenv("RETROKIT_CACHE_LIMIT", "3GB")
    opened = open_cache()
    assert opened is not None
    assert opened.limit == 3 * 10**9
