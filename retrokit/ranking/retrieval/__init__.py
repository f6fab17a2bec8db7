"""Searchers, and the table of their names. An encoder's name is that of :mod:`ranking.retrieval.dense`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from retrokit import encoders
from retrokit.core.errors import UsageError
from retrokit.core.registry import Entry, Param, Registry, SpecRegistry, head_of, importing
from retrokit.core.settings import COMMON

if TYPE_CHECKING:
    from retrokit.data.exports import Export
    from retrokit.ranking.retrieval.base import Index, Rankings, Searcher

LANGUAGES = (
    *("english", "german", "dutch", "french", "spanish", "portuguese", "italian", "russian", "swedish", "norwegian"),
    *("danish", "turkish", "none"),
)

IDLE = "queries_not_moved"
"""The count of queries with several candidates where a reranker changes the order of none."""

registry = SpecRegistry(
    "searcher",
    "retrokit.searchers",
    [
        Entry(
            "bm25",
            "words that query and document share, weighted by their rarity (Lucene's BM25)",
            "retrokit.ranking.retrieval.bm25:bm25",
            (
                Param("k1", 1.5, minimum=0, help="how much repetition of a word counts"),
                Param("b", 0.75, minimum=0, maximum=1, help="how much the length of a document counts"),
                Param("language", "english", choices=LANGUAGES, help="of stop words and stemming"),
            ),
            extra="bm25",
        ),
        Entry(
            "dense",
            "an encoder under a similarity, also written as the encoder's name",
            "retrokit.ranking.retrieval.dense:dense",
            (
                Param("encoder", required=True, help="which; with parameters in quotes"),
                *(COMMON[name] for name in ("sim", "dims", "precision", "index")),
                Param("quantize", help="storage dtype: float16, int8, binary or binary+rescore; default: float32"),
                Param("export", help="folder of retrokit export, whose documents are not embedded again"),
            ),
            positional="encoder",
        ),
        Entry(
            "hybrid",
            "what two searchers find, such as words and an encoder, as one ranking",
            "retrokit.ranking.retrieval.hybrid:hybrid",
            (
                Param("a", required=True, help="encoder or searcher; with parameters in quotes"),
                Param("b", required=True, help="another one"),
                Param("fusion", "rrf", choices=("rrf", "minmax", "zscore"), help="ranks, or which scores"),
                Param(
                    "weight",
                    0.5,
                    minimum=0,
                    maximum=1,
                    words=("auto",),
                    help="share of b in the sum; auto: the best on the dev or the train split",
                ),
                Param("depth", 1000, minimum=1, help="documents of a query that each finds, at least"),
            ),
        ),
        Entry(
            "run",
            "a ranking in TREC's format, by the ids of queries and documents",
            "retrokit.ranking.retrieval.run:run",
            (Param("path", required=True, help="the file; - is standard input"),),
            positional="path",
        ),
        Entry(
            "two-stage",
            "a searcher, and a reranker that puts the best of what it finds in order",
            "retrokit.ranking.retrieval.two_stage:two_stage",
            (
                Param("first", help="encoder or searcher, in quotes with parameters; none: pairs only"),
                Param("reranker", required=True, help="such as maxsim; with parameters in quotes"),
                Param("depth", 100, minimum=1, help="documents of a query that are reranked"),
                Param("blend", float, minimum=0, maximum=1, help="share of the reranker in a sum of both scores"),
                Param("fusion", choices=("rrf",), help="join the ranks of both stages in place of scores"),
                Param("work", help="folder that caches the reranker's scores, to resume after a break"),
            ),
            positional="first",
        ),
    ],
    has_labels=True,
)


def registry_of(spec: str) -> Registry:
    """The registry of a searcher's or an encoder's name; any other text is an encoder's path or hub id."""
    return registry if head_of(spec) in registry.names() else encoders.registry


