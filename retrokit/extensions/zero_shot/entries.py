"""Rerankers that are language models, and the decoder that rerank train trains."""

from retrokit.core.registry import Entry, Param
from retrokit.ranking.reranking import DTYPE, MAX_LENGTH, MODEL, PairEntry

_ANSWERS = (
    Param("form", choices=("qwen3", "bge", "mxbai"), help="published form; default: by its name"),
    Param("template", help="prompt with {query}, then {document}"),
    Param("instruction", help="text for {instruction}"),
    Param("yes", help="answer of relevance, one token"),
    Param("no", help="other answer; without it: only the logit of yes"),
)
GENERATIVE = Entry(
    "generative",
    "a decoder that answers yes or no: Qwen3-Reranker, BGE's gemma, mxbai's, and others",
    "retrokit.extensions.zero_shot.generative:generative",
    (
        MODEL,
        *_ANSWERS,
        Param("layer", int, minimum=1, help="read the answer behind this layer; default: the last"),
        MAX_LENGTH,
        DTYPE,
    ),
    positional="path",
)
DECODER = PairEntry(
    "generative",
    "a decoder that answers yes or no, from a causal language model or a generative reranker",
    "retrokit.extensions.zero_shot.generative:DecoderBeginning",
    _ANSWERS,
    "form",
    kind="decoder",
)

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
