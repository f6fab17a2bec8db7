"""The data files of the near-misses, prompts and word lists, each read once.

A file of words has sections: a comment that says what the words are for, a header, and lines of entries, in which an
underscore stands for a space::

    # What becomes of these when their negative goes.
    [polar pairs]
    any>some anything>something able/unable

The kinds are words (no kind in the header; ``@name`` takes in a section above), ``pairs`` (``a>b``, or ``a/b`` for both
ways), ``table`` (lines of ``key: words``) and ``groups`` (a line each).
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from retrokit.core.errors import DataError


class Lexicon(NamedTuple):
    """The sections of a file of words by their kinds and names."""

    words: dict[str, frozenset[str]]
    pairs: dict[str, dict[str, str]]
    tables: dict[str, dict[str, frozenset[str]]]
    groups: dict[str, list[frozenset[str]]]


@cache
def text(package: str, name: str) -> str:
    """The text of a file beside the modules of ``package``."""
    return (files(package) / name).read_text(encoding="utf-8").strip()


@cache
def lexicon(package: str, name: str = "words.txt") -> Lexicon:
    """The words in a file beside the modules of ``package``.

    Raises:
        DataError: a line that is wrong, by the file's name and the line's number.
    """
    return read_lexicon(text(package, name), f"{package.rpartition('.')[2]}/{name}")


_HEADER = re.compile(r"\[([a-z][a-z-]*)(?: (pairs|table|groups))?\]")


def read_lexicon(content: str, where: str) -> Lexicon:
    """The sections of ``content``; ``where`` names it in errors.

    >>> read_lexicon("# Opposites.\\n[grades pairs]\\nlarge/small tall>not_tall", "words.txt").pairs
    {'grades': {'large': 'small', 'small': 'large', 'tall': 'not tall'}}
    """
    lexicon = Lexicon({}, {}, {}, {})
    kind = section = before = ""
    for number, line in enumerate(content.splitlines(), 1):
        try:
            if line.startswith("["):
                section, kind = _opened(line, before)
                if any(section in sections for sections in lexicon):
                    raise ValueError(f"the section {section} is there twice")
            elif line and not line.startswith("#"):
                _add(lexicon, section, kind, [entry.replace("_", " ") for entry in line.split()])
        except ValueError as error:
            raise DataError(where, str(error), number) from None
        before = line
    return lexicon


def _opened(line: str, before: str) -> tuple[str, str]:
    """The name and kind of the section that a header opens."""
    header = _HEADER.fullmatch(line)
    if header is None:
        raise ValueError(f"{line} is none of [name], [name pairs], [name table] and [name groups]")
    if not before.startswith("#"):
        raise ValueError(f"no comment says what the section {header[1]} is for")
    return header[1], header[2] or "words"


def _add(lexicon: Lexicon, section: str, kind: str, entries: list[str]) -> None:
    """Add a line to a section; raises ``ValueError`` with what is wrong."""
    if not section:
        raise ValueError("no section has begun")
    if kind == "pairs":
        pairs = lexicon.pairs.setdefault(section, {})
        for entry in entries:
            swaps = pairs_of(entry)
            if twice := [word for word, _ in swaps if word in pairs]:
                raise ValueError(f"{twice[0]} is there twice")
            pairs.update(swaps)
        return
    words = _words(lexicon, entries[1:] if kind == "table" else entries)
    if kind == "groups":
        lexicon.groups.setdefault(section, []).append(words)
    elif kind == "table":
        key, colon, _ = entries[0].partition(":")
        if not colon or key in lexicon.tables.setdefault(section, {}):
            raise ValueError(f"{key} is there twice" if colon else f"{key} is not a key: expected key: words")
        lexicon.tables[section][key] = words
    else:
        if twice := sorted(words & lexicon.words.get(section, frozenset())):
            raise ValueError(f"{twice[0]} is there twice")
        lexicon.words[section] = lexicon.words.get(section, frozenset()) | words


def pairs_of(entry: str) -> list[tuple[str, str]]:
    """What gives way to what: ``a>b``, or ``a/b`` both ways; raises ``ValueError`` for anything else."""
    match = re.fullmatch(r"([^/>]+)([/>])([^/>]+)", entry)
    if match is None:
        raise ValueError(f"{entry} is neither a>b nor a/b")
    return [(match[1], match[3]), (match[3], match[1])][: 2 if match[2] == "/" else 1]


def _words(lexicon: Lexicon, entries: list[str]) -> frozenset[str]:
    """The entries of a line, those of ``@name`` in its place."""
    words: list[str] = []
    for entry in entries:
        if entry.startswith("@") and entry[1:] not in lexicon.words:
            raise ValueError(f"no section of words {entry[1:]} stands above")
        words += sorted(lexicon.words[entry[1:]]) if entry.startswith("@") else [entry]
    if twice := sorted({word for word in words if words.count(word) > 1}):
        raise ValueError(f"{twice[0]} is there twice")
    return frozenset(words)
