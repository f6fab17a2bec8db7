"""A sentence as the rules of negation look at it: its words, its clauses, and which of them are negative."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from retrokit.augmentation.negatives.negation.lexicon import PAIRS, WORDS
from retrokit.augmentation.negatives.rules import Named
from retrokit.augmentation.negatives.tags import BASE, FINITE, LEXICAL, OPENS_CLAUSE
from retrokit.augmentation.negatives.view import View


class ClauseView(View):
    """The view of a sentence with its clauses, and with the verbs mended that the tagger takes for infinitives.

    Attributes:
        clause: the number of the stretch of words, between punctuation and conjunctions, in which each word stands.
        negative: the stretches that hold a negative.
        contracts: whether the sentence has contracted forms.
        question: whether it is a question.
    """

    def __init__(self, view: View) -> None:
        self.__dict__.update(view.__dict__)
        words, self.tags = view.words, list(view.tags)
        last = words[view.size - 1]
        asks = WORDS["auxiliary-words"].intersection(words[1:4] if words[0] in WORDS["wh"] else words[:1])
        self.question = last == "?" or (bool(asks) and last not in {".", "!"})
        self.contracts = not WORDS["clitics"].isdisjoint(words)
        self.clause: list[int] = []
        self.negative: set[int] = set()
        number, negative = 0, WORDS["negative"]
        for i in range(self.size):
            number += _opens_clause(words, self.tags, i)
            self.clause.append(number)
            if words[i] in negative:
                self.negative.add(number)
        _mend_bases(self.tags, self.clause)


Rule = Callable[[ClauseView, int], Iterator[Named]]
"""What a rule is: the edits that can be made at one word of a sentence."""


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
    return word in {"but", "yet", "so"} or (tags[i + 1] == "PNP" and words[i + 1] in PAIRS["nominative"])


def has_negative(view: ClauseView, i: int) -> bool:
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


def clause_start(view: ClauseView, i: int) -> int:
    """The first token of the clause of token ``i``."""
    return view.clause.index(view.clause[i])


def has_negative_complement(view: ClauseView, i: int) -> bool:
    """Whether the clause of token ``i`` is joined by *that* to a negative one: no one negates both."""
    start, end = clause_start(view, i), clause_rest(view, i).stop
    below = view.words[end] == "that" and view.clause[i] + 1 in view.negative
    return below or (view.words[start] == "that" and view.clause[i] - 1 in view.negative)


def clause_rest(view: ClauseView, i: int) -> range:
    """The words after token ``i`` up to where its clause ends."""
    end = i + 1
    while end < view.size and view.clause[end] == view.clause[i]:
        end += 1
    return range(i + 1, end)


def clause_opening(view: ClauseView, i: int) -> str:
    """The conjunction that opens the clause of token ``i``, or whatever its first word is."""
    start = clause_start(view, i)
    if view.words[start] == "if" and view.tags[start - 1] in LEXICAL | BASE:
        return "whether"
    return view.words[start]


def clause_before(view: ClauseView, i: int) -> list[str]:
    """The words of the clause of token ``i`` that stand before it."""
    return view.words[clause_start(view, i) : i]


def in_brackets(view: ClauseView, i: int) -> bool:
    """Whether token ``i`` stands between brackets."""
    tags = view.tags[:i]
    return tags.count("PUL") > tags.count("PUR")
