"""The response store: what is in it stays, with several processes, and with processes that are killed."""

import itertools
import json
import os
import random
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

from retrokit.core.errors import DataError
from retrokit.llm.base import Completion, CompletionRequest, Sampling
from retrokit.llm.store import ResponseStore
from tests.forked_python import KILL, python
from tests.llm.asker import CONCURRENCY
from tests.llm.server import ChatServer, Plan, echo

REQUEST = CompletionRequest("model", Sampling(), None, "Who purrs?")
ANSWER = Completion("Cats.", 3, 2, "length", estimated=True)


def test_what_is_put_is_got(tmp_path: Path) -> None:
    with ResponseStore(tmp_path / "s.db") as store:
        assert store.get(REQUEST.key) is None
        assert store.submit(REQUEST, ANSWER).result() == ANSWER
        assert store.get(REQUEST.key) == ANSWER
        # the first answer stays, so that all who share a store use the same
        assert store.submit(REQUEST, Completion("Lions.", 3, 2)).result() == ANSWER
        assert len(store) == 1
    with ResponseStore(tmp_path / "s.db") as store:
        assert store.get(REQUEST.key) == ANSWER


def test_the_key_is_of_all_that_decides_an_answer() -> None:
    others = [
        REQUEST,
        CompletionRequest("other", Sampling(), None, "Who purrs?"),
        CompletionRequest("model", Sampling(temperature=0.5), None, "Who purrs?"),
        CompletionRequest("model", Sampling(top_p=0.5), None, "Who purrs?"),
        CompletionRequest("model", Sampling(max_tokens=5), None, "Who purrs?"),
        CompletionRequest("model", Sampling(seed=0), None, "Who purrs?"),
        CompletionRequest("model", Sampling(), "", "Who purrs?"),
        CompletionRequest("model", Sampling(), "Who purrs?", ""),
        CompletionRequest("model", Sampling(), None, "Who purrs? "),
        CompletionRequest("model", Sampling(), None, "Who purrs?", 1),
    ]
    assert len({request.key for request in others}) == len(others)
    assert REQUEST.key == CompletionRequest("model", Sampling(temperature=0, top_p=1), None, "Who purrs?").key
    # stored on disks: it must not change from one version to the next
    assert REQUEST.key.hex() == "5ed3583c6ef2fc1203395a1b74924aaebefa9904cb3b744da3a846177f3c2563"


def test_files_that_are_no_store(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database, but long enough to look at" * 30)
    with pytest.raises(DataError, match=r"notes.txt: is not a response store \(no SQLite file\)"):
        ResponseStore(text)
    assert text.read_text().startswith("not a database")
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE things (id)")
    with pytest.raises(DataError, match=r"other.db: is a SQLite file, but no response store"):
        ResponseStore(tmp_path / "other.db")
    with pytest.raises(DataError, match=r"notes.txt.s.db: could not be written"):
        ResponseStore(text / "s.db")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(DataError, match=r"is not a response store \(no file\)"):
            ResponseStore(path)
    ResponseStore(tmp_path / "s.db").close()
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        connection.execute("PRAGMA user_version = 9")
    with pytest.raises(DataError, match=r"s.db: the file is of a later retrokit \(version 9, not 1\)"):
        ResponseStore(tmp_path / "s.db")


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        (b"CREATE TABLE", b"CREATE \xffABLE", "database disk image is malformed"),
        (b"SQLite format 3\0", b"SQLite format 4\0", r"is not a response store \(no SQLite file\)"),
    ],
)
def test_a_damaged_file_is_reported_and_stays(tmp_path: Path, before: bytes, after: bytes, problem: str) -> None:
    path = tmp_path / "s.db"
    with ResponseStore(path) as store:
        store.submit(REQUEST, ANSWER).result()
    damaged = path.read_bytes().replace(before, after)
    path.write_bytes(damaged)
    with pytest.raises(DataError, match=problem):
        ResponseStore(path)
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("change", ["text = x'00'", "text = 5.5, prompt_tokens = 'many'", "finish = x'ff'"])
def test_a_damaged_answer_is_reported(tmp_path: Path, change: str) -> None:
    with ResponseStore(tmp_path / "s.db") as store:
        store.submit(REQUEST, ANSWER).result()
        with closing(sqlite3.connect(tmp_path / "s.db")) as connection, connection:
            connection.execute(f"UPDATE responses SET {change}")
        with pytest.raises(DataError, match=r"s.db: the response store cannot be used: an answer is damaged$"):
            store.get(REQUEST.key)


# --- processes


def asker(server: ChatServer, folder: Path, out: Path, count: int, *options: str) -> subprocess.Popen[bytes]:
    command = [python(), "-m", "tests.llm.asker", server.url, folder / "s.db", out, str(count), *options]
    return subprocess.Popen(list(map(str, command)), cwd=Path(__file__).parents[2])


def answers(out: Path) -> list[tuple[str, str]]:
    """What was written down so far, the last line only if it is whole."""
    if not out.exists():
        return []
    return [tuple(json.loads(line)) for line in out.read_text().split("\n")[:-1]]


def test_two_processes_share_a_store(tmp_path: Path) -> None:
    numbers = itertools.count()
    plan = Plan(lambda body: f"answer {next(numbers)}", delay=0.005)  # another one to every call
    with ChatServer(plan) as server:
        outs = [tmp_path / "forwards", tmp_path / "backwards"]
        processes = [
            asker(server, tmp_path, outs[0], 150),
            asker(server, tmp_path, outs[1], 150, "--reverse"),
        ]
        assert [process.wait(60) for process in processes] == [0, 0]
    first, second = (dict(answers(out)) for out in outs)
    assert len(first) == 150
    assert first == second
    assert len(server.log.bodies) < 300  # each had answers of the other


def stored(folder: Path) -> set[str]:
    with closing(sqlite3.connect(folder / "s.db")) as connection:
        return {prompt for (prompt,) in connection.execute("SELECT prompt FROM responses")}


def kill_again_and_again(folder: Path, kills: int, count: int) -> None:
    """Kill an asker at random moments; what was used or stored by then is never asked for again."""
    draws = random.Random(kills)
    out = folder / "used"
    asked_when_kept: dict[str, int] = {}
    with ChatServer(Plan(delay=0.002)) as server:
        for kill in range(kills):
            process = asker(server, folder, out, count)
            before = len(answers(out))
            # it first writes down what is stored already
            wanted = before + len(asked_when_kept) + draws.randrange(max(1, 2 * count // kills))
            while len(answers(out)) <= wanted and process.poll() is None:
                time.sleep(0.0005)
            time.sleep(draws.uniform(0, 0.01))
            process.send_signal(KILL)
            process.wait()
            used, kept = {prompt for prompt, _ in answers(out)}, stored(folder)
            assert used <= kept, f"used before it was stored, at kill {kill}"
            for prompt in kept:
                asked_when_kept.setdefault(prompt, server.log.asked[prompt])
        assert len(asked_when_kept) > 0
        assert asker(server, folder, out, count).wait(60) == 0
    assert stored(folder) == {f"prompt {number}" for number in range(count)}
    assert {prompt: server.log.asked[prompt] for prompt in asked_when_kept} == asked_when_kept
    # what is asked twice was under way at a kill
    assert len(server.log.bodies) <= count + kills * CONCURRENCY
    expected = {body["messages"][-1]["content"]: echo(body) for body in server.log.bodies}
    assert set(answers(out)) == set(expected.items())


def test_a_killed_process_loses_nothing(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, kills=4, count=120)
