"""Stress tests: what a retriever does not understand, by capability, over edits of a user's texts."""

from typing import TYPE_CHECKING

from retrokit.core.registry import Extension

if TYPE_CHECKING:
    from retrokit.extensions.stress.stress import probe_stress as probe_stress

_HERE = "retrokit.extensions.stress"
_FAMILIES = (
    "numbers",
    "units",
    "dates",
    "quantities",
    "entities",
    "codes",
    "modality",
    "position",
    "stuffing",
    "instruction",
    "padding",
    "typos",
    "case",
    "diacritics",
    "spacing",
    "unicode",
    "synonyms",
    "word-order",
    "keywords",
    "language",
)
EXTENSION = Extension(
    "stress",
    "Find what a retriever does not understand, by edits of your texts.",
    entries={
        "retrokit.probes": {"stress": f"{_HERE}.entries:STRESS"},
        "retrokit.edits": {name: f"{_HERE}.entries:{name.replace('-', '_').upper()}" for name in _FAMILIES},
    },
    python={"probe_stress": f"{_HERE}.stress:probe_stress"},
)
__getattr__ = EXTENSION.attribute
