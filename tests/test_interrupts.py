"""Signals as wishes to stop."""

from __future__ import annotations

import os
import signal
import threading

from retrokit import interrupts
from retrokit.interrupts import stopping_by


def test_signals_ask_and_the_handlers_come_back(monkeypatch):
    """A second one that comes at once is the first, passed on: a group's Ctrl-C and what a launcher makes of it."""
    now = [100.0]
    monkeypatch.setattr(interrupts.time, "monotonic", lambda: now[0])
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    asked: list[float] = []
    with stopping_by(lambda: asked.append(now[0])):
        for now[0] in (100.0, 100.9, 101.0, 101.5, 103.0):
            for number in before:
                os.kill(os.getpid(), number)
    assert asked == [100.0, 101.0, 103.0]
    assert {number: signal.getsignal(number) for number in before} == before


def test_other_threads_work_without_signals():
    done: list[int] = []

    def work() -> None:
        with stopping_by(lambda: None):
            done.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [1]
