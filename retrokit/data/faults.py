"""Faults of data files that reading goes on from, as the field's tools do: counted and reported, or errors."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from retrokit.core.errors import DataError
from retrokit.core.files import named
from retrokit.core.notices import notice

_is_strict: ContextVar[bool] = ContextVar("strict", default=False)


@contextmanager
def strictly(strict: bool) -> Iterator[None]:
    """Within the block every fault of a data file is an error if ``strict``."""
    before = _is_strict.set(strict)
    try:
        yield
    finally:
        _is_strict.reset(before)


class Faults:
    """The faults of one file: ``counts`` by kind."""

    def __init__(self, path: str | Path) -> None:
        self.path = path
        self.counts: Counter[str] = Counter()
        self._first: dict[str, tuple[str, int | None]] = {}

    def add(self, kind: str, problem: str, line: int | None = None) -> None:
        """Count a fault; raises :class:`DataError` within :func:`strictly`."""
        if _is_strict.get():
            raise DataError(named(self.path), problem, line)
        self.counts[kind] += 1
        self._first.setdefault(kind, (problem, line))

    def report(self, kind: str, effect: str) -> None:
        """Report the faults of this kind, if there are any, in one notice: where the first one is, and what follows,
        ``effect``, in which ``{n}`` is their number."""
        if count := self.counts[kind]:
            problem, line = self._first[kind]
            where = named(self.path) if line is None else f"{named(self.path)}:{line}"
            notice(f"{where}: {problem}; {effect.format(n=f'{count:,}')}", once=True)
