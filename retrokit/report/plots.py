"""Plots of evaluations (MAG, Figure 3), rerankings (COMP, Figures 2 and 3) and trainings (MAG, Figures 2, 5, 6)."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from retrokit.core.errors import disk_errors
from retrokit.core.figures import (
    BLUE,
    COLORS,
    CURVES,
    GREY,
    LEAST_GAMMA_RANGE,
    PANELS,
    RED,
    ROWS,
    SKY,
    WIDTH,
    Curve,
    color_of,
    curves_figure,
    fitting,
    legend_above,
    line_of,
    panels,
    plt,
    save,
    shown,
    step_marker,
    steps_axis,
    told_in_cells,
    widen,
    wrapped,
)
from retrokit.core.frames import flat, write_csv
from retrokit.core.sheet import digits
from retrokit.data.runs import read_metrics
from retrokit.evaluation.comparison.comparison import Cross, Evaluation, cross_of
from retrokit.evaluation.comparison.names import for_people
from retrokit.evaluation.comparison.near_misses import ALL, tests_gate
from retrokit.evaluation.comparison.systems import System
from retrokit.metrics.significance import Draws, draw
from retrokit.training.evaluations import lower_is_better
from retrokit.training.history import loss_change, tenths

Interval = tuple[float, float]
_TITLE = 68  # letters of a title on one line


def evaluation_plots(evaluation: Evaluation, folder: str | Path) -> list[Path]:
    """Draw each task's main metric as PNG and SVG into ``folder``; returns the files written. Raises :class:`DataError`
    if the folder or a file could not be written."""
    evaluation = for_people(evaluation)
    written: list[Path] = []
    for number, task in enumerate(evaluation.tasks, start=1):
        written += _bars(evaluation, task, folder, f"{number:02}-{file_name(task)}")
    return [*written, *(cross_plots(evaluation, folder) if evaluation.is_cross else [])]


def cross_plots(evaluation: Evaluation, folder: str | Path) -> list[Path]:
    """A heat map of each task: similarities of training down, of evaluation across; returns the files written."""
    crosses = enumerate(cross_of(evaluation), start=1)
    files = [_heat_map(cross, folder, f"{number:02}-{file_name(cross.task)}-cross") for number, cross in crosses]
    return [path for written in files for path in written]


def file_name(task: str) -> str:
    """The end of a task's spec, at most 80 characters, as part of a file's name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", task).strip("-._")[-80:]


def interval_of(system: System, metric: str) -> Interval | None:
    """The 95% bootstrap interval of a metric over the items (queries, pairs, texts); ``None`` if it has none."""
    drawn: Draws | None = system.draws(metric)
    per_item = system.per_item(metric)
    if per_item:
        values = np.array(list(per_item.values()))
        drawn = draw(lambda rows: float(values[rows].mean()), len(values))
    return drawn.interval if drawn is not None else None


def _bars(evaluation: Evaluation, task: str, folder: str | Path, name: str) -> list[Path]:
    """One horizontal bar a system, the first one on top, with its value.

    Systems are compared on the same items, which separate intervals would hide. So the interval is that of
    the difference from the first, and leaves the first one's line out where the difference is more than chance. One
    single system has its own interval.
    """
    metric = evaluation.main_metric(task)
    systems = fitting(evaluation.systems_on(task), ROWS, "systems", name)
    values = [system.metrics[metric] for system in systems]
    intervals = _intervals(evaluation, systems, metric)
    figure, (axes,) = panels(1, 1.5 + 0.55 * len(systems))
    rows = range(len(systems))
    axes.barh(rows, values, color=[GREY, *[SKY] * (len(systems) - 1)], height=0.65)
    for row, interval in enumerate(intervals):
        _draw_interval(axes, row, interval, capsize=4)
    label = shown(metric)
    if any(intervals[1:]):
        axes.axvline(values[0], color="black", linestyle="--", linewidth=1)
        figure.supxlabel("whiskers: 95% interval of the paired difference from the first (dashed line)", fontsize=8)
    elif intervals[0] is not None:
        label += " with 95% bootstrap interval over items"
    _draw_seeds(axes, systems, metric)
    for row, (value, interval) in enumerate(zip(values, intervals, strict=True)):
        ends = [0.0, *(interval or ())]
        if math.isfinite(value):
            ends.append(value)
        text = digits(value, absent="undefined")
        axes.annotate(text, (max(ends), row), (5, 0), textcoords="offset points", va="center")
    axes.margins(x=0.2)
    axes.set_yticks(rows, [wrapped(system.name) for system in systems])
    axes.invert_yaxis()
    axes.set_xlabel(label)
    axes.set_title(wrapped(task, _TITLE), fontsize="medium", loc="left")
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    return save(figure, folder, name)


