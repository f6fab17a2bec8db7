"""Pictures of fragments, contrasts, near-misses, layers, geometry and maps: PNG and SVG, legible at 800 pixels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm

from retrokit.core.sheet import grouped
from retrokit.probing.contrast import ContrastProbe
from retrokit.probing.fragments import FragmentProbe
from retrokit.probing.geometry import WHOLE, Geometry, GeometryProbe
from retrokit.probing.layers import LayerProbe
from retrokit.probing.map import MapProbe, TextMap
from retrokit.probing.near_miss import ALL, POSITIVES, RANDOM, Distribution, NearMissProbe
from retrokit.report.figures import (
    BLUE,
    COLORS,
    CURVES,
    FIXED,
    GREY,
    LINES,
    MARKERS,
    PANELS,
    RED,
    ROWS,
    WIDTH,
    fitting,
    legend_above,
    panels,
    plt,
    save,
    shown,
)

MOST_POINTS = 5_000  # beyond these a picture of each point is larger than one of all
SHOWN_LABELS = len(COLORS) * len(MARKERS)
BINS = 40
SIDE_BY_SIDE = 3  # encoders that fit beside each other
COLUMNS = 4  # families that do
BOXES = 64  # fragments of which each has a box of its own


# --- fragments


def fragment_plots(probe: FragmentProbe, folder: str | Path) -> list[Path]:
    """The heat map of fragments alone, and the curves of prefixes; returns the files written."""
    return [*_fragment_heat(probe, folder), *_prefix_curves(probe, folder)]


def _fragment_heat(probe: FragmentProbe, folder: str | Path) -> list[Path]:
    """SFS, Figure 2: a row per size, a cell per fragment, its distance from the whole under cosine."""
    encoders = fitting(list(grouped(probe.fragments, "encoder").items()), PANELS, "encoders", "fragments")
    sizes = sorted({row.size for row in probe.fragments}, reverse=True)
    figure, every_axes = panels(len(encoders), 1.3 + 0.42 * len(sizes))
    reach = max(1e-6, *(abs(row.difference) for row in probe.fragments))
    norm = TwoSlopeNorm(0, -reach, reach)
    colors = mpl.colormaps["PuOr"]
    for axes, (encoder, own) in zip(every_axes, encoders, strict=True):
        for at, size in enumerate(sizes):
            rows = [row for row in own if row.size == size]
            shades = [colors(norm(row.difference)) for row in rows]
            edge = "white" if len(rows) <= BOXES else "none"
            left = [row.first - 1 for row in rows]
            axes.barh(at, size, left=left, height=0.92, color=shades, edgecolor=edge, linewidth=0.6)
            for row in rows if size / own[-1].last > 0.06 else ():
                ink = "white" if abs(row.difference) > 0.65 * reach else "black"
                text = f"{row.difference:+.2f}"
                axes.text(
                    row.first - 1 + size / 2, at, text, ha="center", va="center", fontsize=7, color=ink, gid=FIXED
                )
        axes.set_yticks(range(len(sizes)), [str(size) for size in sizes])
        axes.invert_yaxis()
        axes.set_xlim(0, max(row.last for row in own))
        axes.set_ylabel("fragment size")
        guess = next(row.guess for row in probe.wholes if row.encoder == encoder)
        note = "" if guess is None else f", most frequent label {guess:.4f}"
        axes.set_title(f"{shown(encoder)}: whole {probe.whole(encoder, 'cosine'):.4f}{note}", fontsize=9)
    every_axes[-1].set_xlabel("dimension of the embedding")
    image = mpl.cm.ScalarMappable(norm=norm, cmap=colors)
    figure.colorbar(image, ax=every_axes, label=f"{shown(probe.metric)}: fragment − whole", shrink=0.9)
    return save(figure, folder, "fragments")


def _prefix_curves(probe: FragmentProbe, folder: str | Path) -> list[Path]:
    """SFS, Figure 4: quality over the number of first dimensions."""
    figure, (axes,) = panels(1, 4)
    encoders = fitting(list(grouped(probe.prefixes, "encoder").items()), CURVES, "encoders", "prefixes")
    sizes = list(dict.fromkeys(row.size for row in probe.prefixes))
    for i, (encoder, own) in enumerate(encoders):
        color = COLORS[i % len(COLORS)]
        as_one = sorted({row.dims: row.as_one for row in own}.items())
        axes.plot(*zip(*as_one, strict=True), ":", marker="x", color=color, label=f"{shown(encoder, 30)}, cosine")
        for j, size in enumerate(sizes):
            points = [(row.dims, row.as_fragments) for row in own if row.size == size]
            style = ("-", "--", "-.")[j % 3]
            label = f"{shown(encoder, 30)}, sfs:{size}"
            axes.plot(*zip(*points, strict=True), style, marker=MARKERS[j % 3], markersize=4, color=color, label=label)
    axes.set_xlabel("first dimensions used")
    axes.set_ylabel(shown(probe.metric))
    axes.grid(alpha=0.3)
    legend_above(figure, axes)
    return save(figure, folder, "prefixes")


# --- contrast


def contrast_plots(probe: ContrastProbe, folder: str | Path) -> list[Path]:
    """SFS, Figure 3: deviations by fragment as box plots, and the mean cosine of each fragment."""
    written = []
    encoders = grouped(probe.fragments, "encoder")
    for i, (encoder, own) in enumerate(encoders.items()):
        figure, (upper, lower) = plt.subplots(2, 1, figsize=(WIDTH, 5.6), layout="constrained", sharex=True)
        places = [row.fragment for row in own]
        every = [row.deviation for row in probe.dimensions if row.encoder == encoder]
        deviations = [np.array(every[row.first - 1 : row.last]) for row in own]
        if len(own) <= BOXES:
            upper.boxplot(
                deviations,
                positions=places,
                widths=0.6,
                flierprops={"marker": ".", "markersize": 5, "markerfacecolor": RED, "markeredgecolor": RED},
                medianprops={"color": BLUE, "linewidth": 1.5},
            )
        else:
            upper.plot(places, [values.max() for values in deviations], ".", color=RED, markersize=3, label="largest")
            upper.plot(places, [row.deviation for row in own], color=BLUE, linewidth=1, label="median")
            upper.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, fontsize=8, frameon=False)
        upper.set_ylabel(f"deviation of {shown(probe.a, 20)}\n− {shown(probe.b, 20)}, by dimension", fontsize=9)
        upper.set_title(f"{shown(encoder)}: {probe.pairs:,} pairs\nof {shown(probe.data)}", fontsize=9, loc="left")
        lower.plot(places, [row.mean_cosine for row in own], "o", color=BLUE)
        lower.set_ylabel("mean cosine of the two texts", fontsize=9)
        lower.set_xlabel(f"fragment of {probe.size} dimensions")
        step = max(1, len(places) // 24)
        lower.set_xticks(places[::step], [str(place) for place in places[::step]])
        for axes in (upper, lower):
            axes.grid(alpha=0.3, axis="y")
        written += save(figure, folder, "contrast" if len(encoders) == 1 else f"contrast-{i + 1}")
    return written


# --- near-miss


def near_miss_plots(probe: NearMissProbe, folder: str | Path) -> list[Path]:
    """COMP, Figure 1: a panel per family, the encoders' distributions over those of positives and random pairs."""
    encoders = list(dict.fromkeys(row.encoder for row in probe.distributions))
    # of many encoders a row for each, or the picture would be endless
    in_rows = len(encoders) > SIDE_BY_SIDE
    encoders = fitting(encoders, PANELS, "encoders", "near-miss")
    counts = Counter({row.group: len(row.scores) for row in probe.distributions if row.encoder == encoders[0]})
    largest = [name for name, _ in counts.most_common() if name not in (POSITIVES, RANDOM)]
    chosen = fitting(largest, COLUMNS if in_rows else PANELS, "families", "near-miss")
    families = [name for name in counts if name in chosen]
    columns = len(families) if in_rows else len(encoders)
    order = [(family, encoder) for family in families for encoder in encoders]
    if in_rows:
        order.sort(key=lambda pair: encoders.index(pair[1]))
    figure, every_axes = panels(len(order), 1.3 if in_rows else 1.75, columns)
    every = np.concatenate([row.scores for row in probe.distributions])
    lowest, highest = np.quantile(every, [0.0005, 0.9995]).tolist()
    room = 1e-3 * max(abs(lowest), abs(highest), 1e-3) if highest == lowest else 0.0  # where all scores are equal
    bins = np.linspace(lowest - room, np.nextafter(highest + room, np.inf), BINS)
    for axes, (family, encoder) in zip(every_axes, order, strict=True):
        for group, color, style in ((RANDOM, GREY, ":"), (POSITIVES, BLUE, "--"), (family, RED, "-")):
            row = next((d for d in probe.distributions if (d.encoder, d.group) == (encoder, group)), None)
            if row is not None:
                label = "near-misses" if group == family else group
                _histogram(axes, row, bins, color, style, label)
        axes.set_yticks([])
        if in_rows:
            axes.set_title("" if encoder != encoders[0] or family == ALL else shown(family, 20), fontsize=9)
            axes.set_ylabel(shown(encoder, 14) if family == families[0] else "", fontsize=8)
        else:
            name = "" if family == ALL else f"{shown(family, 20)}, "
            axes.set_title(f"{name}{shown(encoder, 34)}", fontsize=9)
            axes.set_ylabel("pairs, peak = 1", fontsize=9)
    for axes in every_axes[-columns:]:
        axes.set_xlabel(probe.families[0].similarity, fontsize=9)
    legend_above(figure, every_axes[0])
    return save(figure, folder, "near-miss")


