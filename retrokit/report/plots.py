"""Pictures of a run, from its ``metrics.jsonl``: loss, evaluation, norms, γ (MAG, Figures 2, 5 and 6)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from retrokit.core.errors import disk_errors
from retrokit.core.figures import (
    CURVES,
    LEAST_GAMMA_RANGE,
    PANELS,
    color_of,
    fitting,
    legend_above,
    line_of,
    panels,
    save,
    shown,
    steps_axis,
    widen,
    wrapped,
)
from retrokit.data.jsonl import read_jsonl
from retrokit.report.evaluation_plots import file_name
from retrokit.training.evaluations import lower_is_better
from retrokit.training.history import loss_change, tenths

Points = list[tuple[int, float]]
Series = dict[str, Points]


def training_plots(folder: str | Path) -> list[Path]:
    """Draw ``plots/*.png`` and ``.svg`` of a run; returns the files written."""
    rows: list[dict[str, Any]] = [row for _, row in read_jsonl(Path(folder) / "metrics.jsonl")]
    target = Path(folder) / "plots"
    with disk_errors(target):
        target.mkdir(exist_ok=True)
    losses, window = full_windows(_series(rows, ("loss",)).get("loss", []))
    label = f"loss, mean of {window} steps or more" if window > 1 else "loss"
    evaluations, norms = _nested(rows, "evaluation", ""), _nested(rows, "norms", "_norm_mean")
    trained = {"loss": losses} if losses else {}
    held_out = {name: evaluations.pop(name) for name in list(evaluations) if lower_is_better(name)}
    pictures = {
        "loss": (trained | held_out, f"{label}\n{loss_change(tenths(rows))}" if losses else label),
        **_by_task("evaluation", evaluations, "metric"),
        **_by_task("norms", norms, "mean norm of raw embeddings"),
        "gamma": (_series(rows, ("gamma_query", "gamma_document")), "γ (0: length counts in full, 1: not at all)"),
    }
    written = []
    for name, (series, label) in pictures.items():
        if series:
            written += _draw(series, label, target, name)
    return written


def curves_of(runs: Sequence[tuple[str, Sequence[Mapping[str, Any]]]]) -> dict[str, list[tuple[str, Points]]]:
    """The loss, each metric and γ of several runs, given as a name and the lines of ``metrics.jsonl``: by what is
    measured, the name and the points of each run that has it."""
    curves: dict[str, list[tuple[str, Points]]] = {}
    for name, rows in runs:
        losses, _ = full_windows(_series(rows, ("loss",)).get("loss", []))
        gammas = _series(rows, ("gamma_query", "gamma_document"))
        for quantity, points in {"loss": losses, **_nested(rows, "evaluation", ""), **gammas}.items():
            if points:
                curves.setdefault(quantity.replace("_", " "), []).append((name, points))
    return {quantity: curves[quantity] for quantity in fitting(list(curves), PANELS, "metrics", "curves")}


def curves_plots(curves: Mapping[str, Sequence[tuple[str, Points]]], folder: str | Path) -> list[Path]:
    """Draw what :func:`curves_of` found: a picture each, in which runs of one name, seeds of one training, share a
    colour. Returns the files written."""
    written = []
    every = dict.fromkeys(name for drawn in curves.values() for name, _ in drawn)
    names = fitting(list(every), CURVES, "runs", "curves")
    for number, (quantity, drawn) in enumerate(curves.items(), start=1):
        figure, (axes,) = panels(1, 3.4)
        labels = {name: wrapped(name) for name in names}
        for name, points in drawn:
            if name in names:
                place = names.index(name)
                look: dict[str, Any] = {"color": color_of(place)}
                look |= {"linestyle": line_of(place), "label": labels.pop(name, None)}
                axes.plot(*zip(*points, strict=True), marker="." if len(points) < 60 else None, **look)
        axes.set_ylabel(shown(quantity))
        steps_axis(axes)
        legend_above(figure, axes, columns=2)
        written += save(figure, folder, f"{number:02}-curves")
    return written


def full_windows(points: Sequence[tuple[int, float]]) -> tuple[Points, int]:
    """Means of a loss, joined until each is over as many steps as the longest of them; and how many those are.

    A point is the mean since the point before it. A checkpoint or the end closes a window early, and a mean of a few
    steps beside means of many would look like a jump. What is left at the end joins the last one.

    >>> full_windows([(10, 4.0), (20, 2.0), (24, 1.0)])  # (10 · 2 + 4 · 1) / 14
    ([(10, 4.0), (24, 1.7142857142857142)], 10)
    """
    lengths = [step - before for (step, _), before in zip(points, [0, *(step for step, _ in points)], strict=False)]
    full = max(lengths, default=1)
    windows: list[tuple[int, float, int]] = []  # step, sum, steps
    is_open = False
    for (step, value), length in zip(points, lengths, strict=True):
        if is_open:
            _, total, count = windows.pop()
            length, value = count + length, (total + value * length) / (count + length)
        windows.append((step, value * length, length))
        is_open = length < full
    if is_open and len(windows) > 1:
        step, total, count = windows.pop()
        _, before, earlier = windows.pop()
        windows.append((step, before + total, earlier + count))
    return [(step, total / count) for step, total, count in windows], full


def _series(rows: Sequence[Mapping[str, Any]], keys: tuple[str, ...]) -> Series:
    series = {key: [(row["step"], row[key]) for row in rows if key in row] for key in keys}
    return {key: points for key, points in series.items() if points}


def _nested(rows: Sequence[Mapping[str, Any]], key: str, ending: str) -> Series:
    names = [name for row in rows for name in row.get(key, {}) if name.endswith(ending)]
    return {
        name: [(row["step"], row[key][name]) for row in rows if name in row.get(key, {})]
        for name in dict.fromkeys(names)
    }


def _by_task(name: str, series: Series, label: str) -> dict[str, tuple[Series, str]]:
    """A picture for each task whose name stands before the names of the curves, if there are several."""
    tasks = {curve: curve.rpartition(":")[0] for curve in series}
    several = len(set(tasks.values())) > 1
    pictures: dict[str, tuple[Series, str]] = {}
    for curve, points in series.items():
        file = f"{name}-{file_name(tasks[curve])}" if several else name
        pictures.setdefault(file, ({}, label))[0][curve.rpartition(":")[2].replace("_", " ")] = points
    return pictures


def _draw(series: Series, label: str, folder: Path, name: str) -> list[Path]:
    figure, (axes,) = panels(1, 4)
    for i, curve in enumerate(fitting(list(series), CURVES, "metrics", name)):
        steps, values = zip(*series[curve], strict=True)
        style = line_of(i)
        marker = "." if len(steps) < 60 else None
        axes.plot(steps, values, style, color=color_of(i), marker=marker, label=shown(curve))
    axes.set_ylabel(label)
    if name == "gamma":
        widen(axes, LEAST_GAMMA_RANGE)
    steps_axis(axes)
    if len(series) > 1:
        legend_above(figure, axes)
    return save(figure, folder, name)
