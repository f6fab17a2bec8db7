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

from retrokit.core.databases import database_errors
from retrokit.core.errors import DataError, Interrupted, disk_errors
from retrokit.llm.base import Completion, CompletionRequest

_APPLICATION = 0x72746B4C
_VERSION = 1
_PATIENCE = 60.0
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
        with self._errors():
            self._reader, self._database = self._opened(), self._opened()  # what is not committed is not read
        self._jobs: deque[_Job] = deque()
        self._closed = False
        self._writer = ThreadPoolExecutor(1, f"store {self.path.name}")

    def get(self, key: bytes) -> Completion | None:
        """The answer stored under ``key``, by whichever process; ``None`` if there is none."""
        with self._errors():
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
        with self._errors():
            return int(self._reader.execute("SELECT count(*) FROM responses").fetchone()[0])

    def close(self) -> None:
        """Write what is still waiting, and close the file."""
        self._closed = True
        self._writer.shutdown()
        self._database.close()
        self._reader.close()

    def __enter__(self) -> ResponseStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _opened(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            # in this order: where another process makes the table meanwhile, it sets the other two with it
            tables, application, version = (
                connection.execute(query).fetchone()[0]
                for query in ("SELECT count(*) FROM sqlite_master", "PRAGMA application_id", "PRAGMA user_version")
            )
            if tables and application != _APPLICATION:
                raise DataError(self.path, "is a SQLite file, but no response store")
            if version > _VERSION:
                raise DataError(
                    self.path, f"is a response store of a later retrokit (version {version}, not {_VERSION})"
                )
            end = time.monotonic() + _PATIENCE
            while True:  # SQLite refuses this at once while another process does the same
                try:
                    connection.execute("PRAGMA journal_mode = WAL")
                    break
                except sqlite3.OperationalError as error:
                    if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                        raise
                    time.sleep(0.01)
            connection.execute("PRAGMA synchronous = FULL")  # a commit survives a power cut, too
            if not tables:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {_VERSION}")
                connection.execute(_TABLE)
                connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            with database_errors():
                yield
        except sqlite3.Error as error:
            raise self._damage(error) from error

    def _damage(self, error: BaseException) -> DataError:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
            return DataError(self.path, "is not a response store (no SQLite file)")
        return DataError(self.path, f"the response store cannot be used: {error}")

    def _write_waiting(self) -> None:
        """Write all answers that wait; what comes meanwhile goes into the next transaction together."""
        jobs: list[_Job] = []
        while self._jobs:
            jobs.append(self._jobs.popleft())
        try:
            with database_errors():
                stored = self._write(jobs)
        except BaseException as error:  # whatever it is belongs to those who wait
            for _, _, future in jobs:
                future.set_exception(self._damage(error))
        else:
            for (_, _, future), completion in zip(jobs, stored, strict=True):
                future.set_result(completion)

    def _write(self, jobs: list[_Job]) -> list[Completion]:
        """The completions that are stored for the answers, after one transaction."""
        if not jobs:
            return []
        rows = [
            (
                *(request.key, request.identity, json.dumps(request.sampling.to_json(), sort_keys=True)),
                *(request.system, request.prompt, request.attempt),
                *(completion.text, completion.prompt_tokens, completion.completion_tokens),
                *(completion.finish, completion.estimated, time.time()),
            )
            for request, completion, _ in jobs
        ]
        with self._database:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.executemany(f"INSERT OR IGNORE INTO responses VALUES ({', '.join('?' * 12)})", rows)
            stored = [self._database.execute(_ANSWER, (request.key,)).fetchone() for request, _, _ in jobs]
        return [_completion(*row) for row in stored]


def default_store(output: str | Path) -> Path:
    """The default file of the answers, next to the output.

    >>> default_store("sure/law").as_posix()
    'sure/law.answers.sqlite'
    """
    return Path(output).with_name(f"{Path(output).name}.answers.sqlite")


def _completion(text: str, prompt_tokens: int, completion_tokens: int, finish: str, estimated: int) -> Completion:
    types = [type(value) for value in (text, prompt_tokens, completion_tokens, finish, estimated)]
    if types != [str, int, int, str, int]:
        raise sqlite3.DatabaseError("an answer is damaged")
    return Completion(text, prompt_tokens, completion_tokens, finish, bool(estimated))
