"""The kinds of names that commands take, each with its registry."""

from __future__ import annotations

import importlib

from retrokit.core.registry import Registry

NAMES = {
    "encoders": "retrokit.encoders:registry",
    "similarities": "retrokit.similarities:registry",
    "data": "retrokit.data.pairs:registry",
    "augmentations": "retrokit.augmentation:registry",
    "tasks": "retrokit.evaluation:registry",
    "searchers": "retrokit.ranking.retrieval:registry",
    "rerankers": "retrokit.ranking.reranking:registry",
    "verifiers": "retrokit.ranking.reranking:verifiers",
    "llms": "retrokit.llm:registry",
    "contrasts": "retrokit.probing.sources:contrasts",
    "corpora": "retrokit.probing.sources:corpora",
    "splitters": "retrokit.augmentation.splitters:registry",
    "mixture": "retrokit.augmentation.mixing:registry",
    "near-misses": "retrokit.augmentation.negatives:registry",
}
"""The kinds of names, each with its registry."""


def named(kind: str) -> Registry:
    """The registry of a kind of names."""
    module, _, attribute = NAMES[kind].partition(":")
    return getattr(importlib.import_module(module), attribute)
