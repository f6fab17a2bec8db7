"""Search from files: a corpus or an exported folder, and queries, to identifiers of documents."""

import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from retrokit import encoders
from retrokit.core.errors import DataError, ServiceError, UsageError
from retrokit.core.files import digest, typed_text
from retrokit.core.notices import notice
from retrokit.core.registry import parse_all
from retrokit.core.settings import taking
from retrokit.data.beir import corpus_file, queries_file
from retrokit.data.corpus import read_corpus, read_queries
from retrokit.data.exports import Export, open_export
from retrokit.data.images import with_images
from retrokit.data.jsonl import write_jsonl
from retrokit.data.pairs import texts_file
from retrokit.data.trec import write_run
from retrokit.ranking import retrieval
from retrokit.ranking.retrieval.base import TextList
from retrokit.ranking.settings import SearchSettings


@dataclass(frozen=True)
class Hit:
    """A document: its identifier, its score (higher is better), and its text if it is known."""

    id: str
    score: float
    text: str | None


@dataclass(frozen=True)
class Hits:
    """Documents of each query, best first. ``empty`` has the searcher's reasons for no document, by the text of the
    query."""

    queries: TextList
    hits: Sequence[Sequence[Hit]]
    empty: Mapping[str, str] = field(default_factory=dict)

    def rows(self) -> Iterator[dict[str, Any]]:
        """A JSON object a query: ``id``, ``query``, and ``documents`` of ``id``, ``score`` and, if known, ``text``;
        ``empty``, the reason for no document, if there is one."""
        for id, query, hits in zip(self.queries.ids, self.queries, self.hits, strict=True):
            documents = []
            for hit in hits:
                document: dict[str, Any] = {"id": hit.id, "score": hit.score}
                if hit.text is not None:
                    document["text"] = hit.text
                documents.append(document)
            row = {"id": id, "query": query, "documents": documents}
            if not documents and query in self.empty:
                row["empty"] = self.empty[query]
            yield row

    def write(self, path: str, form: str) -> None:
        """Write a TREC run (``form`` trec) or JSON lines (jsonl), whole or not at all. Raises :class:`DataError`."""
        if form == "jsonl":
            write_jsonl(path, self.rows())
            return
        pairs = zip(self.queries.ids, self.hits, strict=True)
        write_run(path, {id: {hit.id: hit.score for hit in hits} for id, hits in pairs}, tag="retrokit")


class Opened:
    """Documents to search, of a corpus or of an exported folder. Raises :class:`UsageError` for wrong names or options,
    :class:`DataError` for files."""

    def __init__(self, settings: SearchSettings) -> None:
        searcher, corpus, index_folder = settings.searcher, settings.corpus, settings.index_folder
        if (corpus is None) == (index_folder is None):
            raise UsageError("give one of `corpus=`, texts to search, and `index_folder=`, a folder of retrokit export")
        if searcher is None and index_folder is None:
            raise UsageError("name what searches: an encoder, bm25, or two-stage:…")
        if searcher is not None:
            parse_all([(retrieval.registry_of(searcher), searcher)])
        self._faiss = settings.index
        self._export = open_export(index_folder) if index_folder is not None else None
        self._texts = _texts_of(corpus) if corpus is not None else TextList()
        settings.check_ids("document id", self._texts.ids)
        searched = self._texts if self._export is None else self._export
        self._index = retrieval.index_of(searcher or "", searched, settings.device, **settings.options())
        self._shows_texts = settings.shows_texts
        self._every_text: dict[str, str] | None = None

    def make_ready(self) -> None:
        """Load the encoder and prepare the documents, so that each search is fast."""
        self._every_text = self._exported(None)
        self._index = self._index.ready()
        self._index.search(TextList([f"ready {secrets.token_hex(8)}"]), 1)  # a text that no cache knows

    def search(self, queries: TextList, k: int) -> Hits:
        """The ``k`` best documents of each query; of an index of faiss, a notice reports its recall."""
        rankings = self._index.search(queries, k)
        ids: Any = self._texts.ids
        if self._export is not None:
            ids = self._export.ids_at(position for _, positions in rankings for position in positions.tolist())
        if self._faiss is not None:
            shares = self._index.account().configuration["index_recall"].items()
            recall = ", ".join(f"{name} {share}" for name, share in shares)
            notice(f"index {self._faiss} in proportion to exact search: {recall}")
        texts = self._every_text
        if texts is None:
            texts = self._exported({*ids.values()} if self._export is not None else None)
        hits = []
        for scores, positions in rankings:
            hits_of_query = []
            for score, position in zip(scores.tolist(), positions.tolist(), strict=True):
                text = self._texts[position] if self._texts else texts.get(ids[position])
                hits_of_query.append(Hit(ids[position], score, text))
            hits.append(hits_of_query)
        return Hits(queries, hits, self._index.empty)

    def _exported(self, ids: Collection[str] | None) -> dict[str, str]:
        """The texts of an export; none, with a notice, if they are not there any more."""
        if self._export is None or not self._shows_texts:
            return {}
        try:
            return exported_texts(self._export, ids)
        except (UsageError, ServiceError) as error:
            notice(f"ids without texts: {error}")
            return {}


def exported_texts(export: Export, ids: Collection[str] | None = None) -> dict[str, str]:
    """The texts of the documents that an export was written from, or of those of these ``ids``. Raises
    :class:`UsageError` if they are gone, or have changed."""
    source = export.note["source"]["spec"]
    try:
        path = texts_file(source, corpus_file)
        if _is_unchanged(path, export):
            return texts_by_id(path, ids)
    except DataError as error:
        raise UsageError(str(error)) from error
    raise UsageError(f"{source}: is not what {export.folder} was written from")


def texts_by_id(path: str, ids: Collection[str] | None) -> dict[str, str]:
    """The texts of a corpus, or of those of its documents that have these ``ids``."""
    documents = read_corpus(path, images=True)
    return {document.id: document.full_text for document in documents if ids is None or document.id in ids}


def _is_unchanged(path: str, export: Export) -> bool:
    """Whether a file has the texts of an export; those of a pipe are gone."""
    written_from = export.note["source"]["digest"]
    if written_from is None or digest(path) == written_from:
        return written_from is not None
    items = (document.full_text for document in read_corpus(path, images=True))
    return with_images(digest(path), items) == written_from


def _texts_of(corpus: str) -> TextList:
    documents = list(read_corpus(texts_file(corpus, corpus_file), images=True))
    return TextList([document.full_text for document in documents], [document.id for document in documents])


@taking(SearchSettings)
def search_files(settings: SearchSettings) -> Hits:
    """The ``k`` best documents of each query. Raises :class:`UsageError` for no query or an id given twice, and as
    :class:`Opened`."""
    queries = settings.queries
    if queries is None and not settings.query:
        raise UsageError("give `queries=`, a file of them, or `query=`, a text")
    if settings.corpus == queries == "-":
        raise UsageError("`corpus=` and `queries=` cannot both be standard input")
    texts = dict(read_queries(texts_file(queries, queries_file), images=True)) if queries is not None else {}
    for number, text in enumerate((typed_text(query, "`query=`") for query in settings.query), start=1):
        if not text.strip():
            raise UsageError("`query=` is empty; expected a text")
        if texts.setdefault(f"query-{number}", text) is not text:
            raise UsageError(f"{queries}: has the id query-{number}, which `query=` would get; give one of them")
    settings.check_ids("query id", texts)
    with encoders.showing_inputs(settings.show_inputs):
        return Opened(settings).search(TextList(texts.values(), list(texts)), settings.k)
