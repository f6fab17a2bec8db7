"""Ctrl-C and SIGTERM as a request to stop: it is never lost, and long work grants it once its state is saved."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

AGAIN = 1.0
"""Seconds within which a further signal is the same request. A signal to a process group reaches a command that one of
its processes started twice: once directly and once passed on."""
_DELAY = 0.05
"""Seconds until an interrupt that was swallowed is raised again."""
_process = 0
"""The process that :func:`watch` was called in; its children by ``fork`` are interrupted as any Python is."""
_requested: float | None = None
_ended = False


class CtrlC(KeyboardInterrupt):
    """What Ctrl-C raises in a command. One that is swallowed, as Python does with what a destructor raises and some
    libraries do where they import optional packages, is raised again soon after."""

    def __del__(self) -> None:
        if os.getpid() == _process and not _ended:
            signal.setitimer(signal.ITIMER_REAL, _DELAY)


def watch() -> None:
    """From now on Ctrl-C raises :class:`CtrlC` in this process, the command's own, until :func:`end`; a second one ends
    the process at once. Does nothing if Ctrl-C is ignored, as in the background of a script."""
    global _process, _requested, _ended
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        return
    _process, _requested, _ended = os.getpid(), None, False
    signal.signal(signal.SIGINT, _received)
    signal.signal(signal.SIGALRM, _raised_again)
    shown = sys.unraisablehook

    def show_others(unraisable: Any) -> None:
        if not issubclass(unraisable.exc_type, CtrlC):
            shown(unraisable)

    sys.unraisablehook = show_others


def requested() -> bool:
    """Whether Ctrl-C was pressed, with an exception as its only possible effect."""
    return _requested is not None


def end(code: int) -> None:
    """The command has ended with this exit code: from now on Ctrl-C ends the process with it at once, silently."""
    global _ended
    if os.getpid() == _process:
        _ended = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGINT, lambda *_: os._exit(code))


def _received(*_: object) -> None:
    global _requested
    now = time.monotonic()
    if os.getpid() != _process:
        raise KeyboardInterrupt
    if _requested is None:
        _requested = now
        raise CtrlC
    if now - _requested >= AGAIN:
        shows_cursor = "\x1b[?25h" if os.isatty(2) else ""  # a bar hides it
        os.write(2, f"{shows_cursor}retrokit: interrupted\n".encode())
        os._exit(130)


def _raised_again(*_: object) -> None:
    if not _ended:
        raise CtrlC


@contextmanager
def stopping_by(ask: Callable[[], None]) -> Iterator[None]:
    """While the block runs, each Ctrl-C and each SIGTERM calls ``ask``, unless one did within the last second. Outside
    the main thread nothing does, because only the main thread gets signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    last = float("-inf")

    def received(*_: object) -> None:
        nonlocal last
        if time.monotonic() - last >= AGAIN:
            last = time.monotonic()
            ask()

    before = {number: signal.signal(number, received) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
