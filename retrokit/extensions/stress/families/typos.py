"""Slips of the keyboard and of character recognition, which do not change the meaning."""

import re
from collections.abc import Callable, Iterator

import lemminflect

from retrokit.augmentation.edits.family import Rewriting, family
from retrokit.augmentation.edits.subject import LEXICON, Subject

WORDS_PER_SLIP = 8
_LONG = re.compile(r"(?<![\w-])[a-z]{5,}(?![\w-])")
_NEIGHBOURS = LEXICON.tables["keyboard"]
_CONFUSED = LEXICON.pairs["confused"]


@family("typos", changes_meaning=False)
def typos(subject: Subject) -> Iterator[Rewriting]:
    """*associated* → *assoicated*, *modern* → *modem*"""
    for name, slip in (("keyboard", _keyboard), ("ocr", _recognised)):
        text = _slipped(subject, name, slip)
        if text is not None:
            yield Rewriting(name, text)


def _slipped(subject: Subject, name: str, slip: Callable[[Subject, str], str | None]) -> str | None:
    """The sentence with a slip in every eighth word, of those that have five letters; no slip is a word."""
    sentence = subject.passage.sentence
    matches = {match.start(): match[0] for match in _LONG.finditer(sentence)}
    order = sorted(matches, key=lambda start: subject.draw(2**32, name, start))
    count = max(1, len(sentence.split()) // WORDS_PER_SLIP)
    slips: dict[int, str] = {}
    for start in order:
        wrong = slip(subject, matches[start])
        if len(slips) < count and wrong is not None and not lemminflect.getAllLemmas(wrong):
            slips[start] = wrong
    if not slips:
        return None
    for start in sorted(slips, reverse=True):
        sentence = sentence[:start] + slips[start] + sentence[start + len(matches[start]) :]
    return sentence


def _keyboard(subject: Subject, word: str) -> str | None:
    """Two letters exchanged, one left out, doubled or mistyped; the first and the last stay."""
    index = 1 + subject.draw(len(word) - 2, "place", word)
    kind = subject.draw(4, "slip", word)
    if kind == 0:
        index = min(index, len(word) - 3)
        changed = word[:index] + word[index + 1] + word[index] + word[index + 2 :]
    elif kind == 1:
        changed = word[:index] + word[index + 1 :]
    elif kind == 2:
        changed = word[: index + 1] + word[index:]
    else:
        near = sorted(_NEIGHBOURS[word[index]])
        changed = word[:index] + near[subject.draw(len(near), "near", word)] + word[index + 1 :]
    return changed if changed != word else None


def _recognised(subject: Subject, word: str) -> str | None:
    """One pair of letters taken for another that looks like it."""
    matches = [match for old in _CONFUSED for match in re.finditer(old, word)]
    if not matches:
        return None
    match = matches[subject.draw(len(matches), "confused", word)]
    return word[: match.start()] + _CONFUSED[match[0]] + word[match.end() :]
