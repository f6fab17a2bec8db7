"""Swaps of words that data files describe: what gives way to what, and which company they must be in.

A line of such a file names a kind of edit (``swap-:`` goes on with the words), its swaps, and conditions::

    # Prior to the meeting: after the meeting.
    swap-time: prior_to>after where 1:@np|VVG 1!this|that

``a>b`` swaps one way, ``a/b`` both ways, ``$name`` stands for the pairs of that name in ``words.txt``; an underscore is
a space, ``*`` marks the word by which the swap is found if it is not the first, and ``~verb`` takes the form of that
word. A condition is a place, ``:`` (one of these must stand there) or ``!`` (none may), and alternatives. Places count
from the swapped words: ``-1`` is the word before, ``1`` the word after, ``0`` the one by which the swap is found;
``1..3`` is any of several places, ``*`` any word of the sentence. Alternatives are words (``turn*``: how they begin),
tags (``VV*``), ``^`` (the end of the sentence), ``$name`` (words of ``words.txt``), ``@name`` (what the family asks),
``a&b`` (both of it) and ``a_b`` (one word after the other, ``?`` any). ``%name = …`` names conditions for later lines.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from retrokit.augmentation.near_misses import tags as c5
from retrokit.augmentation.near_misses.data import Lexicon, pairs_of
from retrokit.augmentation.near_misses.sentence import Change, Named, inflected
from retrokit.augmentation.near_misses.view import View

V = TypeVar("V", bound=View)
"""A family's view of a sentence."""

Test = Callable[[V, int], bool]
"""Whether something can be said of a token."""

Condition = Callable[[V, int, int, int], bool]
"""Whether something holds around words that begin and end at two places, and are found by the one in between."""

_LINE = re.compile(r"(?:%([a-z-]+) =|([a-z-]+): (.+?)(?: where\b|$))(.*)")
_CONDITION = re.compile(r"(\*|-?\d+(?:\.\.-?\d+)?)([:!])(.+)")


@dataclass(frozen=True, slots=True)
class Swap(Generic[V]):
    """A swap: the words from ``first`` on (counted from the one by which it is found) give way to a text."""

    name: str
    first: int
    words: tuple[str, ...]
    text: str
    conditions: Sequence[Condition[V]]

    def __call__(self, view: V, at: int) -> Named | None:
        """The edit at a token, if its conditions hold."""
        start = at + self.first
        end = start + len(self.words)
        if start < 0 or not view.says(start, *self.words):
            return None
        if not all(condition(view, start, at, end) for condition in self.conditions):
            return None
        text = self.text
        if text.startswith("~"):
            verb, space, rest = text[1:].partition(" ")
            if view.tags[at] not in c5.PENN:
                return None
            text = inflected(verb, c5.PENN[view.tags[at]]) + space + rest
        titled = at == start > 0 and view.sentence.tokens[at].text.istitle()  # "the Western programme"
        return self.name, [Change(start, end, text.capitalize() if titled else text)]


def read_swaps(content: str, lexicon: Lexicon, known: Mapping[str, Test[V]]) -> Iterator[tuple[str, Swap[V]]]:
    """The swaps of the lines of ``content``, in order, each with the word by which it is found; ``$name`` is looked up
    in ``lexicon``, ``@name`` in ``known``."""
    shared: dict[str, list[Condition[V]]] = {}
    for line in content.splitlines():
        if not line or line.startswith("#"):
            continue
        label, name, swaps, parts = _LINE.fullmatch(line).groups()  # type: ignore[union-attr]
        conditions = []
        for part in parts.split():
            conditions += shared[part[1:]] if part.startswith("%") else [_condition(part, lexicon, known)]
        if label:
            shared[label] = conditions
            continue
        for entry in swaps.split():
            for old, new in lexicon.pairs[entry[1:]].items() if entry.startswith("$") else pairs_of(entry):
                words, new = old.replace("_", " ").split(), new.replace("_", " ")
                first = next((i for i, word in enumerate(words) if word.startswith("*")), 0)
                words[first] = words[first].removeprefix("*")
                full_name = name + "-".join([*words, *new.split()]) if name.endswith("-") else name
                yield words[first], Swap(full_name, -first, tuple(words), new, conditions)


def _condition(text: str, lexicon: Lexicon, known: Mapping[str, Test[V]]) -> Condition[V]:
    place, sign, alternatives = _CONDITION.fullmatch(text).groups()  # type: ignore[union-attr]
    test = _any_of(alternatives.split("|"), lexicon, known)
    low, _, high = place.partition("..")

    def condition(view: V, start: int, at: int, end: int) -> bool:
        def token(offset: int) -> int:
            return start + offset if offset < 0 else end - 1 + offset

        if place == "*":
            span = range(view.size)
        elif high:
            span = range(max(0, token(int(low))), min(view.size, token(int(high)) + 1))
        else:
            return test(view, token(int(low)) if low != "0" else at) == (sign == ":")
        return any(test(view, i) for i in span) == (sign == ":")

    return condition


def _any_of(alternatives: Sequence[str], lexicon: Lexicon, known: Mapping[str, Test[V]]) -> Test[V]:
    """Whether any of the alternatives can be said of a token."""
    words: set[str] = set()
    openings: tuple[str, ...] = ()
    tests: list[Test[V]] = []
    for alternative in alternatives:
        if joint := next((mark for mark in "_&" if mark in alternative), None):  # a word after the other, or both of it
            parts = [_any_of([part], lexicon, known) for part in alternative.split(joint)]
            tests.append(partial(_holds_all, parts, int(joint == "_")))
        elif alternative == "?":
            tests.append(lambda view, at: True)
        elif alternative.startswith("@"):
            tests.append(known[alternative[1:]])
        elif len(alternative) > 1 and alternative.startswith("$"):
            tests.append(_any_of(sorted(lexicon.words[alternative[1:]]), Lexicon({}, {}, {}, {}), {}))
        elif len(alternative) > 1 and alternative.endswith("*"):
            openings += (alternative[:-1],)
        else:  # a tag, or a word, which is in lower case
            words.add("" if alternative == "^" else alternative)

    def test(view: V, at: int) -> bool:
        word, tag = view.words[at], view.tags[at]
        if word in words or (tag and tag in words):
            return True
        if openings and (word.startswith(openings) or tag.startswith(openings)):
            return True
        return any(other(view, at) for other in tests)

    return test


def _holds_all(tests: Sequence[Test[V]], step: int, view: V, at: int) -> bool:
    return all(test(view, at + i * step) for i, test in enumerate(tests))
