"""The embedding cache: one SQLite file, with the embeddings of any encoders in it, pooled and of tokens.

An embedding's key is a digest of its encoder's identity (:meth:`~retrokit.encoders.base.Encoder.identity`) and one of
its role and item; never a name or a path. SQLite lets one process write at a time, and rolls back what a kill has left
half written. Each embedding has a checksum of itself and of its key. A damaged one counts as missing and is encoded
again. A file that is damaged as a whole is recreated. A file of a later version is reported, and neither read nor
written.

Embeddings lie in blocks, an encoder's own; the least recently used block is evicted first. What a process has used or
added is not evicted to make room for more of its own. So of a corpus above the limit, the part that fits is cached.
"""

import json
import os
import re
import sqlite3
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from retrokit.core.databases import database_errors
from retrokit.core.errors import DataError, UsageError, disk_errors
from retrokit.core.notices import notice
from retrokit.data.jsonl import restored

PLACE = "RETROKIT_CACHE"
DEFAULT_LIMIT = "20GB"
_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
LIMIT = "RETROKIT_CACHE_LIMIT"
VERSION = 2
FILE = f"embeddings-{VERSION}.sqlite"
PATIENCE = 60.0  # seconds that a writer waits for another one
BLOCK_ROWS = 1 << 10
BLOCK_BYTES = 64_000_000
BLOCKS_IN_LIMIT = 8  # at least so many, so that a small cache forgets in small steps
OVERHEAD = 64  # bytes beside an embedding: keys, checksum, and what SQLite adds
AT_ONCE = 900  # embeddings in one query
FRESH = 60.0  # seconds; a use is written down if the last one is longer ago

_SCHEMA = """
PRAGMA page_size = 16384;
PRAGMA auto_vacuum = FULL;
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
);
"""


@dataclass(frozen=True)
class Held:
    """What the cache contains of one encoder: the spec under which it was last seen, the ``kind`` of its embeddings
    (``pooled``, ``tokens``), ``rows`` of them, ``size`` in bytes, and the time of last use in seconds since 1970."""

    spec: str
    kind: str
    fingerprint: str
    precision: str
    device: str
    dimension: int
    rows: int
    size: int
    last_used: float


