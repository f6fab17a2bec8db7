"""The embedding cache: one SQLite file, with the embeddings of any encoders in it, pooled and of tokens.

An embedding's key is a digest of its encoder's identity (:meth:`~retrokit.encoders.base.Encoder.identity`) and one of
its role and item; never a name or a path. Each embedding has a checksum of itself and of its key. A damaged one counts
as missing and is encoded again. A file that is damaged as a whole is recreated (:mod:`retrokit.core.databases`). A file
of a later version is reported, and neither read nor written.

Embeddings lie in blocks, an encoder's own; the least recently used block is evicted first. What a process has used or
added is not evicted to make room for more of its own. So of a corpus above the limit, the part that fits is cached.
"""

import json
import os
import re
import sqlite3
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from retrokit.core.databases import Database, Result, checksum, code_of, read_many
from retrokit.core.errors import DataError, UsageError, disk_errors
from retrokit.core.notices import notice
from retrokit.data.jsonl import restored

PLACE = "RETROKIT_CACHE"
DEFAULT_LIMIT = "20GB"
_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
LIMIT = "RETROKIT_CACHE_LIMIT"
VERSION = 2
FILE = f"embeddings-{VERSION}.sqlite"
BLOCK_ROWS = 1 << 10
BLOCK_BYTES = 64_000_000
BLOCKS_IN_LIMIT = 8  # at least so many, so that a small cache forgets in small steps
OVERHEAD = 64  # bytes beside an embedding: keys, checksum, and what SQLite adds
FRESH = 60.0  # seconds; a use is written down if the last one is longer ago

_SETTINGS = "PRAGMA page_size = 16384; PRAGMA auto_vacuum = FULL;"
_TABLES = """
CREATE TABLE IF NOT EXISTS encoders (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, about TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS blocks (
    id INTEGER PRIMARY KEY AUTOINCREMENT, encoder INTEGER NOT NULL,
    rows INTEGER NOT NULL, size INTEGER NOT NULL, used REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS blocks_of ON blocks (encoder, size);
CREATE TABLE IF NOT EXISTS embeddings (
    id INTEGER PRIMARY KEY, encoder INTEGER NOT NULL, item BLOB NOT NULL,
    checksum INTEGER NOT NULL, content BLOB NOT NULL, UNIQUE (encoder, item)
);
CREATE TABLE IF NOT EXISTS facts (
    key TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, checksum INTEGER NOT NULL, content TEXT NOT NULL
)
"""


@dataclass(frozen=True, kw_only=True)
class Held:
    """What the cache contains of one encoder: the spec under which it was last seen, the ``kind`` of its embeddings
    (``pooled``, ``tokens``), ``rows`` of them, ``size`` in bytes, and the time of last use in seconds since 1970. A
    damaged description is unknown."""

    spec: str = "unknown"
    kind: str = "unknown"
    fingerprint: str = "unknown"
    precision: str = "unknown"
    device: str = "unknown"
    dimension: int = 0
    rows: int
    size: int
    last_used: float


