"""Pictures of an evaluation: bars with intervals for each task, and heat maps of a cross-evaluation (MAG, Figure 3)."""

import re
from pathlib import Path

import numpy as np

from retrokit.core.figures import (
    GREY,
    PANELS,
    RED,
    ROWS,
    SKY,
    fitting,
    panels,
    plt,
    save,
    shown,
    told_in_cells,
    wrapped,
)
from retrokit.evaluation.comparison.comparison import Evaluation
from retrokit.evaluation.comparison.cross import Cross, cross_of
from retrokit.evaluation.comparison.systems import System
from retrokit.evaluation.result import known
from retrokit.metrics.bootstrap import Draws, draw
from retrokit.metrics.significance import PairedTest

_TITLE = 68  # letters of a title on one line


def evaluation_plots(evaluation: Evaluation, folder: str | Path) -> list[Path]:
    """Draw each task's main metric as PNG and SVG into ``folder``; returns the files written. Raises :class:`DataError`
    if the folder or a file could not be written."""
    written: list[Path] = []
    for number, task in enumerate(evaluation.tasks, start=1):
        written += _bars(evaluation, task, folder, f"{number:02}-{file_name(task)}")
    return [*written, *(cross_plots(evaluation, folder) if evaluation.is_cross else [])]


def cross_plots(evaluation: Evaluation, folder: str | Path) -> list[Path]:
    """A heat map of each task: similarities of training down, of evaluation across; returns the files written."""
    crosses = enumerate(cross_of(evaluation), start=1)
    files = [_heat_map(cross, folder, f"{number:02}-{file_name(cross.task)}-cross") for number, cross in crosses]
    return [path for written in files for path in written]


def task_map_plot(evaluation: Evaluation, folder: str | Path) -> list[Path]:
    """Systems down, tasks across: the leading metric of each task, the lighter the higher within the task; returns the
    files written."""
    names = fitting(list(dict.fromkeys(system.name for system in evaluation.systems)), ROWS, "systems", "tasks")
    tasks = fitting(evaluation.tasks, PANELS, "tasks", "tasks")
    metrics = [evaluation.leading_metric(task) for task in tasks]
    scores = {(system.name, system.task): system.metrics for system in evaluation.systems}
    values = np.array(
        [
            [known(scores.get((name, task), {}).get(metric)) for task, metric in zip(tasks, metrics, strict=True)]
            for name in names
        ],
        dtype=np.float64,
    )
    low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    shares = (values - low) / np.where(high > low, high - low, 1)
    figure, (axes,) = panels(1, 1.6 + 0.4 * len(names))
    axes.imshow(shares, cmap="cividis", aspect="auto", vmin=0, vmax=1)
    told_in_cells(axes, values, np.nan, ".4f", "–", fontsize=8)
    for text, share in zip(axes.texts, shares.flat, strict=True):
        text.set_color("white" if share < 0.5 else "black")
    labels = [f"{wrapped(task, 16)}\n{shown(metric, 16)}" for task, metric in zip(tasks, metrics, strict=True)]
    axes.set_xticks(range(len(tasks)), labels, fontsize=8)
    axes.set_yticks(range(len(names)), [wrapped(name) for name in names], fontsize=8)
    axes.set_xlabel("colour: from the lowest to the highest value of the task")
    return save(figure, folder, "tasks")


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


def tests_of(evaluation: Evaluation, task: str, metric: str) -> dict[str, PairedTest]:
    """How each system but the first differs from the first one in the metric, by its name."""
    return {c.result: c.test for c in evaluation.comparisons if (c.task, c.metric) == (task, metric)}