def _intervals(evaluation: Evaluation, systems: Sequence[System], metric: str) -> list[Interval | None]:
    """The interval of each bar: of a single system its own, else of the difference from the first, at its bar."""
    first, *others = systems
    if not others:
        return [interval_of(first, metric)]
    value, tests = first.metrics[metric], evaluation.tests_on(first.task, metric)
    intervals: list[Interval | None] = [None]
    for system in others:
        comparison = tests.get(system.name)
        if comparison is None:
            intervals.append(None)
        else:
            intervals.append((value + comparison.test.low, value + comparison.test.high))
    return intervals


def _draw_interval(axes: Axes, row: int, interval: Interval | None, capsize: int) -> None:
    if interval is not None:
        middle = (interval[0] + interval[1]) / 2
        axes.errorbar(middle, row, xerr=interval[1] - middle, fmt="none", ecolor="black", capsize=capsize)


def _draw_seeds(axes: Axes, systems: Sequence[System], metric: str) -> None:
    """A point for each seed of the systems that have several."""
    values, rows = [], []
    for row, system in enumerate(systems):
        if len(system.results) > 1:
            values += [result.metrics[metric] for result in system.results]
            rows += [row] * len(system.results)
    if values:
        axes.scatter(values, rows, s=22, color=RED, edgecolor="white", zorder=3, label="one seed")
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), frameon=False, handletextpad=0)


def _heat_map(cross: Cross, folder: str | Path, name: str) -> list[Path]:
    """Training similarity down, evaluation similarity across; a frame where they are the same."""
    rows = fitting(cross.rows, ROWS, "rows", name)
    table = [[cross.value(row, column) for column in cross.columns] for row in rows]
    values = np.array(table, dtype=np.float64)  # NaN of None
    figure, (axes,) = panels(1, 1.9 + 0.6 * len(rows))
    image = axes.imshow(values, cmap="cividis", aspect="auto")
    figure.colorbar(image, ax=axes, label=shown(cross.metric))
    middle = (np.nanmin(values) + np.nanmax(values)) / 2
    told_in_cells(axes, values, middle, ".4f", "–")
    for row, column in np.argwhere(np.isfinite(values)).tolist():
        if cross.columns[column] == cross.trained_with[row]:
            corner = (column - 0.47, row - 0.45)
            axes.add_patch(plt.Rectangle(corner, 0.94, 0.9, fill=False, edgecolor=RED, linewidth=3))
    axes.set_xticks(range(len(cross.columns)), [wrapped(column, 16) for column in cross.columns])
    axes.set_yticks(range(len(rows)), [wrapped(label) for label in cross.labels()[: len(rows)]])
    axes.set_xlabel("evaluated with (framed: as trained)")
    axes.set_ylabel("trained with")
    axes.set_title(wrapped(cross.task, _TITLE), fontsize="medium", loc="left")
    return save(figure, folder, name)


LABEL = 26  # letters of a name on one line


def reranking_plots(evaluation: Evaluation, folder: str | Path) -> list[Path]:
    """Draw each task as PNG and SVG into ``folder``, with the data as CSV; returns the files written. Raises
    :class:`DataError` if the folder or a file could not be written."""
    renamed = for_people(evaluation)
    written = []
    for name, rows_of, draw_task in (
        ("reranking", _ranking_rows, _rankings),
        ("near-misses", lambda evaluation: [*map(dict, evaluation.near_misses)], _near_misses),
    ):
        if not (rows := rows_of(renamed)):
            continue
        written += write_csv({name: rows_of(evaluation)}, folder)
        for number, task in enumerate(dict.fromkeys(row["task"] for row in rows), start=1):
            of_task = [row for row in rows if row["task"] == task]
            written += draw_task(of_task, folder, f"{name}-{number:02}-{file_name(task)}")
    return written


DIFFERENCE = ("difference", "difference_low", "difference_high")


