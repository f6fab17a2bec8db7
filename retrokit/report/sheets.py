"""A table as data, and its forms: for a terminal, in Markdown, in LaTeX."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Group
from rich.styled import Styled
from rich.table import Table

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
    """A table of which the first ``words`` columns hold words, the others numbers."""

    title: str
    columns: Sequence[str]
    words: int
    rows: Sequence[Sequence[Cell]]
    caption: str


def to_rich(sheet: Sheet) -> Group:
    """The table for a terminal, its caption below."""
    table = Table(title=sheet.title, title_justify="left")
    for position, column in enumerate(sheet.columns):
        if position < sheet.words:
            table.add_column(column, overflow="fold")
        else:
            table.add_column(column, justify="right", no_wrap=True)
    for row in sheet.rows:
        table.add_row(*("\n".join(cell) for cell in row))
    return Group(table, Styled(sheet.caption, "dim"))


def to_markdown(sheet: Sheet) -> str:
    """The table as GitHub's Markdown."""

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    marks = ["---" if position < sheet.words else "---:" for position in range(len(sheet.columns))]
    rows = [line([_side_by_side(cell, _in_markdown) for cell in row]) for row in sheet.rows]
    head = [line([_in_markdown(column) for column in sheet.columns]), line(marks)]
    return "\n".join([f"**{_in_markdown(sheet.title)}**", "", *head, *rows, "", _in_markdown(sheet.caption), ""])


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


def _in_markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", text)


def _in_latex(text: str) -> str:
    escaped = "".join(_LATEX.get(letter, letter) for letter in text)
    return re.sub(r"(?<![\w-])-(?=\d)", "$-$", escaped)
