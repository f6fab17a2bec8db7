"""Question answering over what a system finds, as a task of ``eval``."""

from retrokit.core.registry import Extension

EXTENSION = Extension(
    "rag",
    "Evaluate systems by the answers that a reader gives from the passages they find.",
    entries={"retrokit.tasks": {"rag": "retrokit.extensions.rag.entries:RAG"}},
)
__getattr__ = EXTENSION.attribute
