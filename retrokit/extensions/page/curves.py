"""Curves of several trainings in one picture for each value that they log."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from retrokit.core.figures import (
    CURVES,
    PANELS,
    Curve,
    color_of,
    curves_figure,
    fitting,
    line_of,
    save,
    shown,
    step_marker,
    steps_axis,
    wrapped,
)
from retrokit.report.plots import Points, full_windows, gammas_of, series_of, within


def curves_of(runs: Sequence[tuple[str, Sequence[Mapping[str, Any]]]]) -> dict[str, list[tuple[str, Points]]]:
    """The loss, each metric and γ of several runs, given as a name and the lines of ``metrics.jsonl``: by what is
    measured, the name and the points of each run that has it."""
    curves: dict[str, list[tuple[str, Points]]] = {}
    for name, rows in runs:
        series = series_of(rows)
        losses, _ = full_windows(series.get("loss", []))
        for quantity, points in {"loss": losses, **within(series, "evaluation."), **gammas_of(series)}.items():
            if points:
                curves.setdefault(quantity.replace("_", " "), []).append((name, points))
    return {quantity: curves[quantity] for quantity in fitting(list(curves), PANELS, "metrics", "curves")}


def curves_plots(curves: Mapping[str, Sequence[tuple[str, Points]]], folder: str | Path) -> list[Path]:
    """Draw the result of :func:`curves_of`: a picture each, in which runs of one name, seeds of one training, share a
    colour. Returns the files written."""
    written = []
    runs: dict[str, None] = {}
    for drawn in curves.values():
        runs |= dict.fromkeys(name for name, _ in drawn)
    names = fitting(list(runs), CURVES, "runs", "curves")
    for number, (quantity, drawn) in enumerate(curves.items(), start=1):
        labels = {name: wrapped(name) for name in names}
        looks = []
        for name, points in drawn:
            if name in names:
                index = names.index(name)
                style = color_of(index), line_of(index), step_marker(points)
                looks.append(Curve(labels.pop(name, None), points, *style))
        figure, axes = curves_figure(looks, "", shown(quantity), height=3.4, columns=2)
        steps_axis(axes)
        written += save(figure, folder, f"{number:02}-curves")
    return written
