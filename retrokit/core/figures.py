"""What all figures share: colours, sizes, safe drawing of foreign names, how much fits, and the files."""

import textwrap
import warnings
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from retrokit.core.errors import disk_errors
from retrokit.core.files import replaced
from retrokit.core.notices import harmless, notice

mpl.use("Agg")
mpl.rcParams["text.parse_math"] = False  # a dollar in a label, a path or a field is a dollar
mpl.rcParams["axes.formatter.useoffset"] = False  # 0.50001, not 1e-5 + 5e-1

# Okabe and Ito's colours, which people of any colour vision tell apart.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, YELLOW, GREY = (
    *("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#7F7F7F"),
)
COLORS = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY, "black", YELLOW)
MARKERS = ("o", "^", "s")
LINES = ("-", "--", "-.", ":")
WIDTH = 6.4  # inches, 800 pixels
ROWS, CURVES, PANELS = 60, 24, 12
"""How many rows, curves or panels a picture has at most: beyond, it is neither legible nor soon done."""

CROWDED = 60  # steps from which on a curve has no points
LEAST_GAMMA_RANGE = 0.02  # of the axis: a γ that hardly moves is to look like one
FIXED = "fixed"
"""What begins the id of a text that keeps its colour, because what it is drawn on does."""

Thing = TypeVar("Thing")
ENDINGS: ContextVar[tuple[str, ...]] = ContextVar("endings", default=(".png", ".svg"))
"""Of the files of a figure."""


def shown(name: str, longest: int = 48) -> str:
    """A foreign name (an encoder, a path, a label, a field) as a figure can draw it: harmless and on one line. A long
    name is cut to its end, which distinguishes it from others. Every foreign text passes through this, or through
    ``wrapped``."""
    name = harmless(name)
    name = name if len(name) <= longest else f"…{name[1 - longest :]}"
    return f" {name}" if name.startswith("_") else name  # matplotlib leaves such names out of a legend


def wrapped(name: str, width: int = 34) -> str:
    """A foreign name on up to three lines, broken at spaces if it can be; only the end of a very long name."""
    name = shown(name, len(name) * 10 + 1)
    lines = textwrap.wrap(name, width, break_on_hyphens=False)
    return "\n".join(lines) if len(lines) <= 3 else "…" + "\n".join(lines[-3:])


def fitting(things: Sequence[Thing], limit: int, what: str, picture: str) -> list[Thing]:
    """The things up to ``limit``; a notice says so if there are more."""
    if len(things) > limit:
        notice(f"picture {picture}: {limit} of {len(things):,} {what} are drawn; the data has all")
    return list(things[:limit])


def color_of(index: int) -> str:
    """The colour of the curve of that index; they repeat."""
    return COLORS[index % len(COLORS)]


def line_of(index: int) -> str:
    """The line of a curve: the next one whenever the colours have run out."""
    return LINES[index // len(COLORS) % len(LINES)]


def panels(count: int, height: float, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """``count`` axes in a figure as wide as the page, each ``height`` inches high."""
    rows = -(-count // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(WIDTH, height * rows), layout="constrained", squeeze=False)
    for spare in axes.flat[count:]:
        spare.set_visible(False)
    return figure, list(axes.flat[:count])


def told_in_cells(axes: Axes, values: np.ndarray, middle: float, form: str, absent: str, **options: Any) -> None:
    """Write each of ``values`` into its cell of a heat map, in white below ``middle``; ``absent`` where it is NaN."""
    for row, column in np.ndindex(*values.shape):
        value = float(values[row, column])
        color = "white" if value < middle else "black"
        text = f"{value:{form}}" if np.isfinite(value) else absent
        axes.text(column, row, text, ha="center", va="center", color=color, gid=FIXED, **options)


class Curve(NamedTuple):
    """A line through points; without a label, it is not in the legend."""

    label: str | None
    points: Sequence[tuple[float, float]]
    color: str
    line: str
    marker: str | None = None
    size: float | None = None


def curves_figure(
    curves: Iterable[Curve], xlabel: str, ylabel: str, height: float = 4.0, columns: int = 3
) -> tuple[Figure, Axes]:
    """Curves in one figure, with a legend of ``columns`` columns above it."""
    figure, (axes,) = panels(1, height)
    for curve in curves:
        x, y = zip(*curve.points, strict=True)
        axes.plot(x, y, curve.line, marker=curve.marker, markersize=curve.size, color=curve.color, label=curve.label)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.grid(alpha=0.3)
    legend_above(figure, axes, columns=columns)
    return figure, axes


def step_marker(points: Sequence[Any]) -> str | None:
    """The marker of a curve over the steps of a training."""
    return "." if len(points) < CROWDED else None


def steps_axis(axes: Axes) -> None:
    """Training steps: whole numbers from left to right."""
    axes.set_xlabel("training step")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)


def widen(axes: Axes, least: float) -> None:
    """Let the vertical axis span ``least`` at the least, around its middle."""
    low, high = axes.get_ylim()
    if high - low < least:
        axes.set_ylim((low + high - least) / 2, (low + high + least) / 2)


def legend_above(figure: Figure, *several: Axes, columns: int = 3) -> None:
    """A legend of what is drawn in the axes, above the whole figure, which grows by it: there it covers nothing."""
    handles: list[Any] = []
    labels: list[str] = []
    for axes in several:
        more_handles, more_labels = axes.get_legend_handles_labels()
        handles += more_handles
        labels += more_labels
    if not handles:
        return
    widest = max(len(line) for label in labels for line in label.split("\n"))
    columns = max(1, min(columns, len(labels), 84 // (widest + 6)))
    lines = -(-len(labels) // columns) * max(label.count("\n") + 1 for label in labels)
    figure.set_figheight(figure.get_figheight() + 0.17 * (lines - 1))
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, fontsize=8)


def save(figure: Figure, folder: str | Path, name: str) -> list[Path]:
    """Write ``NAME.png`` and ``NAME.svg`` into the folder, and close the figure; returns the files. Raises
    :class:`DataError` if the folder or a file could not be written."""
    # by hand: in a name such as ndcg@10_v1.5, with_suffix would take off the end
    files = [Path(folder) / f"{name}{ending}" for ending in ENDINGS.get()]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # drawn as an empty box
        for file, ending in zip(files, ENDINGS.get(), strict=True):
            with replaced(file) as new, disk_errors(file):
                figure.savefig(new, dpi=125, format=ending.removeprefix("."))
    plt.close(figure)
    return files
