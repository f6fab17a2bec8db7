"""Tables on narrow terminals and in pipes: no name and no digit is dropped."""

import io
import re

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from retrokit.core.sheet import Sheet, facts
from retrokit.report.sheets import TerminalTable
from retrokit.report.terminal import console

NAMES = st.text("abcXYZ019/._-:= ", min_size=1, max_size=60).map(str.strip).filter(bool)
NUMBERS = st.from_regex(r"[+-]?[0-9]\.[0-9]{4}( ± [0-9]\.[0-9]{4})?\*?", fullmatch=True)


class Stream(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def printed(shown: object, columns: str | None, monkeypatch: pytest.MonkeyPatch, terminal: bool = True) -> str:
    """What is printed at a width that the environment names, without colours."""
    stream = Stream(terminal)
    with monkeypatch.context() as patched:
        patched.setattr("sys.stdout", stream)
        patched.setenv("TERM", "dumb")
        patched.setenv("NO_COLOR", "1")
        patched.delenv("COLUMNS", raising=False)
        if columns is not None:
            patched.setenv("COLUMNS", columns)
        console().print(shown)
    return re.sub("\x1b[^m]*m", "", stream.getvalue())


def told(text: str) -> str:
    """The text without what folding adds."""
    return re.sub(r"\s", "", text)


def folded_cells(text: str, columns: int) -> list[str]:
    """The cells of a table, each put together from its lines, row by row."""
    cells: list[list[str]] = []
    found = []
    for line in text.splitlines():
        if line.startswith(("│", "┃")):
            parts = re.split("[│┃]", line[1:-1])
            assert len(parts) == columns
            cells.append(parts)
        elif cells:
            found += ["".join(told(row[i]) for row in cells) for i in range(columns)]
            cells = []
    return found


@settings(max_examples=40, phases=[Phase.generate])
@given(
    rows=st.lists(st.tuples(NAMES, NAMES, NUMBERS, NUMBERS), min_size=1, max_size=3),
    heads=st.tuples(NAMES, NAMES, NAMES, NAMES),
    width=st.integers(20, 200),
)
def test_nothing_is_dropped_at_any_width(rows: list[tuple[str, ...]], heads: tuple[str, ...], width: int) -> None:
    sheet = Sheet("a title", heads, 2, [cells for row in rows for cells in (row, ())])
    with pytest.MonkeyPatch.context() as monkeypatch:
        text = printed(TerminalTable(sheet), str(width), monkeypatch)
    assert "…" not in text
    assert all(len(line) <= width for line in text.splitlines())
    is_turned = "┏" not in text  # it has no heads
    cells = folded_cells(text, 2 if is_turned else 4)
    if is_turned:  # a section a row: all its lines are put together
        for row in rows:
            assert all(any(told(cell) in part for part in cells) for cell in row)
        assert all(any(told(head) in part for part in cells) for head in heads)
    else:
        assert cells == [told(cell) for row in (heads, *rows) for cell in row]
        assert all(number in text for row in rows for number in row[2:])  # each on one line


LONG = "runs/msmarco-bert-base-dot-v5/qnorm-with-a-long-name"


@pytest.mark.parametrize("columns", ["20", "30", "40"])
def test_names_and_values_of_two_columns(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = TerminalTable(facts(None, {"trainable parameters": LONG}))
    (name, value) = folded_cells(printed(table, columns, monkeypatch), 2)
    assert (name, value) == ("trainableparameters", LONG)
