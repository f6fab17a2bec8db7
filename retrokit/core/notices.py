"""How library code speaks to whoever runs it: one-line notices, and progress of long work.

The library never prints. It calls :func:`notice` and :func:`progress`; the command line installs a listener that
shows them on standard error, and a Python program that installs none gets notices through :mod:`logging`.
"""

import importlib
import logging
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from retrokit.core.errors import redacted


class Advance(Protocol):
    """Moves a display of progress on."""

    def __call__(self, count: int, /, said: str = "", earlier: bool = False) -> None:
        """Advance by ``count`` units; those of an ``earlier`` run are no part of the rate. ``said`` is shown next to
        them until a newer text replaces it."""


# Control characters of both sets, line and paragraph separators, overrides of the writing direction, lone surrogates.
UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def harmless(text: str, lines: bool = False) -> str:
    """``text`` for a terminal: what would move the cursor, turn the writing round or not print at all is shown as its
    escape, and so is a line break unless the text may have ``lines``.

    Every text of another's (a document, an id, a path, a service's message) passes through this where it is printed.

    >>> harmless("red: \\x1b[31m")
    'red: \\\\x1b[31m'
    """
    escaped = UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
    return escaped if lines else escaped.replace("\n", "\\n")


def unseen(count: int, /, said: str = "", earlier: bool = False) -> None:
    """The :class:`Advance` of a display that is not there."""


class Listener(Protocol):
    """What a front end provides."""

    def notice(self, message: str) -> None:
        """Show one line."""

    def progress(self, label: str, total: int | None, unit: str) -> AbstractContextManager[Advance]:
        """Show progress of ``total`` units; the context yields a function that advances it."""


class _LoggingListener:
    def notice(self, message: str) -> None:
        logging.getLogger("retrokit").info(message)

    def progress(self, label: str, total: int | None, unit: str) -> AbstractContextManager[Advance]:
        return nullcontext(unseen)


_listener: Listener = _LoggingListener()
_reported: set[str] = set()


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Send notices and progress to ``listener`` for the duration of the block."""
    global _listener, _reported
    before, _listener = _listener, listener
    before_that, _reported = _reported, set()
    try:
        yield
    finally:
        _listener, _reported = before, before_that


class _Heard:
    """Passes everything on, and records the notices."""

    def __init__(self, before: Listener) -> None:
        self.progress = before.progress
        self.lines: list[str] = []
        self._pass_on = before.notice

    def notice(self, message: str) -> None:
        self.lines.append(message)
        self._pass_on(message)


@contextmanager
def heard() -> Iterator[list[str]]:
    """The notices within the block, line by line. The user gets them too."""
    listener = _Heard(_listener)
    with listening(listener):
        yield listener.lines


def notice(message: str, once: bool = False) -> None:
    """Say one line to the user; with ``once`` a listener is given the same line only once."""
    message = redacted(message)
    if not once or message not in _reported:
        _listener.notice(message)
    if once:
        _reported.add(message)


def progress(label: str, total: int | None, unit: str) -> AbstractContextManager[Advance]:
    """Open a progress display of ``total`` ``unit``; use as ``with progress(...) as advance: advance(1)``."""
    return _listener.progress(label, total, unit)


@contextmanager
def no_progress_bars(package: str = "transformers") -> Iterator[None]:
    """Keep ``transformers`` or ``datasets`` from drawing bars of its own for anything it reads, writes or changes."""
    logs = importlib.import_module(f"{package}.utils.logging")
    was_enabled = logs.is_progress_bar_enabled()
    logs.disable_progress_bar()
    try:
        yield
    finally:
        if was_enabled:
            logs.enable_progress_bar()
