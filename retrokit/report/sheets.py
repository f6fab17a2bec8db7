"""A table as data, and its forms: for a terminal of any width, in Markdown, in LaTeX."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar

import rich.table
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, JustifyMethod, RenderResult
from rich.styled import Styled

from retrokit.core.notices import harmless

FOLDED = 12  # characters that a column of words keeps where it is folded

Row = TypeVar("Row")
Cell = tuple[str, ...]
"""What stands in a cell, line by line; where a cell has one line only, side by side."""

_MARKDOWN = re.compile(r"([\\|*_`<\[\]])")
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "<": "$<$",
    ">": "$>$",
    "*": "$^{*}$",
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
}


@dataclass(frozen=True)
class Sheet:
    """A table of which the first ``words`` columns hold words, the others numbers. A cell given as a text is a line."""

    title: str
    columns: Sequence[str]
    words: int
    rows: Sequence[Sequence[Any]]
    caption: str

    def __post_init__(self) -> None:
        rows = [[(cell,) if isinstance(cell, str) else cell for cell in row] for row in self.rows]
        object.__setattr__(self, "rows", rows)


class Table(rich.table.Table):
    """A table that drops nothing where room is scarce: words are folded, numbers stay whole; and where not even that
    fits, the table is turned, a line for each column of a row. Columns that are justified to the right are numbers."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = options.max_width - 3 * len(self.columns) - 1  # a border and two spaces a column
        cells = [[_text(cell) for cell in column.cells] for column in self.columns]
        heads = [_text(column.header) if self.show_header else "" for column in self.columns]
        wanted, needed = [], []
        for column, head, texts in zip(self.columns, heads, cells, strict=True):
            widest = _widest(line for text in texts for line in text.split("\n"))
            word = _widest(head.split())
            wanted.append(max(widest, cell_len(head)))
            needed.append(max(word, widest if column.justify == "right" else min(widest, FOLDED)))
        if sum(needed) > room:
            if len(self.columns) > 2:
                yield _turned(self.title, heads, cells)
                return
            needed = [min(width, max(1, room // len(needed))) for width in needed]
        for column, width in zip(self.columns, _spread(wanted, needed, room), strict=True):
            column.width, column.no_wrap, column.overflow = width, False, "fold"
        title, self.title = self.title, None
        if title:  # as wide as the terminal, not as the table: a name in it stays whole
            yield console.render_str(str(title), style="table.title", overflow="fold")
        try:
            yield from super().__rich_console__(console, options)
        finally:
            self.title = title


def table(title: str | None, words: Iterable[str], numbers: Iterable[str] = ()) -> Table:
    """A table without rows: columns of words, then columns of numbers."""
    result = Table(*words, title=title, title_justify="left")
    for column in numbers:
        result.add_column(column, justify="right")
    return result


def facts(title: str | None, rows: Mapping[str, str], justify: JustifyMethod = "left") -> Table:
    """A table without a head: what something is called, and what it is."""
    result = Table(title=title, title_justify="left", show_header=False)
    result.add_column()
    result.add_column(justify=justify)
    for name, value in rows.items():
        result.add_row(name, value)
    return result


def grouped(rows: Iterable[Row], *names: str) -> dict[Any, list[Row]]:
    """The rows by what they have under a name, or under several names together, in order."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(attrgetter(*names)(row), []).append(row)
    return groups


def noted(table: Table, *notes: str) -> Group:
    """A table with what is to be said beside its figures."""
    return Group(table, *(Styled(note, "dim") for note in notes))


def _text(cell: Any) -> str:
    return harmless(str(cell), lines=True)


def _widest(texts: Iterable[str]) -> int:
    return max(map(cell_len, texts), default=0)


def _spread(wanted: Sequence[int], needed: Sequence[int], room: int) -> list[int]:
    """Widths from what is needed up to what is wanted, the columns that want least first."""
    widths, left = list(needed), room - sum(needed)
    by_want = sorted(range(len(widths)), key=lambda position: wanted[position] - needed[position])
    for done, position in enumerate(by_want):
        more = min(wanted[position] - needed[position], left // (len(widths) - done))
        widths[position] += max(0, more)
        left -= max(0, more)
    return widths


def _turned(title: Any, heads: Sequence[str], cells: Sequence[Sequence[str]]) -> Table:
    """A line for each column of a row, with its name in front."""
    table = facts(title, {})
    for row in zip(*cells, strict=True):
        for head, cell in zip(heads, row, strict=True):
            table.add_row(head, " ".join(line.strip() for line in cell.split("\n")))
        table.add_section()
    return table


def to_rich(sheet: Sheet) -> Group:
    """The table for a terminal, its caption below."""
    shown = table(sheet.title, sheet.columns[: sheet.words], sheet.columns[sheet.words :])
    for row in sheet.rows:
        shown.add_row(*("\n".join(cell) for cell in row))
    return noted(shown, sheet.caption)


def to_markdown(sheet: Sheet) -> str:
    """The table as GitHub's Markdown."""

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    marks = ["---" if position < sheet.words else "---:" for position in range(len(sheet.columns))]
    rows = [line([_side_by_side(cell, in_markdown) for cell in row]) for row in sheet.rows]
    head = [line([in_markdown(column) for column in sheet.columns]), line(marks)]
    return "\n".join([f"**{in_markdown(sheet.title)}**", "", *head, *rows, "", in_markdown(sheet.caption), ""])


def to_latex(sheet: Sheet) -> str:
    """The table in LaTeX; it needs the package booktabs."""

    def line(cells: Sequence[str]) -> str:
        return " & ".join(cells) + r" \\"

    alignment = "l" * sheet.words + "r" * (len(sheet.columns) - sheet.words)
    return "\n".join(
        [
            r"% needs \usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_in_latex(sheet.title)}: {_in_latex(sheet.caption)}.}}",
            rf"\begin{{tabular}}{{{alignment}}}",
            r"\toprule",
            line([_in_latex(column) for column in sheet.columns]),
            r"\midrule",
            *(line([_side_by_side(cell, _in_latex) for cell in row]) for row in sheet.rows),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _side_by_side(cell: Cell, written: Callable[[str], str]) -> str:
    return " ".join(written(line.strip()) for line in cell if line.strip())


def in_markdown(text: str) -> str:
    """The text with what Markdown would read as marks escaped, on one line."""
    return _MARKDOWN.sub(r"\\\1", harmless(text))


def _in_latex(text: str) -> str:
    escaped = "".join(_LATEX.get(letter, letter) for letter in harmless(text))
    return re.sub(r"(?<![\w-])-(?=\d)", "$-$", escaped)


SHEETS: dict[str, Callable[[Sheet], Any]] = {"table": to_rich, "markdown": to_markdown, "latex": to_latex}
"""The forms of a sheet."""
