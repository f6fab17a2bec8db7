"""A picture of labelled texts: their embeddings in two dimensions by t-SNE (CROP, 3.3 and Figure 2).

openTSNE with its default parameters, as in the paper, where it is installed (the extra ``map``); scikit-learn's t-SNE
otherwise. The accuracy of the nearest neighbours says how much of the picture is in the embeddings.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from retrokit import encoders as encoder_names
from retrokit import evaluation
from retrokit.core.errors import DataError, UsageError, installation
from retrokit.core.notices import notice
from retrokit.core.registry import parse_all
from retrokit.core.settings import taking
from retrokit.data.labelled import LabelledSplit
from retrokit.data.typed import restored
from retrokit.encoders.views import MemoizedEncoder
from retrokit.evaluation.tasks.knn import NearestNeighbours, predict_by_distance
from retrokit.probing.findings import Findings
from retrokit.probing.quality import quality, read_task
from retrokit.probing.settings import MapSettings

FEWEST_TEXTS = 5  # below which there is nothing to lay out
USUAL_PERPLEXITY = 30.0  # of both libraries
ONE_THREAD = 5_000  # texts up to which openTSNE uses one thread


@dataclass(frozen=True)
class TextMap:
    """Where each text lies in the plane, float64 ``[n, 2]``, and how well labels follow from neighbours.

    Attributes:
        accuracy: of the nearest neighbours in the embedding space.
        map_accuracy: the same within the plane, by Euclidean distance.
    """

    encoder: str
    algorithm: str
    accuracy: float
    map_accuracy: float
    positions: np.ndarray = field(repr=False)


@dataclass(frozen=True)
class MapProbe(Findings):
    """What ``probe map`` laid out: the texts of one file, by every encoder."""

    task: str
    neighbours: int
    data: LabelledSplit = field(repr=False)
    maps: list[TextMap]

    def to_json(self) -> dict[str, Any]:
        """Plain values for strict JSON: ``labels`` and ``positions`` hold an item for each text, in their order."""
        shown = ("encoder", "algorithm", "accuracy", "map_accuracy")
        return {
            "task": self.task,
            "data": self.data.name,
            "texts": len(self.data.texts),
            "neighbours": self.neighbours,
            "counts": self.data.counts,
            "classes": self.data.classes,
            "labels": self.data.labels,
            "maps": [
                {
                    **{name: getattr(projection, name) for name in shown},
                    "positions": projection.positions.round(3).tolist(),
                }
                for projection in self.maps
            ],
            "conclusion": self.conclusion,
        }

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        return {
            "map": [
                {"encoder": projection.encoder, "line": line, "label": self.data.classes[label], "x": x, "y": y}
                for projection in self.maps
                for line, label, (x, y) in zip(
                    self.data.ids, self.data.labels, projection.positions.tolist(), strict=True
                )
            ]
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> MapProbe:
        """What can be drawn of :meth:`to_json`. Raises :class:`ValueError` where labels and positions do not fit."""
        labels, classes = list(map(int, plain["labels"])), list(map(str, plain["classes"]))
        restored({"task": str, "data": str, "neighbours": int}, plain)
        maps: list[TextMap] = restored(list[TextMap], plain["maps"])
        if any(one.positions.shape != (len(labels), 2) for one in maps) or not set(labels) <= set(range(len(classes))):
            raise ValueError("expected a label of the classes and two coordinates for each text")
        data = LabelledSplit(plain["data"], [], [], labels, classes, [], [])
        return cls(plain["task"], plain["neighbours"], data, maps)

    @property
    def conclusion(self) -> str:
        """One sentence on what the numbers mean: how far to trust each picture."""
        chance = max(np.bincount(self.data.labels)) / len(self.data.labels)
        parts = [
            f"{projection.encoder}: the {self.neighbours} nearest texts name the label of {projection.accuracy:.1%} "
            f"(always the most frequent label: {chance:.1%}), and {projection.map_accuracy:.1%} within the picture"
            for projection in self.maps
        ]
        lost = max(projection.accuracy - projection.map_accuracy for projection in self.maps)
        trust = "so trust its neighbourhoods" if lost < 0.05 else "so the picture hides part of the structure"
        return "; ".join(parts) + f", {trust}, but not its distances between clusters."


@taking(MapSettings)
def probe_map(settings: MapSettings) -> MapProbe:
    """Lay out all texts of ``on`` by every encoder; ``seed`` is that of the layout. ``on`` is ``knn:FILE``, labelled
    texts; its options decide on neighbours, distance and sample.

    Raises:
        UsageError: an unknown name, or a task that is not ``knn:…``.
        DataError: the file, or embeddings that are all the same.
    """
    *_, source = parse_all(
        [*((encoder_names.registry, spec) for spec in settings.encoders), (evaluation.registry, settings.on)]
    )
    task, metric = read_task(settings.on, None) if source.name == "knn" else (None, "")
    if not isinstance(task, NearestNeighbours):
        raise UsageError(f"{settings.on}: a map needs labelled texts: knn:FILE")
    data = task.data
    if len(data.texts) < FEWEST_TEXTS:
        raise DataError(data.name, f"{len(data.texts)} texts; expected {FEWEST_TEXTS} or more to lay out")
    probe = MapProbe(task.spec, task.k, data, [])
    for spec in settings.encoders:
        encoder = MemoizedEncoder(encoder_names.registry.create(spec, device=settings.device))
        accuracy = quality(task, encoder, encoder.similarity, metric, settings.precision).value
        embeddings = encoder.embed(data.texts, "document", settings.precision)
        if (embeddings == embeddings[0]).all():
            raise DataError(data.name, f"{encoder.spec} embeds all {len(embeddings):,} texts alike: nothing to lay out")
        algorithm, positions = layout(embeddings, settings.seed)
        probe.maps.append(
            TextMap(encoder.spec, algorithm, accuracy, _accuracy_within(positions, data, task.k), positions)
        )
    return probe


def _accuracy_within(positions: np.ndarray, data: LabelledSplit, k: int) -> float:
    labels = np.array(data.labels)
    guessed = predict_by_distance(positions[data.train], labels[data.train], positions[data.test], k, "euclidean")
    return float((guessed == labels[data.test]).mean())


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
