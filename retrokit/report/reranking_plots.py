"""Pictures of a second stage: metrics of rankings (COMP, Figure 2) and scores of near-misses (COMP, Figure 3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from retrokit.evaluation.two_stage import Reranking
from retrokit.report.evaluation_plots import file_name, interval_of, wrapped
from retrokit.report.probe_embedding_plots import COLORS, WIDTH
from retrokit.report.probe_plots import GREY, save
from retrokit.report.probe_tables import write_csv
from retrokit.report.reranking import near_miss_rows

LABEL = 26  # letters of a name on one line


def reranking_plots(found: Reranking, folder: str | Path) -> list[Path]:
    """Draw each task as PNG and SVG into ``folder``, with the data beside it as CSV; returns the files written.

    Raises:
        DataError: the folder or a file could not be written.
    """
    written: list[Path] = []
    tables = {"reranking": ranking_rows(found), "near-misses": near_miss_rows(found)}
    written += write_csv({name: rows for name, rows in tables.items() if rows}, folder)
    for name, draw in (("reranking", _rankings), ("near-misses", _near_misses)):
        by_task: dict[str, list[dict[str, Any]]] = {}
        for row in tables[name]:
            by_task.setdefault(row["task"], []).append(row)
        for number, (task, rows) in enumerate(by_task.items(), start=1):
            written += draw(rows, folder, f"{name}-{number:02}-{file_name(task)}")
    return written


def ranking_rows(found: Reranking) -> list[dict[str, Any]]:
    """A row per task, system and shown metric, with the 95% bootstrap interval over queries."""
    rows = []
    for system in found.rankings.systems if found.rankings is not None else []:
        for metric in found.whole.shown[system.task]:
            low, high = interval_of(system, metric) or (None, None)
            row = {"task": system.task, "encoder": system.encoder, "similarity": system.similarity}
            rows.append({**row, "metric": metric, "value": system.metrics[metric], "low": low, "high": high})
    return rows


def _rankings(rows: list[dict[str, Any]], folder: str | Path, name: str) -> list[Path]:
    """COMP, Figure 2: a panel per metric, a bar per reranker with its interval, a line where the first stage is."""
    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    systems = list(dict.fromkeys((row["encoder"], row["similarity"]) for row in rows))
    first, *others = systems
    height = 1.1 + 0.42 * max(1, len(others))
    figure, panels = plt.subplots(
        len(metrics), 1, figsize=(WIDTH, height * len(metrics)), layout="constrained", squeeze=False
    )
    for axes, metric in zip(panels.flat, metrics, strict=True):
        at = {(row["encoder"], row["similarity"]): row for row in rows if row["metric"] == metric}
        values = [at[system]["value"] for system in others]
        # a bootstrap interval need not hold the value itself
        margins = [
            (max(0.0, row["value"] - row["low"]), max(0.0, row["high"] - row["value"]))
            for row in (at[system] for system in others)
        ]
        axes.barh(range(len(others)), values, color=COLORS[0], alpha=0.75, height=0.62)
        if others:
            axes.errorbar(values, range(len(others)), xerr=np.array(margins).T, fmt="none", ecolor="black", capsize=3)
        for place, value in enumerate(values):
            axes.annotate(f"{value:.4f}", (0, place), (4, 0), textcoords="offset points", va="center", color="white")
        line = at[first]["value"]
        axes.axvline(line, color="black", linestyle="--", linewidth=1.2, label=f"first stage: {' '.join(first)}")
        names = [wrapped(similarity.removeprefix(f"{first[1]} + "), LABEL) for _, similarity in others]
        axes.set_yticks(range(len(others)), names, fontsize=8)
        axes.invert_yaxis()
        axes.set_xlim(left=0)
        axes.set_xlabel(f"{metric} (first stage {line:.4f})", fontsize=9)
        axes.grid(axis="x", alpha=0.3)
        axes.set_axisbelow(True)
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles, [wrapped(label, 2 * LABEL) for label in labels], loc="outside upper center", fontsize=8)
    return save(figure, folder, name)


def _near_misses(rows: list[dict[str, Any]], folder: str | Path, name: str) -> list[Path]:
    """COMP, Figure 3: mean scores of near-misses by family, and below their areas under the ROC curve."""
    families = list(dict.fromkeys(row["family"] for row in rows))
    scorers = list(dict.fromkeys((row["scorer"], row["similarity"]) for row in rows))
    figure, (upper, lower) = plt.subplots(2, 1, figsize=(WIDTH, 6.2), layout="constrained", sharex=True)
    width = 0.8 / len(scorers)
    for i, scorer in enumerate(scorers):
        own = {row["family"]: row for row in rows if (row["scorer"], row["similarity"]) == scorer}
        places = np.arange(len(families)) + (i - (len(scorers) - 1) / 2) * width
        color = COLORS[i % len(COLORS)]
        label = scorer[0] if scorer[1] == "own" else " ".join(scorer)
        upper.bar(places, [own[family]["near_miss"] for family in families], width, color=color, label=label)
        areas = [own[family]["roc_auc"] for family in families]
        low = [max(0.0, own[f]["roc_auc"] - own[f]["roc_auc_low"]) for f in families]
        high = [max(0.0, own[f]["roc_auc_high"] - own[f]["roc_auc"]) for f in families]
        lower.errorbar(places, areas, yerr=[low, high], fmt="o", markersize=5, capsize=3, color=color)
    lower.axhline(0.5, color=GREY, linestyle=":", linewidth=1.2)
    lower.set_xticks(range(len(families)), families)
    lower.set_ylim(-0.03, 1.03)
    upper.set_ylabel("mean score of near-misses\n(lower is better)")
    lower.set_ylabel("AUC of positives\n(dotted: chance)")
    for axes in (upper, lower):
        axes.grid(axis="y", alpha=0.3)
        axes.set_axisbelow(True)
    handles, labels = upper.get_legend_handles_labels()
    figure.legend(
        handles, [wrapped(label, 2 * LABEL) for label in labels], loc="outside upper center", fontsize=8, ncols=2
    )
    return save(figure, folder, name)
