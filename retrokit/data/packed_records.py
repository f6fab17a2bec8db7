"""Training records, texts and identifiers in blocks of bytes: a million of them take little more memory than their
file."""

from __future__ import annotations

import marshal
from array import array
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter, eq
from typing import TYPE_CHECKING, Any

from retrokit.data.training_rows import digest64

if TYPE_CHECKING:
    import numpy as np

_VERSION = 2
"""Of the format of :mod:`marshal`: later ones depend on how many references an object has."""
_AT_ONCE = 512
"""Texts that are decoded together."""
_MOST_RECENT = 1 << 16
_SLOTS = 1 << 24


class _Packed(Sequence[Any]):
    """Items, each created when it is taken. A subclass gives :meth:`append` and :meth:`_item`."""

    def __init__(self, items: Iterable[Any] = ()) -> None:
        self._content = bytearray()
        self._ends = array("q", [0])
        for item in items:
            self.append(item)

    def append(self, item: Any) -> None:
        """Add an item."""
        raise NotImplementedError

    def _item(self, position: int) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, index: Any) -> Any:
        """An item; of a slice, a list."""
        if isinstance(index, slice):
            return [self._item(position) for position in range(*index.indices(len(self)))]
        return self._item(range(len(self))[index])

    def __iter__(self) -> Iterator[Any]:
        return map(self._item, range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment] # as of a list

    def _bytes_of(self, position: int) -> bytearray:
        return self._content[self._ends[position] : self._ends[position + 1]]


class PackedRecords(_Packed):
    """Records of one type (:mod:`retrokit.data.training_rows`).

    >>> from retrokit.data.training_rows import Unlabelled
    >>> records = PackedRecords([Unlabelled("a"), Unlabelled("b"), Unlabelled("a")])
    >>> records[1], records.first_of_each().tolist()
    (Unlabelled(text='b'), [True, True, False])
    """

    _type: Any = None

    def append(self, item: Any) -> None:
        """Add a record of the same type as those before. Raises :class:`ValueError` for an image, which is no plain
        text."""
        if self._type is None:
            self._type = type(item)
            self._values_of = attrgetter(*self._type.__slots__)
        self._content += marshal.dumps(self._values_of(item), _VERSION)
        self._ends.append(len(self._content))

    def first_of_each(self) -> np.ndarray:
        """Whether each record is the first of those that are equal to it, bool ``[n]``."""
        digests = array("Q")
        for position in range(len(self)):
            digests.append(digest64(bytes(self._bytes_of(position))))
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

    def _item(self, position: int) -> Any:
        values = marshal.loads(self._bytes_of(position))
        return self._type(*values) if isinstance(values, tuple) else self._type(values)


class PackedTexts(_Packed):
    """Texts; images among them stay objects.

    >>> texts = PackedTexts(["a", "é"])
    >>> texts[1], list(texts)
    ('é', ['a', 'é'])
    """

    def __init__(self, items: Iterable[str] = ()) -> None:
        self._images: dict[int, str] = {}
        super().__init__(items)

    def append(self, item: str) -> None:
        """Add a text or an image."""
        if type(item) is not str:
            self._images[len(self)] = item
        self._content += item.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._content))

    def _item(self, position: int) -> str:
        return self._images.get(position) or self._bytes_of(position).decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _AT_ONCE):
            ends = self._ends[start : start + _AT_ONCE + 1]
            content = self._content[ends[0] : ends[-1]]
            if self._images or not content.isascii():
                yield from map(self._item, range(start, start + len(ends) - 1))
                continue
            text = content.decode("ascii")
            first = 0
            for end in ends[1:]:
                end -= ends[0]
                yield text[first:end]
                first = end


class TextsById(Mapping[str, str]):
    """Texts by their identifiers, in order; an identifier comes once. ``ids`` and ``texts`` are faster to iterate over
    than its items.

    >>> texts = TextsById([("d1", "a"), ("d2", "b")])
    >>> texts["d2"], "d3" in texts, list(texts)
    ('b', False, ['d1', 'd2'])
    """

    def __init__(self, items: Iterable[tuple[str, str]]) -> None:
        self.ids, self.texts = PackedTexts(), PackedTexts()
        for identifier, text in items:
            self.ids.append(identifier)
            self.texts.append(text)

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def __contains__(self, identifier: object) -> bool:
        return self._position_of(identifier) is not None

    def __getitem__(self, identifier: str) -> str:
        position = self._position_of(identifier)
        if position is None:
            raise KeyError(identifier)
        text: str = self.texts[position]
        return text

    def _position_of(self, identifier: object) -> int | None:
        codes, positions = self._sorted_codes
        code = hash(identifier)
        for index in range(bisect_left(codes, code), len(codes)):
            if codes[index] != code:
                break
            if self.ids[positions[index]] == identifier:
                return positions[index]
        return None

    def __getstate__(self) -> dict[str, Any]:
        return {"ids": self.ids, "texts": self.texts}  # another process has other hashes

    @cached_property
    def _sorted_codes(self) -> tuple[memoryview, memoryview]:
        """The hash of each identifier, ascending, and its position."""
        import numpy as np

        codes = np.fromiter(map(hash, self.ids), dtype=np.int64, count=len(self))
        positions = codes.argsort()
        codes.sort()
        return codes.data, positions.data


class FirstLines:
    """The first line of each key of a file, and a number that belongs to it. A dictionary of a million keys takes
    several times the memory of their file. Here the recent ones are in a dictionary, and the others in three columns,
    sorted by hash and searched by bisection. A table of flags rules out most hashes before that search.

    >>> lines = FirstLines()
    >>> lines.add("d1", line=1, value=5), lines.add("d2", line=2, value=5), lines.add("d1", line=3, value=7)
    (None, None, (1, 5))
    """

    def __init__(self) -> None:
        self._recent: dict[int, tuple[int, int]] = {}
        self._is_used = memoryview(b"\0")  # by the rest of a hash: whether it may be among those that are not recent
        self._columns: list[Any] = [array("q")] * 3  # hash, line and value

    def add(self, key: Hashable, line: int, value: int) -> tuple[int, int] | None:
        """The line and the value of an earlier key with the same 64-bit hash, which equal keys have; ``None``: this is
        the first. Among a million keys, two different ones have the same hash with a probability below 10⁻⁷."""
        code = hash(key)
        first = self._recent.get(code)
        if first is None and self._is_used[code % len(self._is_used)]:
            first = self._find(code)
        if first is None:
            self._recent[code] = line, value
            if len(self._recent) >= max(_MOST_RECENT, len(self._columns[0]) // 8):
                self._sort_recent()
        return first

    def _find(self, code: int) -> tuple[int, int] | None:
        codes, lines, values = self._columns
        index = bisect_left(codes, code)
        return (lines[index], values[index]) if index < len(codes) and codes[index] == code else None

    def _sort_recent(self) -> None:
        import numpy as np

        if len(self._is_used) == 1:
            self._is_used = np.zeros(_SLOTS, dtype=np.uint8).data
        codes = np.fromiter(self._recent, dtype=np.int64)
        np.asarray(self._is_used)[codes % _SLOTS] = 1
        recent = [codes, *np.array([*self._recent.values()], dtype=np.int64).T]
        self._recent = {}
        order = np.concatenate([self._columns[0], codes]).argsort(kind="stable")
        for index, numbers in enumerate(recent):
            self._columns[index] = np.concatenate([self._columns[index], numbers])[order].data


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
