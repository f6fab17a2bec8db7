"""Arrays that survive an interruption: long work stores each shard in one SQLite file until the whole is done.

A shard's key is the digest of all that decides it, so a wrong one is never read. A shard whose checksum does not fit is
computed again, and all of them where the file is damaged.
"""

import hashlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import numpy as np

from retrokit.core.databases import Database, checksum, read_many
from retrokit.core.errors import disk_errors

FILE = "scores.sqlite"
_TABLE = (
    "CREATE TABLE IF NOT EXISTS shards (key BLOB NOT NULL UNIQUE, checksum INTEGER NOT NULL, content BLOB NOT NULL)"
)
_SHARD = "SELECT rowid, key, checksum, content FROM shards WHERE typeof(content) = 'blob' AND key"


class Shards:
    """Float32 arrays in ``folder``, both created when they are first requested. Without a folder nothing is stored."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._database = Database((folder or Path()) / FILE, "score store", _TABLE, version=1)

    @property
    def goes_on(self) -> bool:
        """Whether an earlier run has left something."""
        return self.folder is not None and self._database.path.exists()

    def array(self, about: Iterable[str], make: Callable[[], np.ndarray]) -> np.ndarray:
        """The float32 array ``[n]`` that ``about`` decides: the stored one, else the result of ``make``.

        Raises:
            DataError: the file cannot be written, or is of another program.
        """
        if self.folder is None:
            return make()
        key = _key(about)
        with self._database.refusing():
            rows = self._database.read(lambda connection: list(read_many(connection, _SHARD, (), [key])))
        for _, _, content in rows or ():
            return np.frombuffer(content, dtype="<f4").copy()
        array = make()
        content = array.astype("<f4").tobytes()
        row = (key, checksum(key, content), content)
        with self._database.refusing(), disk_errors(self.folder):
            self._database.write(lambda connection: connection.execute("REPLACE INTO shards VALUES (?, ?, ?)", row))
        return array

    def remove(self) -> None:
        """Remove the stored arrays. Anything else in the folder stays, and the folder with it."""
        if self.folder is None:
            return
        with suppress(FileNotFoundError):
            self._database.remove()
        with suppress(OSError):
            self.folder.rmdir()


def _key(about: Iterable[str]) -> bytes:
    digest = hashlib.sha256()
    for text in about:
        content = text.encode()
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.digest()
