"""One SQLite file that several processes share: opening, versions, transactions, checksums and damage.

SQLite lets one process write at a time, and rolls back what a kill has left half written. A file of another program or
of a later version is neither read nor written.
"""

import os
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from retrokit.core.errors import DataError
from retrokit.core.notices import notice

PATIENCE = 60.0  # seconds that a process waits for another one that writes
KEYS_AT_ONCE = 900  # in one query
_MAPPED = f"PRAGMA mmap_size = {1 << 40}"  # as much as SQLite allows: pages are not copied

Result = TypeVar("Result")


@dataclass(frozen=True)
class Database:
    """A file of tables.

    Attributes:
        kind: what messages call it.
        tables: the statements that create the tables, where they are missing.
        version: that of the tables.
        application: the number that marks the SQLite files of one program; 0: none.
        settings: statements for a new file, before its tables are created.
    """

    path: Path
    kind: str
    tables: str
    version: int
    application: int = 0
    settings: str = ""

    def connect(self, mode: str = "rwc") -> sqlite3.Connection:
        """A connection for any thread; by default the tables are created where there are none. Raises
        ``sqlite3.NotSupportedError`` for a file of another program or of a later version."""
        uri = f"{self.path.absolute().as_uri()}?mode={mode}"
        connection = sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            # in this order: a process that creates tables meanwhile sets the other two with them
            has_tables = connection.execute("SELECT 1 FROM sqlite_master").fetchone() is not None
            ((application,),) = connection.execute("PRAGMA application_id")
            ((version,),) = connection.execute("PRAGMA user_version")
            if has_tables and application != self.application:
                raise sqlite3.NotSupportedError(f"is a SQLite file, but no {self.kind}")
            if version > self.version:
                problem = f"the file is of a later retrokit (version {version}, not {self.version})"
                raise sqlite3.NotSupportedError(problem)
            if mode == "rwc" and not has_tables:
                marks = f"PRAGMA application_id = {self.application}; PRAGMA user_version = {self.version};"
                connection.executescript(f"{self.settings} BEGIN IMMEDIATE; {marks} {self.tables}; COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def writing(self, settings: str = "") -> Iterator[sqlite3.Connection]:
        """A connection of the only writer; all of its statements count, or none."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with database_errors(), closing(self.connect()) as connection:
            connection.executescript(settings)
            with transaction(connection):
                yield connection

    def write(self, action: Callable[[sqlite3.Connection], object]) -> None:
        """Run ``action`` as the only writer, completely or not at all; where the file is damaged, on a new one."""
        try:
            with self.writing() as connection:
                action(connection)
                return
        except sqlite3.DatabaseError as error:
            if not self.is_damage(error):
                raise
            self.remove_damaged(error)
        with self.writing() as connection:
            action(connection)

    def read(self, action: Callable[[sqlite3.Connection], Result]) -> Result | None:
        """What ``action`` returns; ``None`` if there is nothing that can be read. A damaged file is removed."""
        if not self.path.exists():
            return None
        try:
            with database_errors(), closing(self.connect("rw")) as connection:
                connection.execute(_MAPPED)
                return action(connection)
        except sqlite3.OperationalError:  # no tables yet, or a file that may not be read
            return None
        except sqlite3.NotSupportedError:
            raise
        except sqlite3.DatabaseError as error:
            self.remove_damaged(error)
            return None

    def is_damage(self, error: sqlite3.DatabaseError) -> bool:
        """Whether the file is damaged; else it is in use, out of reach or of a later version, or the disk is full."""
        if isinstance(error, sqlite3.OperationalError):
            # a header can say that the file is in an unknown format, or only to be read
            is_format = code_of(error) in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_READONLY)
            return is_format and os.access(self.path, os.W_OK)
        return not isinstance(error, sqlite3.NotSupportedError)

    def remove_damaged(self, error: sqlite3.DatabaseError) -> None:
        notice(f"{self.path}: {self.kind} is damaged ({error}); a new one is created")
        with suppress(OSError):
            self.remove()

    def remove(self) -> int:
        """Remove the file; returns its bytes."""
        size = self.path.stat().st_size
        for ending in ("", "-journal", "-wal", "-shm"):
            Path(f"{self.path}{ending}").unlink(missing_ok=True)
        return size

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Raise :class:`DataError` for a file that is damaged, or that cannot be read or written, and for values that
        it cannot contain."""
        try:
            with database_errors():
                yield
        except sqlite3.NotSupportedError as error:
            raise DataError(self.path, str(error)) from error
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            is_other = code_of(error) == sqlite3.SQLITE_NOTADB
            problem = (
                f"is not a {self.kind} (no SQLite file)" if is_other else f"the {self.kind} cannot be used: {error}"
            )
            raise DataError(self.path, problem) from error


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Wait to be the only writer; all that follows counts, or nothing after an error."""
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        yield


@contextmanager
def database_errors() -> Iterator[None]:
    """Raise ``sqlite3.DatabaseError`` for an error whose message quotes bytes of a damaged file that are not UTF-8,
    which Python cannot decode."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise sqlite3.DatabaseError("database disk image is malformed") from error


def read_many(
    connection: sqlite3.Connection, query: str, values: Sequence[Any], keys: Sequence[bytes], prefix: bytes = b""
) -> Iterator[tuple[int, bytes, bytes]]:
    """The number, key and content of all rows that ``query`` selects with these ``values`` and any of the ``keys``, and
    whose checksum fits. The query selects number, key, checksum and content, and ends with the column of the key."""
    for start in range(0, len(keys), KEYS_AT_ONCE):
        group = keys[start : start + KEYS_AT_ONCE]
        marks = ", ".join("?" * len(group))
        for number, key, stored_checksum, content in connection.execute(f"{query} IN ({marks})", (*values, *group)):
            if checksum(prefix, key, content) == stored_checksum:
                yield number, key, content


def checksum(*contents: bytes) -> int:
    """The CRC-32 of all contents in their order."""
    total = 0
    for content in contents:
        total = zlib.crc32(content, total)
    return total


def code_of(error: BaseException) -> int | None:
    """SQLite's code of an error; ``None`` if it is not of SQLite."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return code
