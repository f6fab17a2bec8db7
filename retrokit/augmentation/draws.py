"""Random numbers as pure functions of a key, so that what is drawn for a text depends on nothing but its key.

A key is a few numbers: the seed, the epoch, the text's running number… A stream that is read from its middle, several
processes, and a resumed run all see the same. A number is the 64-bit BLAKE2b hash of its key.
"""

from collections.abc import Iterator
from hashlib import blake2b


def bits(*key: int | str) -> int:
    """64 random bits, as a number from 0 to 2⁶⁴ − 1."""
    return int.from_bytes(blake2b(" ".join(map(str, key)).encode(), digest_size=8).digest(), "little")


def below(bound: int, *key: int | str) -> int:
    """A random number from 0 to ``bound`` − 1; no probability is off from 1 / ``bound`` by more than 2⁻⁶⁴."""
    return bits(*key) * bound >> 64


def distinct(size: int, count: int, *key: int | str) -> Iterator[int]:
    """The first ``count`` of the numbers 0 to ``size`` − 1 in random order: Fisher–Yates, stopped early, in time and
    memory that grow with ``count``; a larger ``count`` continues the same order.

    Raises:
        ValueError: ``count`` is larger than ``size``.

    >>> list(distinct(10**12, 3, 0)) == list(distinct(10**12, 5, 0))[:3]
    True
    >>> sorted(distinct(5, 5, 0))
    [0, 1, 2, 3, 4]
    """
    if count > size:
        raise ValueError(f"{count} different numbers cannot be drawn from {size}")
    moved: dict[int, int] = {}
    for rank in range(count):
        drawn = rank + below(size - rank, *key, rank)
        yield moved.get(drawn, drawn)
        moved[drawn] = moved.get(rank, rank)