def _ranking_rows(evaluation: Evaluation) -> list[dict[str, Any]]:
    """A row per task, system and shown metric, with the 95% bootstrap interval over queries, and with the difference
    from the first stage and its paired 95% interval."""
    rows = []
    for system in evaluation.systems:
        if tests_gate(system):
            continue
        for metric in evaluation.shown[system.task]:
            low, high = interval_of(system, metric) or (None, None)
            differences: tuple[float | None, ...] = (None, None, None)
            comparison = evaluation.tests_on(system.task, metric).get(system.name)
            if comparison is not None:
                differences = (comparison.test.difference, comparison.test.low, comparison.test.high)
            rows.append(
                {
                    "task": system.task,
                    "encoder": system.encoder,
                    "similarity": system.similarity,
                    "metric": metric,
                    "value": system.metrics[metric],
                    "low": low,
                    "high": high,
                    **dict(zip(DIFFERENCE, differences, strict=True)),
                }
            )
    return rows


def _rankings(rows: list[dict[str, Any]], folder: str | Path, name: str) -> list[Path]:
    """COMP, Figure 2: a panel per metric, a bar per reranker, a line where the first stage is. The interval is that of
    the difference from the first stage on the same queries, which leaves the line out where it is more than chance."""
    metrics = fitting(list(dict.fromkeys(row["metric"] for row in rows)), PANELS, "metrics", name)
    systems = list(dict.fromkeys((row["encoder"], row["similarity"]) for row in rows))
    first, *others = fitting(systems, CURVES, "rerankers", name)
    figure, every_axes = panels(len(metrics), 1.1 + 0.42 * max(1, len(others)))
    for axes, metric in zip(every_axes, metrics, strict=True):
        by_system = {(row["encoder"], row["similarity"]): row for row in rows if row["metric"] == metric}
        _rerankers(axes, " ".join(first), by_system[first], [by_system[system] for system in others])
    legend_above(figure, every_axes[0])
    return save(figure, folder, name)


