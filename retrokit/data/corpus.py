"""Corpora and query files: an identifier and a text a line, as JSON or in a table; and TREC topics."""

import html
import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeVar

from retrokit.core.errors import DataError
from retrokit.core.files import named, read_lines, shards
from retrokit.core.notices import notice
from retrokit.data.images import Image
from retrokit.data.jsonl import Faults, Row
from retrokit.data.packed_records import FirstLines
from retrokit.data.tables import is_table, read_rows, rows_of_lines

_TOPIC = re.compile(r"<top(?:ic)?\b([^>]*)>(.*?)(?=</?top(?:ic)?\b|\Z)", re.DOTALL | re.IGNORECASE)
_NUMBER = re.compile(
    r"""(?:<num(?:ber)?>\s*(?:Number:)?\s*|\b(?:number|num|id)\s*=\s*["'])([^\s<"']+)""", re.IGNORECASE
)
_TITLE = re.compile(r"<(?:title|query)>\s*(?:Topic:)?([^<]*)", re.IGNORECASE)
_Read = TypeVar("_Read", bound=Hashable)


class Document(NamedTuple):
    """One document of a corpus; ``title`` is empty where there is none. ``text`` may be an image."""

    id: str
    title: str
    text: str

    @property
    def full_text(self) -> str:
        """Title and text joined as BEIR's evaluation does; or the image."""
        return self.text if isinstance(self.text, Image) else (self.title + " " + self.text).strip()


def read_corpus(
    path: str | Path,
    feed: Callable[[bytes], object] | None = None,
    images: bool = False,
) -> Iterator[Document]:
    """The documents of a corpus, in file order: rows (:func:`retrokit.data.tables.read_rows`) of an identifier, a text
    (:mod:`retrokit.data.jsonl` has the names of their fields), and optionally ``title``. Repeated lines are left out
    and reported. With ``images``, a document with a field ``image`` is that image. ``feed`` is that of
    :func:`retrokit.core.files.read_lines`.

    Raises:
        DataError: another row, or an identifier that an earlier line has with another text.
    """

    def read(row: Row) -> tuple[str, str]:
        return row.text("title", ""), row.item() if images else row.content

    rows = _rows(path, 'documents, one {"id": …, "text": …} a line', feed)
    for identifier, (title, text) in _identified(rows, read, path):
        yield Document(identifier, title, text)


def read_queries(path: str | Path, images: bool = False) -> Iterator[tuple[str, str]]:
    """``(id, text)`` of each query of a file, as for :func:`read_corpus`; also the titles of TREC topics."""

    def read(row: Row) -> str:
        return row.item() if images else row.content

    return _identified(query_rows(path), read, path)


def query_rows(path: str | Path) -> Iterator[Row]:
    """The row of each query of a file, with all its fields; raises as :func:`read_queries` for a row of another
    form."""
    return _rows(path, 'queries, one {"id": …, "text": …} a line', topics=True)


def _identified(rows: Iterable[Row], read: Callable[[Row], _Read], path: str | Path) -> Iterator[tuple[str, _Read]]:
    """The identifier of each row and its ``read`` content, once each."""
    faults = Faults(path)
    first_lines = FirstLines()
    for row in rows:
        identifier, content = row.id, read(row)
        first = first_lines.add(identifier, row.line, hash(content))
        if first is None:
            yield identifier, content
            continue
        line, first_content = first
        if first_content == hash(content):
            faults.add("repeated", f"the line repeats line {line}", row.line)
        else:
            problem = f"the id {identifier!r} is already on line {line}, with another text"
            faults.refuse("colliding", problem, row.line)
    faults.report("repeated", "{n} repeated lines are left out")


def _rows(
    path: str | Path, expected: str, feed: Callable[[bytes], object] | None = None, topics: bool = False
) -> Iterator[Row]:
    """The rows of a file (:func:`retrokit.data.tables.read_rows`) or of its shards, or of TREC topics."""
    files = [path] if str(path) == "-" else shards(path)
    for file in files:
        yield from _rows_of_file(file, expected, feed, topics)


def _rows_of_file(
    path: str | Path, expected: str, feed: Callable[[bytes], object] | None, topics: bool
) -> Iterator[Row]:
    if is_table(path):
        rows = read_rows(path, expected, feed, {2: ("id", "text")})
    else:
        lines = read_lines(path, expected, feed)
        first = next(lines)
        lines = chain([first], lines)
        if topics and first[1].lstrip().startswith("<"):
            yield from _topics(path, list(lines))
            return
        rows = rows_of_lines(path, lines, expected, {2: ("id", "text")})
    yield from (row for _, row in rows)


def _topics(path: str | Path, lines: list[tuple[int, str]]) -> Iterator[Row]:
    text = "\n".join(line for _, line in lines)
    count = 0
    for topic in _TOPIC.finditer(text):
        line = lines[text.count("\n", 0, topic.start())][0]
        number, title = _NUMBER.search(f"{topic[1]}{topic[2]}"), _TITLE.search(topic[2])
        if number is None or title is None:
            raise DataError(path, "the topic has no number or no title", line)
        yield Row({"id": number[1], "text": html.unescape(" ".join(title[1].split()))}, path, line)
        count += 1
    if not count:
        raise DataError(path, "has no TREC topic; expected <top> or <topic> with a number and a title")
    notice(f"{named(path)}: the queries are the titles of {count:,} TREC topics", once=True)
