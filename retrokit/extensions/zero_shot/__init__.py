"""Zero-shot rerankers: a language model orders lists, grades passages, or says how likely the query is."""

from retrokit.core.registry import Extension

EXTENSION = Extension(
    "zero_shot",
    "Rerank with language models without training: by their order, their grades, or the likelihood of the query.",
    entries={
        "retrokit.rerankers": {
            "llm": "retrokit.extensions.zero_shot.entries:LLM",
            "query-likelihood": "retrokit.extensions.zero_shot.entries:QUERY_LIKELIHOOD",
        }
    },
)
__getattr__ = EXTENSION.attribute
