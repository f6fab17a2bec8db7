"""The embedding cache: what was encoded once is read from disk from then on, whichever command or corpus asks.

A folder per encoder, named by the digest of all that decides an embedding but the text: the encoder's fingerprint, the
precision computed in, the kind of device, and the code (:mod:`retrokit.encoders.fingerprint`). Within it a row is found
by the digest of its role and text. A name or a path is never part of a key.

An encoder's rows lie in shards, each of two files that only grow: ``N.rows``, float32 ``[n, d]``, and ``N.index``, a
record a row: the digest of role and text (16 bytes), and a checksum of that digest and the row (8 bytes). A row is
written before its record, and every row that is read is checked, so that one which a kill, a full disk or a bit error
damaged is not there: it is encoded, and written, again. Writers take turns by a lock on the whole cache, readers need
none. Shards that nobody used for longest go first where the cache is to become smaller. What a process has used or made
is not removed to make room for more of its own: of a corpus above the limit the part that fits is kept, and found the
next time.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock

from retrokit.errors import UsageError, disk_errors
from retrokit.notices import notice

if TYPE_CHECKING:
    from retrokit.encoders.base import Batch

PLACE, LIMIT = "RETROKIT_CACHE", "RETROKIT_CACHE_LIMIT"
DEFAULT_LIMIT = "20GB"
SHARD_BYTES = 64_000_000
SECONDS_AT_RISK = 1.0  # of encoding, which a kill may lose; a chunk may take longer
SPREAD = 512  # rows copied at a time
SHARDS_IN_LIMIT = 8  # at least so many, so that a small cache forgets in small steps

_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_KEY = np.dtype([("low", "<u8"), ("high", "<u8")])
_RECORD = np.dtype([("key", _KEY), ("check", "<u8")])


def read_size(text: str) -> int:
    """Bytes of ``500MB``, ``20GB``, or a plain number.

    Raises:
        UsageError: anything else.
    """
    found = re.fullmatch(r"(\d{1,15}(?:\.\d+)?) ?([KMGT]B)?", text.strip().upper())
    if found is None:
        raise UsageError(f"{text!r} is no size; expected for example 500MB or 20GB")
    return int(float(found[1]) * _UNITS[found[2] or ""])


def cache_folder() -> Path | None:
    """Where the cache lies: ``RETROKIT_CACHE``, else ``retrokit/embeddings`` in the user's cache folder (XDG); ``None``
    if it is turned off."""
    named = os.environ.get(PLACE, "")
    if named.lower() == "off":
        return None
    if named:
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "retrokit" / "embeddings"


def open_cache() -> EmbeddingCache | None:
    """The user's cache; ``None`` if it is turned off. Nothing is written before there are embeddings to keep.

    Raises:
        UsageError: ``RETROKIT_CACHE_LIMIT`` is no size.
    """
    folder = cache_folder()
    if folder is None:
        return None
    return _opened(folder, read_size(os.environ.get(LIMIT) or DEFAULT_LIMIT))


@cache
def _opened(folder: Path, limit: int) -> EmbeddingCache:
    return EmbeddingCache(folder, limit)


@dataclass(frozen=True)
class Held:
    """What the cache holds of one encoder: under which spec it was last seen, ``rows`` embeddings, ``size`` in bytes,
    and the time of their last use in seconds since 1970."""

    spec: str
    fingerprint: str
    precision: str
    device: str
    dimension: int
    rows: int
    size: int
    last_used: float


class EmbeddingCache:
    """Embeddings of any encoders in ``folder``, ``limit`` bytes at most.

    Attributes:
        in_use: indexes of the shards that this process has read or written.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self.shard_bytes = min(SHARD_BYTES, limit // SHARDS_IN_LIMIT)
        self._stores: dict[str, Store] = {}
        self.in_use: set[Path] = set()
        self._is_writable = True
        self._is_full = False

    def store(self, decided_by: Mapping[str, Any], dimension: int, spec: str) -> Store:
        """The embeddings that ``decided_by`` decides; ``spec`` is what the user calls their encoder."""
        described = json.dumps(decided_by, sort_keys=True).encode()
        name = hashlib.blake2b(described, digest_size=16).hexdigest()
        if name not in self._stores:
            self._stores[name] = Store(self, self.folder / name, dimension)
        self._stores[name].about = {"spec": spec, **decided_by}
        return self._stores[name]

    def remember(self, key: str, about: dict[str, Any]) -> None:
        """Keep what is known of an encoder, its ``fingerprint`` among it, for as long as embeddings of it are here."""

        def write() -> None:
            self._records.mkdir(exist_ok=True)
            replace_file(self._records / f"{key}.json", json.dumps({"about": about, "check": _check_of(about)}))

        self.write(write)

    def recall(self, key: str) -> dict[str, Any] | None:
        """What :meth:`remember` has kept; ``None`` if it is not there, or damaged."""
        try:
            record = json.loads((self._records / f"{key}.json").read_text(encoding="utf-8"))
            about: dict[str, Any] = record["about"]
            return about if record["check"] == _check_of(about) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @property
    def _records(self) -> Path:
        return self.folder / "encoders"

    def held(self) -> list[Held]:
        """What is there, by encoder; the last used first."""
        found = [held for folder in self._folders() if (held := _held(folder)) is not None]
        return sorted(found, key=lambda held: -held.last_used)

    def shrink(self, limit: int) -> int:
        """Remove the shards that were not used for longest until at most ``limit`` bytes are left; 0 removes all.

        Returns:
            Bytes removed.

        Raises:
            DataError: they cannot be removed.
        """
        if not self.folder.is_dir():
            return 0
        with disk_errors(self.folder), self.locked():
            removed = self._size() - self.evict(limit)
            for folder in self._folders():
                _tidy(folder)
            self._forget()
        return removed

    def _size(self) -> int:
        return sum(_Files(index).size for folder in self._folders() for index in _indexes(folder))

    def _forget(self) -> None:
        """Remove what is known of encoders without embeddings here."""
        fingerprints = {held.fingerprint for held in self.held()}
        for path in self._records.glob("*.json"):
            about = self.recall(path.stem)
            if about is None or about["fingerprint"] not in fingerprints:
                path.unlink(missing_ok=True)
        for path in self._records.glob("*.tmp"):  # a kill has left it
            path.unlink()
        with suppress(OSError):
            self._records.rmdir()

    def make_room(self, size: int) -> bool:
        """Whether there is room for ``size`` bytes, by who has the lock: shards that this process does not use go for
        it. Said once if there is none."""
        if size <= self.limit and self.evict(self.limit - size, self.in_use) <= self.limit - size:
            return True
        if not self._is_full:
            self._is_full = True
            notice(f"{self.folder}: the embeddings take more than its limit; the rest is not kept ({LIMIT} sets it)")
        return False

    def evict(self, limit: int, but: Collection[Path] = ()) -> int:
        """Remove shards as :meth:`shrink` does, by who has the lock; those with an index among ``but`` stay.

        Returns:
            Bytes left.
        """
        shards = sorted(
            (_Files(index) for folder in self._folders() for index in _indexes(folder)), key=_Files.last_use
        )
        left = sum(shard.size for shard in shards)
        for shard in shards:
            if left <= limit:
                break
            if shard.index not in but:
                left -= shard.size
                shard.remove()
                _tidy(shard.index.parent)
        return left

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only writer."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / "lock"):
            yield

    def write(self, action: Callable[[], None]) -> None:
        """Do it as the only writer. A cache that cannot be written must not end the work that it is to speed up: what
        went wrong is said once, and nothing is written from then on."""
        if not self._is_writable:
            return
        try:
            with self.locked():
                action()
        except OSError as error:
            self._is_writable = False
            notice(f"{self.folder}: embeddings cannot be kept ({error.strerror or error}); going on without")

    def _folders(self) -> list[Path]:
        found = self.folder.iterdir() if self.folder.is_dir() else ()
        return [path for path in found if re.fullmatch(r"[0-9a-f]{32}", path.name)]


class Store:
    """The embeddings of one encoder, in one precision on one kind of device."""

    def __init__(self, cache: EmbeddingCache, folder: Path, dimension: int) -> None:
        self.about: Mapping[str, Any] = {}
        self._cache = cache
        self._folder = folder
        self._dimension = dimension
        self._shards: dict[Path, _Shard] = {}

    def embed(self, texts: Sequence[str], role: str, encode: Callable[[Sequence[str]], Iterator[Batch]]) -> np.ndarray:
        """Embeddings float32 ``[n, d]`` in the order of ``texts``; what is not there is encoded, each text once, and
        kept as soon as it is made. ``encode`` gives batches of positions in what it was given, and their rows.
        """
        places = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        distinct = list(places)
        keys = _keys(distinct, role)
        rows, is_there = self.read(keys)
        missing = np.flatnonzero(~is_there)
        if len(missing):
            keeping = _Keeping(self, keys[missing])
            for positions, made in encode([distinct[number] for number in missing]):
                rows[missing[positions]] = made
                keeping.add(positions, made)
            keeping.flush()
        if is_there.any() and self._is_news():
            self._cache.write(self._write_about)
        if len(distinct) == len(texts):
            return rows
        return _spread(rows, np.fromiter((places[text] for text in texts), dtype=np.int64, count=len(texts)))

    def read(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows float32 ``[n, d]``, and which of them are there, bool ``[n]``; the others hold anything."""
        self._refresh()
        rows = np.empty((len(keys), self._dimension), dtype=np.float32)
        is_there = np.zeros(len(keys), dtype=bool)
        for shard in reversed(self._shards.values()):  # of a row that was made again the last one counts
            wanted = np.flatnonzero(~is_there)
            if len(wanted):
                found, read = shard.read(keys[wanted])
                rows[wanted[found]] = read
                is_there[wanted[found]] = True
                if len(found):
                    self._cache.in_use.add(shard.index)
        return rows, is_there

    def add(self, keys: np.ndarray, rows: np.ndarray) -> None:
        """Keep rows, but for those that another process has kept meanwhile."""
        self._cache.write(partial(self._add, keys, rows))

    def _add(self, keys: np.ndarray, rows: np.ndarray) -> None:
        _, is_there = self.read(keys)
        if is_there.all():
            return
        self._folder.mkdir(exist_ok=True)
        if self._is_news():
            self._write_about()
        keys, rows = keys[~is_there], rows[~is_there]
        index = max(self._shards, default=self._folder / "000001.index")
        start = 0
        while start < len(keys):
            size = _Files(index).size
            if size and size >= self._cache.shard_bytes:
                index = self._folder / f"{int(index.stem) + 1:06d}.index"
                size = 0
            row = _RECORD.itemsize + 4 * self._dimension
            part = slice(start, start + max(1, (self._cache.shard_bytes - size) // row))
            self._cache.in_use.add(index)
            if not self._cache.make_room(row * len(keys[part])):
                break
            _Shard(index, self._dimension).append(keys[part], rows[part])
            start = part.stop
        _tidy(self._folder)

    def _refresh(self) -> None:
        """Take notice of what other processes have added or removed."""
        found = {}
        for index in sorted(_indexes(self._folder)):
            shard = self._shards.get(index) or _Shard(index, self._dimension)
            if shard.refresh():
                found[index] = shard
        self._shards = found

    def _is_news(self) -> bool:
        """Whether the encoder was never seen, or goes by another spec than when it last was."""
        return (_read_about(self._folder) or {}).get("spec") != self.about["spec"]

    def _write_about(self) -> None:
        if not self._folder.is_dir():  # removed meanwhile
            return
        replace_file(self._folder / "about.json", json.dumps(self.about, indent=2))


class _Keeping:
    """Gives a store what was made, once a second at most."""

    def __init__(self, store: Store, keys: np.ndarray) -> None:
        self._store = store
        self._keys = keys
        self._made: list[Batch] = []
        self._kept = time.monotonic()

    def add(self, positions: np.ndarray, rows: np.ndarray) -> None:
        self._made.append((positions, rows))
        if time.monotonic() - self._kept >= SECONDS_AT_RISK:
            self.flush()
            self._kept = time.monotonic()

    def flush(self) -> None:
        """Keep all that was made, but for what is not finite: that is an error, which the encoder reports."""
        if not self._made:
            return
        positions, rows = (np.concatenate(part) for part in zip(*self._made, strict=True))
        is_finite = np.isfinite(rows).all(axis=1)
        self._store.add(self._keys[positions[is_finite]], rows[is_finite])
        self._made = []


class _Files:
    """The two files of a shard."""

    def __init__(self, index: Path) -> None:
        self.index = index
        self.rows = index.with_suffix(".rows")

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(_stat(path)[0] for path in (self.index, self.rows))

    def last_use(self) -> int:
        """In nanoseconds since 1970."""
        return _stat(self.index)[1]

    def remove(self) -> None:
        """The index first: no reader must find one without its rows."""
        self.index.unlink(missing_ok=True)
        self.rows.unlink(missing_ok=True)


class _Shard:
    """A shard as it was when it was last looked at."""

    def __init__(self, index: Path, dimension: int) -> None:
        self.index = index
        self._files = _Files(index)
        self._dimension = dimension
        self._seen: tuple[Any, ...] = ()
        self._records = np.empty(0, dtype=_RECORD)
        self._order = np.empty(0, dtype=np.int64)
        self._sorted = np.empty(0, dtype=np.uint64)

    def refresh(self) -> bool:
        """Look again; false if the shard is no more, or cannot be read."""
        index, rows = _stat(self._files.index), _stat(self._files.rows)
        now = (index[0], index[2], rows[0], rows[2])
        if now == self._seen:
            return True
        try:
            raw = self._files.index.read_bytes()
        except OSError:
            return False
        count = min(len(raw) // _RECORD.itemsize, rows[0] // self._row_bytes)
        self._records = np.frombuffer(raw[: count * _RECORD.itemsize], dtype=_RECORD)
        low = self._records["key"]["low"]
        self._order = np.argsort(low, kind="stable")
        self._sorted = low[self._order]
        self._seen = now
        return True

    @property
    def _row_bytes(self) -> int:
        return 4 * self._dimension

    def read(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which of the keys are here, undamaged, as positions in ``keys``; and their rows."""
        positions, numbers = self._find(keys)
        nothing = positions[:0], np.empty((0, self._dimension), dtype=np.float32)
        if not len(positions):
            return nothing
        shape = (len(self._records), self._dimension)
        try:
            mapped = np.memmap(self._files.rows, dtype="<f4", mode="r", shape=shape)
        except (OSError, ValueError):  # removed, or cut short, since its index was read, or not to be read
            return nothing
        rows = mapped[numbers]
        is_whole = _checks(keys[positions], rows) == self._records["check"][numbers]
        with suppress(OSError):  # a cache that may be read but not written has no last use
            os.utime(self._files.index)
        return positions[is_whole], rows[is_whole]

    def _find(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Positions in ``keys`` of those that are here, and the numbers of their rows."""
        if not len(self._order):
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        places = np.searchsorted(self._sorted, keys["low"], side="right") - 1
        numbers = self._order[places]
        positions = np.flatnonzero((places >= 0) & (self._records["key"][numbers] == keys))
        return positions, numbers[positions]

    def append(self, keys: np.ndarray, rows: np.ndarray) -> None:
        """Add rows behind the whole ones; half a row that a kill has left goes."""
        records = np.empty(len(keys), dtype=_RECORD)
        records["key"], records["check"] = keys, _checks(keys, rows)
        counts = [
            _stat(path)[0] // size
            for path, size in ((self._files.index, _RECORD.itemsize), (self._files.rows, self._row_bytes))
        ]
        _append(self._files.rows, min(counts) * self._row_bytes, rows.astype("<f4", copy=False).tobytes())
        _append(self._files.index, min(counts) * _RECORD.itemsize, records.tobytes())


def replace_file(path: Path, text: str) -> None:
    """Write a file whole or not at all, by who has the lock."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def _spread(rows: np.ndarray, places: np.ndarray) -> np.ndarray:
    """``rows[places]``, in the memory of ``rows``, which is spent. ``places[i]`` is at most i."""
    if not rows.flags.owndata:
        rows = rows.copy()
    rows.resize((len(places), rows.shape[1]), refcheck=False)
    for stop in range(len(places), 0, -SPREAD):  # from the end, so that no row is overwritten before it is read
        part = slice(max(0, stop - SPREAD), stop)
        rows[part] = rows[places[part]]
    return rows


def _append(path: Path, size: int, content: bytes) -> None:
    """Write ``content`` at ``size``, and cut off what was behind it."""
    with open(path, "r+b" if path.exists() else "w+b") as stream:
        stream.truncate(size)
        stream.seek(size)
        stream.write(content)


def _keys(texts: Sequence[str], role: str) -> np.ndarray:
    """The digest of each text in its role. Roles share nothing: a model may treat them differently in any way."""
    person = role.encode()
    # a lone half of a surrogate pair is no reason to fail here
    raw = (text.encode("utf-8", "surrogatepass") for text in texts)
    return np.frombuffer(b"".join(_blake(part, 16, person) for part in raw), dtype=_KEY)


def _checks(keys: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The checksum of each key with its row."""
    pairs = zip(keys, np.ascontiguousarray(rows, dtype="<f4"), strict=True)
    return np.frombuffer(b"".join(_blake(key.tobytes() + row.tobytes(), 8, b"row") for key, row in pairs), dtype="<u8")


def _check_of(about: dict[str, Any]) -> str:
    return _blake(json.dumps(about, sort_keys=True).encode(), 8, b"encoder").hex()


def _blake(content: bytes, size: int, person: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=size, person=person).digest()


def _stat(path: Path) -> tuple[int, int, int]:
    """Size, last change in nanoseconds, and inode; zeros of a file that is not there."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0, 0, 0
    return found.st_size, found.st_mtime_ns, found.st_ino


def _indexes(folder: Path) -> Iterator[Path]:
    return folder.glob("[0-9]*.index")


def _tidy(folder: Path) -> None:
    """Remove rows that have lost their index, and a folder without shards; a stranger's file stays."""
    for rows in folder.glob("[0-9]*.rows"):
        if not rows.with_suffix(".index").exists():
            rows.unlink()
    if next(_indexes(folder), None) is None:
        for name in ("about.json", "about.tmp"):
            (folder / name).unlink(missing_ok=True)
        with suppress(OSError):
            folder.rmdir()


def _read_about(folder: Path) -> dict[str, Any] | None:
    try:
        about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return about if isinstance(about, dict) else None


def _held(folder: Path) -> Held | None:
    shards = [_Files(index) for index in _indexes(folder)]
    if not shards:
        return None
    about = _read_about(folder) or {}
    return Held(
        spec=str(about.get("spec", "unknown")),
        fingerprint=str(about.get("fingerprint", "unknown")),
        precision=str(about.get("precision", "unknown")),
        device=str(about.get("device", "unknown")),
        dimension=int(about.get("dimension", 0)),
        rows=sum(_stat(shard.index)[0] // _RECORD.itemsize for shard in shards),
        size=sum(shard.size for shard in shards),
        last_used=max(shard.last_use() for shard in shards) / 1e9,
    )
