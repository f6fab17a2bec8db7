"""Probes of an encoder, a file each, and their registry.

A probe's settings are in :mod:`retrokit.probing.settings`, which help reads without importing the computation. Its file
has the computation, and its findings with their sheets and pictures.
"""

from __future__ import annotations

from dataclasses import dataclass

from retrokit.core.registry import Entry, WordRegistry
from retrokit.probing import settings

SEED = 42


@dataclass(frozen=True)
class ProbeEntry(Entry):
    """A probe. Its ``settings`` are the options of its command, and their docstring is its help; the target is called
    with them and returns :class:`~retrokit.probing.base.Findings`, of the class that ``findings`` names."""

    settings: type[settings.ProbeSettings] = settings.ProbeSettings
    findings: str = ""


def probe_entry(
    name: str, module: str, function: str, findings: str, options: type[settings.ProbeSettings]
) -> ProbeEntry:
    """The entry of a probe whose function and class of findings are in one module; its summary begins its help."""
    summary = (options.__doc__ or "").partition("\n")[0]
    return ProbeEntry(name, summary, f"{module}:{function}", settings=options, findings=f"{module}:{findings}")


_FILES = "retrokit.probing."
PROBES = [
    probe_entry("magnitude", f"{_FILES}magnitude", "probe_magnitude", "MagnitudeProbe", settings.MagnitudeSettings),
    probe_entry("fisher", f"{_FILES}fisher", "probe_fisher", "FisherProbe", settings.FisherSettings),
    probe_entry("fragments", f"{_FILES}fragments", "probe_fragments", "FragmentProbe", settings.FragmentSettings),
    probe_entry(
        "near-miss", f"{_FILES}near_miss", "probe_near_misses", "NearMissProbe", settings.NearMissProbeSettings
    ),
]
registry = WordRegistry("probe", "retrokit.probes", PROBES)
