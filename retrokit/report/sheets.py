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
from retrokit.core.sheet import Cell, Sheet

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
    "*": "$^{*}$",
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
    heads = [harmless(column, lines=True) for column in sheet.columns]
    rows = [[harmless("\n".join(cell), lines=True) for cell in row] for row in sheet.rows]
    room = width - 3 * len(heads) - 1  # a border and two spaces a column
    wanted, needed = [], []
    for place, head in enumerate(heads):
        widest = _widest(line for row in rows if row for line in row[place].split("\n"))
        wanted.append(max(widest, cell_len(head)))
        needed.append(max(_widest(head.split()), widest if sheet.is_number(place) else min(widest, FOLDED)))
    if sum(needed) > room and len(heads) > 2:
        turned: list[Sequence[str]] = []
        for row in filter(None, rows):
            turned += [
                (head, " ".join(map(str.strip, cell.split("\n")))) for head, cell in zip(heads, row, strict=True)
            ]
            turned.append(())
        return _table(Sheet(None, ["", ""], 2, turned), width)
    if sum(needed) > room:
        needed = [min(width, max(1, room // len(needed))) for width in needed]
    table = Table(show_header=any(heads))
    for place, (head, width) in enumerate(zip(heads, _spread(wanted, needed, room), strict=True)):
        justify: Any = "right" if sheet.is_number(place) else "left"
        table.add_column(head, justify=justify, width=width, no_wrap=False, overflow="fold")
    for row in rows:
        if row:
            table.add_row(*row)
        else:
            table.add_section()
    return table


def _widest(texts: Iterable[str]) -> int:
    return max(map(cell_len, texts), default=0)


def _spread(wanted: Sequence[int], needed: Sequence[int], room: int) -> list[int]:
    """Widths from what is needed up to what is wanted, the columns that want least first."""
    widths, left = list(needed), room - sum(needed)
    by_want = sorted(range(len(widths)), key=lambda position: wanted[position] - needed[position])
    for done, position in enumerate(by_want):
        more = max(0, min(wanted[position] - needed[position], left // (len(widths) - done)))
        widths[position] += more
        left -= more
    return widths


def to_markdown(sheet: Sheet) -> str:
    """The table as GitHub's Markdown."""

    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cells)} |"

    marks = ["---:" if sheet.is_number(place) else "---" for place in range(len(sheet.columns))]
    rows = [line(_side_by_side(cell, in_markdown) for cell in row) for row in sheet.rows if row]
    head = [line(map(in_markdown, sheet.columns)), line(marks)]
    return "\n".join([f"**{in_markdown(sheet.title or '')}**", "", *head, *rows, "", in_markdown(sheet.caption), ""])


def to_latex(sheet: Sheet) -> str:
    """The table in LaTeX; it needs the package booktabs."""

    def line(cells: Iterable[str]) -> str:
        return " & ".join(cells) + r" \\"

    return "\n".join(
        [
            r"% needs \usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_in_latex(sheet.title or '')}: {_in_latex(sheet.caption)}.}}",
            rf"\begin{{tabular}}{{{''.join('lr'[sheet.is_number(place)] for place in range(len(sheet.columns)))}}}",
            r"\toprule",
            line(map(_in_latex, sheet.columns)),
            r"\midrule",
            *(line(_side_by_side(cell, _in_latex) for cell in row) for row in sheet.rows if row),
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


def overlap_sheets(overlaps: Sequence[Mapping[str, Any]]) -> list[Sheet]:
    """Counts and examples of :class:`~retrokit.data.overlap.Overlap` as plain values; without empty tables."""
    counts, examples = [], []
    for overlap in overlaps:
        for what in ("queries", "pairs", "documents"):
            numbers = (overlap["counts"].get(f"{what}{kind}") for kind in ("", "_seen", "_near"))
            counts.append([overlap["test"], what, *("" if count is None else f"{count:,}" for count in numbers)])
        for example in overlap["examples"]:
            texts = [textwrap.shorten(example[side], SHOWN, placeholder="…") for side in ("test", "training")]
            examples.append([overlap["test"], example["what"], *texts])
    sheets = [
        Sheet("tests in the training data", ["test", "", "in all", "there", "nearly"], 2, counts, ""),
        Sheet("examples", ["test", "", "text of the test", "text of the training data"], 4, examples, ""),
    ]
    return [sheet for sheet in sheets if sheet.rows]


SHEETS: dict[str, Callable[[Sheet], Any]] = {"table": lambda sheet: sheet, "markdown": to_markdown, "latex": to_latex}
"""The forms of a sheet by the name of the format; the sheet itself is what ``retrokit`` prints as a table."""
