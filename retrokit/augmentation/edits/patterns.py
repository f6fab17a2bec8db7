"""Word lists, and swaps of words that data files describe.

A file of words has sections: a comment on what they are for, a header, and entries, in which an underscore is a
space::

    # What becomes of these when their negative goes.
    [polar pairs]
    any>some anything>something able/unable

The kinds are words (no kind in the header; ``@name`` includes a section above), ``pairs`` (``a>b``, or ``a/b`` for both
ways), ``table`` (lines of ``key: words``) and ``groups`` (a line each).

A line of a file of swaps names a kind of edit (``swap-:`` appends the words), its swaps, and conditions. Below it are
sentences that it edits, which its test reads::

    # Prior to the meeting: after the meeting.
    swap-time: prior_to>after where 1:@np|VVG 1!this|that
      Prior to the meeting, we ate. > After the meeting, we ate.

``$name`` is the pairs of that name in ``words.txt``, ``*`` marks the word by which the swap is found if it is not the
first, ``~verb`` takes the form of that word, and after ``>`` may be nothing. A condition is a place, ``:`` (one of
these must be there) or ``!`` (none may), and alternatives. Places count from the swapped words: ``-1`` is the word
before, ``1`` the word after, ``0`` the one by which the swap is found; ``1..3`` is any of several places, ``*`` any
word of the sentence, ``h`` the noun that ends the phrase after the words, which must be there, and ``h+1`` the word
after it. Alternatives are words (``turn*``: how they begin), tags (``VV*``), ``=codes`` (of a shape), ``^`` (the end of
the sentence), ``$name`` (words of ``words.txt``), ``$NAME`` (tags of ``tags.py``), ``@name`` (a test of the family),
``a&b`` (both of it) and ``a_b`` (one word after the other, ``?`` any). ``+name`` adds the changes of that name of the
family, or forbids the swap. ``%name = …`` names conditions for later lines.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from itertools import chain
from typing import Generic, NamedTuple, TypeVar

from retrokit.augmentation.edits import tags as c5
from retrokit.augmentation.edits.sentence import Change, Named, View, inflected


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

    def all_of(entries: Iterable[str]) -> frozenset[str]:
        return frozenset().union(*(words[entry[1:]] if entry.startswith("@") else {entry} for entry in entries))

    for name, kind, body in _SECTION.findall(content):
        lines = [_entries(line) for line in entry_lines(body)]
        entries = list(chain.from_iterable(lines))
        if kind == "pairs":
            lexicon.pairs[name] = dict(chain.from_iterable(map(pairs_of, entries)))
        elif kind == "table":
            lexicon.tables[name] = {key.rstrip(":"): all_of(line) for key, *line in lines}
        elif kind == "groups":
            lexicon.groups[name] = [all_of(line) for line in lines]
        else:
            words[name] = all_of(entries)
    return lexicon


def entry_lines(content: str) -> list[str]:
    """The lines of a data file that are no comments and no sentences."""
    return [line for line in content.splitlines() if line and not line.startswith(("#", EXAMPLE))]


def _entries(line: str) -> list[str]:
    return [entry.replace("_", " ") for entry in line.split()]


def pairs_of(entry: str) -> list[tuple[str, str]]:
    """What gives way to what: ``a>b``, or ``a/b`` both ways."""
    old, sign, new = re.fullmatch(r"([^/>]+)([/>])([^/>]*)", entry).groups()  # type: ignore[union-attr]
    return [(old, new), (new, old)][: 2 if sign == "/" else 1]


V = TypeVar("V", bound=View)
"""A family's view of a sentence."""

Test = Callable[[V, int], bool]
"""A test of a token."""

Condition = Callable[[V, int, int, int], bool]
"""A test around words that begin and end at two places, with the word by which the swap is found in between."""


class Obstacle(NamedTuple):
    """A reason against an edit: when it applies, and a sentence with a place where it does."""

    holds: Callable[..., bool]
    sentence: str


Mender = Callable[[V, int], list[Change] | None]
"""Further changes that a swap at a token wants; None if they are unclear."""

_SECTION = re.compile(r"^\[([a-z-]+)(?: (\w+))?\]\n((?:[^\[].*\n?|\n)*)", re.MULTILINE)
_LINE = re.compile(r"(?:%([a-z-]+) =|([a-z-]+): (.+?)(?: where\b|$))(.*)")
_CONDITION = re.compile(r"(\*|h(?:\+1)?|-?\d+(?:\.\.-?\d+)?)([:!])(.+)")
EXAMPLE = "  "
"""How a line with a sentence begins."""


@dataclass(frozen=True, slots=True)
class Swap(Generic[V]):
    """A swap: the words from ``first`` on (counted from the one by which it is found) give way to a text."""

    name: str
    first: int
    words: tuple[str, ...]
    text: str
    conditions: Sequence[Condition[V]]
    menders: Sequence[Mender[V]] = ()

    def __call__(self, view: V, at: int) -> Named | None:
        """The edit at a token, if its conditions hold."""
        start = at + self.first
        end = start + len(self.words)
        if start < 0 or not view.says(start, *self.words):
            return None
        if not all(condition(view, start, at, end) for condition in self.conditions):
            return None
        text = self._new_text(view, at)
        if text is None:
            return None
        titled = at == start > 0 and view.sentence.tokens[at].text.istitle()  # "the Western programme"
        changes = [Change(start, end, text.capitalize() if titled else text)]
        for mender in self.menders:
            further = mender(view, at)
            if further is None:
                return None
            changes += further
        return self.name, changes

    def _new_text(self, view: V, at: int) -> str | None:
        """The text in the form of the word at a token; None for a verb where that word is none."""
        if not self.text.startswith("~"):
            return self.text
        verb, space, rest = self.text[1:].partition(" ")
        form = c5.PENN.get(view.tags[at])
        return None if form is None else inflected(verb, form) + space + rest


