"""The embedding cache by itself, with embeddings that the text alone decides."""

import itertools
import re
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrokit.core.errors import DataError, UsageError
from retrokit.core.notices import listening
from retrokit.encoders import cached as embeddings
from retrokit.encoders import store as database
from retrokit.encoders.cached import TOKENS, Store
from retrokit.encoders.store import FILE, OVERHEAD, EmbeddingCache, cache_folder, open_cache, read_size
from tests.encoders.filling import CHUNK, DIMENSION, Counting, store, texts, vectors
from tests.evaluation.fakes import Notices
from tests.forked_python import python

ROW = 4 * DIMENSION + OVERHEAD


def embed(folder: Path, asked: list[str], role: str = "document", name: str = "given") -> tuple[np.ndarray, list[str]]:
    """As a new process does: the embeddings, and which texts were encoded."""
    encode = Counting()
    return store(folder, name=name).embed(asked, role, encode), encode.encoded


def sql(folder: Path, statement: str, *values: object) -> list[tuple]:
    """Look into the file, or change it behind the cache's back."""
    with closing(sqlite3.connect(folder / FILE)) as opened, opened:
        return opened.execute(statement, values).fetchall()


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


def test_tokens_lie_beside_pooled_embeddings(tmp_path):
    """Ragged ones, an item without any among them, in half precision."""
    counts = {text: number % 4 for number, text in enumerate(texts(0, 30))}
    whole = {text: np.random.default_rng(count).normal(size=(count, 3)).astype("f4") for text, count in counts.items()}
    embed(tmp_path, texts(0, 5))
    asked: list[str] = []

    def encode(missing: list[str]) -> list[np.ndarray]:
        asked.extend(missing)
        return [whole[text] for text in missing]

    for part in (texts(0, 20), [*texts(10, 30), texts(10, 11)[0]]):
        opened = Store(EmbeddingCache(tmp_path, 10**9), {"fingerprint": "given", "dimension": 3}, "given", TOKENS)
        for found, text in zip(opened.arrays(part, "document", encode), part, strict=True):
            assert found.dtype == np.float16
            assert np.array_equal(found, whole[text].astype("f2"))
    assert asked == texts(0, 30)
    held = {one.kind: one for one in EmbeddingCache(tmp_path, 10**9).held()}
    assert {kind: one.rows for kind, one in held.items()} == {"pooled": 5, "tokens": 30}
    assert held["tokens"].size == sum(6 * count + OVERHEAD for count in counts.values())


def test_what_is_not_finite_is_not_kept(tmp_path):
    def broken(asked):
        made = vectors(asked)
        made[1] = np.nan
        yield np.arange(len(asked)), made

    store(tmp_path).embed(["a", "b", "c"], "document", broken)
    assert embed(tmp_path, ["a", "b", "c"])[1] == ["b"]


# --- damage


def flip(folder: Path, column: str, number: int) -> None:
    """Turn one bit of a value."""
    ((place, value),) = sql(folder, f"SELECT id, {column} FROM embeddings LIMIT 1 OFFSET {number}")
    changed = value ^ 1 if isinstance(value, int) else bytes([value[0] ^ 1, *value[1:]])
    sql(folder, f"UPDATE embeddings SET {column} = ? WHERE id = ?", changed, place)


def rewrite(folder: Path, change: Callable[[bytes], bytes]) -> None:
    (folder / FILE).write_bytes(change((folder / FILE).read_bytes()))


def overwrite(folder: Path, position: int, content: bytes) -> None:
    """Replace bytes of the file, such as those of its header."""
    end = position + len(content)
    rewrite(folder, lambda whole: whole[:position] + content + whole[end:])


def swap(folder: Path) -> None:
    """Two embeddings change places."""
    (one,), (other,) = sql(folder, "SELECT content FROM embeddings ORDER BY id LIMIT 2")
    for number, content in ((0, other), (1, one)):
        where = f"(SELECT id FROM embeddings ORDER BY id LIMIT 1 OFFSET {number})"
        sql(folder, f"UPDATE embeddings SET content = ? WHERE id = {where}", content)