def _histogram(axes: Axes, row: Distribution, bins: np.ndarray, color: str, style: str, label: str) -> None:
    counts, _ = np.histogram(np.clip(row.scores, bins[0], bins[-1]), bins)
    heights = counts / counts.max()  # near-misses crowd at the top: a common scale would flatten all else
    axes.stairs(heights, bins, fill=True, color=color, alpha=0.18)
    axes.stairs(heights, bins, color=color, linestyle=style, linewidth=1.4, label=label)


# --- layers


def layer_plots(probe: LayerProbe, folder: str | Path) -> list[Path]:
    """CROP, Figure 4b and S2: quality after each layer; and how far each layer moved, where that is known."""
    written = []
    encoders = fitting(list(dict.fromkeys(row.encoder for row in probe.layers)), CURVES, "encoders", "layers")
    has_moved = [encoder for encoder in encoders if probe.of(encoder)[0].moved is not None]
    pictures = (("layers", encoders, shown(probe.metric)), ("moved", has_moved, "‖W − W₀‖ / ‖W₀‖ (%)"))
    for name, drawn, label in pictures:
        if not drawn:
            continue
        figure, (axes,) = panels(1, 4)
        for encoder in drawn:
            i = encoders.index(encoder)
            rows = probe.of(encoder)
            values = [row.value for row in rows] if name == "layers" else [100 * (row.moved or 0.0) for row in rows]
            style = LINES[i % len(LINES)]
            axes.plot(range(len(rows)), values, style, marker=MARKERS[i % 3], color=COLORS[i % 8], label=shown(encoder))
        axes.set_xticks(range(max(len(probe.of(encoder)) for encoder in drawn)))
        axes.set_xlabel("after layer (0: embedding layer)" if name == "layers" else "layer (0: embedding layer)")
        axes.set_ylabel(label)
        if name == "moved":
            axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        legend_above(figure, axes)
        written += save(figure, folder, name)
    return written