class EmbeddingCache:
    """Embeddings of any encoders in ``folder``, ``limit`` bytes at most. May be used after a fork, and by threads: it
    opens its file for each piece of work."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self._file = folder / FILE
        self._block_bytes = min(BLOCK_BYTES, limit // BLOCKS_IN_LIMIT)
        self._in_use: set[int] = set()  # blocks that this process has read or written
        self._is_writable = True
        self._is_full = False

    # --- embeddings

    def read(self, encoder: bytes, about: Mapping[str, Any], keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The embeddings that are present and intact, by key; of a few thousand keys at most. ``about`` is what
        :class:`Held` reports of the encoder, which may have another spec than before."""
        contents: dict[bytes, bytes] = {}
        used: set[int] = set()
        stale: list[Any] = []
        seen: list[tuple[str]] = []
        now = time.time()

        def look(database: sqlite3.Connection) -> None:
            for start in range(0, len(keys), AT_ONCE):
                part = keys[start : start + AT_ONCE]
                wanted = "SELECT id, item, checksum, content FROM embeddings WHERE typeof(content) = 'blob'"
                where = f"encoder = ({_ENCODER}) AND item IN ({', '.join('?' * len(part))})"
                for number, item, checksum, content in database.execute(f"{wanted} AND {where}", (encoder, *part)):
                    if _checksum(encoder, item, content) == checksum:
                        contents[item] = content
                        used.add(number // BLOCK_ROWS)
            for block in used:
                stale.extend(database.execute("SELECT 1 FROM blocks WHERE id = ? AND used < ?", (block, now - FRESH)))
            seen.extend(database.execute("SELECT about FROM encoders WHERE key = ?", (encoder,)))

        self._look(look)
        self._in_use |= used
        if used and (stale or seen != [(json.dumps(about),)]):
            with suppress(OSError, sqlite3.Error), self._writing() as database:  # it may be read and not written
                database.executemany("UPDATE blocks SET used = ? WHERE id = ?", [(now, number) for number in used])
                database.execute(_SEEN, (encoder, json.dumps(about)))
        return contents

    def add(self, encoder: bytes, about: Mapping[str, Any], rows: Sequence[tuple[bytes, bytes]]) -> None:
        """Keep embeddings, each with its key before it."""

        def write(database: sqlite3.Connection) -> None:
            database.execute(_SEEN, (encoder, json.dumps(about)))
            ((number,),) = database.execute(_ENCODER, (encoder,))
            left = list(rows)
            while left:
                left = left[self._add(database, number, encoder, left) :]

        self.write(write)

    def _add(
        self, database: sqlite3.Connection, number: int, encoder: bytes, rows: Sequence[tuple[bytes, bytes]]
    ) -> int:
        """Put rows into the encoder's last block, or a new one. How many were dealt with: all, if there is no room."""
        last = "SELECT id, size FROM blocks WHERE encoder = ? ORDER BY id DESC LIMIT 1"
        block, size = database.execute(last, (number,)).fetchone() or (0, 0)
        ((place,),) = database.execute("SELECT max(id) + 1 FROM embeddings WHERE id BETWEEN ? AND ?", _range(block))
        place = place or block * BLOCK_ROWS
        if not block or place == (block + 1) * BLOCK_ROWS or size >= self._block_bytes:
            insert = "INSERT INTO blocks (encoder, rows, size, used) VALUES (?, 0, 0, ?)"
            block, size = int(database.execute(insert, (number, time.time())).lastrowid or 0), 0
            place = block * BLOCK_ROWS
        self._in_use.add(block)
        sizes = [len(content) + OVERHEAD for _, content in rows]
        room = self.limit - _evict(database, self.limit - sum(sizes), self._in_use)
        taken = 0
        while taken < len(rows) and place + taken < (block + 1) * BLOCK_ROWS and sizes[taken] <= room:
            if taken and size >= self._block_bytes:
                break
            size, room, taken = size + sizes[taken], room - sizes[taken], taken + 1
        database.executemany(
            "INSERT INTO embeddings VALUES (?, ?, ?, ?, ?) ON CONFLICT (encoder, item) "
            "DO UPDATE SET checksum = excluded.checksum, content = excluded.content",
            [
                (place + i, number, item, _checksum(encoder, item, content), content)
                for i, (item, content) in enumerate(rows[:taken])
            ],
        )
        database.execute(
            "UPDATE blocks SET used = ?, (rows, size) = (SELECT count(*), coalesce(sum(length(content) + ?), 0) "
            "FROM embeddings WHERE embeddings.id BETWEEN ? AND ?) WHERE id = ?",
            (time.time(), OVERHEAD, *_range(block), block),
        )
        if taken < len(rows) and sizes[taken] > room:
            if not self._is_full:
                self._is_full = True
                effect = f"the rest is not cached ({LIMIT} sets it)"
                notice(f"{self.folder}: the embeddings exceed the limit; {effect}")
            return len(rows)
        return taken

    # --- facts

    def remember(self, key: str, fact: Any, fingerprint: str = "") -> None:
        """Keep ``fact`` (of JSON); one about an encoder for as long as embeddings of that ``fingerprint`` are here."""
        self.write(lambda database: _write_fact(database, key, fact, fingerprint))

    def recall(self, key: str) -> Any:
        """The fact that :meth:`remember` stored; ``None`` if it is missing or damaged."""
        facts: list[Any] = []
        self._look(lambda database: facts.append(_read_fact(database, key)))
        return facts[0] if facts else None

    # --- all of it

    def held(self) -> list[Held]:
        """The contents of the cache, by encoder and kind; the last used first."""
        grouped = (
            "SELECT about, sum(rows), sum(size), max(used) FROM blocks JOIN encoders ON encoders.id = encoder "
            "WHERE rows > 0 GROUP BY encoder ORDER BY max(used) DESC"
        )
        rows: list[Any] = []
        self._look(lambda database: rows.extend(database.execute(grouped)))
        return [_held(about, {"rows": count, "size": size, "last_used": used}) for about, count, size, used in rows]

    def shrink(self, limit: int) -> int:
        """Remove the least recently used until at most ``limit`` bytes are left; 0 removes all. Returns the bytes
        removed; raises :class:`DataError` if they cannot be."""
        if not self._file.exists():
            return 0
        try:
            with disk_errors(self.folder):
                return self._evict_to(limit)
        except sqlite3.DatabaseError as error:
            is_damaged = self._is_damage(error)
            if _code(error) in _IN_USE or (limit > 0 and not is_damaged):
                raise DataError(self._file, f"could not be written: {error}") from error
            notice(f"{self._file}: cache corrupt ({error}); recreating" if is_damaged else f"{error}; file removed")
            with disk_errors(self._file):
                return self._remove()

    def _evict_to(self, limit: int) -> int:
        """Evict down to ``limit`` bytes; returns the bytes removed. On a full disk, a block at a time: SQLite then has
        no room for the former content of a block but memory."""
        try:
            with self._writing() as database:
                return _shrink(database, limit)
        except sqlite3.OperationalError as error:
            if _code(error) not in _NO_ROOM or limit == 0:
                raise
        removed = 0
        while True:
            with self._writing(in_memory=True) as database:
                step = _shrink(database, max(limit, _size(database) - 1))
            removed += step
            if step == 0:
                return removed

    def write(self, action: Callable[[sqlite3.Connection], Any]) -> None:
        """Run ``action`` as the only writer, completely or not at all. A cache that cannot be written must not end the
        work that it is to speed up. The failure is reported once, and nothing is written from then on."""
        if not self._is_writable:
            return
        try:
            try:
                self._run(action)
            except sqlite3.DatabaseError as error:
                if not self._is_damage(error):
                    raise
                self._recreate(error)
                self._run(action)
        except (OSError, sqlite3.DatabaseError) as error:
            self._give_up(error)

    def _run(self, action: Callable[[sqlite3.Connection], Any]) -> None:
        with self._writing() as database:
            action(database)

    def _give_up(self, error: OSError | sqlite3.DatabaseError) -> None:
        if self._is_writable:
            self._is_writable = False
            reason = (error.strerror if isinstance(error, OSError) else None) or error
            notice(f"{self.folder}: cannot write the embedding cache ({reason}); continuing without it")

    @contextmanager
    def _writing(self, in_memory: bool = False) -> Iterator[sqlite3.Connection]:
        self.folder.mkdir(parents=True, exist_ok=True)
        # closing takes back what was not committed
        with database_errors(), closing(self._open("rwc")) as database:
            if in_memory:
                database.execute("PRAGMA journal_mode = MEMORY")
            database.executescript(_SCHEMA)
            database.execute("BEGIN IMMEDIATE")
            if _version(database) < VERSION:
                database.execute(f"PRAGMA user_version = {VERSION}")
            yield database
            database.execute("COMMIT")

    def _look(self, action: Callable[[sqlite3.Connection], None]) -> None:
        """Read, if there is anything that can be read."""
        if not self._file.exists():
            return
        try:
            with database_errors(), closing(self._open("rw")) as database:
                database.execute(_MAPPED)
                action(database)
        except sqlite3.OperationalError:  # no embeddings yet, or a file that may not be read
            return
        except sqlite3.NotSupportedError as error:
            self._give_up(error)
        except sqlite3.DatabaseError as error:
            self._recreate(error)

    def _open(self, mode: str) -> sqlite3.Connection:
        """A connection; raises ``sqlite3.NotSupportedError`` for a file of a later version."""
        where = f"{self._file.absolute().as_uri()}?mode={mode}"
        database = sqlite3.connect(where, uri=True, timeout=PATIENCE, isolation_level=None)
        try:
            if (version := _version(database)) > VERSION:
                raise sqlite3.NotSupportedError(f"{FILE} is of a later retrokit (version {version}, not {VERSION})")
        except BaseException:
            database.close()
            raise
        return database

    def _is_damage(self, error: sqlite3.DatabaseError) -> bool:
        """Whether the file is damaged; else it is in use, out of reach or of a later version, or the disk is full."""
        if isinstance(error, sqlite3.OperationalError):
            # a header can say that the file is in an unknown format, or only to be read
            return _code(error) in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_READONLY) and os.access(self._file, os.W_OK)
        return not isinstance(error, sqlite3.NotSupportedError)

    def _recreate(self, error: sqlite3.DatabaseError) -> None:
        notice(f"{self._file}: cache corrupt ({error}); recreating")
        with suppress(OSError):
            self._remove()

    def _remove(self) -> int:
        """Remove the file; returns its bytes."""
        size = self._file.stat().st_size
        for ending in ("", "-journal", "-wal", "-shm"):
            self._file.with_name(f"{FILE}{ending}").unlink(missing_ok=True)
        return size


