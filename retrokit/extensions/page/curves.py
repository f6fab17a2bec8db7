"""The curves of several trainings in pictures: the loss, each metric and γ."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from retrokit.core.figures import (
    CURVES,
    PANELS,
    color_of,
    fitting,
    legend_above,
    line_of,
    panels,
    save,
    shown,
    steps_axis,
    wrapped,
)
from retrokit.report.plots import Points, full_windows, nested_series, series_of


def curves_of(runs: Sequence[tuple[str, Sequence[Mapping[str, Any]]]]) -> dict[str, list[tuple[str, Points]]]:
    """The loss, each metric and γ of several runs, given as a name and the lines of ``metrics.jsonl``: by what is
    measured, the name and the points of each run that has it."""
    curves: dict[str, list[tuple[str, Points]]] = {}
    for name, rows in runs:
        losses, _ = full_windows(series_of(rows, ("loss",)).get("loss", []))
        gammas = series_of(rows, ("gamma_query", "gamma_document"))
        for quantity, points in {"loss": losses, **nested_series(rows, "evaluation", ""), **gammas}.items():
            if points:
                curves.setdefault(quantity.replace("_", " "), []).append((name, points))
    return {quantity: curves[quantity] for quantity in fitting(list(curves), PANELS, "metrics", "curves")}


def curves_plots(curves: Mapping[str, Sequence[tuple[str, Points]]], folder: str | Path) -> list[Path]:
    """Draw the result of :func:`curves_of`: a picture each, in which runs of one name, seeds of one training, share a
    colour. Returns the files written."""
    all_names: dict[str, None] = {}
    for named_points in curves.values():
        all_names |= dict.fromkeys(name for name, _ in named_points)
    names = fitting(list(all_names), CURVES, "runs", "curves")
    written = []
    for number, (quantity, named_points) in enumerate(curves.items(), start=1):
        figure, (axes,) = panels(1, 3.4)
        labels = {name: wrapped(name) for name in names}
        for name, points in named_points:
            if name in names:
                index = names.index(name)
                steps, values = zip(*points, strict=True)
                axes.plot(
                    steps,
                    values,
                    marker="." if len(points) < 60 else None,
                    color=color_of(index),
                    linestyle=line_of(index),
                    label=labels.pop(name, None),
                )
        axes.set_ylabel(shown(quantity))
        steps_axis(axes)
        legend_above(figure, axes, columns=2)
        written += save(figure, folder, f"{number:02}-curves")
    return written
