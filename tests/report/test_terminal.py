"""Notices and progress where standard error is no terminal, and where it is one."""

import pytest

from retrokit.core.notices import listening, notice, progress
from retrokit.report import terminal
from retrokit.report.terminal import TerminalListener, console


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(terminal, "time", clock)
    return clock


def test_a_notice_is_one_line_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    message = "runs/[bold]x[/bold]: :cat: sfs:16" + " long" * 100
    with listening(TerminalListener()):
        notice(message)
    shown = capsys.readouterr()
    assert shown.err == message + "\n"
    assert shown.out == ""


@pytest.mark.parametrize(
    ("label", "total", "unit", "advances", "lines"),
    [
        (
            *("encoding", 1000, "texts", [(4, 100), (4, 100), (4, 100), (4, 100), (8, 600)]),
            ["encoding: 300 of 1,000 texts, 25.0/s, 28 s left", "encoding: 1,000 of 1,000 texts, 41.7/s, 0 s left"],
        ),
        (
            *("training", 4, "steps", [(0, 1, "loss 2"), (0, 0, "loss \x1b[2J1"), (10, 1)]),
            ["training: 2 of 4 steps, 0.2/s, loss \\x1b[2J1, 10 s left"],
        ),
        ("encoding", 10, "texts", [(9, 10)], []),
        ("reading", None, "lines", [(10, 2000)], ["reading: 2,000 lines, 200.0/s"]),
        ("searching", 0, "queries", [(60, 0)], []),
    ],
)
def test_lines_now_and_then(
    clock: Clock,
    capsys: pytest.CaptureFixture[str],
    label: str,
    total: int,
    unit: str,
    advances: list,
    lines: list[str],
) -> None:
    with listening(TerminalListener()), progress(label, total, unit) as advance:
        for seconds, *count in advances:
            clock.now += seconds
            advance(*count)
    shown = capsys.readouterr()
    assert shown.err.splitlines() == lines
    assert shown.out == ""


def test_progress_inside_progress_is_not_shown(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with listening(TerminalListener()):
        with progress("outer", 2, "steps") as outer:
            with progress("inner", 4, "texts") as inner:
                clock.now += 20
                inner(4)
            outer(1)
        with progress("after", 2, "steps") as after:  # and the next one is shown again
            clock.now += 20
            after(1)
    assert capsys.readouterr().err.splitlines() == [
        "outer: 1 of 2 steps, 0.1/s, 20 s left",
        "after: 1 of 2 steps, 0.1/s, 20 s left",
    ]


def test_progress_that_fails_leaves_the_next_one_visible(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with listening(TerminalListener()):
        with pytest.raises(KeyError), progress("first", 2, "steps"):
            raise KeyError
        with progress("second", 2, "steps") as advance:
            clock.now += 20
            advance(2)
    assert capsys.readouterr().err == "second: 2 of 2 steps, 0.1/s, 0 s left\n"


def test_what_is_no_terminal_is_plain(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS")
    console().print("x" * 1000, "[red]y[/red]")
    assert capsys.readouterr().out == "x" * 1000 + " [red]y[/red]\n"