# --- geometry

_MEASURES = (
    ("anisotropy", "mean cosine of two texts"),
    ("effective_rank", "effective rank / dimensions"),
    ("hubness", "hubness (skewness)"),
)


def geometry_plots(probe: GeometryProbe, folder: str | Path) -> list[Path]:
    """Each measure by fragment, with the whole as a line; by encoder where there are no fragments."""
    by_fragment = any(part.fragment != WHOLE for part in probe.parts)
    encoders = fitting(
        list(grouped(probe.parts, "encoder").items()), CURVES if by_fragment else ROWS, "encoders", "geometry"
    )
    figure, every_axes = panels(len(_MEASURES), 2.2 if by_fragment else max(1.2, 0.7 + 0.25 * len(encoders)))
    for axes, (name, label) in zip(every_axes, _MEASURES, strict=True):
        for i, (encoder, own) in enumerate(encoders):
            color = COLORS[i % len(COLORS)]
            if by_fragment:
                axes.axhline(_measure(own[0], name), color=color, linestyle="--", linewidth=1)
                places = [part.fragment for part in own[1:]]
                values = [_measure(part, name) for part in own[1:]]
                axes.plot(places, values, MARKERS[i % 3], color=color, markersize=5, label=shown(encoder))
            else:
                axes.barh(i, _measure(own[0], name), color=color, height=0.6)
        if by_fragment:
            axes.set_ylabel(label, fontsize=8)
        else:
            axes.set_yticks(range(len(encoders)), [shown(encoder, 30) for encoder, _ in encoders], fontsize=8)
            axes.invert_yaxis()
            axes.set_xlabel(label, fontsize=9)
        axes.grid(alpha=0.3, axis="y" if by_fragment else "x")
    if by_fragment:
        every_axes[-1].set_xlabel("fragment (dashed: the whole)")
        legend_above(figure, every_axes[0])
    return save(figure, folder, "geometry")


