"""Rerankers that are language models: they order lists, grade, answer yes or no, or find a query likely. Services."""

from retrokit.core.registry import Extension

EXTENSION = Extension(
    "zero_shot",
    "Rerank with a language model: by its order, grades, yes or no, or the query's likelihood; or with a service.",
    entries={
        "retrokit.rerankers": {
            "generative": "retrokit.extensions.zero_shot.entries:GENERATIVE",
            "llm": "retrokit.extensions.zero_shot.entries:LLM",
            "query-likelihood": "retrokit.extensions.zero_shot.entries:QUERY_LIKELIHOOD",
            "rerank-api": "retrokit.extensions.zero_shot.entries:SERVICE",
        },
        "retrokit.verifiers": {
            "generative": "retrokit.extensions.zero_shot.entries:DECODER",
        },
    },
)
__getattr__ = EXTENSION.attribute
