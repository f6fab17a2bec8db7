"""Ctrl-C and SIGTERM as a request to stop: it is never lost, and long work grants it once its state is saved."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from retrokit.core.system import HAS_TIMERS, ignore_alarms, set_alarm

AGAIN = 1.0
"""Seconds within which a further signal is the same request. A signal to a process group reaches a command that one of
its processes started twice: once directly and once passed on."""
_DELAY = 0.05
"""Seconds until an interrupt that was swallowed is raised again."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_process = 0
"""The process that :func:`watch` was called in; its children by ``fork`` are interrupted as any Python is."""
_requested: float | None = None
_first_signal: int | None = None
_ended = False


class CtrlC(KeyboardInterrupt):
    """What Ctrl-C and SIGTERM raise in a command. One that is swallowed, as Python does with what a destructor raises
    and some libraries do where they import optional packages, is raised again soon after."""

    def __del__(self) -> None:
        if os.getpid() == _process and not _ended:
            set_alarm(_DELAY)


def watch() -> None:
    """From now on Ctrl-C and SIGTERM raise :class:`CtrlC` in this process, the command's own, until :func:`end`; a
    second one ends the process at once. One that is ignored, as Ctrl-C in the background of a script, stays so."""
    global _process, _requested, _first_signal, _ended
    _process, _requested, _first_signal, _ended = os.getpid(), None, None, False
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _received)
    if HAS_TIMERS:
        signal.signal(signal.SIGALRM, _raised_again)
    show = sys.unraisablehook

    def show_others(unraisable: Any) -> None:
        if not issubclass(unraisable.exc_type, CtrlC):
            show(unraisable)

    sys.unraisablehook = show_others


def requested() -> bool:
    """Whether a stop was requested, with an exception as its only possible effect."""
    return _requested is not None


def forget() -> None:
    """A command begins: a signal that an earlier one of this process has served is none of its own."""
    global _first_signal
    if _requested is None:
        _first_signal = None


def exit_code() -> int:
    """The exit code of a command that is stopped: 128 and the number of the first signal; by default Ctrl-C's."""
    return 128 + (_first_signal or signal.SIGINT)


def end(code: int) -> None:
    """The command has ended with this exit code: from now on a signal ends the process with it at once, silently."""
    global _ended
    if os.getpid() == _process:
        _ended = True
        ignore_alarms()
        for number in _SIGNALS:
            if signal.getsignal(number) == _received:
                signal.signal(number, lambda *_: os._exit(code))


def _note(number: int) -> None:
    global _first_signal
    if _first_signal is None:
        _first_signal = number


def _received(number: int, *_: object) -> None:
    global _requested
    now = time.monotonic()
    if os.getpid() != _process:
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        return
    _note(number)
    if _requested is None:
        _requested = now
        raise CtrlC
    if now - _requested >= AGAIN:
        shows_cursor = "\x1b[?25h" if os.isatty(2) else ""  # a bar hides it
        os.write(2, f"{shows_cursor}retrokit: interrupted\n".encode())
        os._exit(exit_code())


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

    def received(number: int, *_: object) -> None:
        nonlocal last
        _note(number)
        if time.monotonic() - last >= AGAIN:
            last = time.monotonic()
            ask()

    before = {number: signal.signal(number, received) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
