"""How good is an encoder after each of its layers, and how far did training move each (CROP, 4, Figures 4b, c and S2)?

Layer 0 is the embedding layer. A layer whose quality training did not change, or whose weights hardly moved, could
have been frozen.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from retrokit import encoders as encoder_names
from retrokit import evaluation, similarities
from retrokit.core.settings import taking
from retrokit.core.sheet import Sheet, grouped
from retrokit.encoders.folders import starting_encoder
from retrokit.encoders.layers import layer_changes
from retrokit.encoders.views import layers
from retrokit.probing.base import Findings, encoders_of, parse_names, quality, read_task
from retrokit.probing.settings import LayerSettings
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

    def of(self, encoder: str) -> list[LayerScore]:
        """The layers of an encoder, from the embedding layer on."""
        return [row for row in self.layers if row.encoder == encoder]

    @property
    def conclusion(self) -> str:
        parts = [self._in_words(encoder) for encoder in dict.fromkeys(row.encoder for row in self.layers)]
        return "; ".join(parts) + "."

    def _in_words(self, encoder: str) -> str:
        rows = self.of(encoder)
        best = max(reversed(rows), key=lambda row: row.value)
        words = f"{encoder} is best after layer {best.layer} of {rows[-1].layer} ({self.metric} {best.value:.4f}; "
        words += f"last layer {rows[-1].value:.4f}, embedding layer {rows[0].value:.4f})"
        if rows[0].moved is not None:
            most = max(rows, key=lambda row: row.moved or 0.0)
            words += f", and training moved layer {most.layer} most ({most.moved:.2%} of its weights' norm)"
        return words

    def sheets(self) -> list[Sheet]:
        by_encoder = grouped(self.layers, "encoder")
        columns = ["layer"]
        for encoder, own in by_encoder.items():
            columns += [encoder, *(["moved"] if own[0].moved is not None else [])]
        rows = []
        for k in range(max(map(len, by_encoder.values()))):
            row = ["0 (embedding)" if k == 0 else str(k)]
            for own in by_encoder.values():
                row += [f"{own[k].value:.4f}" if k < len(own) else ""]
                if own[0].moved is not None:
                    row += [f"{own[k].moved:.3%}" if k < len(own) else ""]
            rows.append(row)
        starts = {row.encoder: row.start for row in self.layers if row.start is not None}
        note = f"scored with {', '.join(dict.fromkeys(row.similarity for row in self.layers))}"
        if starts:
            note += f"; {'; '.join(f'moved: {encoder} from {start}' for encoder, start in starts.items())}"
            note += " (‖W − W₀‖ / ‖W₀‖)"
        return [Sheet(f"{self.metric} after each layer on {self.task}", columns, 1, rows, note)]

    def plot(self, folder: str | Path) -> list[Path]:
        """CROP, Figure 4b and S2: quality after each layer; and how far each layer moved, where that is known."""
        from retrokit.core.figures import CURVES, LINES, MARKERS, color_of, fitting, legend_above, panels, save, shown

        written = []
        encoders = fitting(list(dict.fromkeys(row.encoder for row in self.layers)), CURVES, "encoders", "layers")
        has_moved = [encoder for encoder in encoders if self.of(encoder)[0].moved is not None]
        pictures = (("layers", encoders, shown(self.metric)), ("moved", has_moved, "‖W − W₀‖ / ‖W₀‖ (%)"))
        for name, drawn, label in pictures:
            if not drawn:
                continue
            figure, (axes,) = panels(1, 4)
            for encoder in drawn:
                i = encoders.index(encoder)
                rows = self.of(encoder)
                values = [row.value for row in rows] if name == "layers" else [100 * (row.moved or 0.0) for row in rows]
                style = LINES[i % len(LINES)]
                axes.plot(
                    range(len(rows)), values, style, marker=MARKERS[i % 3], color=color_of(i), label=shown(encoder)
                )
            axes.set_xticks(range(max(len(self.of(encoder)) for encoder in drawn)))
            axes.set_xlabel("after layer (0: embedding layer)" if name == "layers" else "layer (0: embedding layer)")
            axes.set_ylabel(label)
            if name == "moved":
                axes.set_ylim(bottom=0)
            axes.grid(alpha=0.3)
            legend_above(figure, axes)
            written += save(figure, folder, name)
        return written


@taking(LayerSettings)
def probe_layers(settings: LayerSettings) -> LayerProbe:
    """Measure every layer of every encoder on the task ``on``; one pass over the texts serves all layers.

    Raises:
        UsageError: an unknown name, an encoder that is no transformer, a start of another architecture.
        DataError: the task's files.
    """
    others = [
        *([(similarities.registry, settings.sim)] if settings.sim else []),
        *([(encoder_names.registry, settings.start)] if settings.start else []),
    ]
    parse_names(settings.encoders, (evaluation.registry, settings.on), *others)
    task, chosen = read_task(settings.on, settings.metric)
    probe = LayerProbe(task.spec, chosen, [])
    for encoder in encoders_of(settings):
        similarity: Similarity = similarities.registry.create(settings.sim) if settings.sim else encoder.similarity
        views = layers(encoder)
        path = str(encoder_names.registry.parse(encoder.spec).params.get("path", ""))
        begun_from = settings.start or starting_encoder(Path(path))
        moved: list[float | None] = [None] * len(views)
        if begun_from is not None:
            moved = list(layer_changes(encoder_names.registry.create(begun_from, device="cpu"), encoder))
        (used,) = task.scored_with(encoder, [similarity])
        for k, view in enumerate(views):
            value = quality(task, view, similarity, chosen, settings.precision).value
            probe.layers.append(LayerScore(encoder.spec, used.spec, k, value, begun_from, moved[k]))
    return probe
