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

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from retrokit.augmentation.negatives import tags as c5
from retrokit.augmentation.negatives.data import Lexicon, pairs_of
from retrokit.augmentation.negatives.sentence import Change, Named, inflected
from retrokit.augmentation.negatives.view import View
from retrokit.core.errors import DataError

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


def read_swaps(
    content: str, where: str, lexicon: Lexicon, known: Mapping[str, Test[V]]
) -> Iterator[tuple[str, Swap[V]]]:
    """The swaps that ``content`` describes, in its order, each with the word by which it is found.

    Args:
        content: lines as above.
        where: names the file in errors.
        lexicon: of ``$name``.
        known: what ``@name`` asks.

    Raises:
        DataError: a line that is wrong, by the file's name and the line's number.
    """
    shared: dict[str, list[Condition[V]]] = {}
    for number, line in enumerate(content.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        try:
            match = _LINE.fullmatch(line)
            if match is None:
                raise ValueError(f"{line!r} is neither NAME: SWAPS where CONDITIONS nor %NAME = CONDITIONS")
            conditions = []
            for part in match[4].split():
                checks = shared[part[1:]] if part.startswith("%") else [_condition(part, lexicon, known)]
                conditions += checks
            if match[1]:
                shared[match[1]] = conditions
                continue
            for entry in match[3].split():
                pairs = lexicon.pairs[entry[1:]].items() if entry.startswith("$") else pairs_of(entry)
                for old, new in ((source.replace("_", " "), target.replace("_", " ")) for source, target in pairs):
                    words = old.split()
                    first = next((i for i, word in enumerate(words) if word.startswith("*")), 0)
                    words[first] = words[first].removeprefix("*")
                    name = match[2] + "-".join([*words, *new.split()]) if match[2].endswith("-") else match[2]
                    yield words[first], Swap(name, -first, tuple(words), new, conditions)
        except (KeyError, ValueError) as error:
            problem = f"nothing is named {error}" if isinstance(error, KeyError) else str(error)
            raise DataError(where, problem, number) from None


def _condition(text: str, lexicon: Lexicon, known: Mapping[str, Test[V]]) -> Condition[V]:
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text} is not a condition: expected PLACE:ALTERNATIVES or PLACE!ALTERNATIVES")
    place, wanted, test = match[1], match[2] == ":", _any_of(match[3].split("|"), lexicon, known)
    if place == "*":
        return lambda view, start, at, end: any(test(view, i) for i in range(view.size)) == wanted
    low, _, high = place.partition("..")
    first, last = int(low), int(high or low)
    if not high and first == 0:
        return lambda view, start, at, end: test(view, at) == wanted
    if not high:
        return lambda view, start, at, end: test(view, start + first if first < 0 else end - 1 + first) == wanted

    def condition(view: V, start: int, at: int, end: int) -> bool:
        span = range(
            max(0, start + first if first < 0 else end - 1 + first),
            min(view.size, (start if last < 0 else end - 1) + last + 1),
        )
        return any(test(view, i) for i in span) == wanted

    return condition


def _any_of(alternatives: Sequence[str], lexicon: Lexicon, known: Mapping[str, Test[V]]) -> Test[V]:
    """Whether any of the alternatives can be said of a token."""
    words: set[str] = set()
    tags: set[str] = set()
    beginnings: list[str] = []
    tests: list[Test[V]] = []
    for alternative in alternatives:
        if "_" in alternative:
            tests.append(_all_of([_any_of([part], lexicon, known) for part in alternative.split("_")], step=1))
        elif "&" in alternative:
            tests.append(_all_of([_any_of([part], lexicon, known) for part in alternative.split("&")], step=0))
        elif alternative == "?":
            tests.append(lambda view, at: True)
        elif alternative.startswith("@"):
            tests.append(known[alternative[1:]])
        elif len(alternative) > 1 and alternative.startswith("$"):
            tests.append(_any_of(sorted(lexicon.words[alternative[1:]]), Lexicon({}, {}, {}, {}), {}))
        elif len(alternative) > 1 and alternative.endswith("*"):
            beginnings.append(alternative[:-1])
        elif re.fullmatch(r"[A-Z]{2}[A-Z\d]", alternative):
            tags.add(alternative)
        else:
            words.add("" if alternative == "^" else alternative)
    openings = tuple(beginnings)

    def test(view: V, at: int) -> bool:
        word, tag = view.words[at], view.tags[at]
        if word in words or tag in tags:
            return True
        if openings and (word.startswith(openings) or tag.startswith(openings)):
            return True
        return any(other(view, at) for other in tests)

    return test


def _all_of(tests: Sequence[Test[V]], step: int) -> Test[V]:
    """Whether each of the tests holds, of a token or, with a ``step`` of one, of a token after another."""
    return lambda view, at: all(test(view, at + i * step) for i, test in enumerate(tests))