@dataclass(frozen=True)
class Stages:
    """The stages of the system ``spec``: what finds documents, and what reranks the ``depth`` best of them.

    Attributes:
        first: spec of an encoder or a searcher; ``None``: only pairs are scored.
        reranker: its spec; ``None``: the first stage is all there is.
        blend, fusion: how the scores of both become one (:class:`ranking.retrieval.two_stage.Fusion`).
        work: the folder that caches the reranker's scores; ``None``: there is none.
    """

    spec: str
    first: str | None
    reranker: str | None = None
    depth: int = 100
    blend: float | None = None
    fusion: str | None = None
    work: str | None = None

    @property
    def label(self) -> str:
        """The name that its spec gives it, or that of its first stage; empty: none."""
        for spec in (self.spec, self.first):
            if spec is not None and (label := registry_of(spec).parse(spec).label):
                return label
        return ""

    @property
    def embeds(self) -> bool:
        """Whether an encoder is what finds documents."""
        return self.first is not None and registry_of(self.first) is encoders.registry


def stages_of(spec: str) -> Stages:
    """The stages of a searcher or an encoder: one, unless it is ``two-stage``. Raises :class:`UsageError` for a wrong
    spec of a searcher."""
    if registry_of(spec) is not registry:
        return Stages(spec, spec)
    parsed = registry.parse(spec)
    if parsed.name != "two-stage":
        return Stages(spec, spec)
    return Stages(spec, **registry.options(parsed))


def leaves_open(spec: str) -> bool:
    """Whether a part of a searcher is to be tuned."""
    if registry_of(spec) is not registry:
        return False
    values = registry.parse(spec).params
    if values.get("weight") == "auto":
        return True
    parts = [values.get(name) for name in ("a", "b", "first")]
    return any(isinstance(part, str) and leaves_open(part) for part in parts)


def create(spec: str, device: str | None = None, **options: Any) -> Searcher:
    """The searcher of that spec; of an encoder, with the ``options`` of :func:`retrokit.ranking.retrieval.dense.dense`.
    Raises :class:`UsageError` for a wrong spec, or options that do not fit."""
    if registry_of(spec) is registry:
        if any(value is not None for name, value in options.items() if (name, value) != ("precision", "auto")):
            raise UsageError(
                f"a similarity, dimensions, precision, storage dtype and index are an encoder's, and {spec} is none"
            )
        searcher: Searcher = registry.create_on(spec, device)
        return searcher
    with importing():
        from retrokit.ranking.retrieval.dense import dense

    return dense(spec, device=device, **options)


def search(
    searcher: str,
    documents: Sequence[str] | Export,
    queries: Sequence[str],
    k: int = 10,
    device: str | None = None,
    **options: Any,
) -> Rankings:
    """The ``k`` best documents of each query: scores, best first, and positions in ``documents``.

    Args:
        searcher: an encoder, ``bm25``, ``two-stage:…``; with the ``options`` of :func:`create`.
        documents: texts; or an export (:func:`ranking.export.open_export`), which its own encoder searches, by default
            (``""``) the one that it names, or a searcher that has :meth:`Searcher.over`.

    Raises:
        UsageError: a wrong spec, options that do not fit, or k below 1.
    """
    from retrokit.ranking.retrieval.base import Rankings, TextList

    return Rankings(index_of(searcher, documents, device, **options).search(TextList(queries), k))


def index_of(searcher: str, documents: Sequence[str] | Export, device: str | None = None, **options: Any) -> Index:
    """The index of :func:`search`; raises as it does."""
    from retrokit.data.exports import Export
    from retrokit.ranking.retrieval.base import TextList

    if isinstance(documents, Export):
        with importing():
            from retrokit.ranking.retrieval.dense import export_index

        if searcher and registry_of(searcher) is registry:
            return create(searcher, device, **options).over(documents)
        return export_index(documents, searcher, device, **options)
    texts = documents if isinstance(documents, TextList) else TextList(documents)
    return create(searcher, device, **options).index(texts)
