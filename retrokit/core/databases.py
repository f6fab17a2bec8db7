"""SQLite's errors where a file is damaged."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def database_errors() -> Iterator[None]:
    """Raise ``sqlite3.DatabaseError`` for an error whose message quotes bytes of a damaged file that are not UTF-8,
    which Python cannot decode."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise sqlite3.DatabaseError("database disk image is malformed") from error
