"""The papers that a help page names by a key."""

import re

PAPERS = {
    "MAG": "Beyond the Unit Hypersphere, 2026",
    "SFS": "Semantic Fragment Similarity Representation Learning for Information Retrieval, under review",
    "CROP": "Cropping outperforms dropout as an augmentation strategy for self-supervised training of text embeddings, "
    "TMLR 2026",
    "COMP": "Training for Compositional Sensitivity Reduces Dense Retrieval Generalization, 2026",
}
"""Titles by the key that helps and pages use."""
_KEYS = "|".join(PAPERS)


def without_sources(summary: str) -> str:
    """A summary for a list of commands: without its source in parentheses, such as ``(CROP 3.1)``.

    >>> without_sources("Create pairs of two chunks of the same text (CROP 3.1).")
    'Create pairs of two chunks of the same text.'
    """
    return re.sub(rf" \((?:\w+, )?(?:{_KEYS})\b[^)]*\)", "", summary)


def sources(text: str) -> str:
    """The titles of the papers whose keys a help page has."""
    return " ".join(f"{key}: {title}." for key, title in PAPERS.items() if re.search(rf"\b{key}\b", text))