_IN_USE = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)  # the latter: a quota


def _code(error: sqlite3.DatabaseError) -> int | None:
    """SQLite's code of an error; ``None`` if it is not of SQLite."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return code


def _version(database: sqlite3.Connection) -> int:
    ((version,),) = database.execute("PRAGMA user_version")
    return int(version)


def _shrink(database: sqlite3.Connection, limit: int) -> int:
    """Evict blocks down to ``limit`` bytes, and what belongs to no block; returns the bytes removed."""
    removed = _size(database) - _evict(database, limit)
    database.execute("DELETE FROM encoders WHERE id NOT IN (SELECT encoder FROM blocks)")
    fingerprints = "SELECT json_extract(about, '$.fingerprint') FROM encoders WHERE json_valid(about)"
    database.execute(f"DELETE FROM facts WHERE fingerprint <> '' AND fingerprint NOT IN ({fingerprints})")
    return removed


_MAPPED = f"PRAGMA mmap_size = {1 << 40}"  # as much as SQLite allows: pages are not copied
_SEEN = "INSERT INTO encoders (key, about) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET about = excluded.about"
_ENCODER = "SELECT id FROM encoders WHERE key = ?"


def _range(block: int) -> tuple[int, int]:
    """The first and the last number of a block's embeddings."""
    return block * BLOCK_ROWS, (block + 1) * BLOCK_ROWS - 1


