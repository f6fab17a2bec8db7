"""How embeddings lie in their space: attributes, layers, anisotropy and hubness, and maps of labelled texts."""

from typing import TYPE_CHECKING

from retrokit.core.registry import Extension

if TYPE_CHECKING:
    from retrokit.extensions.representations.contrast import probe_contrast as probe_contrast
    from retrokit.extensions.representations.geometry import probe_geometry as probe_geometry
    from retrokit.extensions.representations.layers import probe_layers as probe_layers
    from retrokit.extensions.representations.map import probe_map as probe_map

_HERE = "retrokit.extensions.representations"
EXTENSION = Extension(
    "representations",
    "Probe how embeddings lie in their space: by attribute, by layer, as a whole, and as a map.",
    entries={
        "retrokit.probes": {
            "contrast": f"{_HERE}.entries:CONTRAST",
            "geometry": f"{_HERE}.entries:GEOMETRY",
            "layers": f"{_HERE}.entries:LAYERS",
            "map": f"{_HERE}.entries:MAP",
        },
        "retrokit.registries": {
            "contrasts": f"{_HERE}.entries:CONTRASTS",
            "corpora": f"{_HERE}.entries:CORPORA",
        },
    },
    python={
        "probe_contrast": f"{_HERE}.contrast:probe_contrast",
        "probe_geometry": f"{_HERE}.geometry:probe_geometry",
        "probe_layers": f"{_HERE}.layers:probe_layers",
        "probe_map": f"{_HERE}.map:probe_map",
    },
)
__getattr__ = EXTENSION.attribute
