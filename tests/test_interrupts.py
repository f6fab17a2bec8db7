"""Signals as wishes to stop."""

from __future__ import annotations

import os
import signal
import threading

from retrokit.interrupts import stopping_by


def test_each_signal_asks_and_the_handlers_come_back():
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    asked: list[int] = []
    with stopping_by(lambda: asked.append(1)):
        for number in before:
            os.kill(os.getpid(), number)
    assert len(asked) == 2
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