class EmbeddingCache:
    """Embeddings of any encoders in ``folder``, ``limit`` bytes at most. May be used after a fork, and by threads: it
    opens its file for each piece of work."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self.database = Database(folder / FILE, "embedding cache", _TABLES, VERSION, settings=_SETTINGS)
        self._block_bytes = min(BLOCK_BYTES, limit // BLOCKS_IN_LIMIT)
        self._in_use: set[int] = set()  # blocks that this process has read or written
        self._is_writable = True
        self._is_full = False

    # --- embeddings

    def read(self, encoder: bytes, about: Mapping[str, Any], keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The embeddings that are present and intact, by key; of a few thousand keys at most. ``about`` is what
        :class:`Held` reports of the encoder, which may have another spec than before."""
        now = time.time()

        def look(connection: sqlite3.Connection) -> tuple[dict[bytes, bytes], set[int], bool]:
            contents = {}
            blocks = set()
            for number, key, content in read_many(connection, _CONTENTS, (encoder,), keys, prefix=encoder):
                contents[key] = content
                blocks.add(number // BLOCK_ROWS)
            stale = "SELECT 1 FROM blocks WHERE id = ? AND used < ?"
            is_stale = any(connection.execute(stale, (block, now - FRESH)).fetchone() for block in blocks)
            described = connection.execute("SELECT about FROM encoders WHERE key = ?", (encoder,)).fetchone()
            return contents, blocks, is_stale or described != (json.dumps(about),)

        looked = self._look(look)
        if looked is None:
            return {}
        contents, blocks, is_news = looked
        self._in_use |= blocks
        if blocks and is_news:
            with suppress(OSError, sqlite3.Error), self.database.writing() as connection:  # it may be only read
                connection.executemany("UPDATE blocks SET used = ? WHERE id = ?", [(now, block) for block in blocks])
                connection.execute(_SEEN, (encoder, json.dumps(about)))
        return contents

    def add(self, encoder: bytes, about: Mapping[str, Any], rows: Sequence[tuple[bytes, bytes]]) -> None:
        """Keep embeddings, each with its key before it."""

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(_SEEN, (encoder, json.dumps(about)))
            ((number,),) = connection.execute(_ENCODER, (encoder,))
            start = 0
            while start < len(rows):
                start += self._add_to_block(connection, number, encoder, rows[start:])

        self.write(write)

    def _add_to_block(
        self, connection: sqlite3.Connection, number: int, encoder: bytes, rows: Sequence[tuple[bytes, bytes]]
    ) -> int:
        """Put rows into the encoder's last block, or a new one. How many were dealt with: all, if there is no room."""
        block = self._open_block(connection, number)
        self._in_use.add(block.number)
        sizes = [len(content) + OVERHEAD for _, content in rows]
        room = self.limit - _evict(connection, self.limit - sum(sizes), self._in_use)
        count = 0
        block_size = block.size
        for size in sizes[: block.last_row + 1 - block.next_row]:
            if size > room or (count and block_size >= self._block_bytes):
                break
            block_size += size
            room -= size
            count += 1
        connection.executemany(
            "INSERT INTO embeddings VALUES (?, ?, ?, ?, ?) ON CONFLICT (encoder, item) "
            "DO UPDATE SET checksum = excluded.checksum, content = excluded.content",
            [
                (row, number, item, checksum(encoder, item, content), content)
                for row, (item, content) in enumerate(rows[:count], start=block.next_row)
            ],
        )
        connection.execute(
            "UPDATE blocks SET used = ?, (rows, size) = (SELECT count(*), coalesce(sum(length(content) + ?), 0) "
            "FROM embeddings WHERE embeddings.id BETWEEN ? AND ?) WHERE id = ?",
            (time.time(), OVERHEAD, *_range(block.number), block.number),
        )
        if count == len(rows) or sizes[count] <= room:
            return count
        if not self._is_full:
            self._is_full = True
            notice(f"{self.folder}: the embeddings exceed the limit; the rest is not cached ({LIMIT} sets it)")
        return len(rows)

    def _open_block(self, connection: sqlite3.Connection, encoder: int) -> "_Block":
        """The last block of an encoder, or a new one if that is full."""
        query = "SELECT id, size FROM blocks WHERE encoder = ? ORDER BY id DESC LIMIT 1"
        last = connection.execute(query, (encoder,)).fetchone()
        if last is not None:
            number, size = last
            highest = "SELECT max(id) FROM embeddings WHERE id BETWEEN ? AND ?"
            ((row,),) = connection.execute(highest, _range(number))
            block = _Block(number, size, _range(number)[0] if row is None else row + 1)
            if block.next_row <= block.last_row and size < self._block_bytes:
                return block
        insert = "INSERT INTO blocks (encoder, rows, size, used) VALUES (?, 0, 0, ?)"
        new = int(connection.execute(insert, (encoder, time.time())).lastrowid or 0)
        return _Block(new, 0, _range(new)[0])

    # --- facts

    def remember(self, key: str, fact: Any, fingerprint: str = "") -> None:
        """Keep ``fact`` (of JSON); one about an encoder for as long as embeddings of that ``fingerprint`` are here."""
        content = json.dumps(fact, sort_keys=True)
        row = (key, fingerprint, checksum(key.encode(), content.encode()), content)
        self.write(lambda connection: connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?, ?, ?)", row))

    def recall(self, key: str) -> Any:
        """The fact that :meth:`remember` stored; ``None`` if it is missing or damaged."""
        query = "SELECT checksum, content FROM facts WHERE key = ? AND typeof(content) = 'text'"
        row = self._look(lambda connection: connection.execute(query, (key,)).fetchone())
        if row is None or checksum(key.encode(), row[1].encode()) != row[0]:
            return None
        return json.loads(row[1])

    # --- all of it

    def held(self) -> list[Held]:
        """The contents of the cache, by encoder and kind; the last used first."""
        grouped = (
            "SELECT about, sum(rows), sum(size), max(used) FROM blocks JOIN encoders ON encoders.id = encoder "
            "WHERE rows > 0 GROUP BY encoder ORDER BY max(used) DESC"
        )
        held = []
        rows = self._look(lambda connection: connection.execute(grouped).fetchall())
        for about, count, size, used in rows or ():
            counts = {"rows": count, "size": size, "last_used": used}
            try:
                held.append(restored(Held, {**json.loads(about), **counts}))
            except (ValueError, TypeError):
                held.append(Held(**counts))
        return held

    def shrink(self, limit: int) -> int:
        """Remove the least recently used until at most ``limit`` bytes are left; 0 removes all. Returns the bytes
        removed; raises :class:`DataError` if they cannot be."""
        path = self.database.path
        if not path.exists():
            return 0
        try:
            with disk_errors(self.folder):
                return self._evict_to(limit)
        except sqlite3.DatabaseError as error:
            is_damaged = self.database.is_damage(error)
            if code_of(error) in _IN_USE or (limit > 0 and not is_damaged):
                raise DataError(path, f"could not be written: {error}") from error
            notice(f"{path}: {error}; removed")
            with disk_errors(path):
                return self.database.remove()

    def _evict_to(self, limit: int) -> int:
        """Evict down to ``limit`` bytes; returns the bytes removed. On a full disk, a block at a time: SQLite then has
        no room for the former content of a block but memory."""
        try:
            with self.database.writing() as connection:
                return _shrink(connection, limit)
        except sqlite3.OperationalError as error:
            if code_of(error) not in _NO_ROOM or limit == 0:
                raise
        removed = 0
        while True:
            with self.database.writing("PRAGMA journal_mode = MEMORY") as connection:
                step = _shrink(connection, max(limit, _size(connection) - 1))
            removed += step
            if step == 0:
                return removed

    def write(self, action: Callable[[sqlite3.Connection], Any]) -> None:
        """Run ``action`` as the only writer, completely or not at all. A cache that cannot be written must not end the
        work that it is to speed up. The failure is reported once, and nothing is written from then on."""
        if not self._is_writable:
            return
        try:
            self.database.write(action)
        except (OSError, sqlite3.DatabaseError) as error:
            self._give_up(error)

    def _give_up(self, error: OSError | sqlite3.DatabaseError) -> None:
        if self._is_writable:
            self._is_writable = False
            reason = (error.strerror if isinstance(error, OSError) else None) or error
            line = f"{self.folder}: cannot write the embedding cache ({reason}); continuing without it"
            if isinstance(error, sqlite3.NotSupportedError):  # or a byte of its header is damaged
                line += "; `retrokit cache --clear` removes the file"
            notice(line)

    def _look(self, action: Callable[[sqlite3.Connection], Result]) -> Result | None:
        """What ``action`` reads, if there is anything that can be read."""
        try:
            return self.database.read(action)
        except sqlite3.NotSupportedError as error:
            self._give_up(error)
            return None


class _Block(NamedTuple):
    """A block that has room: its number, size in bytes, and the number of the next embedding."""

    number: int
    size: int
    next_row: int

    @property
    def last_row(self) -> int:
        return _range(self.number)[1]


_IN_USE = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)  # the latter: a quota


