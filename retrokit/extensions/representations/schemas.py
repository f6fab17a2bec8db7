"""The JSON that the probes of embeddings print."""

from retrokit.core.shapes import but
from retrokit.extensions.representations.contrast import ContrastProbe
from retrokit.extensions.representations.geometry import GeometryProbe
from retrokit.extensions.representations.layers import LayerProbe
from retrokit.extensions.representations.map import TextMap

OUTPUTS = {
    "probe-contrast": ContrastProbe,
    "probe-geometry": GeometryProbe,
    "probe-layers": LayerProbe,
    "probe-map": {
        **{"task": str, "data": str, "texts": int, "neighbours": int, "counts": {"*": int}},
        "classes": ([str | int], "The labels that there are."),
        "labels": ([int], "Of each text, its place among the classes."),
        "maps": [but(TextMap, positions=([[float]], "x and y of each text."))],
        "conclusion": (str, "What the numbers mean, in one sentence."),
    },
}
