"""A sentence as the rules of negation look at it: its words, its clauses, and which of them are negative."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from retrokit.augmentation.negatives.negation.words import BASE, FINITE, LEXICAL, NEGATIVE, NOMINATIVE, OPENS_CLAUSE, WH
from retrokit.augmentation.negatives.sentence import Change, Sentence

Named = tuple[str, list[Change]]
"""A name of an edit and the changes that make it."""


@dataclass(frozen=True, slots=True)
class View:
    """A sentence as the rules look at it.

    ``words`` are in lower case with straight apostrophes; ``words`` and ``tags`` end in empty entries, so that the
    neighbours of the first and the last word can be asked for. ``clause`` numbers the stretch of words between
    punctuation and conjunctions in which each word stands; ``negative`` are the stretches that hold a negative.
    """

    sentence: Sentence
    words: list[str]
    tags: list[str]
    clause: list[int]
    negative: frozenset[int]
    contracts: bool
    question: bool

    def __len__(self) -> int:
        return len(self.sentence.tokens)


Rule = Callable[[View, int], Iterator[Named]]
"""What a rule is: the edits that can be made at one word of a sentence."""

_PADDING = [""] * 4
_CLITICS = frozenset(("n't", "'re", "'ve", "'ll", "'m", "'d"))
_AUXILIARY_WORDS = frozenset(
    "is are was were am do does did has have had can could should would will may might must shall isn't".split()
)


def view_of(sentence: Sentence) -> View:
    """The view of a sentence: its clauses counted, and verbs that the tagger takes for infinitives mended."""
    words = [token.text.lower().replace("’", "'") for token in sentence.tokens]
    tags = [token.tag for token in sentence.tokens]
    asks = _AUXILIARY_WORDS.intersection(words[1:4] if words[:1] and words[0] in WH else words[:1])
    question = bool(words) and (words[-1] == "?" or (bool(asks) and words[-1] not in {".", "!"}))
    contracts = not _CLITICS.isdisjoint(words)
    words += _PADDING
    tags += _PADDING
    clause, negative, number = [], set(), 0
    for i in range(len(sentence.tokens)):
        number += _opens_clause(words, tags, i)
        clause.append(number)
        if words[i] in NEGATIVE:
            negative.add(number)
    _mend_bases(tags, clause)
    return View(sentence, words, tags, clause, frozenset(negative), contracts, question)


def _mend_bases(tags: list[str], clause: list[int]) -> None:
    """The tagger takes many a plural's verb for an infinitive ("the methods improve it"): where no other verb and no
    *to* stands before it in its clause, it is finite."""
    for i in range(1, len(clause)):
        if tags[i] != "VVI":
            continue
        before = tags[clause.index(clause[i]) : i]
        subject = next((tag for tag in reversed(before) if tag != "AV0"), "")
        if subject == "NN2" and not any(tag[0] == "V" or tag == "TO0" for tag in before if tag):
            tags[i] = "VVB"


def _opens_clause(words: list[str], tags: list[str], i: int) -> bool:
    tag, word = tags[i], words[i]
    if tag in OPENS_CLAUSE:
        abbreviation = word == "." and "." in words[i - 1]  # "the U.S. quarters"
        return word not in {"than", "as", "-"} and not abbreviation
    if tag != "CJC":
        return False
    return word in {"but", "yet", "so"} or (tags[i + 1] == "PNP" and words[i + 1] in NOMINATIVE)


def has_negative(view: View, i: int) -> bool:
    """Whether the clause of token ``i`` is negative, with those before it that a comma only cuts off."""
    clause = view.clause[i]
    while clause not in view.negative:
        start = view.clause.index(clause)
        goes_on = view.tags[start + 1] == "CJC" or start + 1 == i
        if (
            start == 0
            or view.words[start] != ","
            or not (goes_on or FINITE.isdisjoint(view.tags[clause_start(view, start - 1) : start]))
        ):
            return False
        clause -= 1
    return True


def clause_start(view: View, i: int) -> int:
    """The first token of the clause of token ``i``."""
    return view.clause.index(view.clause[i])


def has_negative_complement(view: View, i: int) -> bool:
    """Whether the clause of token ``i`` is joined by *that* to a negative one: no one negates both."""
    start, end = clause_start(view, i), clause_rest(view, i).stop
    below = view.words[end] == "that" and view.clause[i] + 1 in view.negative
    return below or (view.words[start] == "that" and view.clause[i] - 1 in view.negative)


def clause_rest(view: View, i: int) -> range:
    """The words after token ``i`` up to where its clause ends."""
    end = i + 1
    while end < len(view) and view.clause[end] == view.clause[i]:
        end += 1
    return range(i + 1, end)


def clause_opening(view: View, i: int) -> str:
    """The conjunction that opens the clause of token ``i``, or whatever its first word is."""
    start = clause_start(view, i)
    if view.words[start] == "if" and view.tags[start - 1] in LEXICAL | BASE:
        return "whether"
    return view.words[start]


def clause_before(view: View, i: int) -> list[str]:
    """The words of the clause of token ``i`` that stand before it."""
    return view.words[clause_start(view, i) : i]


def in_brackets(view: View, i: int) -> bool:
    """Whether token ``i`` stands between brackets."""
    tags = view.tags[:i]
    return tags.count("PUL") > tags.count("PUR")
