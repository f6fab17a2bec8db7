"""The data files of the near-misses, prompts and word lists, each read once.

A file of words has sections: a comment that says what the words are for, a header, and lines of entries, in which an
underscore stands for a space::

    # What becomes of these when their negative goes.
    [polar pairs]
    any>some anything>something able/unable

The kinds are words (no kind in the header; ``@name`` takes in a section above), ``pairs`` (``a>b``, or ``a/b`` for both
ways), ``table`` (lines of ``key: words``) and ``groups`` (a line each).
"""

import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Lexicon(NamedTuple):
    """The sections of a file of words by their kinds and names."""

    words: dict[str, frozenset[str]]
    pairs: dict[str, dict[str, str]]
    tables: dict[str, dict[str, frozenset[str]]]
    groups: dict[str, list[frozenset[str]]]


@cache
def text(package: str, name: str) -> str:
    """The text of a file next to the modules of ``package``."""
    return (files(package) / name).read_text(encoding="utf-8").strip()


@cache
def lexicon(package: str, name: str = "words.txt") -> Lexicon:
    """The words in a file next to the modules of ``package``."""
    return read_lexicon(text(package, name))


def read_lexicon(content: str) -> Lexicon:
    """The sections of ``content``.

    >>> read_lexicon("# Opposites.\\n[grades pairs]\\nlarge/small tall>not_tall").pairs
    {'grades': {'large': 'small', 'small': 'large', 'tall': 'not tall'}}
    """
    words: dict[str, frozenset[str]] = {}
    lexicon = Lexicon(words, {}, {}, {})

    def all_of(entries: list[str]) -> frozenset[str]:
        return frozenset().union(*(words[entry[1:]] if entry.startswith("@") else {entry} for entry in entries))

    for name, kind, body in re.findall(r"^\[([a-z-]+)(?: (\w+))?\]\n((?:[^\[].*\n?|\n)*)", content, re.MULTILINE):
        lines = (line.split() for line in body.splitlines() if line and not line.startswith("#"))
        entries = [[entry.replace("_", " ") for entry in line] for line in lines]
        if kind == "pairs":
            lexicon.pairs[name] = dict(pair for line in entries for entry in line for pair in pairs_of(entry))
        elif kind == "table":
            lexicon.tables[name] = {key.rstrip(":"): all_of(line) for key, *line in entries}
        elif kind == "groups":
            lexicon.groups[name] = [all_of(line) for line in entries]
        else:
            words[name] = frozenset().union(*map(all_of, entries))
    return lexicon


def pairs_of(entry: str) -> list[tuple[str, str]]:
    """What gives way to what: ``a>b``, or ``a/b`` both ways."""
    old, sign, new = re.fullmatch(r"([^/>]+)([/>])([^/>]+)", entry).groups()  # type: ignore[union-attr]
    return [(old, new), (new, old)][: 2 if sign == "/" else 1]
