"""How good is an encoder after each of its layers, and how far did training move each (CROP, 4, Figures 4b, c and S2)?

Layer 0 is the embedding layer. A layer whose quality training did not change, or whose weights hardly moved, could
have been frozen.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from retrokit import encoders as encoder_names
from retrokit import evaluation, similarities
from retrokit.core.registry import parse_all
from retrokit.core.settings import taking
from retrokit.encoders.base import Encoder
from retrokit.encoders.folders import starting_encoder
from retrokit.encoders.layers import layer_changes
from retrokit.encoders.views import layers
from retrokit.probing.findings import Findings
from retrokit.probing.quality import quality, read_task
from retrokit.probing.settings import LayerSettings
from retrokit.similarities.base import Similarity

_AS_GOOD = 0.01  # share of the last layer's quality that a layer may lack and still count as being as good


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
        last, best = rows[-1], max(reversed(rows), key=lambda row: row.value)
        first_value, last_value, best_value = (f"{row.value:.4f}" for row in (rows[0], last, best))
        if len({row.value for row in rows}) == 1:
            words = f"{encoder} does alike after every layer ({self.metric} {last_value}): the task tells none apart"
        elif best is last:
            words = (
                f"{encoder} is best after its last layer ({self.metric} {best_value}; embedding layer {first_value})"
            )
        else:
            words = f"{encoder} is best after layer {best.layer} ({self.metric} {best_value}; last layer {last_value})"
        lacking = [row.layer for row in rows if row.value < (1 - _AS_GOOD) * last.value]
        enough = max(lacking, default=-1) + 1
        if 0 < enough < last.layer:
            words += f", and within {_AS_GOOD:.0%} of its last layer, or above it, from layer {enough} on"
        moved = [row for row in rows if row.moved is not None]
        if moved:
            most = max(moved, key=lambda row: row.moved or 0.0)
            words += f", and training moved layer {most.layer} most ({most.moved:.2%} of its weights' length)"
        return words


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
    parse_all(
        [*((encoder_names.registry, spec) for spec in settings.encoders), (evaluation.registry, settings.on), *others]
    )
    task, chosen = read_task(settings.on, settings.metric)
    probe = LayerProbe(task.spec, chosen, [])
    for spec in settings.encoders:
        encoder: Encoder = encoder_names.registry.create(spec, device=settings.device)
        similarity: Similarity = similarities.registry.create(settings.sim) if settings.sim else encoder.similarity
        views = layers(encoder)
        begun_from, moved = _moved(encoder, settings.start, len(views))
        (used,) = task.scored_with(encoder, [similarity])
        for k, view in enumerate(views):
            value = quality(task, view, similarity, chosen, settings.precision).value
            probe.layers.append(LayerScore(encoder.spec, used.spec, k, value, begun_from, moved[k]))
    return probe


def _moved(encoder: Encoder, start: str | None, count: int) -> tuple[str | None, list[float | None]]:
    spec = start or starting_encoder(Path(str(encoder_names.registry.parse(encoder.spec).params.get("path", ""))))
    if spec is None:
        return None, [None] * count
    return spec, list(layer_changes(encoder_names.registry.create(spec, device="cpu"), encoder))
