"""Many training records in little memory: the texts lie in a temporary file, a few bytes a record in memory.

Texts are known by 63-bit digests. Two different texts share one by chance only (one in 10¹⁰ for a million of them).
"""

from __future__ import annotations

import json
import tempfile
from array import array
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import numpy as np

from retrokit.core.errors import disk_errors
from retrokit.data.images import content_of

if TYPE_CHECKING:
    from torch import Tensor

IN_MEMORY = 64 << 20  # bytes of records that are not worth a file
_ODD = 0x9E3779B97F4A7C15 - (1 << 64)  # as a signed 64-bit number; any large odd one would do

Record = TypeVar("Record")


def text_id(text: str) -> int:
    """A number from 0 to 2⁶³ − 1 that stands for ``text``, or for an image."""
    return digest64(content_of(text)) >> 1


def digest64(data: bytes) -> int:
    """64 bits of the BLAKE2b digest of ``data``."""
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


@overload
def pair_codes(anchors: np.ndarray, documents: np.ndarray) -> np.ndarray: ...
@overload
def pair_codes(anchors: Tensor, documents: Tensor) -> Tensor: ...
def pair_codes(anchors: Any, documents: Any) -> Any:
    """One int64 for each pair of text ids (int64 arrays or tensors that broadcast), in arithmetic modulo 2⁶⁴."""
    return anchors * _ODD + documents


class RecordStore(Sequence[Record], Generic[Record]):
    """Records that are appended once and read in any order.

    Args:
        pack: a record as JSON values.
        unpack: the record of them.
        records: to begin with.
    """

    def __init__(
        self, pack: Callable[[Record], Any], unpack: Callable[[Any], Record], records: Iterable[Record] = ()
    ) -> None:
        self._pack, self._unpack = pack, unpack
        self._file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - lives as long as the store
        self._starts = array("q", [0])
        self._digests = array("Q")
        self._positions: np.ndarray | None = None
        for record in records:
            self.append(record)

    def append(self, record: Record) -> None:
        """Add a record at the end; raises :class:`DataError` if the disk is full."""
        data = json.dumps(self._pack(record)).encode()
        with disk_errors(f"a temporary file in {tempfile.gettempdir()}"):
            self._file.write(data)
        self._starts.append(self._starts[-1] + len(data))
        self._digests.append(digest64(data))

    def drop_duplicates(self) -> int:
        """Leave out records that equal an earlier one; returns how many."""
        first = np.unique(np.frombuffer(self._digests, dtype=np.uint64), return_index=True)[1]
        dropped = len(self._digests) - len(first)
        self._positions = np.sort(first) if dropped else None
        return dropped

    def chosen(self, keep: Sequence[int]) -> RecordStore[Record]:
        """The records at the positions ``keep``; they share the file."""
        part = RecordStore(self._pack, self._unpack)
        part._file, part._starts = self._file, self._starts
        part._positions = (np.arange(len(self)) if self._positions is None else self._positions)[
            np.asarray(keep, dtype=np.int64)
        ]
        return part

    def place(self, index: int) -> int:
        """Which of all appended records, duplicates too, the record at ``index`` is, counted from 0."""
        return index if self._positions is None else int(self._positions[index])

    def __len__(self) -> int:
        return len(self._starts) - 1 if self._positions is None else len(self._positions)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | list[Record]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        place = self.place(range(len(self))[index])
        self._file.seek(self._starts[place])
        return self._unpack(json.loads(self._file.read(self._starts[place + 1] - self._starts[place])))
