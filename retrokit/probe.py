"""The probes of ``retrokit probe``, each a function that returns its findings."""

from retrokit.probing.contrast import probe_contrast as contrast
from retrokit.probing.fisher import probe_fisher as fisher
from retrokit.probing.fragments import probe_fragments as fragments
from retrokit.probing.geometry import probe_geometry as geometry
from retrokit.probing.layers import probe_layers as layers
from retrokit.probing.magnitude import probe_magnitude as magnitude
from retrokit.probing.magnitude import probe_training as training
from retrokit.probing.map import probe_map as map
from retrokit.probing.near_miss import probe_near_misses as near_misses
from retrokit.probing.stress import probe_stress as stress

__all__ = [
    "contrast",
    "fisher",
    "fragments",
    "geometry",
    "layers",
    "magnitude",
    "map",
    "near_misses",
    "stress",
    "training",
]
