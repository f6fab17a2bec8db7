"""Pictures of an evaluation: bars with intervals for each task, and heat maps of a cross-evaluation (MAG, Figure 3)."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from retrokit.errors import disk_errors
from retrokit.evaluation.comparison import Evaluation
from retrokit.evaluation.cross import Cross, cross_of
from retrokit.evaluation.result import known
from retrokit.evaluation.systems import System
from retrokit.metrics.bootstrap import Draws, draw
from retrokit.report.plots import plt, save

WIDTH = 7.0  # inches: 840 pixels
_LONGEST = 34  # letters of a name on one line
# Okabe and Ito's colours, which people of any colour vision tell apart.
_FIRST, _OTHERS, _MARK = "#999999", "#56B4E9", "#D55E00"


def evaluation_plots(evaluation: Evaluation, folder: str | Path) -> list[Path]:
    """Draw each task's main metric as PNG and SVG into ``folder``; returns the files written.

    Raises:
        DataError: the folder or a file could not be written.
    """
    target = Path(folder)
    with disk_errors(target):
        target.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for number, task in enumerate(evaluation.tasks, start=1):
        name = f"{number:02}-{file_name(task)}"
        written += _bars(evaluation.systems_on(task), evaluation.main_metric(task), target / name)
    if evaluation.is_cross:
        for number, cross in enumerate(cross_of(evaluation), start=1):
            written += _heat_map(cross, target / f"{number:02}-{file_name(cross.task)}-cross")
    return written


def file_name(task: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", task).strip("-._")[-80:]


def interval_of(system: System, metric: str) -> tuple[float, float] | None:
    """The 95% bootstrap interval of a metric over the items (queries, pairs, texts); ``None`` if it has none."""
    drawn: Draws | None = system.draws(metric)
    per_item = system.per_item(metric)
    if per_item:
        values = np.array(list(per_item.values()))
        drawn = draw(lambda rows: float(values[rows].mean()), len(values))
    return drawn.interval if drawn is not None else None


def _bars(systems: list[System], metric: str, path: Path) -> list[Path]:
    """One horizontal bar a system, the first one on top, with its interval and its value."""
    values = [system.metrics[metric] for system in systems]
    intervals = [interval_of(system, metric) for system in systems]
    errors = [
        (value - found[0], found[1] - value) if found is not None else (0.0, 0.0)
        for value, found in zip(values, intervals, strict=True)
    ]
    figure, axes = plt.subplots(figsize=(WIDTH, 1.5 + 0.55 * len(systems)), layout="constrained")
    places = range(len(systems))
    colours = [_FIRST, *[_OTHERS] * (len(systems) - 1)]
    axes.barh(places, values, color=colours, height=0.65)
    # a bootstrap interval need not hold the value itself
    bars = np.clip(np.array(errors).T, 0, None)
    if any(found is not None for found in intervals):
        axes.errorbar(values, places, xerr=bars, fmt="none", ecolor="black", capsize=4)
    _dot_seeds(axes, systems, metric)
    for place, value, found in zip(places, values, intervals, strict=True):
        defined = known(value)
        end = max([defined or 0.0, 0.0, *(found or ())])
        axes.annotate(
            "undefined" if defined is None else f"{value:.4f}",
            (end, place),
            (5, 0),
            textcoords="offset points",
            va="center",
        )
    axes.margins(x=0.16)
    axes.set_yticks(places, [wrapped(system.name) for system in systems])
    axes.invert_yaxis()
    axes.set_xlabel(f"{metric} with 95% bootstrap interval over items" if np.any(bars) else metric)
    axes.set_title(wrapped(systems[0].task, 2 * _LONGEST), fontsize="medium", loc="left")
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    return save(figure, path)


def _dot_seeds(axes: plt.Axes, systems: list[System], metric: str) -> None:
    """A dot for each seed on the bar of their mean."""
    dots = [
        (result.metrics[metric], place)
        for place, system in enumerate(systems)
        for result in system.results
        if len(system.results) > 1
    ]
    if dots:
        axes.scatter(*zip(*dots, strict=True), s=22, color=_MARK, edgecolor="white", zorder=3, label="one seed")
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), frameon=False, handletextpad=0)


def _heat_map(cross: Cross, path: Path) -> list[Path]:
    """Training similarity down, evaluation similarity across; a frame where they are the same."""
    values = np.array(
        [[np.nan if (v := cross.value(row, column)) is None else v for column in cross.columns] for row in cross.rows]
    )
    height = 1.9 + 0.6 * len(cross.rows)
    figure, axes = plt.subplots(figsize=(WIDTH, height), layout="constrained")
    shown = axes.imshow(values, cmap="cividis", aspect="auto")
    figure.colorbar(shown, ax=axes, label=cross.metric)
    middle = (np.nanmin(values) + np.nanmax(values)) / 2
    for i, j in np.ndindex(*values.shape):
        if np.isnan(values[i, j]):
            axes.text(j, i, "–", ha="center", va="center")
            continue
        axes.text(
            j, i, f"{values[i, j]:.4f}", ha="center", va="center", color="white" if values[i, j] < middle else "black"
        )
        if cross.columns[j] == cross.trained_with[i]:
            axes.add_patch(plt.Rectangle((j - 0.47, i - 0.45), 0.94, 0.9, fill=False, edgecolor=_MARK, linewidth=3))
    axes.set_xticks(range(len(cross.columns)), cross.columns)
    axes.set_yticks(range(len(cross.rows)), [wrapped(label) for label in cross.labels()])
    axes.set_xlabel("evaluated with (framed: as trained)")
    axes.set_ylabel("trained with")
    axes.set_title(wrapped(cross.task, 2 * _LONGEST), fontsize="medium", loc="left")
    return save(figure, path)


def wrapped(text: str, width: int = _LONGEST) -> str:
    """A long name on several lines; of a very long one the end, which tells it from others."""
    lines = [text[start : start + width] for start in range(0, len(text), width)]
    return "\n".join(lines) if len(lines) <= 3 else "…" + "\n".join(lines[-3:])
