"""Rerankers that are language models: they order lists, grade passages, answer yes or no, or find a query likely."""

from retrokit.core.registry import Extension

EXTENSION = Extension(
    "zero_shot",
    "Rerank with language models: by their order, grades, yes or no, or the likelihood of the query.",
    entries={
        "retrokit.rerankers": {
            "generative": "retrokit.extensions.zero_shot.entries:GENERATIVE",
            "llm": "retrokit.extensions.zero_shot.entries:LLM",
            "query-likelihood": "retrokit.extensions.zero_shot.entries:QUERY_LIKELIHOOD",
        },
        "retrokit.verifiers": {
            "generative": "retrokit.extensions.zero_shot.entries:DECODER",
        },
    },
)
__getattr__ = EXTENSION.attribute