def _bars(evaluation: Evaluation, task: str, folder: str | Path, name: str) -> list[Path]:
    """One horizontal bar a system, the first one on top, with its value.

    Systems are compared on the same items, which an interval of each by itself would hide. So the interval is that of
    the difference from the first, and leaves the first one's line out where the difference is more than chance. One
    system alone has its own interval.
    """
    metric = evaluation.main_metric(task)
    systems = fitting(evaluation.systems_on(task), ROWS, "systems", name)
    first = systems[0].metrics[metric]
    tests = tests_of(evaluation, task, metric)
    paired = [tests.get(system.name) for system in systems[1:]]
    intervals = [None, *((first + test.low, first + test.high) if test is not None else None for test in paired)]
    if len(systems) == 1:
        intervals = [interval_of(systems[0], metric)]
    figure, (axes,) = panels(1, 1.5 + 0.55 * len(systems))
    places = range(len(systems))
    values = [system.metrics[metric] for system in systems]
    axes.barh(places, values, color=[GREY, *[SKY] * (len(systems) - 1)], height=0.65)
    for place, interval in zip(places, intervals, strict=True):
        if interval is not None:
            middle = (interval[0] + interval[1]) / 2
            axes.errorbar(middle, place, xerr=interval[1] - middle, fmt="none", ecolor="black", capsize=4)
    label = shown(metric)
    if any(intervals[1:]):
        axes.axvline(first, color="black", linestyle="--", linewidth=1)
        figure.supxlabel("whiskers: 95% interval of the paired difference from the first (dashed line)", fontsize=8)
    elif intervals[0] is not None:
        label += " with 95% bootstrap interval over items"
    seeds = [(result, place) for place, system in enumerate(systems) if system.results[1:] for result in system.results]
    if seeds:
        values_of_seeds = [result.metrics[metric] for result, _ in seeds]
        places_of_seeds = [place for _, place in seeds]
        axes.scatter(values_of_seeds, places_of_seeds, s=22, color=RED, edgecolor="white", zorder=3, label="one seed")
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), frameon=False, handletextpad=0)
    for place, value, interval in zip(places, values, intervals, strict=True):
        defined = known(value)
        end = max([defined or 0.0, 0.0, *(interval or ())])
        text = "undefined" if defined is None else f"{defined:.4f}"
        axes.annotate(text, (end, place), (5, 0), textcoords="offset points", va="center")
    axes.margins(x=0.16)
    axes.set_yticks(places, [wrapped(system.name) for system in systems])
    axes.invert_yaxis()
    axes.set_xlabel(label)
    axes.set_title(wrapped(task, _TITLE), fontsize="medium", loc="left")
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    return save(figure, folder, name)


def _heat_map(cross: Cross, folder: str | Path, name: str) -> list[Path]:
    """Training similarity down, evaluation similarity across; a frame where they are the same."""
    rows = fitting(cross.rows, ROWS, "rows", name)
    values = np.array(
        [[np.nan if (v := cross.value(row, column)) is None else v for column in cross.columns] for row in rows]
    )
    figure, (axes,) = panels(1, 1.9 + 0.6 * len(rows))
    image = axes.imshow(values, cmap="cividis", aspect="auto")
    figure.colorbar(image, ax=axes, label=shown(cross.metric))
    middle = (np.nanmin(values) + np.nanmax(values)) / 2
    told_in_cells(axes, values, middle, ".4f", "–")
    for i, j in np.argwhere(np.isfinite(values)).tolist():
        if cross.columns[j] == cross.trained_with[i]:
            axes.add_patch(plt.Rectangle((j - 0.47, i - 0.45), 0.94, 0.9, fill=False, edgecolor=RED, linewidth=3))
    axes.set_xticks(range(len(cross.columns)), [wrapped(column, 16) for column in cross.columns])
    axes.set_yticks(range(len(rows)), [wrapped(label) for label in cross.labels()[: len(rows)]])
    axes.set_xlabel("evaluated with (framed: as trained)")
    axes.set_ylabel("trained with")
    axes.set_title(wrapped(cross.task, _TITLE), fontsize="medium", loc="left")
    return save(figure, folder, name)
