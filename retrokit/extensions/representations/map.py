"""A picture of labelled texts: their embeddings in two dimensions by t-SNE (CROP, 3.3 and Figure 2).

openTSNE with its default parameters, as in the paper, where it is installed (the extra ``map``); scikit-learn's t-SNE
otherwise. The accuracy of the nearest neighbours says how much of the picture is in the embeddings.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from retrokit import evaluation
from retrokit.core.errors import DataError, UsageError, installation
from retrokit.core.notices import notice
from retrokit.core.settings import taking
from retrokit.core.sheet import Sheet
from retrokit.data.jsonl import COUNT
from retrokit.encoders.views import MemoizedEncoder
from retrokit.evaluation.tasks.labelled import NearestNeighbours, predict_by_distance
from retrokit.extensions.representations.settings import MapSettings
from retrokit.probing.base import Findings, encoders_of, parse_names, quality, read_task

MOST_POINTS = 5_000  # beyond these a picture of each point is larger than one of all
FEWEST_TEXTS = 5  # below which there is nothing to lay out
USUAL_PERPLEXITY = 30.0  # of both libraries
ONE_THREAD = 5_000  # texts up to which openTSNE uses one thread


@dataclass(frozen=True)
class TextMap:
    """Where each text lies in the plane, float64 ``[n, 2]``, and the accuracy of nearest neighbours in the embedding
    space and, by Euclidean distance, within the plane (``map_accuracy``)."""

    encoder: str
    algorithm: str
    accuracy: float
    map_accuracy: float
    positions: np.ndarray = field(repr=False)


@dataclass(frozen=True)
class MapProbe(Findings):
    """What ``probe map`` laid out: the texts of one file, by every encoder.

    Attributes:
        labels: of each text, its index in ``classes``.
        lines: of each text, its line in the file; empty if the record was read.
    """

    pictures: ClassVar = {"map": "Texts in the plane, by label"}

    task: str
    data: str
    texts: int
    neighbours: int
    counts: dict[str, int]
    classes: list[str]
    labels: list[COUNT]
    maps: list[TextMap]
    lines: Sequence[str] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        has_positions = all(text_map.positions.shape == (len(self.labels), 2) for text_map in self.maps)
        if not has_positions or not set(self.labels) <= set(range(len(self.classes))):
            raise ValueError("expected a label of the classes and two coordinates for each text")

    def to_json(self) -> dict[str, Any]:
        """Plain values for strict JSON: ``labels`` and ``positions`` hold an item for each text, in their order."""
        values = super().to_json()
        for text_map in values["maps"]:
            text_map["positions"] = text_map["positions"].round(3).tolist()
        return values

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        rows = []
        for text_map in self.maps:
            for index, (label, (x, y)) in enumerate(zip(self.labels, text_map.positions.tolist(), strict=True)):
                line = self.lines[index] if self.lines else ""
                rows.append({"encoder": text_map.encoder, "line": line, "label": self.classes[label], "x": x, "y": y})
        return {"map": rows}

    @property
    def conclusion(self) -> str:
        majority = max(np.bincount(self.labels)) / len(self.labels)
        accuracies = [
            f"{text_map.encoder}: kNN accuracy {text_map.accuracy:.1%}, within the picture {text_map.map_accuracy:.1%}"
            for text_map in self.maps
        ]
        return (
            "; ".join(accuracies) + f" (majority class: {majority:.1%}). Distances between clusters carry no meaning."
        )

    def sheets(self) -> list[Sheet]:
        columns = ["encoder", "laid out by", f"kNN accuracy (k = {self.neighbours})", "within the picture"]
        rows = []
        for text_map in self.maps:
            accuracies = [f"{text_map.accuracy:.1%}", f"{text_map.map_accuracy:.1%}"]
            rows.append([text_map.encoder, text_map.algorithm, *accuracies])
        note = f"{len(self.labels):,} texts, {len(self.classes):,} labels"
        return [Sheet(f"map of {self.data}", columns, 2, rows, note)]

    def plot(self, folder: str | Path) -> list[Path]:
        """CROP, Figure 2: a picture per encoder, a point per text, the most frequent labels in colour."""
        from retrokit.core.figures import COLORS, MARKERS, WIDTH, color_of, plt, save, shown

        labels, classes = np.array(self.labels), self.classes
        most_frequent = np.argsort(-np.bincount(labels, minlength=len(classes)), kind="stable")
        frequent = most_frequent[: len(COLORS) * len(MARKERS)]
        rest = ~np.isin(labels, frequent)
        size = float(np.clip(12_000 / len(labels), 1.5, 18))
        style: dict[str, Any] = {"s": size, "linewidths": 0, "rasterized": len(labels) > MOST_POINTS}
        written = []
        for number, text_map in enumerate(self.maps, start=1):
            figure, axes = plt.subplots(figsize=(WIDTH, 5.6), layout="constrained")
            x, y = text_map.positions.T
            if rest.any():
                others = len(np.unique(labels[rest]))
                axes.scatter(x[rest], y[rest], c="#C8C8C8", **style, label=f"{others} other labels")
            for i, label in enumerate(frequent.tolist()):
                chosen, marker = labels == label, MARKERS[i // len(COLORS)]
                name = shown(classes[label], 26)
                axes.scatter(x[chosen], y[chosen], c=color_of(i), marker=marker, **style, label=name)
            title = f"{shown(text_map.encoder)}: kNN accuracy {text_map.accuracy:.1%} (k = {self.neighbours})"
            axes.set_title(f"{title}\n{shown(self.data)}, {text_map.algorithm}", fontsize=9)
            axes.set_xlabel("first coordinate (no unit)", fontsize=8)
            axes.set_ylabel("second coordinate (no unit)", fontsize=8)
            axes.set_xticks([])
            axes.set_yticks([])
            axes.set_aspect("equal", adjustable="datalim")
            figure.legend(loc="outside right upper", fontsize=7, markerscale=2.5, frameon=False)
            written += save(figure, folder, "map" if len(self.maps) == 1 else f"map-{number}")
        return written


@taking(MapSettings)
def probe_map(settings: MapSettings) -> MapProbe:
    """Lay out all texts of ``on`` by every encoder; ``seed`` is that of the layout. ``on`` is ``knn:FILE``, labelled
    texts; its options decide on neighbours, distance and sample.

    Raises:
        UsageError: an unknown name, or a task that is not ``knn:…``.
        DataError: the file, or embeddings that are all the same.
    """
    (source,) = parse_names(settings.encoders, (evaluation.registry, settings.on))
    task, metric = read_task(settings.on, None) if source.name == "knn" else (None, "")
    if not isinstance(task, NearestNeighbours):
        raise UsageError(f"{settings.on}: a map needs labelled texts: knn:FILE")
    data = task.data
    if len(data.texts) < FEWEST_TEXTS:
        raise DataError(data.name, f"{len(data.texts)} texts; expected {FEWEST_TEXTS} or more to lay out")
    probe = MapProbe(
        task=task.spec,
        data=data.name,
        texts=len(data.texts),
        neighbours=task.k,
        counts=data.counts,
        classes=data.classes,
        labels=data.labels,
        maps=[],
        lines=data.ids,
    )
    for encoder in map(MemoizedEncoder, encoders_of(settings)):
        accuracy = quality(task, encoder, encoder.similarity, metric, settings.precision).value
        embeddings = encoder.embed(data.texts, "document", settings.precision)
        if (embeddings == embeddings[0]).all():
            raise DataError(data.name, f"{encoder.spec} embeds all {len(embeddings):,} texts alike: nothing to lay out")
        algorithm, positions = layout(embeddings, settings.seed)
        labels = np.array(data.labels)
        learnt = positions[data.train], labels[data.train], positions[data.test]
        within = float((predict_by_distance(*learnt, task.k, "euclidean") == labels[data.test]).mean())
        probe.maps.append(TextMap(encoder.name, algorithm, accuracy, within, positions))
    return probe


def layout(embeddings: np.ndarray, seed: int = 42) -> tuple[str, np.ndarray]:
    """The algorithm used, and two coordinates ``[n, 2]``, float64, of each row of ``[n, d]``; the same at every call
    with the same seed, library and machine.
    """
    perplexity = min(USUAL_PERPLEXITY, (len(embeddings) - 1) / 3)
    if importlib.util.find_spec("openTSNE") is not None:
        from openTSNE import TSNE

        # threads that wait for each other cost more than they bring where there is little to do
        threads = 1 if len(embeddings) <= ONE_THREAD else -1
        fitted = TSNE(perplexity=perplexity, random_state=seed, n_jobs=threads).fit(embeddings)
        return "openTSNE", np.asarray(fitted, dtype=np.float64)
    from sklearn import manifold

    notice(f"laying out with scikit-learn's t-SNE; openTSNE is faster: {installation('map')}")
    placed = manifold.TSNE(perplexity=perplexity, init="pca", random_state=seed, n_jobs=-1).fit_transform(embeddings)
    return "scikit-learn t-SNE", placed.astype(np.float64)
