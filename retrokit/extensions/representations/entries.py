"""The probes of embeddings, and the registries of what they read: contrasting pairs, and corpora."""

from retrokit.core.registry import Entry, Param, Registry
from retrokit.extensions.representations import settings
from retrokit.probing import SEED, probe_entry

CONTRASTS = Entry("contrasts", "Contrasting pairs", "retrokit.extensions.representations.entries:contrasts")
CORPORA = Entry("corpora", "Corpora", "retrokit.extensions.representations.entries:corpora")

SAMPLE = 10_000
_SAMPLED = Param("sample", SAMPLE, minimum=2, help=f"maximum of texts, a random sample, seed {SEED}")

contrasts = Registry(
    "contrast",
    "retrokit.contrasts",
    [
        Entry(
            "pairs",
            "texts two by two that differ in one attribute: JSONL with a field for each of the two",
            "retrokit.extensions.representations.contrast:read_pairs",
            (
                Param("path", required=True, help="JSONL"),
                Param("a", required=True, help="field of the first text, e.g. toxic"),
                Param("b", required=True, help="field of the second text, e.g. neutral"),
            ),
            positional="path",
        )
    ],
)
corpora = Registry(
    "corpus",
    "retrokit.corpora",
    [
        Entry(
            "corpus",
            "texts: JSONL with a field text, and optionally title, a line",
            "retrokit.extensions.representations.geometry:texts_of_jsonl",
            (Param("path", required=True, help="JSONL, .gz too; - is standard input"), _SAMPLED),
            positional="path",
        ),
        Entry(
            "beir",
            "the documents of a BEIR folder",
            "retrokit.extensions.representations.geometry:texts_of_beir",
            (Param("path", required=True, help="the folder"), _SAMPLED),
            positional="path",
        ),
    ],
    fallback="corpus",
)

_FILES = "retrokit.extensions.representations."
CONTRAST = probe_entry("contrast", f"{_FILES}contrast", "probe_contrast", "ContrastProbe", settings.ContrastSettings)
GEOMETRY = probe_entry("geometry", f"{_FILES}geometry", "probe_geometry", "GeometryProbe", settings.GeometrySettings)
LAYERS = probe_entry("layers", f"{_FILES}layers", "probe_layers", "LayerProbe", settings.LayerSettings)
MAP = probe_entry("map", f"{_FILES}map", "probe_map", "MapProbe", settings.MapSettings)