def _shrink(connection: sqlite3.Connection, limit: int) -> int:
    """Evict blocks down to ``limit`` bytes, and what belongs to no block; returns the bytes removed."""
    removed = _size(connection) - _evict(connection, limit)
    connection.execute("DELETE FROM encoders WHERE id NOT IN (SELECT encoder FROM blocks)")
    fingerprints = "SELECT json_extract(about, '$.fingerprint') FROM encoders WHERE json_valid(about)"
    connection.execute(f"DELETE FROM facts WHERE fingerprint <> '' AND fingerprint NOT IN ({fingerprints})")
    return removed


_SEEN = "INSERT INTO encoders (key, about) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET about = excluded.about"
_ENCODER = "SELECT id FROM encoders WHERE key = ?"
_CONTENTS = (
    "SELECT id, item, checksum, content FROM embeddings "
    f"WHERE typeof(content) = 'blob' AND encoder = ({_ENCODER}) AND item"
)


def _range(block: int) -> tuple[int, int]:
    """The first and the last number of a block's embeddings."""
    return block * BLOCK_ROWS, (block + 1) * BLOCK_ROWS - 1


def _size(connection: sqlite3.Connection) -> int:
    ((size,),) = connection.execute("SELECT coalesce(sum(size), 0) FROM blocks")
    return int(size)


