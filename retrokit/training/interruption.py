"""Ctrl-C as a request: finish the step, save, stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from retrokit.notices import notice


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """While the block runs, Ctrl-C and SIGTERM ask for a stop after the current step; a second one stops at once."""
    stop = threading.Event()

    def ask(number: int, frame: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        notice("stopping after this step; once more to stop at once")

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