def _size(database: sqlite3.Connection) -> int:
    ((size,),) = database.execute("SELECT coalesce(sum(size), 0) FROM blocks")
    return int(size)


def _evict(database: sqlite3.Connection, limit: int, but: Collection[int] = ()) -> int:
    """Remove blocks, least recently used first, none of ``but``, down to ``limit`` bytes; returns the bytes left."""
    left = _size(database)
    if left <= limit:
        return left
    for block, size in database.execute("SELECT id, size FROM blocks ORDER BY used, id").fetchall():
        if left <= limit:
            break
        if block not in but:
            database.execute("DELETE FROM embeddings WHERE id BETWEEN ? AND ?", _range(block))
            database.execute("DELETE FROM blocks WHERE id = ?", (block,))
            left -= size
    return left


def _checksum(*parts: bytes) -> int:
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return checksum


def _held(about: str, counted: dict[str, Any]) -> Held:
    """What is known of an encoder; of one whose description is damaged, what is counted."""
    names = ("spec", "kind", "fingerprint", "precision", "device")
    unknown: dict[str, Any] = {**dict.fromkeys(names, "unknown"), "dimension": 0}
    try:
        held: Held = restored(Held, {**unknown, **json.loads(about), **counted})
    except (ValueError, TypeError):
        held = Held(**unknown, **counted)
    return held


def _read_fact(database: sqlite3.Connection, key: str) -> Any:
    row = database.execute(
        "SELECT checksum, content FROM facts WHERE key = ? AND typeof(content) = 'text'", (key,)
    ).fetchone()
    if row is None or _checksum(key.encode(), row[1].encode()) != row[0]:
        return None
    return json.loads(row[1])


def _write_fact(database: sqlite3.Connection, key: str, fact: Any, fingerprint: str) -> None:
    content = json.dumps(fact, sort_keys=True)
    row = (key, fingerprint, _checksum(key.encode(), content.encode()), content)
    database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?, ?, ?)", row)


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
        if any(os.path.isfile(place) for place in (folder, *folder.parents)):
            raise UsageError(f"{PLACE}={named}: is a file; name a folder, or off")
        return folder
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "retrokit" / "embeddings"


def open_cache(folder: str | Path | None = None) -> EmbeddingCache | None:
    """The cache in ``folder``; by default the user's, ``None`` if that is turned off. Nothing is written before there
    is something to keep."""
    place = cache_folder() if folder is None else folder
    return None if place is None else cache_in(place)


def cache_in(folder: str | Path) -> EmbeddingCache:
    """The cache in ``folder``; of one folder and limit always the same object."""
    return _opened(Path(folder).expanduser(), read_size(os.environ.get(LIMIT) or DEFAULT_LIMIT, LIMIT))


_opened = cache(EmbeddingCache)
