"""Pictures of what the probes of lengths and of Fisher information found."""

from __future__ import annotations

import itertools
import textwrap
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from retrokit.metrics.effect_size import SIZES
from retrokit.probing.fisher import CANDIDATES, Fisher, FisherProbe, log10
from retrokit.probing.magnitude_findings import METRIC, LengthFinding, MagnitudeProbe, points_of
from retrokit.report.figures import (
    BLUE,
    COLORS,
    CURVES,
    GREEN,
    GREY,
    LINES,
    MARKERS,
    PANELS,
    RED,
    ROWS,
    differences_figure,
    fitting,
    legend_above,
    panels,
    plt,
    rows_figure,
    save,
    shown,
    steps_axis,
    told_in_cells,
)
from retrokit.report.plots import LEAST_GAMMA_RANGE, widen

# --- magnitude


def magnitude_plots(probe: MagnitudeProbe, folder: str | Path) -> list[Path]:
    """Draw what a magnitude probe found: by data set, or through training; returns the files written."""
    if any(result.step is not None for result in probe.results):
        return [*_effect_through_training(probe, folder), *_gamma_through_training(probe, folder)]
    files = [*_effects(probe, folder), *_lengths(probe, folder)]
    return [*files, *_correlations(probe, folder)] if probe.correlations else files


def _named(result: LengthFinding) -> str:
    """Encoder and data set in two short lines."""
    return f"{shown(result.encoder, 34)}\n{shown(result.task, 34)}"


def _shade(axes: Axes, horizontal: bool = False) -> None:
    """Shade the effect sizes of MAG, Figure 4: the darker, the larger; white is negligible."""
    span = axes.axhspan if horizontal else axes.axvspan
    edges = [*(least for least, _ in reversed(SIZES)), 100.0]
    for (low, high), alpha in zip(itertools.pairwise(edges), (0.08, 0.16, 0.24), strict=True):
        for sign in (-1, 1):
            span(*sorted((sign * low, sign * high)), color=GREY, alpha=alpha, linewidth=0)


def _effects(probe: MagnitudeProbe, folder: str | Path) -> list[Path]:
    results = fitting(probe.results, ROWS, "rows", "effect")
    values = np.array([(r.effect.value, r.effect.low, r.effect.high) for r in results])
    figure, axes = differences_figure([_named(result) for result in results], values, 0.5)
    _shade(axes)
    axes.set_xlabel("Cohen's d of document length, 95% interval\n(above 0: relevant documents are longer)")
    return save(figure, folder, "effect")


def _lengths(probe: MagnitudeProbe, folder: str | Path) -> list[Path]:
    results = fitting(probe.results, ROWS, "rows", "lengths")
    figure, axes, at = rows_figure([_named(result) for result in results], 1)
    sides = (("queries", BLUE, "o", 0.2), ("relevant", GREEN, "s", 0.0), ("irrelevant", RED, "^", -0.2))
    for name, color, marker, shift in sides:
        groups = [getattr(result, name) for result in results]
        label = name if name == "queries" else f"{name} documents"
        axes.errorbar(
            [group.mean for group in groups],
            at + shift,
            xerr=[group.deviation for group in groups],
            fmt=marker,
            color=color,
            capsize=3,
            label=label,
        )
    axes.set_xlim(left=0)
    axes.set_xlabel("length of embeddings: mean ± standard deviation")
    legend_above(figure, axes)
    return save(figure, folder, "lengths")


def _correlations(probe: MagnitudeProbe, folder: str | Path) -> list[Path]:
    figure, (axes,) = panels(1, 4.4)
    for index, line in enumerate(fitting(probe.correlations, CURVES, "encoders", "correlation")):
        own = [result for result in probe.results if result.encoder == line.encoder]
        effects, gains = (np.array(side) for side in zip(*points_of(own), strict=True))
        color = COLORS[index % len(COLORS)]
        label = f"{shown(line.encoder, 34)}: r = {line.r:+.2f}, p = {line.p:.2g}"
        axes.scatter(effects, gains, color=color, marker=MARKERS[index % len(MARKERS)], label=label, zorder=3)
        ends = np.array([effects.min(), effects.max()])
        axes.plot(ends, line.intercept + line.slope * ends, color=color, linewidth=1.5)
    limits = axes.get_xlim()
    _shade(axes)
    axes.set_xlim(limits)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xlabel("Cohen's d of document length (shaded: small, medium, large)")
    axes.set_ylabel(f"gain in {METRIC} (%)")
    legend_above(figure, axes, columns=1)
    return save(figure, folder, "correlation")


