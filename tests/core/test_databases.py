"""The SQLite file under embeddings, scores and answers: what is refused, recreated, rolled back and left out."""

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from retrokit.core import databases
from retrokit.core.databases import Database, checksum, read_many
from retrokit.core.errors import DataError
from retrokit.core.notices import listening
from retrokit.core.shards import FILE, Shards
from tests.evaluation.fakes import Notices

TABLE = "CREATE TABLE IF NOT EXISTS things (key BLOB UNIQUE, checksum INTEGER, content BLOB)"
QUERY = "SELECT rowid, key, checksum, content FROM things WHERE key"


def opened(folder: Path, version: int = 3, application: int = 0) -> Database:
    return Database(folder / "made" / "things.sqlite", "store of things", TABLE, version, application)


def put(database: Database, *contents: bytes) -> None:
    rows = [(content, checksum(b"p", content, content), content) for content in contents]
    database.write(lambda connection: connection.executemany("INSERT INTO things VALUES (?, ?, ?)", rows))


def got(database: Database, *keys: bytes) -> list[bytes] | None:
    return database.read(lambda connection: [row[2] for row in read_many(connection, QUERY, (), keys, b"p")])


def test_many_keys_are_read_in_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(databases, "KEYS_AT_ONCE", 3)
    contents = [str(number).encode() for number in range(20)]
    put(opened(tmp_path), *contents)
    assert sorted(got(opened(tmp_path), *contents, b"none") or ()) == sorted(contents)


def test_a_row_whose_checksum_does_not_fit_is_missing(tmp_path):
    put(opened(tmp_path), b"one", b"two")
    damage = "UPDATE things SET content = x'00' WHERE key = x'6f6e65'"
    opened(tmp_path).write(lambda connection: connection.execute(damage))
    assert got(opened(tmp_path), b"one", b"two") == [b"two"]


def test_nothing_of_what_fails_is_written(tmp_path):
    put(opened(tmp_path), b"one")

    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM things")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        opened(tmp_path).write(fail)
    assert got(opened(tmp_path), b"one") == [b"one"]


def test_no_file_is_made_by_reading(tmp_path):
    assert got(opened(tmp_path), b"one") is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("work", ["read", "write"])
def test_a_damaged_file_is_reported_and_recreated(tmp_path, work):
    database = opened(tmp_path)
    put(database, b"one")
    database.path.write_bytes(b"no database" * 500)
    listener = Notices()
    with listening(listener):
        if work == "read":
            assert got(database, b"one") is None
            assert not database.path.exists()
        put(database, b"two")
    (message,) = listener.messages
    assert message.endswith("things.sqlite: store of things is damaged (file is not a database); a new one is created")
    assert got(database, b"one", b"two") == [b"two"]


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        ({"version": 4}, r"things\.sqlite: the file is of a later retrokit \(version 4, not 3\)"),
        ({"application": 7}, r"things\.sqlite: is a SQLite file, but no store of things"),
    ],
)
def test_another_file_is_refused_and_stays(tmp_path, other, problem):
    put(opened(tmp_path, **other), b"one")
    database = opened(tmp_path)
    before = database.path.read_bytes()
    for work in (lambda: got(database, b"one"), lambda: put(database, b"two")):
        with pytest.raises(DataError, match=problem), database.refusing():
            work()
    assert database.path.read_bytes() == before


# --- arrays


def test_an_array_is_made_once(tmp_path):
    made = []

    def make() -> np.ndarray:
        made.append(1)
        return np.array([0.1, -2.5], dtype=np.float32)

    for _ in range(2):
        array = Shards(tmp_path / "work").array(["a", "b"], make)
        assert array.dtype == np.float32
        assert array.tolist() == make().tolist()
        made.pop()
    assert len(made) == 1
    assert Shards(tmp_path / "work").goes_on
    Shards(tmp_path / "work").remove()
    assert list(tmp_path.iterdir()) == []


def test_scores_in_a_damaged_file_are_computed_again(tmp_path):
    shards = Shards(tmp_path)
    shards.array(["a"], lambda: np.ones(1, np.float32))
    (tmp_path / FILE).write_bytes(b"no database" * 500)
    assert shards.array(["a"], lambda: np.zeros(1, np.float32)).tolist() == [0.0]
    assert shards.array(["a"], lambda: np.ones(1, np.float32)).tolist() == [0.0]


def test_scores_are_not_written_into_a_file_of_another_program(tmp_path):
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        connection.execute("PRAGMA application_id = 7")
        connection.execute("CREATE TABLE mine (id)")
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(DataError, match=r"scores\.sqlite: is a SQLite file, but no score store"):
        Shards(tmp_path).array(["a"], lambda: np.ones(1, np.float32))
    assert (tmp_path / FILE).read_bytes() == before
