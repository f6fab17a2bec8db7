"""The kinds of names, each with its registry: itself a registry, to which packages add kinds of their own."""

from retrokit.core.registry import Entry, Registry, WordRegistry, imported

KINDS_OF_THE_LIBRARY = [
    Entry("encoders", "Encoders", "retrokit.encoders:registry"),
    Entry("similarities", "Similarities", "retrokit.similarities:registry"),
    Entry("data", "Training data", "retrokit.data.pairs:registry"),
    Entry("losses", "Losses of fine-tuning", "retrokit.training:losses"),
    Entry("augmentations", "Augmentations", "retrokit.augmentation:registry"),
    Entry("tasks", "Tasks", "retrokit.evaluation:registry"),
    Entry("searchers", "Searchers", "retrokit.ranking.retrieval:registry"),
    Entry("rerankers", "Rerankers", "retrokit.ranking.reranking:registry"),
    Entry("verifiers", "Verifiers", "retrokit.ranking.reranking:verifiers"),
    Entry("llms", "Language models", "retrokit.llm:registry"),
    Entry("splitters", "Splitters", "retrokit.augmentation.crops:splitters"),
    Entry("mixture", "Parts of a mixture", "retrokit.augmentation.mixing:registry"),
    Entry("edits", "Families of edits: near-misses and stress tests", "retrokit.augmentation.edits:registry"),
]
kinds_of_names = WordRegistry("kind", "retrokit.registries", KINDS_OF_THE_LIBRARY)
"""The registries, by the kind of names that each has. The command line adds its own."""
KINDS = "kinds"


def named(kind: str) -> Registry:
    """The registry of a kind of names; of :data:`KINDS`, the kinds themselves."""
    if kind == KINDS:
        return kinds_of_names
    return imported(kinds_of_names.entry(kind).target)