def _effect_through_training(probe: MagnitudeProbe, folder: str | Path) -> list[Path]:
    """MAG, Figures 5 and 13: mean lengths of both groups on the left, d on the right."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
    tasks = fitting(list(dict.fromkeys(result.task for result in probe.results)), PANELS, "data sets", "training")
    for index, task in enumerate(tasks):
        own = [result for result in probe.results if result.task == task]
        steps = [result.step for result in own]
        ending = f", {shown(task, 34)}" if len(tasks) > 1 else ""
        style = LINES[index % len(LINES)]
        for name, color in (("relevant", GREEN), ("irrelevant", RED)):
            means = [getattr(result, name).mean for result in own]
            left.plot(steps, means, style, marker=".", color=color, label=f"{name}{ending}")
        effects = np.array([(r.effect.value, r.effect.low, r.effect.high) for r in own])
        color = COLORS[index % len(COLORS)]
        right.plot(steps, effects[:, 0], style, marker=".", color=color, label=f"d{ending}")
        right.fill_between(steps, effects[:, 1], effects[:, 2], color=color, alpha=0.2, linewidth=0)
    right.axhline(0, color="black", linewidth=0.8)
    left.set_ylabel("mean length of documents' embeddings")
    right.set_ylabel("Cohen's d (band: 95% interval)")
    for axes in (left, right):
        steps_axis(axes)
    legend_above(figure, *((left, right) if len(tasks) > 1 else (left,)))
    return save(figure, folder, "training")


def _gamma_through_training(probe: MagnitudeProbe, folder: str | Path) -> list[Path]:
    """MAG, Figure 6; nothing for a run that learns no γ."""
    if not probe.curve:
        return []
    figure, (axes,) = panels(1, 4)
    steps = [row["step"] for row in probe.curve]
    for key, label, color, style in (("gamma_query", "γq", BLUE, "-"), ("gamma_document", "γd", RED, "--")):
        axes.plot(steps, [row[key] for row in probe.curve], style, marker=".", color=color, label=label)
    axes.set_ylabel("γ (0: length counts in full, 1: not at all)")
    widen(axes, LEAST_GAMMA_RANGE)
    steps_axis(axes)
    legend_above(figure, axes)
    return save(figure, folder, "gamma")


# --- fisher


def fisher_plots(probe: FisherProbe, folder: str | Path) -> list[Path]:
    """Draw MAG's Table 2 as a heat map for each encoder, and κ of both candidates; returns the files written."""
    return [*_information(probe, folder), *_kappa(probe, folder)]


def _information(probe: FisherProbe, folder: str | Path) -> list[Path]:
    results = fitting(probe.results, PANELS, "encoders", "fisher")
    names = [entry.similarity for entry in results[0].information]
    figure, rows = panels(len(results), 1.6 + 1.0 / len(results))
    tables = [_log_table(result) for result in results]
    known = np.concatenate([table[np.isfinite(table)] for table in tables])
    image = None
    for axes, result, table in zip(rows, results, tables, strict=True):
        image = axes.imshow(table, cmap="cividis", vmin=known.min(), vmax=known.max(), aspect="auto")
        told_in_cells(axes, table, (known.min() + known.max()) / 2, ".1f", "none", fontsize=9)
        axes.set_xticks(range(len(names)), names)
        axes.set_yticks(range(3), ["document length", "query length", "angle"])
        axes.set_title(shown(result.encoder, 60), fontsize=9, loc="left")
    assert image is not None
    figure.colorbar(image, ax=rows, label="log₁₀ E[(∂s/∂·)²]; none: exactly 0")
    return save(figure, folder, "fisher")


def _log_table(result: Fisher) -> np.ndarray:
    """log₁₀ of the information ``[3, similarities]``, NaN for exactly 0."""
    parts = ("document", "query", "angle")
    logs = [[log10(getattr(entry, part)) for entry in result.information] for part in parts]
    return np.array([[np.nan if value is None else value for value in row] for row in logs])


def _kappa(probe: FisherProbe, folder: str | Path) -> list[Path]:
    """The difference of both candidates' log₁₀ κ with its interval; the two values alone would look sure."""
    results = fitting(probe.results, ROWS, "rows", "kappa")
    labels = [f"{shown(result.encoder, 34)}\nchoice: {result.prediction.choice}" for result in results]
    predictions = [result.prediction for result in results]
    differences = np.array([(prediction.difference, prediction.low, prediction.high) for prediction in predictions])
    figure, axes = differences_figure(labels, differences, 0.1, 1)
    first, second = CANDIDATES
    axes.set_title(f"← {first} predicted", loc="left", fontsize=9)
    axes.set_title(f"{second} predicted →", loc="right", fontsize=9)
    axes.set_xlabel(f"log₁₀ κ({first}) − log₁₀ κ({second}), 95% interval")
    figure.supxlabel("\n".join(textwrap.fill(note, 110) for note in probe.notes), fontsize=7)
    return save(figure, folder, "kappa")
