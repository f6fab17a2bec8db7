"""A corpus and the queries that people type, without any judgement; and what each system ranks first for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from retrokit.core.errors import DataError, UsageError
from retrokit.core.files import read_lines
from retrokit.data.beir import RetrievalData, corpus_file, retrieval_data
from retrokit.data.corpus import read_corpus
from retrokit.data.packed_records import TextsById
from retrokit.data.pairs import texts_file
from retrokit.data.tables import read_rows, stem
from retrokit.extensions.judging.prediction_powered import FEWEST
from retrokit.extensions.judging.unjudged import Runs

_EXPECTED = "queries, one a line"
_ROWS = re.compile(r"\.(jsonl|json|csv|tsv|parquet)(\.\w+)?\Z", re.IGNORECASE)


def read_without_judgements(corpus: str, queries: str) -> RetrievalData:
    """The documents of a corpus (JSON lines or a BEIR folder) and the queries of a file, and no judgements.

    Raises:
        DataError: a file that cannot be read, no document with a text, a repeated query, or too few queries.
    """
    texts_by_line = _distinct(queries)
    if len(texts_by_line) < FEWEST:
        raise DataError(queries, f"contains {len(texts_by_line)} queries; give {FEWEST} or more")
    path = texts_file(corpus, corpus_file)
    documents = TextsById((document.id, document.full_text) for document in read_corpus(path, images=True))
    if not any(text.strip() for text in documents.texts):
        raise DataError(path, "no document has a text")
    return retrieval_data(stem(corpus), "without judgements", documents, texts_by_line, {})


def _distinct(path: str) -> dict[str, str]:
    """The queries of a file by the numbers of their lines, which are their ids."""
    texts_by_line: dict[str, str] = {}
    lines: dict[str, int] = {}
    for line, text in _lines(path):
        words = " ".join(text.split())
        if not words:
            raise DataError(path, "the query is empty", line)
        if words in lines:
            raise DataError(path, f"repeats the query of line {lines[words]}; keep one of them", line)
        lines[words] = line
        texts_by_line[str(line)] = words
    return texts_by_line


def _lines(path: str) -> Iterator[tuple[int, str]]:
    """The number and the text of each line: plain text; or rows with a field ``anchor``, as a language model's queries
    have it, or a text."""
    if not _ROWS.search(path):
        for line, text in read_lines(path, _EXPECTED):
            if text.lstrip().startswith('{"'):
                raise DataError(path, "looks like JSON; give the file a name that ends in .jsonl", line)
            yield line, text
        return
    for line, row in read_rows(path, _EXPECTED, columns={1: ("text",), 2: ("id", "text")}):
        yield line, row.text("anchor") if "anchor" in row else row.content


def rank(data: RetrievalData, systems: Sequence[str], depth: int, device: str | None) -> Runs:
    """The first ``depth`` documents of each system, by its label in tables.

    Raises:
        UsageError: systems of one name, or one that is tuned on judged queries.
        DataError: a TREC run that does not fit.
    """
    from retrokit.evaluation.evaluate import check_searchers
    from retrokit.evaluation.tasks.base import run_of
    from retrokit.evaluation.tasks.retrieval import Retrieval
    from retrokit.ranking import retrieval

    for spec in systems:
        if retrieval.leaves_open(spec):
            raise UsageError(f"{spec}: weight=auto is tuned on judged queries, and there are none; give a number")
    searchers = {}
    for spec in systems:
        searcher = retrieval.create(spec, device)
        label = retrieval.registry_of(spec).parse(spec).label
        name = label or searcher.spec
        if name in searchers:
            problem = f"two systems have the name {label}" if label else "is given twice"
            raise UsageError(f"`systems=` {spec}: {problem}")
        searchers[name] = searcher
    check_searchers([*searchers.values()], [data])
    task = Retrieval(data)
    runs = {}
    for name, searcher in searchers.items():
        rankings = searcher.index(task.documents).search(task.queries, depth)
        runs[name] = run_of(rankings, data.query_ids, task.documents.ids)
    return runs
