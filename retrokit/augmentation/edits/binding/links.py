"""Near-misses that give two phrases around a link to each other: *tea instead of coffee*, *from Paris to Rome*.

The links are the lines of ``links.txt``, which describes their form.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain

from retrokit.augmentation.edits.binding.fit import LEXICON, TABLES, VERBS, WORDS, BindingView
from retrokit.augmentation.edits.patterns import Condition, Test, entry_lines, read_condition, read_test, text
from retrokit.augmentation.edits.sentence import Named, Phrase, lemma


def around_links(view: BindingView) -> Iterator[Named]:
    """Pain after surgery: surgery after pain; not cats but dogs: not dogs but cats."""
    for block in _blocks():
        for phrase in view.phrases:
            for link in block:
                yield from link.edits(view, phrase)


@dataclass(frozen=True)
class Link:
    """A line of ``links.txt``: the tests of its tokens, the conditions around both phrases, and the tests of them."""

    name: str
    tokens: list[Test[BindingView]]
    conditions: list[Condition[BindingView]]
    pair_tests: list[str]

    def edits(self, view: BindingView, phrase: Phrase) -> Iterator[Named]:
        """The edit of a phrase and the one behind the link, if there is one and they may change places."""
        other = view.starting.get(phrase.end + len(self.tokens))
        if other is None or not self._stands_at(view, phrase.end):
            return
        if "short" not in self.pair_tests:
            other = view.extended(other)
        if "more" in self.pair_tests and view.words[phrase.start] in _MORE:
            phrase = phrase._replace(start=phrase.start + 1)
        if not all(condition(view, phrase.start, phrase.end, other.end) for condition in self.conditions):
            return
        if all(PAIR_TESTS[name](view, phrase, other) for name in self.pair_tests):
            yield self.name, view.swapped(phrase, other)

    def _stands_at(self, view: BindingView, at: int) -> bool:
        return all(test(view, at + number) for number, test in enumerate(self.tokens))


@cache
def _blocks() -> list[list[Link]]:
    blocks = re.split(r"\n\n+", text(__package__, "links.txt"))
    return [list(chain.from_iterable(map(_links_in, entry_lines(block)))) for block in blocks]


def _links_in(line: str) -> Iterator[Link]:
    name, links, rest = re.fullmatch(r"([a-z-]+): (.+) where (.+)", line).groups()  # type: ignore[union-attr]
    conditions = [read_condition(word, LEXICON, _TESTS) for word in rest.split() if not word.startswith("+")]
    pair_tests = [word[1:] for word in rest.split() if word.startswith("+")]
    for link in links.split():
        tokens = [read_test(word, LEXICON, _TESTS) for word in link.split("_")]
        yield Link(name, tokens, conditions, pair_tests)


def changes_before(view: BindingView, at: int) -> bool:
    """Whether a word of change is among the few before *from*."""
    if view.words[at - 1] in ("distance", "distances"):
        return False  # symmetric
    parts = ((i, "VERB" if view.codes[i] in VERBS else "NOUN") for i in range(max(0, at - 5), at))
    return any(view.codes[i] in VERBS + "n" and lemma(view.words[i], part) in WORDS["changing"] for i, part in parts)


_MORE = ("more", "fewer", "less")


def _are_more(view: BindingView, phrase: Phrase, other: Phrase) -> bool:
    """Whether *more* is before the phrase, which is one noun: "more men than women"."""
    is_noun = view.codes[phrase.start] == "n" and view.codes[phrase.start - 2] in "PfB.&"
    return is_noun and view.words[phrase.start - 1] in _MORE


def _are_placed(view: BindingView, phrase: Phrase, other: Phrase) -> bool:
    """Whether a noun before both puts them in relation: "the effect of A on B", "the role of A in B"."""
    noun = next((noun for noun in view.phrases if noun.end == phrase.start - 1), None)
    if noun is None:
        return False
    first, second, head = view.words[noun.end], view.words[phrase.end], view.head(noun)
    is_view = first == "of" and second in ("in", "on", "for", "from", "by", "through", "via")
    if is_view and head in WORDS["viewed-nouns"] and view.both_things(phrase, other):
        return True
    is_placed = head in TABLES["noun-places"].get(f"{first} {second}", frozenset())
    return is_placed and (second != "in" or view.alike(phrase, other))


def _are_nested(view: BindingView, phrase: Phrase, other: Phrase) -> bool:
    """Whether no verb has to agree with another subject."""
    return phrase.plural == other.plural or view.codes[phrase.start - 1] in "fPyg"


PAIR_TESTS: dict[str, Callable[[BindingView, Phrase, Phrase], bool]] = {
    "short": lambda view, phrase, other: True,
    "more": _are_more,
    "placed": _are_placed,
    "nested": _are_nested,
    "taken": lambda view, phrase, other: view.verb_takes(view.verb_lemma(phrase.end), phrase, other),
    "unmeasured": lambda view, phrase, other: "measure" not in (view.kind_of(phrase), view.kind_of(other)),
    "repeated": lambda view, phrase, other: view.words[phrase.start - 1] == view.words[other.start - 1],
    "alike": BindingView.alike,
    "one-kind": BindingView.both_things,
    "interchangeable": BindingView.interchangeable,
    "free": lambda view, phrase, other: view.free_after(other, True),
    "whole": lambda view, phrase, other: view.whole_after(other),
}
_TESTS: dict[str, Test[BindingView]] = {"changed": changes_before}