def _rerankers(axes: Axes, first: str, baseline: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """A bar for each row in the metric of all, and the line of the first stage, ``baseline``."""
    line, metric = baseline["value"], baseline["metric"]
    axes.barh(range(len(rows)), [row["value"] for row in rows], color=BLUE, alpha=0.75, height=0.62)
    label = f"first stage: {wrapped(first, 2 * LABEL)}"
    if any(row[DIFFERENCE[0]] is not None for row in rows):
        label += "\nwhiskers: 95% interval of the paired difference from it"
    for index, row in enumerate(rows):
        _, low, high = (row[key] for key in DIFFERENCE)
        _draw_interval(axes, index, None if low is None else (line + low, line + high), capsize=3)
    for index, row in enumerate(rows):
        axes.annotate(f"{row['value']:.4f}", (0, index), (4, 0), textcoords="offset points", va="center", color="white")
    axes.axvline(line, color="black", linestyle="--", linewidth=1.2, label=label)
    names = [f"{row['encoder']} {row['similarity']}".removeprefix(f"{first} + ") for row in rows]
    axes.set_yticks(range(len(rows)), [wrapped(name, LABEL) for name in names], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel(f"{shown(metric)} (first stage {line:.4f})", fontsize=9)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)


SCORES = ("near_miss", "roc_auc", "roc_auc_low", "roc_auc_high")


def _near_misses(rows: list[dict[str, Any]], folder: str | Path, name: str) -> list[Path]:
    """COMP, Figure 3: mean scores of near-misses by family, and below their areas under the ROC curve."""
    scorers = list(dict.fromkeys((row["scorer"], row["similarity"]) for row in rows))
    scorers = fitting(scorers, len(COLORS), "scorers", name)
    families = _largest_families(rows, name)
    figure, (upper, lower) = plt.subplots(2, 1, figsize=(WIDTH, 6.2), layout="constrained", sharex=True)
    width = 0.8 / len(scorers)
    for index, (scorer, similarity) in enumerate(scorers):
        by_family = {row["family"]: row for row in rows if (row["scorer"], row["similarity"]) == (scorer, similarity)}
        positions = np.arange(len(families)) + (index - (len(scorers) - 1) / 2) * width
        label = wrapped(scorer if similarity == "own" else f"{scorer} {similarity}", 2 * LABEL)
        table = [[by_family[family][score] for score in SCORES] for family in families]
        scores, areas, lows, highs = np.array(table, dtype=np.float64).T  # NaN of None
        upper.bar(positions, scores, width, color=color_of(index), label=label)
        errors = np.maximum(0.0, [areas - lows, highs - areas])
        lower.errorbar(positions, areas, yerr=errors, fmt="o", markersize=5, capsize=3, color=color_of(index))
    lower.axhline(0.5, color=GREY, linestyle=":", linewidth=1.2)
    lower.set_xticks(range(len(families)), [shown(family, 20) for family in families], fontsize=8)
    lower.tick_params(axis="x", labelrotation=30 if len(families) > 5 else 0)
    lower.set_ylim(-0.03, 1.03)
    upper.set_ylabel("mean score of near-misses\n(lower is better)")
    lower.set_ylabel("ROC-AUC of positives (dotted: chance),\n95% interval")
    for axes in (upper, lower):
        axes.grid(axis="y", alpha=0.3)
        axes.set_axisbelow(True)
    legend_above(figure, upper, columns=2)
    return save(figure, folder, name)


def _largest_families(rows: list[dict[str, Any]], name: str) -> list[str]:
    """The families that fit into a picture, in their order."""
    counts = {row["family"]: row["near_misses"] for row in rows}
    by_size = sorted(counts, key=lambda family: (family != ALL, -counts[family]))
    chosen = fitting(by_size, PANELS, "families", name)
    return [family for family in counts if family in chosen]


Points = list[tuple[int, float]]
Series = dict[str, Points]


def training_plots(folder: str | Path) -> list[Path]:
    """Draw ``plots/*.png`` and ``.svg`` of a run; returns the files written."""
    rows = list(read_metrics(folder))
    target = Path(folder) / "plots"
    with disk_errors(target):
        target.mkdir(exist_ok=True)
    series = series_of(rows)
    losses, window = full_windows(series.get("loss", []))
    label = f"loss, mean of {window} steps or more" if window > 1 else "loss"
    if losses:
        label += f"\n{loss_change(tenths(rows))}"
    lower: Series = {}
    evaluations: Series = {}
    norms: Series = {}
    for name, points in within(series, "evaluation.").items():
        (lower if lower_is_better(name) else evaluations)[name] = points
    for name, points in within(series, "norms.").items():
        if name.endswith("_norm_mean"):
            norms[name] = points
    pictures = {
        "loss": ({"loss": losses, **lower} if losses else lower, label),
        **_by_task("evaluation", evaluations, "metric"),
        **_by_task("norms", norms, "mean norm of raw embeddings"),
        "gamma": (gammas_of(series), "γ (0: the norm counts in full, 1: not at all)"),
    }
    written = []
    for name, (series, label) in pictures.items():
        if series:
            written += _draw(series, label, target, name)
    return written


def full_windows(points: Sequence[tuple[int, float]]) -> tuple[Points, int]:
    """Means of a loss, joined until each is over as many steps as the longest of them; and how many those are.

    A point is the mean since the point before it. A checkpoint or the end closes a window early, and a mean of a few
    steps next to means of many would look like a jump. What is left at the end joins the last one.

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


def series_of(rows: Sequence[Mapping[str, Any]]) -> Series:
    """The points of every value of the lines of ``metrics.jsonl``, by its name, those within a record with a dot."""
    series: Series = {}
    for row in rows:
        for name, value in flat(row).items():
            series.setdefault(name, []).append((row["step"], value))
    return series


def within(series: Series, prefix: str) -> Series:
    """The points of the names with a prefix, by the rest of the name."""
    return {name.removeprefix(prefix): points for name, points in series.items() if name.startswith(prefix)}


def gammas_of(series: Series) -> Series:
    """The points of both learned exponents."""
    return {name: series[name] for name in ("gamma_query", "gamma_document") if name in series}


def _by_task(name: str, series: Series, label: str) -> dict[str, tuple[Series, str]]:
    """A picture for each task whose name prefixes the names of the curves, if there are several."""
    tasks = {curve: curve.rpartition(":")[0] for curve in series}
    several = len(set(tasks.values())) > 1
    pictures: dict[str, tuple[Series, str]] = {}
    for curve, points in series.items():
        file = f"{name}-{file_name(tasks[curve])}" if several else name
        pictures.setdefault(file, ({}, label))[0][curve.rpartition(":")[2].replace("_", " ")] = points
    return pictures


def _draw(series: Series, label: str, folder: Path, name: str) -> list[Path]:
    curves = []
    for index, curve in enumerate(fitting(list(series), CURVES, "metrics", name)):
        in_legend = shown(curve) if len(series) > 1 else None
        points = series[curve]
        curves.append(Curve(in_legend, points, color_of(index), line_of(index), step_marker(points)))
    figure, axes = curves_figure(curves, "", label)
    if name == "gamma":
        widen(axes, LEAST_GAMMA_RANGE)
    steps_axis(axes)
    return save(figure, folder, name)
