"""The tables of names for what probes alone read: pairs that differ in one attribute, and corpora."""

from __future__ import annotations

from retrokit.core.registry import Entry, Param, Registry

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
                Param("path", str, required=True, summary="JSONL"),
                Param("a", str, required=True, summary="field of the first text, e.g. toxic"),
                Param("b", str, required=True, summary="field of the second text, e.g. neutral"),
            ),
            positional="path",
        )
    ],
)

_SAMPLED = Param("sample", int, SAMPLE, minimum=2, summary=f"at most so many of the texts, at random, seed {SEED}")

corpora = Registry(
    "corpus",
    "retrokit.corpora",
    [
        Entry(
            "corpus",
            "texts: JSONL with a field text, and optionally title, a line",
            "retrokit.probing.geometry:texts_of_jsonl",
            (Param("path", str, required=True, summary="JSONL, .gz too; - is standard input"), _SAMPLED),
            positional="path",
        ),
        Entry(
            "beir",
            "the documents of a BEIR folder",
            "retrokit.probing.geometry:texts_of_beir",
            (Param("path", str, required=True, summary="the folder"), _SAMPLED),
            positional="path",
        ),
    ],
    fallback="corpus",
)
