"""Pictures of a second stage: metrics of rankings (COMP, Figure 2) and scores of near-misses (COMP, Figure 3)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from retrokit.core.figures import (
    BLUE,
    COLORS,
    CURVES,
    GREY,
    PANELS,
    WIDTH,
    color_of,
    fitting,
    legend_above,
    panels,
    plt,
    save,
    shown,
    wrapped,
)
from retrokit.core.frames import write_csv
from retrokit.evaluation.two_stage import Reranking
from retrokit.report.evaluation_plots import file_name, interval_of, tests_of
from retrokit.report.reranking import ALL, near_miss_rows

LABEL = 26  # letters of a name on one line


def reranking_plots(reranking: Reranking, folder: str | Path) -> list[Path]:
    """Draw each task as PNG and SVG into ``folder``, with the data beside it as CSV; returns the files written. Raises
    :class:`DataError` if the folder or a file could not be written."""
    tables = {"reranking": ranking_rows(reranking), "near-misses": near_miss_rows(reranking)}
    written = write_csv({name: rows for name, rows in tables.items() if rows}, folder)
    return [*written, *rows_plots(tables, folder)]


def rows_plots(tables: Mapping[str, list[dict[str, Any]]], folder: str | Path) -> list[Path]:
    """The pictures of the tables ``reranking`` and ``near-misses``; returns the files written."""
    written: list[Path] = []
    for name, draw in (("reranking", _rankings), ("near-misses", _near_misses)):
        by_task: dict[str, list[dict[str, Any]]] = {}
        for row in tables[name]:
            by_task.setdefault(row["task"], []).append(row)
        for number, (task, rows) in enumerate(by_task.items(), start=1):
            written += draw(rows, folder, f"{name}-{number:02}-{file_name(task)}")
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
    lower.set_ylabel("AUC of positives (dotted: chance),\n95% interval of each by itself")
    for axes in (upper, lower):
        axes.grid(axis="y", alpha=0.3)
        axes.set_axisbelow(True)
    legend_above(figure, upper, columns=2)
    return save(figure, folder, name)
