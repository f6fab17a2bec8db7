"""The registry of retrievers that are no encoders: they rank texts without embedding them. The table of names."""

from __future__ import annotations

from retrokit.registry import Entry, Param, SpecRegistry

LANGUAGES = (
    *("english", "german", "dutch", "french", "spanish", "portuguese", "italian", "russian", "swedish", "norwegian"),
    *("danish", "turkish", "none"),
)

registry = SpecRegistry(
    "searcher",
    "retrokit.searchers",
    [
        Entry(
            "bm25",
            "words that query and document share, weighted by their rarity (Lucene's BM25)",
            "retrokit.retrieval.bm25:bm25",
            (
                Param("k1", float, 1.5, minimum=0, summary="how much repetition of a word counts"),
                Param("b", float, 0.75, minimum=0, maximum=1, summary="how much a long document is held against it"),
                Param("language", str, "english", choices=LANGUAGES, summary="of stop words and stemming"),
            ),
            extra="bm25",
        ),
    ],
)
