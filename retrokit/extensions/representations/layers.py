"""How good is an encoder after each of its layers, and how far did training move each (CROP, 4, Figures 4b, c and S2)?

Layer 0 is the embedding layer. A layer whose quality training did not change, or whose weights hardly moved, could
have been frozen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import ClassVar

from retrokit import encoders as encoder_names
from retrokit import evaluation, similarities
from retrokit.core.registry import Registry
from retrokit.core.settings import taking
from retrokit.core.sheet import Sheet, grouped
from retrokit.encoders.views import layers
from retrokit.extensions.representations.settings import LayerSettings
from retrokit.extensions.representations.starts import layer_changes, starting_encoder
from retrokit.probing.base import Findings, encoders_of, parse_names, quality, read_task
from retrokit.similarities.base import Similarity


@dataclass(frozen=True)
class LayerScore:
    """Quality after ``layer`` (0: the embedding layer), and ``moved``: ``‖W − W₀‖ / ‖W₀‖`` of that layer's weights
    against the encoder ``start`` (Frobenius norms), or ``None`` where no start is known."""

    encoder: str
    similarity: str
    layer: int
    value: float
    start: str | None
    moved: float | None


@dataclass(frozen=True)
class LayerProbe(Findings):
    """What ``probe layers`` measured on ``task`` by ``metric``; higher is better."""

    pictures: ClassVar = {"layers": "Quality after each layer", "moved": "How far each layer moved in training"}

    task: str
    metric: str
    layers: list[LayerScore]

    @property
    def conclusion(self) -> str:
        return "; ".join(self._in_words(rows) for rows in grouped(self.layers, "encoder").values()) + "."

    def _in_words(self, rows: Sequence[LayerScore]) -> str:
        """About the layers of one encoder."""
        best = max(reversed(rows), key=lambda row: row.value)
        words = f"{best.encoder} is best after layer {best.layer} of {rows[-1].layer} ({self.metric} {best.value:.4f}; "
        words += f"last layer {rows[-1].value:.4f}, embedding layer {rows[0].value:.4f})"
        if rows[0].moved is not None:
            furthest = max(rows, key=lambda row: row.moved or 0.0)
            words += f", and training moved layer {furthest.layer} most ({furthest.moved:.2%} of its weights' norm)"
        return words

    def sheets(self) -> list[Sheet]:
        by_encoder = grouped(self.layers, "encoder")
        depth = max(map(len, by_encoder.values()))
        headings = ["layer"]
        columns = [["0 (embedding)", *map(str, range(1, depth))]]
        for encoder, rows in by_encoder.items():
            headings.append(encoder)
            columns.append([f"{row.value:.4f}" for row in rows])
            if rows[0].moved is not None:
                headings.append("moved")
                columns.append([f"{row.moved:.3%}" for row in rows])
        notes = [f"scored with {', '.join(dict.fromkeys(row.similarity for row in self.layers))}"]
        starts = {row.encoder: row.start for row in self.layers if row.start is not None}
        notes += [f"moved: {encoder} from {start}" for encoder, start in starts.items()]
        note = "; ".join(notes)
        if starts:
            note += " (‖W − W₀‖ / ‖W₀‖)"
        title = f"{self.metric} after each layer on {self.task}"
        return [Sheet(title, headings, 1, list(zip_longest(*columns, fillvalue="")), note)]

    def plot(self, folder: str | Path) -> list[Path]:
        """CROP, Figure 4b and S2: quality after each layer; and how far each layer moved, where that is known."""
        from retrokit.core.figures import CURVES, LINES, MARKERS, Curve, color_of, curves_figure, fitting, save, shown

        quality, moved = [], []
        encoders = fitting(list(grouped(self.layers, "encoder").items()), CURVES, "encoders", "layers")
        for index, (encoder, rows) in enumerate(encoders):
            style = color_of(index), LINES[index % len(LINES)], MARKERS[index % len(MARKERS)]
            quality.append(Curve(shown(encoder), [(row.layer, row.value) for row in rows], *style))
            if rows[0].moved is not None:
                moved.append(Curve(shown(encoder), [(row.layer, 100 * (row.moved or 0.0)) for row in rows], *style))
        figure, axes = curves_figure(quality, "after layer (0: embedding layer)", shown(self.metric))
        axes.set_xticks(range(max(len(curve.points) for curve in quality)))
        written = save(figure, folder, "layers")
        if moved:
            figure, axes = curves_figure(moved, "layer (0: embedding layer)", "‖W − W₀‖ / ‖W₀‖ (%)")
            axes.set_xticks(range(max(len(curve.points) for curve in moved)))
            axes.set_ylim(bottom=0)
            written += save(figure, folder, "moved")
        return written


@taking(LayerSettings)
def probe_layers(settings: LayerSettings) -> LayerProbe:
    """Measure every layer of every encoder on the task ``on``; one pass over the texts serves all layers.

    Raises:
        UsageError: an unknown name, an encoder that is no transformer, a start of another architecture.
        DataError: the task's files.
    """
    names: list[tuple[Registry, str]] = [(evaluation.registry, settings.on)]
    if settings.sim:
        names.append((similarities.registry, settings.sim))
    if settings.start:
        names.append((encoder_names.registry, settings.start))
    parse_names(settings.encoders, *names)
    task, chosen = read_task(settings.on, settings.metric)
    probe = LayerProbe(task.spec, chosen, [])
    for encoder in encoders_of(settings):
        similarity: Similarity = similarities.registry.create(settings.sim) if settings.sim else encoder.similarity
        views = layers(encoder)
        path = encoder_names.registry.parse(encoder.spec).path
        start = settings.start or starting_encoder(Path(path))
        moved: list[float | None] = [None] * len(views)
        if start is not None:
            moved = list(layer_changes(encoder_names.registry.create(start, device="cpu"), encoder))
        (used,) = task.scored_with(encoder, [similarity])
        for layer, view in enumerate(views):
            value = quality(task, view, similarity, chosen, settings.precision).value
            probe.layers.append(LayerScore(encoder.name, used.spec, layer, value, start, moved[layer]))
    return probe
