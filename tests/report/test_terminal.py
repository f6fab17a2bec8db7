"""Notices and progress where standard error is no terminal, and where it is one."""

import io
import re
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrokit.cli.common import show
from retrokit.cli.entry import _fail
from retrokit.core.frames import frame, to_csv
from retrokit.core.notices import harmless, listening, notice, progress
from retrokit.core.sheet import Sheet
from retrokit.report import terminal
from retrokit.report.sheets import to_latex, to_markdown
from retrokit.report.terminal import TerminalListener


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
            ["training: 2 of 4 steps, 5.0 s each, loss \\x1b[2J1, 10 s left"],
        ),
        (
            *("training", 100, "steps", [(0, 90, "", True), (10, 5)]),
            ["training: 95 of 100 steps, 2.0 s each, 10 s left"],
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


HOSTILE = "a\x1b[31mb\x1b]0;title\x07c\rd\x08e\x9b2Jf\u202eg\u2066h\u2028i\udcffj\x00k"
SHOWN = "a\\x1b[31mb\\x1b]0;title\\x07c\\rd\\x08e\\x9b2Jf\\u202eg\\u2066h\\u2028i\\udcffj\\x00k"
ANY_TEXT = st.text(st.characters(), max_size=30)


def is_harmless(text: str) -> bool:
    kinds = {unicodedata.category(letter) for letter in text if letter not in "\n\t"}
    return not kinds & {"Cc", "Cs", "Zl", "Zp"} and not re.search("[\u202a-\u202e\u2066-\u2069]", text)


@given(ANY_TEXT)
def test_what_is_shown_is_harmless_and_what_is_harmless_stays(text: str) -> None:
    assert is_harmless(harmless(text))
    assert "\n" not in harmless(text)
    assert is_harmless(harmless(text, lines=True))
    assert harmless(text, lines=True).count("\n") == text.count("\n")
    assert (harmless(text, lines=True) == text) == is_harmless(text)


def test_cells_of_csv_are_no_formulas_and_numbers_stay_numbers() -> None:
    rows = [{"=name": text, "value": -0.5, "count": count} for text, count in zip(FORMULAS, (1, None), strict=False)]
    written = to_csv(frame(rows))
    assert written == "'=name,value,count\n'=1+1,-0.5,1\n'+a,-0.5,\n"
    for text, shown in FORMULAS.items():
        assert to_csv(frame([{"a": text}])) == f"a\n{shown}\n"


FORMULAS = {
    "=1+1": "'=1+1",
    "+a": "'+a",
    "-a": "'-a",
    "@SUM(A1)": "'@SUM(A1)",
    "\t=1": "'\t=1",
    "\r=1": "'\\r=1",
    "\n=1": "'\\n=1",
    "＝1": "'＝1",
    "-0.5": "-0.5",
    "+1e-5": "+1e-5",
    "a=b": "a=b",
    "\x1b[31m": "\\x1b[31m",
    'a,"b"': '"a,""b"""',
}


SHEET = Sheet(HOSTILE, [HOSTILE, "x"], 1, [[(HOSTILE,), ("1",)]], HOSTILE)
PRINTED: dict[str, tuple[Callable[[], object], int]] = {
    "text": (lambda: show(HOSTILE), 1),
    "on standard error": (lambda: show(HOSTILE, error=True), 1),
    "a table": (lambda: show(SHEET), 4),
    "Markdown": (lambda: show(to_markdown(SHEET).replace("\\", "")), 0),
    "LaTeX": (lambda: show(to_latex(SHEET)), 0),
    "LaTeX in a file": (lambda: print(to_latex(SHEET)), 0),
    "CSV in a file": (lambda: print(to_csv(frame([{HOSTILE: HOSTILE}]))), 2),
    "Markdown in a file": (lambda: print(to_markdown(SHEET).replace("\\", "")), 0),
    "an error": (lambda: _fail(HOSTILE, 2), 1),
    "a notice": (lambda: notice(HOSTILE), 1),
}


@pytest.mark.parametrize("name", PRINTED)
def test_what_is_printed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    do, times = PRINTED[name]
    with listening(TerminalListener()):
        do()
    shown = "".join(capsys.readouterr())
    assert is_harmless(shown)
    assert re.search("a.*b.*c.*d.*e", shown)
    assert shown.count(SHOWN) >= times


def test_a_notice_and_a_problem_stay_on_their_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with listening(TerminalListener()):
        notice("one\nretrokit: another")
    _fail("one\ntwo\r\x85three", 2)
    assert capsys.readouterr().err.splitlines() == [
        "one\\nretrokit: another",
        "retrokit: one",
        "retrokit: two\\r\\x85three",
    ]


def test_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = Terminal()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setattr("sys.stderr", shown)
    with listening(TerminalListener()), progress(HOSTILE + "[bold]", 2, "[texts]") as advance:
        advance(2)
    assert SHOWN + "[bold]" in shown.getvalue()
    assert "[texts]/s" in shown.getvalue()
    for foreign in ("\x1b[31m", "\x1b]0;", "\x07", "\x9b", "\u202e"):
        assert foreign not in shown.getvalue()


def test_a_table_off_a_terminal_has_at_most_160_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    show(Sheet("t", ["system", "text"], 2, [["a", "word " * 100]]))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) == 160
    assert sum(line.count("word") for line in lines) == 100
