"""The forms of a :class:`~retrokit.core.sheet.Sheet`: for a terminal of any width, in Markdown, in LaTeX."""

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.styled import Styled
from rich.table import Table

from retrokit.core.notices import harmless
from retrokit.core.sheet import Cell, Sheet, digits

SHOWN = 100  # characters of a text
FOLDED = 12  # characters that a column of words keeps where it is folded

_MARKDOWN = re.compile(r"([\\|*_`<\[\]])")
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "<": "$<$",
    ">": "$>$",
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
}


@dataclass(frozen=True)
class TerminalTable:
    """The table for a terminal, its notes below. It drops nothing where room is scarce: words are folded, numbers stay
    whole; and where not even that fits, the table is turned, a line for each column of a row."""

    sheet: Sheet

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.sheet.title:  # as wide as the terminal, not as the table: a name in it stays whole
            yield console.render_str(self.sheet.title, style="table.title", overflow="fold")
        yield _table(self.sheet, options.max_width)
        yield from (Styled(note, "dim") for note in self.sheet.notes)


def _table(sheet: Sheet, width: int) -> Table:
    headings = [harmless(column, lines=True) for column in sheet.columns]
    rows = [[harmless("\n".join(cell), lines=True) for cell in row] for row in sheet.rows]
    room = width - 3 * len(headings) - 1  # a border and two spaces a column
    wanted, needed = _widths(sheet, headings, rows)
    if sum(needed) > room:
        if len(headings) > 2:
            return _table(_turned(headings, rows), width)
        needed = [min(width, max(1, room // len(needed))) for width in needed]
    return _filled(sheet, headings, rows, _spread(wanted, needed, room))


def _filled(sheet: Sheet, headings: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int]) -> Table:
    table = Table(show_header=any(headings))
    for column, (heading, width) in enumerate(zip(headings, widths, strict=True)):
        justify: Any = "right" if sheet.is_number(column) else "left"
        table.add_column(heading, justify=justify, width=width, no_wrap=False, overflow="fold")
    for row in rows:
        if row:
            table.add_row(*row)
        else:
            table.add_section()
    return table


def _widths(sheet: Sheet, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[int], list[int]]:
    """The width that each column would have, and the width below which a number or a heading's word would break."""
    wanted, needed = [], []
    for column, heading in enumerate(headings):
        lines = [line for row in rows if row for line in row[column].split("\n")]
        widest = max(map(cell_len, lines), default=0)
        longest_word = max(map(cell_len, heading.split()), default=0)
        wanted.append(max(widest, cell_len(heading)))
        needed.append(max(longest_word, widest if sheet.is_number(column) else min(widest, FOLDED)))
    return wanted, needed


def _turned(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Sheet:
    """The table with a line for each cell, and a rule after each row."""
    lines: list[Sequence[str]] = []
    for row in filter(None, rows):
        for heading, cell in zip(headings, row, strict=True):
            lines.append((heading, " ".join(line.strip() for line in cell.split("\n"))))
        lines.append(())
    return Sheet(None, ["", ""], 2, lines)


def _spread(wanted: Sequence[int], needed: Sequence[int], room: int) -> list[int]:
    """Widths from what is needed up to what is wanted, the columns that want least first."""
    widths, spare = list(needed), room - sum(needed)
    by_want = sorted(range(len(widths)), key=lambda column: wanted[column] - needed[column])
    for done, column in enumerate(by_want):
        more = max(0, min(wanted[column] - needed[column], spare // (len(widths) - done)))
        widths[column] += more
        spare -= more
    return widths


def to_markdown(sheet: Sheet) -> str:
    """The table as GitHub's Markdown."""

    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cells)} |"

    marks = ["---:" if sheet.is_number(column) else "---" for column in range(len(sheet.columns))]
    rows = [line(_side_by_side(cell, in_markdown) for cell in row) for row in sheet.rows if row]
    head = [line(map(in_markdown, sheet.columns)), line(marks)]
    return "\n".join([f"**{in_markdown(sheet.title or '')}**", "", *head, *rows, "", in_markdown(sheet.caption), ""])


def to_latex(sheet: Sheet) -> str:
    """The table in LaTeX; it needs the package booktabs."""

    def line(cells: Iterable[str]) -> str:
        return " & ".join(cells) + r" \\"

    alignments = "".join("r" if sheet.is_number(column) else "l" for column in range(len(sheet.columns)))
    return "\n".join(
        [
            r"% needs \usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_in_latex(sheet.title or '')}: {_in_latex(sheet.caption)}.}}",
            rf"\begin{{tabular}}{{{alignments}}}",
            r"\toprule",
            line(map(_in_latex, sheet.columns)),
            r"\midrule",
            *(line(_latex_cell(sheet, column, cell) for column, cell in enumerate(row)) for row in sheet.rows if row),
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


def _latex_cell(sheet: Sheet, column: int, cell: Cell) -> str:
    """The cell in LaTeX: a star next to a number marks significance, one in a name is itself."""
    text = _side_by_side(cell, _in_latex)
    return text.replace("*", "$^{*}$") if sheet.is_number(column) else text


def _in_latex(text: str) -> str:
    escaped = "".join(_LATEX.get(letter, letter) for letter in harmless(text))
    escaped = escaped.replace("* where ", "$^{*}$ where ")  # what a caption says of the mark
    return re.sub(r"(?<![\w-])-(?=\d)", "$-$", escaped)


def short(text: str) -> str:
    """The beginning of a text, on one line."""
    return textwrap.shorten(text, SHOWN, placeholder="…")


def overlap_sheets(overlaps: Sequence[Mapping[str, Any]]) -> list[Sheet]:
    """Counts and examples of :class:`~retrokit.data.overlap.Overlap` as plain values; without empty tables."""
    counts, examples = [], []
    for overlap in overlaps:
        for what in ("queries", "pairs", "documents"):
            numbers = [overlap["counts"].get(f"{what}{kind}") for kind in ("", "_seen", "_near")]
            counts.append([overlap["test"], what, *(digits(count, ",", absent="") for count in numbers)])
        for example in overlap["examples"]:
            texts = [short(example[side]) for side in ("test", "training")]
            examples.append([overlap["test"], example["what"], *texts])
    sheets = [
        Sheet("tests in the training data", ["test", "", "in all", "there", "nearly"], 2, counts, ""),
        Sheet("examples", ["test", "", "text of the test", "text of the training data"], 4, examples, ""),
    ]
    return [sheet for sheet in sheets if sheet.rows]
