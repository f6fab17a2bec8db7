"""Pictures of a run, from its ``metrics.jsonl``: loss, evaluation, norms, γ (MAG, Figures 2, 5 and 6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from retrokit.data.jsonl import read_jsonl
from retrokit.errors import disk_errors

Series = dict[str, list[tuple[int, float]]]


def training_plots(folder: str | Path) -> list[Path]:
    """Draw ``plots/*.png`` and ``.svg`` of a run; returns the files written."""
    rows = [row for _, row in read_jsonl(Path(folder) / "metrics.jsonl")]
    target = Path(folder) / "plots"
    target.mkdir(exist_ok=True)
    pictures = {
        "loss": (_series(rows, ("loss",)), "loss"),
        "evaluation": (_nested(rows, "evaluation", ""), "metric"),
        "norms": (_nested(rows, "norms", "_norm_mean"), "mean norm of raw embeddings"),
        "gamma": (_series(rows, ("gamma_query", "gamma_document")), "γ"),
    }
    written = []
    for name, (series, label) in pictures.items():
        if series:
            written += _draw(series, label, target / name)
    return written


def _series(rows: list[dict[str, Any]], keys: tuple[str, ...]) -> Series:
    found = {key: [(row["step"], row[key]) for row in rows if key in row] for key in keys}
    return {key: points for key, points in found.items() if points}


def _nested(rows: list[dict[str, Any]], key: str, ending: str) -> Series:
    names = [name for row in rows for name in row.get(key, {}) if name.endswith(ending)]
    return {
        name.replace("_", " "): [(row["step"], row[key][name]) for row in rows if name in row.get(key, {})]
        for name in dict.fromkeys(names)
    }


def _draw(series: Series, label: str, path: Path) -> list[Path]:
    figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
    for name, points in series.items():
        steps, values = zip(*points, strict=True)
        axes.plot(steps, values, marker="." if len(points) < 60 else None, label=name)
    axes.set_xlabel("step")
    axes.set_ylabel(label)
    axes.grid(alpha=0.3)
    if len(series) > 1:
        axes.legend()
    return save(figure, path)


def save(figure: Figure, path: Path) -> list[Path]:
    """Write ``path`` with the endings ``.png`` and ``.svg``, close the figure, and return both files."""
    # by hand: in a name such as ndcg@10_v1.5, with_suffix would take off the end
    files = [path.with_name(path.name + ending) for ending in (".png", ".svg")]
    for file in files:
        with disk_errors(file):
            figure.savefig(file, dpi=120)
    plt.close(figure)
    return files
