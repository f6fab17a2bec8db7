"""Corpora and query files: JSONL with an identifier and a text a line."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Container, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from retrokit.data.files import read_lines
from retrokit.data.images import Image
from retrokit.data.jsonl import Row, read_jsonl

_HEADERS = {(id, text) for id in ("id", "_id", "qid", "query-id", "query_id") for text in ("text", "query")}


class Document(NamedTuple):
    """One document of a corpus; ``title`` is empty where there is none. ``text`` may be an image."""

    id: str
    title: str
    text: str

    @property
    def full_text(self) -> str:
        """Title and text in one, joined exactly as BEIR's evaluation does; an image stands by itself."""
        return self.text if isinstance(self.text, Image) else (self.title + " " + self.text).strip()


def read_corpus(
    path: str | Path,
    feed: Callable[[bytes], object] | None = None,
    images: bool = False,
    watched: Container[int] | None = None,
) -> Iterator[Document]:
    """The documents of a JSONL corpus, in file order: ``id`` (or ``_id``), ``text``, and optionally ``title``.

    Only the identifiers are kept in memory. ``feed`` is that of :func:`retrokit.data.files.read_lines`. With
    ``images``, a document that has a field ``image`` is that image; without, it is its text.

    Args:
        watched: look for repetitions among the identifiers with these hashes, and keep these alone; default: among all.

    Raises:
        DataError: a line that is no such object, or an identifier that an earlier line has (both lines are named).
    """
    for identifier, row in _identified(path, 'documents, one {"id": …, "text": …} a line', feed, watched):
        title = row.text("title", "")
        yield Document(identifier, title, row.item() if images else row.text("text"))


def read_queries(
    path: str | Path, images: bool = False, watched: Container[int] | None = None
) -> Iterator[tuple[str, str]]:
    """``(id, text)`` of each query of a JSONL file, in file order; the rest is as for :func:`read_corpus`. A file that
    is called ``.tsv`` holds an id, a tab and a text a line, below a header (``id``, ``text``) or none."""
    for identifier, row in _identified(path, 'queries, one {"id": …, "text": …} a line', watched=watched):
        yield identifier, row.item() if images else row.text("text")


def count_identified(read: Callable[[Container[int]], Iterable[tuple[str, Any]]]) -> int:
    """How many items there are, all lines checked, in eight bytes of memory an item.

    Args:
        read: identifiers with what is theirs, given what to watch (see :func:`read_corpus`); read twice where
            identifiers seem to be repeated.

    Raises:
        DataError: as ``read`` does.
    """
    import numpy as np

    hashes = np.frombuffer(array("q", (hash(identifier) for identifier, _ in read(()))), dtype=np.int64)
    hashes.sort()
    if repeated := set(hashes[1:][hashes[1:] == hashes[:-1]].tolist()):
        for _ in read(repeated):
            pass
    return len(hashes)


def _identified(
    path: str | Path,
    expected: str,
    feed: Callable[[bytes], object] | None = None,
    watched: Container[int] | None = None,
) -> Iterator[tuple[str, Row]]:
    line_of: dict[str, int] = {}
    is_table = expected.startswith("queries") and str(path).removesuffix(".gz").endswith(".tsv")
    for line, row in _tabbed(path) if is_table else read_jsonl(path, expected, feed):
        identifier = row.id
        is_watched = watched is None or (watched != () and hash(identifier) in watched)
        first = line_of.setdefault(identifier, line) if is_watched else line
        if first != line:
            raise row.wrong(f"the id {identifier!r} is already on line {first}")
        yield identifier, row


def _tabbed(path: str | Path) -> Iterator[tuple[int, Row]]:
    """The lines of a TSV file of queries as rows, each with its number."""
    for number, line in read_lines(path, "queries, an id, a tab and a text a line"):
        row = Row(dict(zip(("id", "text"), line.split("\t"), strict=False)), path, number)
        if line.count("\t") != 1:
            raise row.wrong(f"expected an id, one tab and a text, found {line.count(chr(9))} tabs")
        if number > 1 or (row["id"].lower(), row["text"].lower()) not in _HEADERS:
            yield number, row
