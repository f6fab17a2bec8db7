"""The registries of rerankers, and of verifiers and cross-encoders for ``retrokit rerank train``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from retrokit import encoders
from retrokit.core.registry import Entry, Param, Registry, Spec, SpecRegistry

if TYPE_CHECKING:
    from retrokit.ranking.reranking.base import Reranker

_ENCODER = Param("encoder", str, "minilm", summary="whose token embeddings are compared")
_PRECISION = Param("precision", str, "fp32", choices=("auto", "fp32", "bf16", "fp16"), summary="of encoding the texts")
_CACHE = Param("cache", str, summary="folder for token embeddings in half precision")
_MODEL = Param("path", str, required=True, summary="folder or hub id")
_MAX_LENGTH = Param("max_length", int, minimum=1, summary="tokens of both texts; the rest is cut")
_DTYPE = Param("dtype", str, "fp32", choices=("fp32", "bf16", "fp16"), summary="type of the loaded weights")
_ANSWERS = (
    Param("form", str, choices=("qwen3", "bge", "mxbai"), summary="published form; default: by its name"),
    Param("template", str, summary="prompt with {query}, then {document}"),
    Param("instruction", str, summary="text for {instruction}"),
    Param("yes", str, summary="answer of relevance, one token"),
    Param("no", str, summary="other answer; without it: only the logit of yes"),
)
_FOLDER = (
    Param("path", str, required=True, summary="folder of rerank train"),
    Param("encoder", str, summary="its encoder, if it has moved; another one is refused"),
    _PRECISION,
    _CACHE,
)
_SOFT = (
    Param("lambda", float, 0.01, minimum=0.0, summary="cost of a token of distance"),
    Param("tau", float, 0.1, minimum=0.001, summary="temperature of the alignment"),
)
_LOAD, _REDUCTION = "retrokit.ranking.reranking.verifier", "retrokit.ranking.reranking.scorers"

registry = SpecRegistry(
    "reranker",
    "retrokit.rerankers",
    [
        *(
            Entry(name, summary, f"{_REDUCTION}:{name}_reranker", (_ENCODER, *options, _PRECISION, _CACHE), "encoder")
            for name, summary, options in (
                ("mean", "the mean of the token map (COMP, F0)", ()),
                ("maxsim", "late interaction: each token of the query with the nearest of the document (COMP, F1)", ()),
                ("soft", "soft alignment with a positional bias (COMP, F2)", _SOFT),
            )
        ),
        *(
            Entry(name, summary, f"{_LOAD}:{name}", _FOLDER, "path")
            for name, summary in (
                ("cnn", "a trained convolutional network over token maps (COMP, F3)"),
                ("transformer", "a trained Transformer over patches of token maps (COMP, F4)"),
                ("verifier", "any verifier of rerank train, F0 to F4"),
            )
        ),
        Entry(
            "default",
            "the packaged verifier: minilm and cnn, trained to tell near-misses from paraphrases",
            f"{_LOAD}:default",
            (_PRECISION, _CACHE),
        ),
        Entry(
            "dense",
            "an encoder's embeddings under a similarity, also written as the encoder's name",
            "retrokit.ranking.reranking.dense:dense_reranker",
            (
                Param("encoder", str, required=True, summary="which; with parameters in quotes"),
                Param("sim", str, summary="similarity; default: the encoder's own"),
                Param("precision", str, "auto", choices=("auto", "fp32", "bf16", "fp16"), summary="of encoding"),
            ),
            positional="encoder",
        ),
        Entry(
            "colbert",
            "late interaction of a multi-vector encoder, such as ColBERT, through sentence-transformers",
            "retrokit.ranking.reranking.library:colbert",
            (_MODEL, _MAX_LENGTH),
            positional="path",
        ),
        Entry(
            "cross-encoder",
            "a transformer that reads query and document together",
            "retrokit.ranking.reranking.library:cross_encoder",
            (_MODEL, _MAX_LENGTH, _DTYPE),
            positional="path",
        ),
        Entry(
            "generative",
            "a decoder that answers yes or no: Qwen3-Reranker, BGE's gemma, mxbai's, and others",
            "retrokit.ranking.reranking.generative:generative",
            (
                _MODEL,
                *_ANSWERS,
                Param("layer", int, minimum=1, summary="read the answer behind this layer; default: the last"),
                _MAX_LENGTH,
                _DTYPE,
            ),
            positional="path",
        ),
        Entry(
            "query-likelihood",
            "how likely a causal language model finds the query after the document (UPR)",
            "retrokit.ranking.reranking.likelihood:query_likelihood",
            (
                _MODEL,
                Param(
                    "template",
                    str,
                    "Passage: {document}. Please write a question based on this passage. {query}",
                    summary="prompt, the query at its end",
                ),
                _MAX_LENGTH,
                _DTYPE,
            ),
            positional="path",
        ),
        Entry(
            "rerank-api",
            "a service that reranks, by Cohere's protocol: hosted ones, Jina, vLLM",
            "retrokit.ranking.reranking.service:rerank_api",
            (
                Param("model", str, required=True, summary="name at the service"),
                Param("url", str, required=True, receives_texts=True, summary="up to /v1 or /v2"),
                Param("key_env", str, "RERANK_API_KEY", summary="environment variable of the key, if any"),
                Param("timeout", float, 60.0, minimum=0.1, maximum=86_400, summary="seconds for a complete answer"),
                Param("revision", str, summary="name of the model's state"),
                Param("batch", int, 100, minimum=1, maximum=10_000, summary="documents of a call"),
                Param("concurrency", int, 8, minimum=1, maximum=1024, summary="calls at once"),
            ),
            positional="model",
            extra="llm",
        ),
        Entry(
            "llm",
            "a language model that orders lists, a window at a time (SURE 4.3), or grades or chooses passages",
            "retrokit.ranking.reranking.listwise:listwise",
            (
                Param("model", str, required=True, summary='with options in quotes: "openai:MODEL,url=ADDRESS"'),
                Param(
                    "form",
                    str,
                    "listwise",
                    choices=("listwise", "pointwise", "pairwise", "setwise"),
                    summary="whole lists, grades, or the best of two or of a few",
                ),
                Param("window", int, 40, minimum=2, summary="listwise: passages of a prompt"),
                Param("step", int, 20, minimum=1, summary="listwise: passages from one window to the next"),
                Param("set", int, minimum=3, summary="setwise: passages of a prompt; default: 4"),
                Param("top", int, minimum=1, summary="pairwise, setwise: best places to sort; default: 10"),
                Param("words", int, 300, minimum=1, summary="of a passage"),
                Param("answer_tokens", int, 4096, minimum=1, summary="most tokens of an answer, reasoning included"),
                Param("concurrency", int, 16, minimum=1, maximum=1024, summary="calls at once"),
                Param("store", str, summary="answer cache; default: in the work folder"),
            ),
            positional="model",
        ),
    ],
)


def registry_of(spec: str) -> Registry:
    """The registry of a reranker's or an encoder's name; an encoder may also be a path or a hub id."""
    name = spec.partition(":")[0]
    encodes = name in encoders.registry.names() or os.path.exists(spec) or "/" in name
    return encoders.registry if encodes and name not in registry.names() else registry


def create(spec: str, device: str | None = None) -> Reranker:
    """The reranker of that spec, or of an encoder under its own similarity. Raises :class:`UsageError`."""
    plain = registry_of(spec) is not registry
    reranker: Reranker = registry.create_on(Spec("dense", {"encoder": spec}, "encoder") if plain else spec, device)
    if plain:
        reranker.spec = str(encoders.registry.parse(spec))
    return reranker


CROSS_ENCODER, GENERATIVE = "cross-encoder", "generative"
"""Trained in another way than the verifiers on token maps."""

_DROPOUT = Param("dropout", float, 0.1, minimum=0.0, maximum=0.9, summary="while training")
_FORM = Param("form", str, "ours", choices=("ours", "plain"), summary="plain: as COMP writes it, without our additions")
_HIDDEN = Param("hidden", int, 64, minimum=1, maximum=65536, summary="width of the last layer but one")

verifiers = Registry(
    "verifier",
    "retrokit.verifiers",
    [
        Entry("mean", "the mean of the token map (F0); trains the encoder alone", f"{_REDUCTION}:MeanOfMap"),
        Entry("maxsim", "late interaction (F1); trains the encoder alone", f"{_REDUCTION}:MaxSim"),
        Entry("soft", "soft alignment with a positional bias (F2)", f"{_REDUCTION}:SoftAlignment", _SOFT),
        Entry(
            "cnn",
            "a convolutional network over the token map (F3)",
            "retrokit.ranking.reranking.scorers:cnn",
            (
                _FORM,
                Param("channels", int, 8, minimum=1, maximum=4096, summary="of a layer"),
                Param("layers", int, 2, minimum=1, maximum=100, summary="convolutions"),
                Param("kernel", int, 3, minimum=1, maximum=1023, summary="tokens that one looks at, odd"),
                _HIDDEN,
                _DROPOUT,
            ),
            "form",
        ),
        Entry(
            "transformer",
            "a Transformer over patches of the token map (F4)",
            "retrokit.ranking.reranking.scorers:transformer",
            (
                _FORM,
                Param("patch", int, 4, minimum=1, maximum=512, summary="tokens of a patch's side"),
                Param(
                    "keep",
                    int,
                    minimum=1,
                    maximum=4096,
                    summary="of ours: patches of a row that are attended to, the best matching; default: 8",
                ),
                Param("dim", int, 64, minimum=4, maximum=4096, summary="of a patch's vector"),
                Param("layers", int, 2, minimum=1, maximum=100, summary="of attention"),
                Param("heads", int, 4, minimum=1, maximum=1024, summary="of a layer"),
                _HIDDEN,
                _DROPOUT,
            ),
            "form",
        ),
        Entry(
            CROSS_ENCODER,
            "a transformer that reads both texts together, from a cross-encoder or the body of an encoder",
            "retrokit.ranking.reranking.library:Beginning",
        ),
        Entry(
            GENERATIVE,
            "a decoder that answers yes or no, from a causal language model or a generative reranker",
            "retrokit.ranking.reranking.generative:DecoderBeginning",
            _ANSWERS,
            "form",
        ),
    ],
)


def kind_of(verifier: str | Spec) -> str:
    """What ``rerank train`` makes of a verifier's spec, in a word.

    >>> kind_of("cnn"), kind_of("generative:form=bge")
    ('verifier', 'decoder')
    """
    return {CROSS_ENCODER: "cross-encoder", GENERATIVE: "decoder"}.get(verifiers.parse(verifier).name, "verifier")
