"""Splitters: how a text is cut into sentences, and how neighbouring sentences are joined again.

``period`` is the paper's (CROP, A.1): every "." ends a sentence, those of "3.5" and "e.g." too. ``multilingual`` is
Wikimedia's sentencex, which has the abbreviations, numbers and end marks of many languages.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from retrokit.core.registry import Entry, Param, Registry

_HERE = "retrokit.augmentation.splitters"
# sentencex takes time that grows with the square of a text's quotes and brackets; longer texts go to it in parts
_PART = 20_000


class Splitter(Protocol):
    """Cuts a text into sentences and joins neighbouring ones."""

    def cut(self, text: str) -> list[str]:
        """The sentences in order; they may be empty, and may carry white space at their ends."""

    def join(self, sentences: Sequence[str]) -> str:
        """One text of sentences that follow each other and carry no white space at their ends."""


@dataclass(frozen=True)
class Period:
    """Cut at every "." and join by ". ": a joined text ends without a period.

    >>> Period().cut("One. Two, e.g. this")
    ['One', ' Two, e', 'g', ' this']
    """

    def cut(self, text: str) -> list[str]:
        """The parts between the periods."""
        return text.split(".")

    def join(self, sentences: Sequence[str]) -> str:
        """The sentences with a period and a space between."""
        return ". ".join(sentences)


@dataclass(frozen=True)
class Multilingual:
    """Cut as sentencex does for ``language`` (or its nearest relative, in the last resort English), and join by a
    space, but for after a full-width mark (。！？」); sentences keep their end marks.

    >>> Multilingual("en").cut("Dr. Smith took 3.5 mg, cf. Fig. 2. Why? Nobody knows.")
    ['Dr. Smith took 3.5 mg, cf. Fig. 2. ', 'Why? ', 'Nobody knows.']
    """

    language: str

    def cut(self, text: str) -> list[str]:
        """The sentences of sentencex; one that crosses a multiple of 20,000 characters is cut at a space."""
        from sentencex import segment

        return [sentence for part in _parts(text) for sentence in segment(self.language, part)]

    def join(self, sentences: Sequence[str]) -> str:
        """The sentences with a space between where their script has one."""
        spaced = [sentence if _ends_wide(sentence) else sentence + " " for sentence in sentences[:-1]]
        return "".join([*spaced, *sentences[-1:]])


def _parts(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > _PART:
        end = text.rfind(" ", start, start + _PART) + 1 or start + _PART
        yield text[start:end]
        start = end
    yield text[start:]


def _ends_wide(sentence: str) -> bool:
    last = sentence[-1:] or " "
    return unicodedata.category(last).startswith("P") and unicodedata.east_asian_width(last) in "FW"


_LANGUAGE = Param(
    "language", default="en", pattern=r"[a-z]{2,3}(-[a-z0-9]+)*", summary="a language code such as en, de or zh"
)
registry = Registry(
    "splitter",
    "retrokit.splitters",
    [
        Entry("period", "cut at every period, as the CROP paper does", f"{_HERE}:Period"),
        Entry(
            *("multilingual", "real sentences, by the rules of a language", f"{_HERE}:Multilingual", (_LANGUAGE,)),
            positional="language",
        ),
    ],
)