DAMAGES: dict[str, tuple[Callable[[Path], object], int]] = {
    "a bit of an embedding": (lambda folder: flip(folder, "content", 7), 1),
    "a bit of a checksum": (lambda folder: flip(folder, "checksum", 7), 1),
    "a bit of an item's digest": (lambda folder: flip(folder, "item", 7), 1),
    "two exchanged": (swap, 2),
    "one is gone": (
        lambda folder: sql(folder, "DELETE FROM embeddings WHERE id IN (SELECT max(id) FROM embeddings)"),
        1,
    ),
    "an embedding is shorter": (
        lambda folder: sql(folder, "UPDATE embeddings SET content = substr(content, 1, 4)"),
        20,
    ),
    "another encoder's": (lambda folder: sql(folder, "UPDATE encoders SET key = x'00'"), 20),
    "cut": (lambda folder: rewrite(folder, lambda whole: whole[: len(whole) // 2]), 20),
    "cut to nothing": (lambda folder: rewrite(folder, lambda whole: b""), 20),
    "zeros": (lambda folder: rewrite(folder, lambda whole: bytes(len(whole))), 20),
    "no database": (lambda folder: rewrite(folder, lambda whole: b"not a database " * 2000), 20),
    "removed": (lambda folder: (folder / FILE).unlink(), 20),
    "an unknown format": (lambda folder: overwrite(folder, 47, b"\x09"), 20),
    "an error that is no text": (
        lambda folder: rewrite(folder, lambda whole: whole.replace(b"CREATE TABLE emb", b"CREATE \xffABLE emb")),
        20,
    ),
    "another table": (lambda folder: sql(folder, "ALTER TABLE embeddings DROP COLUMN checksum"), 20),
}


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_is_made_again(tmp_path, damage, is_open):
    do, lost = DAMAGES[damage]
    asked = texts(0, 20)
    opened = store(tmp_path)
    opened.embed(asked, "document", Counting())
    do(tmp_path)
    encoded = Counting()
    rows = (opened if is_open else store(tmp_path)).embed(asked, "document", encoded)
    assert np.array_equal(rows, vectors(asked))
    assert len(encoded.encoded) == lost
    rows, encoded_again = embed(tmp_path, asked)
    assert np.array_equal(rows, vectors(asked))
    assert encoded_again == []


# --- breaks


class Kill(BaseException):
    pass


@pytest.mark.parametrize("at", [0, 1, 3, 6])
@pytest.mark.parametrize("where", ["encoding", "writing"])
def test_after_a_break_the_rest_falls_into_the_same_batches(tmp_path, monkeypatch, where, at):
    monkeypatch.setattr(embeddings, "SECONDS_AT_RISK", 0.0)
    asked = texts(0, 60)
    whole = Counting()
    store(tmp_path / "whole").embed(asked, "document", whole)
    count = itertools.count()

    def stop(*arguments: object) -> int:
        if next(count) == at:
            raise Kill
        return 0

    broken = Counting(stop if where == "encoding" else lambda number: None)
    if where == "writing":
        evict = database._evict
        monkeypatch.setattr(database, "_evict", lambda *arguments: stop() or evict(*arguments))
    with pytest.raises(Kill):
        store(tmp_path / "broken").embed(asked, "document", broken)
    monkeypatch.undo()
    rows, encoded = embed(tmp_path / "broken", asked)
    assert encoded == whole.encoded[at * CHUNK :]
    assert np.array_equal(rows, vectors(asked))


def start(*words: object) -> subprocess.Popen[bytes]:
    command = [python(), "-m", "tests.encoders.filling", *map(str, words)]
    return subprocess.Popen(command, cwd=Path(__file__).parents[2])


def test_several_processes_fill_at_once(tmp_path):
    ranges = [(0, 600), (300, 900), (0, 600)]
    processes = [start(tmp_path, first, last, 0.002) for first, last in ranges]
    assert [process.wait(120) for process in processes] == [0, 0, 0]
    (held,) = EmbeddingCache(tmp_path, 10**9).held()
    assert held.rows == 900, "no row twice"
    assert embed(tmp_path, texts(0, 900))[1] == []


# --- limits


def used(folder: Path, name: str, seconds: float) -> None:
    """Have it that the encoder was last used then."""
    encoder = "SELECT id FROM encoders WHERE json_extract(about, '$.spec') = ?"
    sql(folder, f"UPDATE blocks SET used = ? WHERE encoder IN ({encoder})", seconds, name)


def specs(folder: Path) -> list[str]:
    return [held.spec for held in EmbeddingCache(folder, 10**9).held()]


def test_what_was_not_used_for_longest_goes_first(tmp_path):
    size = 10 * ROW
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
    assert (tmp_path / FILE).stat().st_size < 200_000, "an empty database"
    assert EmbeddingCache(tmp_path / "none", 10).shrink(0) == 0
    assert not (tmp_path / "none").exists()


def test_writing_keeps_to_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(embeddings, "SECONDS_AT_RISK", 0.0)
    size = ROW
    limit = 80 * size
    for seconds, name in enumerate(("one", "two", "three"), start=1):
        made = store(tmp_path, limit, name).embed(texts(0, 40), "document", Counting())
        assert np.array_equal(made, vectors(texts(0, 40)))
        used(tmp_path, name, seconds)
        assert sum(held.size for held in EmbeddingCache(tmp_path, limit).held()) <= limit
    assert specs(tmp_path) == ["three", "two"]
    made = store(tmp_path, limit, "large").embed(texts(0, 500), "document", Counting())  # more than the limit
    assert np.array_equal(made, vectors(texts(0, 500)))
    (held,) = EmbeddingCache(tmp_path, limit).held()
    assert 64 * size <= held.size <= limit
    rows, encoded = embed(tmp_path, texts(0, 500), name="large")
    assert np.array_equal(rows, vectors(texts(0, 500)))
    assert len(encoded) == 500 - held.rows


@pytest.mark.parametrize("cached", [0, 30, 100])
@pytest.mark.parametrize("repeats", [1, 2])
def test_repeated_texts_have_their_row(tmp_path, cached, repeats):
    known = texts(0, 100)
    asked = [text for text in known for _ in range(repeats)] + known[:1]
    store(tmp_path).embed(known[:cached], "document", Counting())
    assert np.array_equal(store(tmp_path).embed(asked, "document", Counting()), vectors(asked))


def test_a_strangers_files_stay(tmp_path):
    embed(tmp_path, ["a"])
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "000001.index").write_text("mine")
    EmbeddingCache(tmp_path, 10**9).shrink(0)
    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {FILE, "notes.txt", "000001.index"}
    assert EmbeddingCache(tmp_path, 10**9).held() == []


# --- where it lies


def test_a_cache_that_cannot_be_written_does_not_end_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    listener = Notices()
    with listening(listener):
        opened = store(tmp_path / "file" / "cache")
        for asked in (texts(0, 20), texts(10, 30)):
            assert np.array_equal(opened.embed(asked, "document", Counting()), vectors(asked))
    (message,) = listener.messages
    assert "cannot write the embedding cache (Not a directory); continuing without it" in message


@pytest.mark.parametrize("position", [18, 47])
@pytest.mark.parametrize("limit", [0, 100])
def test_a_cache_with_a_damaged_header_is_removed(tmp_path, position, limit):
    embed(tmp_path, texts(0, 20))
    overwrite(tmp_path, position, b"\x09")
    size = (tmp_path / FILE).stat().st_size
    listener = Notices()
    with listening(listener):
        assert EmbeddingCache(tmp_path, 10**9).shrink(limit) == size
    assert re.search(rf"{FILE}: (unsupported file|attempt to write a readonly).*; removed", *listener.messages)
    assert list(tmp_path.iterdir()) == []


def test_a_cache_of_a_later_version_is_named_and_stays(tmp_path):
    embed(tmp_path, ["a"])
    with closing(sqlite3.connect(tmp_path / FILE)) as later:
        later.execute("PRAGMA user_version = 9")
    before = (tmp_path / FILE).read_bytes()
    later_version = r"the file is of a later retrokit \(version 9, not 2\)"
    listener = Notices()
    with listening(listener):
        assert embed(tmp_path, ["a"])[1] == ["a"]
        assert embed(tmp_path, ["a"])[1] == ["a"]
        assert EmbeddingCache(tmp_path, 10**9).held() == []
    assert len(listener.messages) == 3, "once for each cache that was opened"
    for message in listener.messages:
        assert re.search(rf"cannot write the embedding cache \({later_version}\); continuing without it", message)
    with pytest.raises(DataError, match=f"{FILE}: could not be written: {later_version}$"):
        EmbeddingCache(tmp_path, 10**9).shrink(1)
    assert (tmp_path / FILE).read_bytes() == before
    with listening(listener):
        assert EmbeddingCache(tmp_path, 10**9).shrink(0) == len(before)
    assert re.search(f"{FILE}: {later_version}; removed$", listener.messages[-1])
    assert not (tmp_path / FILE).exists()


def test_a_damaged_application_mark_is_one_line_with_the_way_out(tmp_path):
    embed(tmp_path, ["a"])
    with closing(sqlite3.connect(tmp_path / FILE)) as damaged:
        damaged.execute("PRAGMA application_id = 64")
    listener = Notices()
    with listening(listener):
        assert embed(tmp_path, ["a"])[1] == ["a"]
    (message,) = listener.messages
    assert "is a SQLite file, but no embedding cache" in message
    assert message.endswith("; continuing without it; `retrokit cache --clear` removes the file")
    EmbeddingCache(tmp_path, 10**9).shrink(0)
    assert embed(tmp_path, ["a"])[1] == ["a"]
    assert embed(tmp_path, ["a"])[1] == []


@pytest.mark.parametrize("below", ["", "/cache"])
def test_a_cache_in_a_file_is_refused(below, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RETROKIT_CACHE", f"{tmp_path}/file{below}")
    with pytest.raises(UsageError, match=f"^RETROKIT_CACHE={tmp_path}/file{below}: is a file; name a folder, or off$"):
        cache_folder()


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
    assert [read_size(text, "SIZE") for text in ("7", "2KB", "1.5 mb", "20GB", "1TB")] == [
        *(7, 2000, 1_500_000, 20 * 10**9, 10**12)
    ]
    for text in ("", "GB", "-1GB", "5x", "1e9", "nan"):
        with pytest.raises(UsageError, match=r"^SIZE: '.*' is not a size; expected for example 500MB or 20GB$"):
            read_size(text, "SIZE")
    monkeypatch.setenv("RETROKIT_CACHE", "/somewhere")
    monkeypatch.setenv("RETROKIT_CACHE_LIMIT", "3GB")
    opened = open_cache()
    assert opened is not None
    assert opened.limit == 3 * 10**9
