"""Ctrl-C and SIGTERM as a wish to stop, which long work grants when its state is kept."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def stopping_by(ask: Callable[[], None]) -> Iterator[None]:
    """While the block runs, each Ctrl-C and each SIGTERM calls ``ask``; outside the main thread, which alone gets
    signals, nothing does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: ask()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
