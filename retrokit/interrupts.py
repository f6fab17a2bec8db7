"""Ctrl-C and SIGTERM as a wish to stop, which long work grants when its state is kept."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

AGAIN = 1.0
"""Seconds before which a further signal is the same wish: what is sent to a group of processes reaches a command that
one of them has started twice, once by itself and once passed on."""


@contextmanager
def stopping_by(ask: Callable[[], None]) -> Iterator[None]:
    """While the block runs, each Ctrl-C and each SIGTERM calls ``ask``, unless one did within the last second; outside
    the main thread, which alone gets signals, nothing does."""
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