def _evict(connection: sqlite3.Connection, limit: int, but: Collection[int] = ()) -> int:
    """Remove blocks, least recently used first, none of ``but``, down to ``limit`` bytes; returns the bytes left."""
    remaining = _size(connection)
    if remaining <= limit:
        return remaining
    for block, size in connection.execute("SELECT id, size FROM blocks ORDER BY used, id").fetchall():
        if remaining <= limit:
            break
        if block not in but:
            connection.execute("DELETE FROM embeddings WHERE id BETWEEN ? AND ?", _range(block))
            connection.execute("DELETE FROM blocks WHERE id = ?", (block,))
            remaining -= size
    return remaining


# --- where it lies, and how large it may get


def read_size(text: str, name: str) -> int:
    """Bytes of ``500MB``, ``20GB``, or a plain number, which the variable or option ``name`` has."""
    match = re.fullmatch(r"(\d{1,15}(?:\.\d+)?) ?([KMGT]B)?", text.strip().upper())
    if match is None:
        raise UsageError(f"{name}: {text!r} is not a size; expected for example 500MB or 20GB")
    return int(float(match[1]) * _UNITS[match[2] or ""])


def cache_folder() -> Path | None:
    """Where the cache lies: ``RETROKIT_CACHE``, else ``retrokit/embeddings`` in the user's cache folder (XDG); ``None``
    if it is turned off. Raises :class:`UsageError` if the variable names a file."""
    named = os.environ.get(PLACE, "")
    if named.lower() == "off":
        return None
    if named:
        folder = Path(named).expanduser()
        if any(os.path.isfile(path) for path in (folder, *folder.parents)):
            raise UsageError(f"{PLACE}={named}: is a file; name a folder, or off")
        return folder
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "retrokit" / "embeddings"


def open_cache(folder: str | Path | None = None) -> EmbeddingCache | None:
    """The cache in ``folder``; by default the user's, ``None`` if that is turned off. Nothing is written before there
    is something to keep."""
    if folder is None:
        folder = cache_folder()
    return None if folder is None else cache_in(folder)


def cache_in(folder: str | Path) -> EmbeddingCache:
    """The cache in ``folder``; of one folder and limit always the same object."""
    return _opened(Path(folder).expanduser(), read_size(os.environ.get(LIMIT) or DEFAULT_LIMIT, LIMIT))


_opened = cache(EmbeddingCache)