def _measure(part: Geometry, name: str) -> float:
    value = float(getattr(part, name))
    return value / part.dimensions if name == "effective_rank" else value


# --- map


def map_plots(probe: MapProbe, folder: str | Path) -> list[Path]:
    """CROP, Figure 2: a picture per encoder, a point per text, the most frequent labels in colour."""
    written = []
    for i, text_map in enumerate(probe.maps):
        figure, axes = plt.subplots(figsize=(WIDTH, 5.6), layout="constrained")
        _points(axes, text_map, np.array(probe.data.labels), probe.data.classes)
        title = f"{shown(text_map.encoder)}: kNN accuracy {text_map.accuracy:.1%} (k = {probe.neighbours})"
        axes.set_title(f"{title}\n{shown(probe.data.name)}, {text_map.algorithm}", fontsize=9)
        axes.set_xlabel("first coordinate (no unit)", fontsize=8)
        axes.set_ylabel("second coordinate (no unit)", fontsize=8)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_aspect("equal", adjustable="datalim")
        figure.legend(loc="outside right upper", fontsize=7, markerscale=2.5, frameon=False)
        written += save(figure, folder, "map" if len(probe.maps) == 1 else f"map-{i + 1}")
    return written


def _points(axes: Axes, text_map: TextMap, labels: np.ndarray, classes: Sequence[str]) -> None:
    counts = np.bincount(labels, minlength=len(classes))
    frequent = np.argsort(-counts, kind="stable")[:SHOWN_LABELS]
    rest = ~np.isin(labels, frequent)
    x, y = text_map.positions.T
    look: dict[str, Any] = {
        "s": float(np.clip(12_000 / len(labels), 1.5, 18)),
        "linewidths": 0,
        "rasterized": len(labels) > MOST_POINTS,
    }
    if rest.any():
        others = len(np.unique(labels[rest]))
        axes.scatter(x[rest], y[rest], c="#C8C8C8", **look, label=f"{others} other labels")
    for i, label in enumerate(frequent.tolist()):
        chosen = labels == label
        color, marker = COLORS[i % len(COLORS)], MARKERS[i // len(COLORS)]
        name = shown(classes[label], 26)
        axes.scatter(x[chosen], y[chosen], c=color, marker=marker, **look, label=name)
