"""Findings of the probes of embeddings with names of the caller's choice, so that every picture can be made."""

from retrokit.extensions.representations.contrast import ContrastProbe, DimensionContrast, FragmentContrast
from retrokit.extensions.representations.geometry import Geometry, GeometryProbe
from retrokit.extensions.representations.layers import LayerProbe, LayerScore
from retrokit.extensions.representations.map import MapProbe, TextMap
from tests.report.gallery import RNG, Draw, Names


def contrast(names: Names, size: int = 4, count: int = 6) -> ContrastProbe:
    rows = [
        FragmentContrast(name, i + 1, i * size + 1, (i + 1) * size, 0.7, 0.1, 0.3, 0, 0.1)
        for name in names
        for i in range(count)
    ]
    dimensions = [
        DimensionContrast(name, i + 1, i // size + 1, 0.0, float(value))
        for name in names
        for i, value in enumerate(RNG.gamma(4, 0.02, size * count))
    ]
    return ContrastProbe(names[0], names[-1], names[0], 100, size, rows, dimensions)


def layers(names: Names) -> LayerProbe:
    rows = [LayerScore(name, "cosine", k, 0.5 + 0.01 * k, names[0], 0.01) for name in names for k in range(4)]
    return LayerProbe(names[0], names[-1], rows)


def geometry(names: Names, fragments: int) -> GeometryProbe:
    parts = [Geometry(name, i, 8, 0.1 + 0.01 * i, 7.0, 1.0, 0.01) for name in names for i in range(fragments + 1)]
    return GeometryProbe(names[0], 100, 10, parts)


def labelled_map(names: Names) -> MapProbe:
    labels = [i for i in range(len(names)) for _ in range(3)]
    lines = [str(i) for i in range(len(labels))]
    maps = [TextMap(name, "t-SNE", 0.5, 0.5, RNG.normal(size=(len(labels), 2))) for name in names[:2]]
    counts = {
        "test_texts": 0,
        "train_texts": 0,
        "labels": len(names),
        "texts_without_text": 0,
        "test_texts_of_unknown_label": 0,
    }
    return MapProbe(names[0], names[0], len(labels), 10, counts, list(names), labels, maps, lines)


def pictures(names: Names) -> dict[str, Draw]:
    """How to draw each picture with these names wherever a name of the user's can stand."""
    return {
        "contrast": contrast(names[:2]).plot,
        "layers": layers(names).plot,
        "geometry": geometry(names, 0).plot,
        "geometry-fragments": geometry(names, 6).plot,
        "map": labelled_map(names).plot,
    }
