"""A list of training records in one block of bytes: a million of them take little more memory than their file."""

from __future__ import annotations

import marshal
from array import array
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter, eq
from typing import TYPE_CHECKING, Any

from retrokit.data.training_rows import digest64

if TYPE_CHECKING:
    import numpy as np

_VERSION = 2
"""Of the format of :mod:`marshal`: later ones depend on how many references an object has."""


class PackedRecords(Sequence[Any]):
    """Records of one type (:mod:`retrokit.data.training_rows`), each created when it is taken.

    >>> from retrokit.data.training_rows import Unlabelled
    >>> records = PackedRecords([Unlabelled("a"), Unlabelled("b"), Unlabelled("a")])
    >>> records[1], records.first_of_each().tolist()
    (Unlabelled(text='b'), [True, True, False])
    """

    def __init__(self, records: Iterable[Any] = ()) -> None:
        """Raises :class:`ValueError` for an image, which is no plain text."""
        self._content = bytearray()
        self._ends = array("q", [0])
        self._type: Any = None
        for record in records:
            self.append(record)

    def append(self, record: Any) -> None:
        """Add a record of the same type as those before."""
        if self._type is None:
            self._type = type(record)
            self._values_of = attrgetter(*self._type.__slots__)
        self._content += marshal.dumps(self._values_of(record), _VERSION)
        self._ends.append(len(self._content))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, index: Any) -> Any:
        """A record; of a slice, a list."""
        if isinstance(index, slice):
            return [self._record(position) for position in range(*index.indices(len(self)))]
        return self._record(range(len(self))[index])

    def __iter__(self) -> Iterator[Any]:
        return map(self._record, range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment] # as of a list

    def first_of_each(self) -> np.ndarray:
        """Whether each record is the first of those that are equal to it, bool ``[n]``."""
        digests = array("Q")
        for position in range(len(self)):
            digests.append(digest64(self._bytes_of(position)))
        return first_of_each(digests)

    def keep(self, positions: Iterable[int]) -> None:
        """Drop all records except those at ``positions``, which ascend."""
        ends = array("q", [0])
        for position in positions:
            content, start = self._bytes_of(position), ends[-1]
            ends.append(start + len(content))
            self._content[start : ends[-1]] = content
        del self._content[ends[-1] :]
        self._ends = ends

    def _bytes_of(self, position: int) -> bytes:
        return bytes(self._content[self._ends[position] : self._ends[position + 1]])

    def _record(self, position: int) -> Any:
        values = marshal.loads(self._bytes_of(position))
        return self._type(*values) if isinstance(values, tuple) else self._type(values)


class PackedTexts(PackedRecords):
    """Texts in one block of bytes.

    >>> texts = PackedTexts(["a", "é"])
    >>> texts[1], list(texts)
    ('é', ['a', 'é'])
    """

    def append(self, record: str) -> None:
        """Add a text."""
        self._content += record.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._content))

    def _record(self, position: int) -> str:
        return self._bytes_of(position).decode("utf-8", "surrogatepass")


def first_of_each(numbers: array[int]) -> np.ndarray:
    """Whether each number is the first of its value, bool ``[n]``.

    >>> first_of_each(array("Q", [5, 7, 5, 6])).tolist()
    [True, True, False, True]
    """
    import numpy as np

    is_first = np.zeros(len(numbers), dtype=bool)
    if len(numbers):
        values = np.frombuffer(numbers, dtype=np.uint64)
        order = values.argsort(kind="stable")
        is_first[order[_differs_from_previous(values[order])]] = True
    return is_first


def distinct(numbers: np.ndarray) -> np.ndarray:
    """The different numbers, ascending. NumPy's ``unique`` takes several times their memory, for a hash table.

    >>> import numpy as np
    >>> distinct(np.array([5, 7, 5, 6])).tolist()
    [5, 6, 7]
    """
    import numpy as np

    ordered = np.sort(numbers)
    different: np.ndarray = ordered[_differs_from_previous(ordered)]
    return different


def _differs_from_previous(ordered: np.ndarray) -> np.ndarray:
    import numpy as np

    differs = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=differs[1:])
    return differs
