"""The registries of rerankers, and of verifiers and cross-encoders for ``retrokit rerank train``."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from retrokit import encoders
from retrokit.core.registry import Entry, Param, Registry, Spec, SpecRegistry, head_of
from retrokit.core.settings import COMMON

if TYPE_CHECKING:
    from retrokit.ranking.reranking.base import Reranker

_ENCODER = Param("encoder", "minilm", help="whose token embeddings are compared")
_PRECISION = replace(COMMON["precision"], default="fp32")
_CACHE = Param("cache", help="folder for token embeddings in half precision")
MODEL = Param("path", required=True, help="folder or hub id")
MAX_LENGTH = Param("max_length", int, minimum=1, help="tokens of both texts; the rest is cut")
DTYPE = Param(
    "dtype", "fp32", choices=("fp32", "bf16", "fp16", "auto"), help="type of the loaded weights; auto: the faster"
)
_FOLDER = (
    Param("path", required=True, help="folder of rerank train"),
    Param("encoder", help="its encoder, if it has moved; another one is refused"),
    _PRECISION,
    _CACHE,
)
_SOFT = (
    Param("lambda", 0.01, minimum=0.0, help="cost of a token of distance"),
    Param("tau", 0.1, minimum=0.001, help="temperature of the alignment"),
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
                Param("encoder", required=True, help="which; with parameters in quotes"),
                COMMON["sim"],
                COMMON["precision"],
            ),
            positional="encoder",
        ),
        Entry(
            "colbert",
            "late interaction of a multi-vector encoder, such as ColBERT, through sentence-transformers",
            "retrokit.ranking.reranking.library:colbert",
            (MODEL, MAX_LENGTH),
            positional="path",
        ),
        Entry(
            "cross-encoder",
            "a transformer that reads query and document together",
            "retrokit.ranking.reranking.library:cross_encoder",
            (MODEL, MAX_LENGTH, DTYPE),
            positional="path",
        ),
    ],
    has_labels=True,
)


def registry_of(spec: str) -> Registry:
    """The registry of a reranker's or an encoder's name; an encoder may also be a path or a hub id."""
    name = head_of(spec)
    is_path = os.path.exists(spec) or os.path.exists(name) or "/" in name
    encodes = is_path or name in encoders.registry.names()
    return encoders.registry if encodes and name not in registry.names() else registry


def create(spec: str, device: str | None = None) -> Reranker:
    """The reranker of that spec, or of an encoder under its own similarity. Raises :class:`UsageError`."""
    named_in = registry_of(spec)
    plain = Spec("dense", {"encoder": spec}, "encoder") if named_in is encoders.registry else spec
    reranker: Reranker = registry.create_on(plain, device)
    reranker.spec = str(named_in.parse(spec))
    return reranker


CROSS_ENCODER = "cross-encoder"


@dataclass(frozen=True)
class PairEntry(Entry):
    """A ``kind`` of reranker that reads both texts at once, and is trained in another way than those on token maps.

    Its target makes what has ``model(base, max_length, seed, device)``, the ``CrossEncoder`` to train, and
    ``reranker(model)``, which scores with it.
    """

    kind: str = CROSS_ENCODER


_DROPOUT = Param("dropout", 0.1, minimum=0.0, maximum=0.9, help="while training")
_FORM = Param("form", "ours", choices=("ours", "plain"), help="plain: as COMP writes it, without our additions")
_HIDDEN = Param("hidden", 64, minimum=1, maximum=65536, help="width of the last layer but one")

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
                Param("channels", 8, minimum=1, maximum=4096, help="of a layer"),
                Param("layers", 2, minimum=1, maximum=100, help="convolutions"),
                Param("kernel", 3, minimum=1, maximum=1023, help="tokens that one looks at, odd"),
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
                Param("patch", 4, minimum=1, maximum=512, help="tokens of a patch's side"),
                Param(
                    "keep",
                    int,
                    minimum=1,
                    maximum=4096,
                    help="of ours: patches of a row that are attended to, the best matching; default: 8",
                ),
                Param("dim", 64, minimum=4, maximum=4096, help="of a patch's vector"),
                Param("layers", 2, minimum=1, maximum=100, help="of attention"),
                Param("heads", 4, minimum=1, maximum=1024, help="of a layer"),
                _HIDDEN,
                _DROPOUT,
            ),
            "form",
        ),
        PairEntry(
            CROSS_ENCODER,
            "a transformer that reads both texts together, from a cross-encoder or the body of an encoder",
            "retrokit.ranking.reranking.library:Beginning",
        ),
    ],
)


def pair_readers() -> dict[str, str]:
    """Verifiers that read both texts at once, and the kind of each."""
    return {entry.name: entry.kind for entry in verifiers.entries() if isinstance(entry, PairEntry)}


def kind_of(verifier: str | Spec) -> str:
    """What ``rerank train`` makes of a verifier's spec, in a word.

    >>> kind_of("cnn"), kind_of("cross-encoder")
    ('verifier', 'cross-encoder')
    """
    return pair_readers().get(verifiers.parse(verifier).name, "verifier")
