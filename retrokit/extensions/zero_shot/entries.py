"""Rerankers that are language models as they come."""

from retrokit.core.registry import Entry, Param
from retrokit.ranking.reranking import DTYPE, MAX_LENGTH, MODEL

QUERY_LIKELIHOOD = Entry(
    "query-likelihood",
    "how likely a causal language model finds the query after the document (UPR)",
    "retrokit.extensions.zero_shot.likelihood:query_likelihood",
    (
        MODEL,
        Param(
            "template",
            "Passage: {document}. Please write a question based on this passage. {query}",
            help="prompt, the query at its end",
        ),
        MAX_LENGTH,
        DTYPE,
    ),
    positional="path",
)
LLM = Entry(
    "llm",
    "a language model that orders lists, a window at a time (SURE 4.3), or grades or chooses passages",
    "retrokit.extensions.zero_shot.listwise:listwise",
    (
        Param("model", required=True, help='with options in quotes: "openai:MODEL,url=ADDRESS"'),
        Param(
            "form",
            "listwise",
            choices=("listwise", "pointwise", "pairwise", "setwise"),
            help="whole lists, grades, or the best of two or of a few",
        ),
        Param("window", 40, minimum=2, help="listwise: passages of a prompt"),
        Param("step", 20, minimum=1, help="listwise: passages from one window to the next"),
        Param("set", int, minimum=3, help="setwise: passages of a prompt; default: 4"),
        Param("top", int, minimum=1, help="pairwise, setwise: best places to sort; default: 10"),
        Param("words", 300, minimum=1, help="of a passage"),
        Param("answer_tokens", 4096, minimum=1, help="most tokens of an answer, reasoning included"),
        Param("concurrency", 16, minimum=1, maximum=1024, help="calls at once"),
        Param("store", help="answer cache; default: in the work folder"),
    ),
    positional="model",
)
