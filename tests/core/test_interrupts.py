"""Signals as wishes to stop."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from retrokit.cli import entry, run
from retrokit.core import interrupts
from retrokit.core.errors import Interrupted
from retrokit.core.interrupts import stopping_by


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


# --- commands


@pytest.fixture
def started(tmp_path: Path, python: str) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start a program, or ``retrokit`` with words."""
    processes = []

    def start(*words: str, program: str = "", **streams: Any) -> subprocess.Popen[bytes]:
        code = f"{program}\nfrom retrokit.cli import main\nmain()"
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
        processes.append(subprocess.Popen([python, "-c", code, *words], cwd=tmp_path, **streams))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@contextmanager
def reading(process: subprocess.Popen[bytes], pipe: Path) -> Iterator[None]:
    """Within it the process waits for something to read from the pipe."""
    while True:
        assert process.poll() is None, process.stderr and process.stderr.read()
        try:
            number = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            break
        except OSError:  # nobody has opened it
            time.sleep(0.01)
    time.sleep(0.2)  # between opening and reading, a signal is noticed only once something has been read
    yield
    os.close(number)


SIGNALS = (signal.SIGINT, signal.SIGTERM)


def interrupted(process: subprocess.Popen[bytes], number: int = signal.SIGINT) -> None:
    """Press Ctrl-C or send another signal, and check that the command ends with one line and 128 + its number."""
    process.send_signal(number)
    code = process.wait(60)
    assert process.stderr is not None
    said = process.stderr.read().decode()
    assert code == 128 + number
    assert re.fullmatch(r"retrokit: .*interrupted.*\n", said), said


@pytest.mark.parametrize(
    "words",
    [
        ("augment", "crops", "FIFO", "-o", "out"),
        ("augment", "mix", "FIFO", "-o", "out"),
        ("augment", "near-misses", "FIFO", "-o", "out"),
        ("augment", "split", "FIFO", "-o", "out"),
        ("build-sure", "--queries", "FIFO", "--passages", "FIFO", "--llm", "replay:FIFO", "-o", "out"),
        ("eval", "static:dim=4", "--on", "classify:FIFO"),
        ("export", "static:dim=4", "--on", "FIFO", "-o", "out"),
        ("finetune", "static:dim=4", "--data", "FIFO", "-o", "out"),
        ("probe", "near-miss", "static:dim=4", "--on", "pairs:FIFO"),
        ("rerank", "verify", "default", "FIFO", "-o", "out"),
        ("search", "bm25", "--corpus", "FIFO", "--query", "a"),
    ],
    ids=lambda words: "-".join(words[:2]),
)
def test_a_signal_while_an_input_is_read_leaves_nothing(tmp_path: Path, started, words: tuple[str, ...]):
    os.mkfifo(tmp_path / "FIFO")
    process = started(*words)
    with reading(process, tmp_path / "FIFO"):
        interrupted(process)
    assert os.listdir(tmp_path) == ["FIFO"]


def test_sigterm_in_the_background_of_a_script(tmp_path: Path, started):
    """There a shell has Ctrl-C ignored, which stays so."""
    os.mkfifo(tmp_path / "FIFO")
    ignored = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    process = started("augment", "crops", "FIFO", "-o", "out", program=ignored)
    with reading(process, tmp_path / "FIFO"):
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        assert process.poll() is None
        interrupted(process, signal.SIGTERM)
    assert os.listdir(tmp_path) == ["FIFO"]


# where a program interrupts itself, each of which was lost once
PRESS = """
import os, signal, time
press = lambda *_: (os.kill(os.getpid(), signal.SIGINT), time.sleep(5))
def work(*_):
    {}
    time.sleep(60)
import retrokit.cli.entry
retrokit.cli.entry._invoke = work
"""
SWALLOWED = {
    "destructor": "type('Held', (), {'__del__': press})()",
    "weak reference": "import weakref; held = set(); watched = weakref.ref(held, press); del held",
    "generator": """
    def numbers():
        try: yield 1
        finally: press()
    next(numbers())""",
    "swallowed": """
    try: press()
    except BaseException: pass""",
    "another error": """
    try: press()
    except BaseException: raise ImportError("numpy.core.multiarray failed to import") from None""",
    "twice": """
    try: press()
    except BaseException: pass
    try: time.sleep(60)
    except BaseException: pass""",
}


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("code", SWALLOWED.values(), ids=SWALLOWED)
def test_no_signal_is_lost(started, code: str, number: signal.Signals):
    process = started("names", "encoders", program=PRESS.format(code).replace("SIGINT", number.name))
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (128 + number, b"retrokit: interrupted\n")


@pytest.mark.parametrize("number", SIGNALS)
def test_a_second_signal_ends_at_once(started, number: signal.Signals):
    code = "try: press()\n    finally: press()"
    program = (
        PRESS.format(code).replace("SIGINT", number.name)
        + "import retrokit.core.interrupts\nretrokit.core.interrupts.AGAIN = 0\n"
    )
    began = time.monotonic()
    process = started("names", "encoders", program=program)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (128 + number, b"retrokit: interrupted\n")
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(
    ("sent", "code"),
    [((signal.SIGTERM,), 143), ((signal.SIGINT, signal.SIGTERM), 130), ((signal.SIGINT,), 130), ((), 130)],
)
def test_a_line_to_resume_follows_either_signal(capsys, monkeypatch, sent: tuple[int, ...], code: int):
    """A signal of an earlier command of the same process does not count."""

    def work(*_: object) -> int:
        with stopping_by(lambda: None):
            for number in sent:
                os.kill(os.getpid(), number)
        raise Interrupted("stopped", "resume")

    with stopping_by(lambda: None):
        os.kill(os.getpid(), signal.SIGTERM)
    monkeypatch.setattr(entry, "_invoke", work)
    assert run(["names", "encoders"]) == code
    assert capsys.readouterr().err == "retrokit: stopped; resume with: retrokit names encoders --resume\n"
