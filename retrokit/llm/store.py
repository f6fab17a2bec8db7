"""The response store: every answer of a language model, in one SQLite file that several processes may share.

An answer is handed out only once its transaction is committed, so that a process that is killed at any moment loses
nothing that was used. Committing is what costs time (it waits for the disk), so answers that arrive while one
transaction is written go into the next one together: the more calls are in flight, the fewer commits a call.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from retrokit.core.databases import PATIENCE, Database, code_of, transaction
from retrokit.core.errors import DataError, Interrupted, disk_errors
from retrokit.llm.base import Completion, CompletionRequest

_APPLICATION = 0x72746B4C
_VERSION = 1
_TABLE = """
CREATE TABLE IF NOT EXISTS responses (
    key BLOB PRIMARY KEY,
    identity TEXT NOT NULL,
    sampling TEXT NOT NULL,
    system TEXT,
    prompt TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    text TEXT NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    finish TEXT NOT NULL,
    estimated INTEGER NOT NULL,
    written REAL NOT NULL
)
"""
_ANSWER = "SELECT text, prompt_tokens, completion_tokens, finish, estimated FROM responses WHERE key = ?"

_Job = tuple[CompletionRequest, Completion, "Future[Completion]"]


class ResponseStore:
    """Answers by :attr:`retrokit.llm.base.CompletionRequest.key`, in a file whose folder is created if missing.

    Raises:
        DataError: the file cannot be opened or written, or is no response store.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with disk_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        if os.path.exists(self.path) and not os.path.isfile(self.path):
            raise DataError(self.path, "is not a response store (no file)")  # a pipe would be waited for
        self._file = Database(self.path, "response store", _TABLE, _VERSION, _APPLICATION)
        with self._file.refusing():
            self._reader = self._connected()
            self._writer_connection = self._connected()  # what is not committed is not read
        self._jobs: deque[_Job] = deque()
        self._closed = False
        self._writer = ThreadPoolExecutor(1, f"store {self.path.name}")

    def get(self, key: bytes) -> Completion | None:
        """The answer stored under ``key``, by whichever process; ``None`` if there is none."""
        with self._file.refusing():
            row = self._reader.execute(_ANSWER, (key,)).fetchone()
            return None if row is None else _completion(*row)

    def submit(self, request: CompletionRequest, completion: Completion) -> Future[Completion]:
        """Store an answer together with others that come at about the same time.

        The future is done once the answer is on the disk. Its result is the stored answer. If another process was
        faster, that is its answer, so that all that share a store use the same.
        """
        future: Future[Completion] = Future()
        if self._closed:
            raise ValueError("the response store is closed")
        future.set_running_or_notify_cancel()  # an asker who leaves does not take the answer back
        self._jobs.append((request, completion, future))
        self._writer.submit(self._write_waiting)
        return future

    @contextmanager
    def going_on(self, *options: str) -> Iterator[None]:
        """Turn Ctrl-C into :class:`Interrupted`, which says where the answers are; ``options`` are to resume with."""
        try:
            yield
        except KeyboardInterrupt:
            raise Interrupted(f"stopped; {len(self):,} answers are in {self.path}", *options) from None

    def __len__(self) -> int:
        with self._file.refusing():
            return int(self._reader.execute("SELECT count(*) FROM responses").fetchone()[0])

    def close(self) -> None:
        """Write what is still waiting, and close the file."""
        self._closed = True
        self._writer.shutdown()
        self._writer_connection.close()
        self._reader.close()

    def __enter__(self) -> ResponseStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connected(self) -> sqlite3.Connection:
        connection = self._file.connect()
        try:
            _write_ahead(connection)
            connection.execute("PRAGMA synchronous = FULL")  # a commit survives a power cut, too
        except BaseException:
            connection.close()
            raise
        return connection

    def _write_waiting(self) -> None:
        """Write all answers that wait; what comes meanwhile goes into the next transaction together."""
        jobs: list[_Job] = []
        while self._jobs:
            jobs.append(self._jobs.popleft())
        try:
            with self._file.refusing():
                stored = self._write(jobs)
        except BaseException as error:  # whatever it is belongs to those who wait
            for _, _, future in jobs:
                future.set_exception(error)
        else:
            for (_, _, future), completion in zip(jobs, stored, strict=True):
                future.set_result(completion)

    def _write(self, jobs: list[_Job]) -> list[Completion]:
        """The completions that are stored for the answers, after one transaction."""
        if not jobs:
            return []
        rows = [_row(request, completion) for request, completion, _ in jobs]
        connection = self._writer_connection
        with transaction(connection):
            connection.executemany(f"INSERT OR IGNORE INTO responses VALUES ({', '.join('?' * 12)})", rows)
            stored = [connection.execute(_ANSWER, (request.key,)).fetchone() for request, _, _ in jobs]
        return [_completion(*row) for row in stored]


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Have readers not wait for a writer. SQLite refuses this at once while another process does the same."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if code_of(error) != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(0.01)


def default_store(output: str | Path) -> Path:
    """The default file of the answers, next to the output.

    >>> default_store("sure/law").as_posix()
    'sure/law.answers.sqlite'
    """
    return Path(output).with_name(f"{Path(output).name}.answers.sqlite")


def _row(request: CompletionRequest, completion: Completion) -> tuple[Any, ...]:
    """In the order of the table's columns."""
    return (
        request.key,
        request.identity,
        json.dumps(request.sampling.to_json(), sort_keys=True),
        request.system,
        request.prompt,
        request.attempt,
        completion.text,
        completion.prompt_tokens,
        completion.completion_tokens,
        completion.finish,
        completion.estimated,
        time.time(),
    )


def _completion(text: str, prompt_tokens: int, completion_tokens: int, finish: str, estimated: int) -> Completion:
    types = [type(value) for value in (text, prompt_tokens, completion_tokens, finish, estimated)]
    if types != [str, int, int, str, int]:
        raise sqlite3.DatabaseError("an answer is damaged")
    return Completion(text, prompt_tokens, completion_tokens, finish, bool(estimated))
