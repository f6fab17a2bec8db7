"""Corpora and query files: JSONL with an identifier and a text a line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from retrokit.data.files import named
from retrokit.data.jsonl import read_jsonl, str_id, text_of
from retrokit.errors import DataError


class Document(NamedTuple):
    """One document of a corpus; ``title`` is empty where there is none."""

    id: str
    title: str
    text: str

    @property
    def full_text(self) -> str:
        """Title and text in one, joined exactly as BEIR's evaluation does."""
        return (self.title + " " + self.text).strip()


def read_corpus(path: str | Path, feed: Callable[[bytes], object] | None = None) -> Iterator[Document]:
    """The documents of a JSONL corpus, in file order: ``id`` (or ``_id``), ``text``, and optionally ``title``.

    Only the identifiers are kept in memory. ``feed`` is that of :func:`retrokit.data.files.read_lines`.

    Raises:
        DataError: a line that is no such object, or an identifier that an earlier line has (both lines are named).
    """
    for line, identifier, row in _identified(path, 'documents, one {"id": …, "text": …} a line', feed):
        title = text_of(row, "title", path, line) if row.get("title") is not None else ""
        yield Document(identifier, title, text_of(row, "text", path, line))


def read_queries(path: str | Path) -> Iterator[tuple[str, str]]:
    """``(id, text)`` of each query of a JSONL file, in file order: ``id`` (or ``_id``) and ``text``.

    Raises:
        DataError: as for :func:`read_corpus`.
    """
    for line, identifier, row in _identified(path, 'queries, one {"id": …, "text": …} a line'):
        yield identifier, text_of(row, "text", path, line)


def _identified(
    path: str | Path, expected: str, feed: Callable[[bytes], object] | None = None
) -> Iterator[tuple[int, str, dict[str, Any]]]:
    line_of: dict[str, int] = {}
    for line, row in read_jsonl(path, expected, feed):
        identifier = str_id(row, path, line)
        first = line_of.setdefault(identifier, line)
        if first != line:
            raise DataError(named(path), f"the id {identifier!r} is already on line {first}", line)
        yield line, identifier, row
