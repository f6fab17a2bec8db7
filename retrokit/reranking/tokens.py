"""Token embeddings of unit length, and a cache of them on disk, in half precision and memory-mapped.

The cache is keyed by all that decides an encoder's embeddings (:meth:`~retrokit.encoders.base.Traits.key`), the
role and the text's digest, never by a name. Every
process that adds to it writes two files of its own: the embeddings one after another, and an index of fixed-size
records. A record is written after what it points to and carries its checksum, so what a killed process left half
written is never read.
"""

from __future__ import annotations

import hashlib
import uuid
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from retrokit.encoders.base import TokenEncoder
from retrokit.errors import disk_errors
from retrokit.similarities.base import Role

AT_ONCE = 2048  # texts encoded before they are written

_RECORD = np.dtype([("digest", "V16"), ("start", "<u8"), ("tokens", "<u4"), ("checksum", "<u4")])


def unit_tokens(encoder: TokenEncoder, texts: Sequence[str], role: Role, precision: str) -> list[np.ndarray]:
    """The embeddings of the tokens of each text, float32 ``[t, d]`` of unit length, special tokens left out.

    Raises:
        DataError: an embedding is not finite.
    """
    found = encoder.token_embeddings(texts, role, precision)
    return [tokens / np.maximum(np.linalg.norm(tokens, axis=1, keepdims=True), 1e-12) for tokens in found]


class TokenCache:
    """Unit token embeddings of an encoder's texts, kept in ``folder``; several processes may share it.

    Attributes:
        encoder: makes what is missing.
        precision: of encoding.
    """

    def __init__(self, folder: str | Path, encoder: TokenEncoder, precision: str) -> None:
        self.encoder = encoder
        self.precision = precision
        self._key = encoder.key(precision)
        # a text is then the same in both roles, and kept once
        self._alike = not encoder.tells_roles_apart
        self._folder = Path(folder)
        self._shelves: dict[Role, _Shelf] = {}

    def tokens(self, texts: Sequence[str], role: Role) -> list[np.ndarray]:
        """The token embeddings of each text, float16 ``[t, d]``; those that were not kept are made and kept.

        Raises:
            DataError: an embedding is not finite, or the folder cannot be written.
        """
        shelf = self._shelf(role)
        missing = [text for text in dict.fromkeys(texts) if not shelf.has(text)]
        for start in range(0, len(missing), AT_ONCE):
            part = missing[start : start + AT_ONCE]
            shelf.add(part, unit_tokens(self.encoder, part, role, self.precision))
        return [shelf.get(text) for text in texts]

    def _shelf(self, role: Role) -> _Shelf:
        role = "document" if self._alike else role
        if role not in self._shelves:
            name = hashlib.sha256(f"{self._key} {role}".encode()).hexdigest()[:32]
            self._shelves[role] = _Shelf(self._folder / name, self.encoder.token_dimension)
        return self._shelves[role]


class _Shelf:
    """The texts of one encoder in one role."""

    def __init__(self, folder: Path, width: int) -> None:
        self.folder = folder
        self.width = width
        self._places: dict[bytes, tuple[Path, int, int]] = {}
        self._maps: dict[Path, np.ndarray] = {}
        self._own = folder / f"{uuid.uuid4().hex}.f16"
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        for index in sorted(folder.glob("*.index")):
            self._read(index)

    def _read(self, index: Path) -> None:
        """Take the records of an index whose embeddings are whole."""
        raw = index.read_bytes()
        path = index.with_suffix(".f16")
        if not path.is_file():
            return
        data = self._mapped(path)
        for record in np.frombuffer(raw, _RECORD, count=len(raw) // _RECORD.itemsize):
            start, count = int(record["start"]), int(record["tokens"])
            part = data[start : start + count]
            if len(part) == count and zlib.crc32(part.tobytes()) == int(record["checksum"]):
                self._places[bytes(record["digest"])] = (path, start, count)

    def has(self, text: str) -> bool:
        return _digest(text) in self._places

    def get(self, text: str) -> np.ndarray:
        path, start, count = self._places[_digest(text)]
        return self._mapped(path, start + count)[start : start + count]

    def add(self, texts: Sequence[str], found: Sequence[np.ndarray]) -> None:
        """Append the embeddings, then what says where they are."""
        halves = [tokens.astype(np.float16).reshape(-1, self.width) for tokens in found]
        counts = np.array([len(tokens) for tokens in halves])
        with disk_errors(self.folder):
            with open(self._own, "ab") as file:
                first = file.tell() // (2 * self.width)
                for tokens in halves:
                    file.write(tokens.tobytes())
            records = np.empty(len(texts), dtype=_RECORD)
            records["digest"] = np.array([_digest(text) for text in texts], dtype="V16")
            records["start"] = first + np.cumsum(counts) - counts
            records["tokens"] = counts
            records["checksum"] = [zlib.crc32(tokens.tobytes()) for tokens in halves]
            with open(self._own.with_suffix(".index"), "ab") as file:
                file.write(records.tobytes())
        for text, start, count in zip(texts, records["start"].tolist(), counts.tolist(), strict=True):
            self._places[_digest(text)] = (self._own, start, count)

    def _mapped(self, path: Path, rows: int = 0) -> np.ndarray:
        """The embeddings of a file, of at least so many rows: the own one grows."""
        known = self._maps.get(path)
        if known is None or len(known) < rows:
            size = path.stat().st_size // (2 * self.width)
            shape = (size, self.width)
            self._maps[path] = np.memmap(path, np.float16, "r", shape=shape) if size else np.empty(shape, np.float16)
        return self._maps[path]


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]
