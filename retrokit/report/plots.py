"""Plots of evaluations (MAG, Figure 3), rerankings (COMP, Figures 2 and 3) and trainings (MAG, Figures 2, 5, 6)."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

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
    color_of,
    fitting,
    legend_above,
    line_of,
    panels,
    plt,
    save,
    shown,
    steps_axis,
    told_in_cells,
    widen,
    wrapped,
)
from retrokit.core.frames import write_csv
from retrokit.data.runs import read_metrics
from retrokit.evaluation.comparison.comparison import Cross, Evaluation, cross_of
from retrokit.evaluation.comparison.systems import System
from retrokit.evaluation.result import known
from retrokit.evaluation.two_stage import ALL, Reranking
from retrokit.metrics.significance import Draws, PairedTest, draw
from retrokit.training.evaluations import lower_is_better
from retrokit.training.history import loss_change, tenths

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


def file_name(task: str) -> str:
    """The end of a task's spec, at most 80 characters, as part of a file's name."""
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

    Systems are compared on the same items, which separate intervals would hide. So the interval is that of
    the difference from the first, and leaves the first one's line out where the difference is more than chance. One
    single system has its own interval.
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
    axes.margins(x=0.2)
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


LABEL = 26  # letters of a name on one line


def reranking_plots(reranking: Reranking, folder: str | Path) -> list[Path]:
    """Draw each task as PNG and SVG into ``folder``, with the data as CSV; returns the files written. Raises
    :class:`DataError` if the folder or a file could not be written."""
    tables = {"reranking": ranking_rows(reranking), "near-misses": reranking.near_miss_rows()}
    written = write_csv({name: rows for name, rows in tables.items() if rows}, folder)
    return [*written, *rows_plots(tables, folder)]


def rows_plots(tables: Mapping[str, list[dict[str, Any]]], folder: str | Path) -> list[Path]:
    """The pictures of the tables ``reranking`` and ``near-misses``; returns the files written."""
    written: list[Path] = []
    for name, plot in (("reranking", _rankings), ("near-misses", _near_misses)):
        by_task: dict[str, list[dict[str, Any]]] = {}
        for row in tables[name]:
            by_task.setdefault(row["task"], []).append(row)
        for number, (task, rows) in enumerate(by_task.items(), start=1):
            written += plot(rows, folder, f"{name}-{number:02}-{file_name(task)}")
    return written


def ranking_rows(reranking: Reranking) -> list[dict[str, Any]]:
    """A row per task, system and shown metric, with the 95% bootstrap interval over queries, and with the difference
    from the first stage and its paired 95% interval."""
    rows = []
    for system in reranking.rankings.systems if reranking.rankings is not None else []:
        for metric in reranking.whole.shown[system.task]:
            low, high = interval_of(system, metric) or (None, None)
            row: dict[str, Any] = {"task": system.task, "encoder": system.encoder, "similarity": system.similarity}
            row |= {"metric": metric, "value": system.metrics[metric], "low": low, "high": high}
            test = tests_of(reranking.whole, system.task, metric).get(system.name)
            differences = (None, None, None) if test is None else (test.difference, test.low, test.high)
            rows.append(row | dict(zip(DIFFERENCE, differences, strict=True)))
    return rows


DIFFERENCE = ("difference", "difference_low", "difference_high")


def _rankings(rows: list[dict[str, Any]], folder: str | Path, name: str) -> list[Path]:
    """COMP, Figure 2: a panel per metric, a bar per reranker, a line where the first stage is. The interval is that of
    the difference from the first stage on the same queries, which leaves the line out where it is more than chance."""
    metrics = fitting(list(dict.fromkeys(row["metric"] for row in rows)), PANELS, "metrics", name)
    systems = list(dict.fromkeys((row["encoder"], row["similarity"]) for row in rows))
    first, *others = fitting(systems, CURVES, "rerankers", name)
    figure, every_axes = panels(len(metrics), 1.1 + 0.42 * max(1, len(others)))
    for axes, metric in zip(every_axes, metrics, strict=True):
        at = {(row["encoder"], row["similarity"]): row for row in rows if row["metric"] == metric}
        values = [at[system]["value"] for system in others]
        line = at[first]["value"]
        axes.barh(range(len(others)), values, color=BLUE, alpha=0.75, height=0.62)
        for place, system in enumerate(others):
            _, low, high = (at[system][key] for key in DIFFERENCE)
            if low is not None:
                middle, margin = line + (low + high) / 2, (high - low) / 2
                axes.errorbar(middle, place, xerr=margin, fmt="none", ecolor="black", capsize=3)
        for place, value in enumerate(values):
            axes.annotate(f"{value:.4f}", (0, place), (4, 0), textcoords="offset points", va="center", color="white")
        label = f"first stage: {wrapped(' '.join(first), 2 * LABEL)}"
        if any(at[system][DIFFERENCE[0]] is not None for system in others):
            label += "\nwhiskers: 95% interval of the paired difference from it"
        axes.axvline(line, color="black", linestyle="--", linewidth=1.2, label=label)
        own = f"{' '.join(first)} + "
        names = [wrapped(" ".join(system).removeprefix(own), LABEL) for system in others]
        axes.set_yticks(range(len(others)), names, fontsize=8)
        axes.invert_yaxis()
        axes.set_xlim(left=0)
        axes.set_xlabel(f"{shown(metric)} (first stage {line:.4f})", fontsize=9)
        axes.grid(axis="x", alpha=0.3)
        axes.set_axisbelow(True)
    legend_above(figure, every_axes[0])
    return save(figure, folder, name)


def _near_misses(rows: list[dict[str, Any]], folder: str | Path, name: str) -> list[Path]:
    """COMP, Figure 3: mean scores of near-misses by family, and below their areas under the ROC curve."""
    scorers = list(dict.fromkeys((row["scorer"], row["similarity"]) for row in rows))
    scorers = fitting(scorers, len(COLORS), "scorers", name)
    counts = {row["family"]: row["near_misses"] for row in rows}
    largest = sorted(counts, key=lambda family: (family != ALL, -counts[family]))
    chosen = fitting(largest, PANELS, "families", name)
    families = [family for family in counts if family in chosen]
    figure, (upper, lower) = plt.subplots(2, 1, figsize=(WIDTH, 6.2), layout="constrained", sharex=True)
    width = 0.8 / len(scorers)
    for i, scorer in enumerate(scorers):
        own = {row["family"]: row for row in rows if (row["scorer"], row["similarity"]) == scorer}
        places = np.arange(len(families)) + (i - (len(scorers) - 1) / 2) * width
        color = color_of(i)
        label = wrapped(scorer[0] if scorer[1] == "own" else " ".join(scorer), 2 * LABEL)
        upper.bar(places, [own[family]["near_miss"] for family in families], width, color=color, label=label)
        areas = [own[family]["roc_auc"] for family in families]
        low = [max(0.0, own[f]["roc_auc"] - own[f]["roc_auc_low"]) for f in families]
        high = [max(0.0, own[f]["roc_auc_high"] - own[f]["roc_auc"]) for f in families]
        lower.errorbar(places, areas, yerr=[low, high], fmt="o", markersize=5, capsize=3, color=color)
    lower.axhline(0.5, color=GREY, linestyle=":", linewidth=1.2)
    crowded = len(families) > 5
    lower.set_xticks(range(len(families)), [shown(family, 20) for family in families], fontsize=8)
    lower.tick_params(axis="x", labelrotation=30 if crowded else 0)
    lower.set_ylim(-0.03, 1.03)
    upper.set_ylabel("mean score of near-misses\n(lower is better)")
    lower.set_ylabel("ROC-AUC of positives (dotted: chance),\n95% interval")
    for axes in (upper, lower):
        axes.grid(axis="y", alpha=0.3)
        axes.set_axisbelow(True)
    legend_above(figure, upper, columns=2)
    return save(figure, folder, name)


Points = list[tuple[int, float]]
Series = dict[str, Points]


def training_plots(folder: str | Path) -> list[Path]:
    """Draw ``plots/*.png`` and ``.svg`` of a run; returns the files written."""
    rows = list(read_metrics(folder))
    target = Path(folder) / "plots"
    with disk_errors(target):
        target.mkdir(exist_ok=True)
    losses, window = full_windows(series_of(rows, ("loss",)).get("loss", []))
    label = f"loss, mean of {window} steps or more" if window > 1 else "loss"
    evaluations, norms = nested_series(rows, "evaluation", ""), nested_series(rows, "norms", "_norm_mean")
    trained = {"loss": losses} if losses else {}
    held_out = {name: evaluations.pop(name) for name in list(evaluations) if lower_is_better(name)}
    pictures = {
        "loss": (trained | held_out, f"{label}\n{loss_change(tenths(rows))}" if losses else label),
        **_by_task("evaluation", evaluations, "metric"),
        **_by_task("norms", norms, "mean norm of raw embeddings"),
        "gamma": (series_of(rows, ("gamma_query", "gamma_document")), "γ (0: the norm counts in full, 1: not at all)"),
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


def series_of(rows: Sequence[Mapping[str, Any]], keys: tuple[str, ...]) -> Series:
    """The points (step, value) of each key that a line of the history has."""
    series = {key: [(row["step"], row[key]) for row in rows if key in row] for key in keys}
    return {key: points for key, points in series.items() if points}


def nested_series(rows: Sequence[Mapping[str, Any]], key: str, ending: str) -> Series:
    """The points of each name in the tables under ``key`` that has the ``ending``."""
    names = [name for row in rows for name in row.get(key, {}) if name.endswith(ending)]
    return {
        name: [(row["step"], row[key][name]) for row in rows if name in row.get(key, {})]
        for name in dict.fromkeys(names)
    }


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
