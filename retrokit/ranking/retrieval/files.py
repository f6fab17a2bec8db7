"""Search from files: a corpus or an exported folder, and queries, to identifiers of documents."""

import secrets
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from retrokit import encoders
from retrokit.core.errors import UsageError
from retrokit.core.files import typed_text
from retrokit.core.notices import notice
from retrokit.core.registry import parse_all
from retrokit.core.settings import taking
from retrokit.data.beir import corpus_file, queries_file
from retrokit.data.corpus import read_corpus, read_queries
from retrokit.data.exports import ABSTENTION, open_export
from retrokit.data.jsonl import write_jsonl
from retrokit.data.pairs import texts_file
from retrokit.data.trec import write_run
from retrokit.ranking import retrieval
from retrokit.ranking.abstention import DEPTH, Abstainer
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
    """Documents of each query, best first; of those that are ``abstained`` from, by place, none. ``empty`` has the
    searcher's reasons for no document, by the text of the query."""

    queries: TextList
    found: Sequence[Sequence[Hit]]
    abstained: Set[int] = frozenset()
    empty: Mapping[str, str] = field(default_factory=dict)

    def rows(self) -> Iterator[dict[str, Any]]:
        """A JSON object a query: ``id``, ``query``, and ``documents`` of ``id``, ``score`` and, if known, ``text``;
        ``abstained`` if the search does; ``empty``, the reason for no document, if there is one."""
        for row, (id, query, hits) in enumerate(zip(self.queries.ids, self.queries, self.found, strict=True)):
            documents = [{name: value for name, value in vars(hit).items() if value is not None} for hit in hits]
            abstained = {"abstained": True} if row in self.abstained else {}
            row_of_query = {"id": id, "query": query, "documents": documents, **abstained}
            if not documents and query in self.empty:
                row_of_query["empty"] = self.empty[query]
            yield row_of_query

    def write(self, path: str, form: str) -> None:
        """Write a TREC run (``form`` trec) or JSON lines (jsonl), whole or not at all. Raises :class:`DataError`."""
        if form == "jsonl":
            write_jsonl(path, self.rows())
            return
        pairs = zip(self.queries.ids, self.found, strict=True)
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
        documents = [] if corpus is None else list(read_corpus(texts_file(corpus, corpus_file), images=True))
        self._texts = TextList([document.full_text for document in documents], [document.id for document in documents])
        searched = self._export or self._texts
        system, self._index = retrieval.opened(searcher or "", searched, settings.device, **settings.options())
        self._abstainer: Abstainer | None = None
        if settings.abstain is not None:
            calibration = settings.calibration or str(Path(index_folder or "") / ABSTENTION)
            self._abstainer = Abstainer([calibration], settings.abstain, system, searched, settings.device)

    def make_ready(self) -> None:
        """Load the encoder and prepare the documents, so that each search is fast."""
        self._index = self._index.ready()
        self._index.search(TextList([f"ready {secrets.token_hex(8)}"]), 1)  # a text that no cache knows

    def search(self, queries: TextList, k: int) -> Hits:
        """The ``k`` best documents of each query; of an index of faiss, a notice reports its recall."""
        rankings = self._index.search(queries, k if self._abstainer is None else max(k, DEPTH))
        ids: Any = self._texts.ids
        if self._export is not None:
            ids = self._export.ids_at(place for _, places in rankings for place in places.tolist())
        answers = [True] * len(queries)
        if self._abstainer is not None:
            answers = self._abstainer.answers(queries, rankings, ids).tolist()
        if self._faiss is not None:
            shares = self._index.account().configuration["index_recall"].items()
            recall = ", ".join(f"{name} {share}" for name, share in shares)
            notice(f"index {self._faiss} in proportion to exact search: {recall}")
        texts = self._texts
        found = [
            [Hit(ids[i], score, texts[i] if texts else None) for score, i in zip(*ranking, strict=True)]
            for ranking in (
                [side[: k if answer else 0].tolist() for side in ranking]
                for ranking, answer in zip(rankings, answers, strict=True)
            )
        ]
        return Hits(queries, found, {row for row, answer in enumerate(answers) if not answer}, self._index.empty)


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
        if texts.setdefault(f"query-{number}", text) is not text:
            raise UsageError(f"{queries}: has the id query-{number}, which `query=` would get; give one of them")
    with encoders.showing_inputs(settings.show_inputs):
        return Opened(settings).search(TextList(texts.values(), list(texts)), settings.k)
