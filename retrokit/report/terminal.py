"""Notices and progress on standard error: a bar on a terminal, a line every so often elsewhere."""

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from retrokit.core.notices import Advance, harmless, unseen

LINE_EVERY = 10.0  # seconds between progress lines where no bar can be drawn
ELSEWHERE = 160  # columns of a table that is printed on no terminal
LEAST = 20  # columns below which COLUMNS is no width


class _HarmlessConsole(Console):
    """Makes every text harmless before its width is measured: of cells, titles and notes, which are all given as
    strings."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(harmless(text, lines=True), **options)


def console(error: bool = False) -> Console:
    """A console on standard output or standard error."""
    stream = sys.stderr if error else sys.stdout
    columns, width = os.environ.get("COLUMNS", ""), None if stream.isatty() else ELSEWHERE
    if columns.isdecimal() and int(columns) >= LEAST:
        width = int(columns)
    # Where TERM=dumb, rich takes a width only with a height.
    height = None if width is None else shutil.get_terminal_size().lines
    # Names and paths are shown as they are: brackets are no markup, :name: is no picture.
    return _HarmlessConsole(
        file=stream, width=width, height=height, highlight=False, markup=False, emoji=False, soft_wrap=error
    )


class TerminalListener:
    """Shows the library's notices and progress."""

    def __init__(self) -> None:
        self.console = console(error=True)
        self._open = 0

    def notice(self, message: str) -> None:
        """Print one line."""
        self.console.print(harmless(message))

    @contextmanager
    def progress(self, label: str, total: int | None, unit: str) -> Iterator[Advance]:
        """A bar, or lines; progress inside progress is not shown."""
        if self._open or total == 0:
            yield unseen
            return
        self._open += 1
        label, unit = harmless(label), harmless(unit)
        try:
            draw = self._bar if self.console.is_terminal else self._lines
            with draw(label, total, unit) as advance:
                yield advance
        finally:
            self._open -= 1

    @contextmanager
    def _bar(self, label: str, total: int | None, unit: str) -> Iterator[Advance]:
        began, before = time.monotonic(), 0
        columns = (
            *(TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()),
            *(TextColumn("{task.fields[rate]}", markup=False), TextColumn("{task.fields[said]}", markup=False)),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self.console, transient=True) as bar:
            task = bar.add_task(label, total=total, rate="", said="")

            def advance(count: int, /, said: str = "", earlier: bool = False) -> None:
                nonlocal before
                before += count if earlier else 0
                bar.advance(task, count)
                if said:
                    bar.update(task, said=harmless(said))
                bar.update(task, rate=_pace(bar.tasks[0].completed - before, time.monotonic() - began, f" {unit}"))

            yield advance

    @contextmanager
    def _lines(self, label: str, total: int | None, unit: str) -> Iterator[Advance]:
        began = spoken = time.monotonic()
        done, before, last = 0, 0, ""

        def advance(count: int, /, said: str = "", earlier: bool = False) -> None:
            nonlocal done, before, spoken, last
            done += count
            before += count if earlier else 0
            last = f", {said}" if said else last
            now = time.monotonic()
            if now - spoken < LINE_EVERY:
                return
            spoken = now
            rate = (done - before) / (now - began)
            rest = f", {(total - done) / rate:,.0f} s left" if total and rate else ""
            pace = _pace(done - before, now - began)
            self.notice(f"{label}: {done:,}{f' of {total:,}' if total else ''} {unit}, {pace}{last}{rest}")

        yield advance


def _pace(count: float, seconds: float, unit: str = "") -> str:
    """A rate, or the seconds of each unit where they are more than one.

    >>> _pace(50, 2), _pace(2, 50)
    ('25.0/s', '25.0 s each')
    """
    return f"{seconds / count:,.1f} s each" if 0 < count < seconds else f"{count / max(1e-9, seconds):,.1f}{unit}/s"
