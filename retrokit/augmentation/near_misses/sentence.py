"""A sentence as tagged words, and rewriting it: what the near-miss families work on.

The tags are the C5 set of the British National Corpus: ``NN1`` singular noun, ``NN2`` plural noun, ``NP0`` proper
noun, ``AJ0`` adjective, ``AT0`` article, ``VVZ`` a lexical verb's third person, ``VBD`` a past form of *be*, ``VM0``
modal, ``XX0`` *not*, ``PRP`` preposition, ``PUN`` punctuation, and so on.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, NamedTuple

from retrokit.core.errors import MissingExtra

# Words keep inner apostrophes, hyphens, points and slashes; clitics (n't, 's, 're, …) stand alone, as in the tag set.
_WORD = re.compile(
    r"\b(?:ca|wo|sha|do|does|did|is|are|was|were|has|have|had|could|should|would|might|must|need)(?=n['’]t\b)"
    r"|can(?=not\b)|n['’]t\b|['’](?:s|re|ve|ll|d|m)\b|\d+(?:[.,]\d+)*%?|\w+(?:(?:[-/.]|['’](?!(?:s|re|ve|ll|d|m)\b))\w+)*|\S",
    re.IGNORECASE,
)
_LOOSE_MARK = re.compile(r"\s+([,.;:?!])(?=\s|$)")
_ARTICLE = re.compile(r"\b([Aa]n?)\s+([\w'’-]+)")


class Token(NamedTuple):
    """A word or mark: its text, its C5 tag, and where it stands in the sentence."""

    text: str
    tag: str
    start: int
    end: int

    @property
    def lower(self) -> str:
        """The text in lower case."""
        return self.text.lower()


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence and its tokens."""

    text: str
    tokens: tuple[Token, ...]

    def words(self, start: int, end: int) -> str:
        """The text of the tokens ``start`` to ``end`` (exclusive) as it stands in the sentence."""
        return self.text[self.tokens[start].start : self.tokens[end - 1].end] if start < end else ""


class Change(NamedTuple):
    """Put ``text`` in place of the tokens ``start`` to ``end`` (exclusive); before ``start`` if the two are equal."""

    start: int
    end: int
    text: str


Named = tuple[str, Sequence[Change]]
"""A name of an edit and the changes that make it."""


def tag(text: str) -> Sentence:
    """The sentence ``text`` with its words tagged; raises :class:`MissingExtra` without the tagger."""
    spans = [(match.group(), match.start(), match.end()) for match in _WORD.finditer(text)]
    tags = _tagger().tag_sent([word.replace("’", "'") for word, _, _ in spans], taglevel=0)
    return Sentence(text, tuple(Token(word, t, a, b) for (word, a, b), t in zip(spans, tags, strict=True)))


def rewrite(sentence: Sentence, changes: Iterable[Change]) -> str:
    """The sentence with the changes made, which must not overlap: spacing as before, a capital where the sentence began
    with one, *a* and *an* as the word that now follows wants them.

    Words that leave the start of the sentence keep their capital: pass them through :func:`uncapitalized`.
    """
    source, ends = sentence.text, [sentence.tokens[0].start, *(token.end for token in sentence.tokens)]
    text, position = "", 0
    for change in sorted(changes):
        text += source[ends[position] : ends[change.start]]
        if change.text:
            replaced = sentence.tokens[change.start] if change.start < change.end else None
            space = " " if replaced is None else source[ends[change.start] : replaced.start]
            text += (space if text else "") + change.text
        position = change.end
    text = (text + source[ends[position] : ends[-1]]).lstrip()
    if not _LOOSE_MARK.search(source):
        text = _LOOSE_MARK.sub(r"\1", text)
    if source.lstrip()[:1].isupper():
        text = text[:1].upper() + text[1:]

    def with_article(match: re.Match[str]) -> str:
        if match.group() in source:
            return match.group()
        article = indefinite_article(match[2])
        article = article.capitalize() if match[1][0] == "A" else article
        return match.group().replace(match[1], article, 1)

    return _ARTICLE.sub(with_article, text)


def uncapitalized(sentence: Sentence, start: int, end: int) -> str:
    """The words of the tokens ``start`` to ``end`` for use inside a sentence: without the capital that only the
    sentence's start gave them. Names, acronyms and *I* keep theirs."""
    words = sentence.words(start, end)
    first = sentence.tokens[0]
    if (
        start > 0
        or not words
        or first.tag == "NP0"
        or first.text == "I"
        or any(letter.isupper() for letter in first.text[1:])
    ):
        return words
    return words[0].lower() + words[1:]


@lru_cache(maxsize=20_000)
def indefinite_article(word: str) -> str:
    """*a* or *an*, as ``word`` is spoken."""
    return "an" if _articles().a(word).startswith("an ") else "a"


@lru_cache(maxsize=20_000)
def inflected(lemma: str, tag: str) -> str:
    """A form of a word by its Penn tag (``VB``, ``VBZ``, ``VBD``, ``VBN``, ``VBG``, ``NN``, ``NNS``), the first if
    there are several; the lemma itself if the form is not known, or the lemma is empty."""
    if not lemma:
        return lemma
    forms = _package("lemminflect").getInflection(lemma, tag) or _package("lemminflect").getInflectionOOV(lemma, tag)
    return str(forms[0]) if forms else lemma


@lru_cache(maxsize=20_000)
def lemma(word: str, part: str) -> str:
    """The dictionary form of ``word`` as a ``VERB``, ``NOUN`` or ``ADJ``."""
    lemmas = _package("lemminflect").getLemma(word.lower(), upos=part)
    return str(lemmas[0]) if lemmas else word.lower()


@cache
def _tagger() -> Any:
    tagger = _package("HanTa.HanoverTagger").HanoverTagger("morphmodel_en.pgz")
    # A word that is not in the tagger's lexicon is taken apart afresh each time: most of the cost of running text.
    tagger.analyze_forward = lru_cache(maxsize=100_000)(tagger.analyze_forward)
    return tagger


@cache
def _articles() -> Any:
    return _package("inflect").engine()


@cache
def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtra("near-misses", "negatives") from error
