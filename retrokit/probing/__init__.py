"""Probes of an encoder, a file each, and the registries that only probes read.

A probe's settings are in :mod:`retrokit.probing.settings`, which help reads without importing the computation. Its file
has the computation, and its findings with their sheets and pictures.
"""

from __future__ import annotations

from dataclasses import dataclass

from retrokit.core.registry import Entry, Param, Registry, WordRegistry
from retrokit.probing import settings

SEED = 42
SAMPLE = 10_000

contrasts = Registry(
    "contrast",
    "retrokit.contrasts",
    [
        Entry(
            "pairs",
            "texts two by two that differ in one attribute: JSONL with a field for each of the two",
            "retrokit.probing.contrast:read_pairs",
            (
                Param("path", required=True, help="JSONL"),
                Param("a", required=True, help="field of the first text, e.g. toxic"),
                Param("b", required=True, help="field of the second text, e.g. neutral"),
            ),
            positional="path",
        )
    ],
)

_SAMPLED = Param("sample", SAMPLE, minimum=2, help=f"maximum of texts, a random sample, seed {SEED}")

corpora = Registry(
    "corpus",
    "retrokit.corpora",
    [
        Entry(
            "corpus",
            "texts: JSONL with a field text, and optionally title, a line",
            "retrokit.probing.geometry:texts_of_jsonl",
            (Param("path", required=True, help="JSONL, .gz too; - is standard input"), _SAMPLED),
            positional="path",
        ),
        Entry(
            "beir",
            "the documents of a BEIR folder",
            "retrokit.probing.geometry:texts_of_beir",
            (Param("path", required=True, help="the folder"), _SAMPLED),
            positional="path",
        ),
    ],
    fallback="corpus",
)


@dataclass(frozen=True)
class ProbeEntry(Entry):
    """A probe. Its ``settings`` are the options of its command, and their docstring is its help; the target is called
    with them and returns :class:`~retrokit.probing.base.Findings`, of the class that ``findings`` names."""

    settings: type[settings.ProbeSettings] = settings.ProbeSettings
    findings: str = ""


def _probe(name: str, module: str, function: str, findings: str, options: type[settings.ProbeSettings]) -> ProbeEntry:
    path = f"retrokit.probing.{module}"
    summary = (options.__doc__ or "").partition("\n")[0]
    return ProbeEntry(name, summary, f"{path}:{function}", settings=options, findings=f"{path}:{findings}")


PROBES = [
    _probe("magnitude", "magnitude", "probe_magnitude", "MagnitudeProbe", settings.MagnitudeSettings),
    _probe("fisher", "fisher", "probe_fisher", "FisherProbe", settings.FisherSettings),
    _probe("fragments", "fragments", "probe_fragments", "FragmentProbe", settings.FragmentSettings),
    _probe("contrast", "contrast", "probe_contrast", "ContrastProbe", settings.ContrastSettings),
    _probe("near-miss", "near_miss", "probe_near_misses", "NearMissProbe", settings.NearMissProbeSettings),
    _probe("layers", "layers", "probe_layers", "LayerProbe", settings.LayerSettings),
    _probe("geometry", "geometry", "probe_geometry", "GeometryProbe", settings.GeometrySettings),
    _probe("map", "map", "probe_map", "MapProbe", settings.MapSettings),
    _probe("stress", "stress", "probe_stress", "StressProbe", settings.StressSettings),
]
registry = WordRegistry("probe", "retrokit.probes", PROBES)
