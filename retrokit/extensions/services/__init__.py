"""Encoders and rerankers that a service computes."""

from retrokit.core.registry import Extension

_ENTRIES = "retrokit.extensions.services.entries"
EXTENSION = Extension(
    "services",
    "Use the embeddings and the scores of a service.",
    entries={
        "retrokit.encoders": {"api": f"{_ENTRIES}:ENCODER"},
        "retrokit.rerankers": {"rerank-api": f"{_ENTRIES}:RERANKER"},
    },
)
__getattr__ = EXTENSION.attribute