def read_swaps(
    content: str, lexicon: Lexicon, tests: Mapping[str, Test[V]], menders: Mapping[str, Mender[V]]
) -> Iterator[tuple[str, Swap[V]]]:
    """The swaps of the lines of ``content``, in order, each with the word by which it is found; ``$name`` is looked up
    in ``lexicon``, ``@name`` in ``tests``, ``+name`` in ``menders``."""
    shared: dict[str, list[str]] = {}
    for line in entry_lines(content):
        label, name, entries, rest = _LINE.fullmatch(line).groups()  # type: ignore[union-attr]
        texts: list[str] = []
        for text in rest.split():
            texts += shared[text] if text.startswith("%") else [text]
        if label:
            shared[f"%{label}"] = texts
            continue
        conditions = [read_condition(text, lexicon, tests) for text in texts if not text.startswith("+")]
        of_line = [menders[text[1:]] for text in texts if text.startswith("+")]
        for old, new in _pairs_in(entries, lexicon):
            swap = _swap(name, old, new, conditions, of_line)
            yield swap.words[-swap.first], swap


def _swap(name: str, old: str, new: str, conditions: Sequence[Condition[V]], menders: Sequence[Mender[V]]) -> Swap[V]:
    before, star, _ = old.partition("*")
    first = -len(before.split()) if star else 0
    words = tuple(old.replace("*", "").split())
    if name.endswith("-"):
        name += "-".join([*words, *new.split()])
    return Swap(name, first, words, new, conditions, menders)


def _pairs_in(entries: str, lexicon: Lexicon) -> Iterator[tuple[str, str]]:
    """What gives way to what in the swaps of a line."""
    for entry in entries.split():
        if entry.startswith("$"):
            yield from lexicon.pairs[entry[1:]].items()
        else:
            yield from pairs_of(entry.replace("_", " "))


def read_condition(text: str, lexicon: Lexicon, tests: Mapping[str, Test[V]]) -> Condition[V]:
    """The condition that ``text`` describes."""
    offset, sign, alternatives = _CONDITION.fullmatch(text).groups()  # type: ignore[union-attr]
    test = read_test(alternatives, lexicon, tests)
    low, _, high = offset.partition("..")

    def condition(view: V, start: int, at: int, end: int) -> bool:
        def token(number: int) -> int:
            return start + number if number < 0 else end - 1 + number

        if offset.startswith("h"):
            head = view.counted_noun(at)
            return head > 0 and test(view, head + len(offset) // 2) == (sign == ":")
        if offset == "*":
            span = range(view.size)
        elif high:
            span = range(max(0, token(int(low))), min(view.size, token(int(high)) + 1))
        else:
            return test(view, token(int(low)) if low != "0" else at) == (sign == ":")
        return any(test(view, index) for index in span) == (sign == ":")

    return condition


def read_test(text: str, lexicon: Lexicon, tests: Mapping[str, Test[V]]) -> Test[V]:
    """The test of a token that ``text``, alternatives of a condition, describes."""
    return _any_of(text.split("|"), lexicon, tests)


def _any_of(alternatives: Sequence[str], lexicon: Lexicon, named: Mapping[str, Test[V]]) -> Test[V]:
    """Whether any of the alternatives fits a token."""
    words: set[str] = set()
    openings: tuple[str, ...] = ()
    tests: list[Test[V]] = []
    for alternative in alternatives:
        test_of_sign = _test_of_sign(alternative, lexicon, named)
        if test_of_sign is not None:
            tests.append(test_of_sign)
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


def _test_of_sign(alternative: str, lexicon: Lexicon, named: Mapping[str, Test[V]]) -> Test[V] | None:
    """The test of an alternative with a sign; None for a word, a tag, or how they begin."""
    sign, rest = alternative[:1], alternative[1:]
    if sign == "=" and rest:
        return partial(_has_code, rest)
    for joint, holds in (("_", _hold_one_by_one), ("&", _hold_at_once)):
        if joint in alternative:
            return partial(holds, [_any_of([word], lexicon, named) for word in alternative.split(joint)])
    if alternative == "?":
        return lambda view, at: True
    if sign == "@":
        return named[rest]
    if sign == "$" and rest:
        return _any_of(sorted(_listed(rest, lexicon)), Lexicon({}, {}, {}, {}), {})
    return None


def _listed(name: str, lexicon: Lexicon) -> frozenset[str]:
    """The words of a section, or the tags of a set."""
    if name.islower():
        return lexicon.words[name]
    tags: frozenset[str] = getattr(c5, name.replace("-", "_"))
    return tags


def _has_code(codes: str, view: View, at: int) -> bool:
    return view.codes[at] in codes


def _hold_one_by_one(tests: Sequence[Test[V]], view: V, at: int) -> bool:
    return all(test(view, at + number) for number, test in enumerate(tests))


def _hold_at_once(tests: Sequence[Test[V]], view: V, at: int) -> bool:
    return all(test(view, at) for test in tests)
