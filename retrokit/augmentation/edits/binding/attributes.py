"""Near-misses that bind attributes, numbers and names to each other's heads (COMP D.1: attribute–head binding)."""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from retrokit.augmentation.edits.binding.fit import GROUPS, TERMS, VERBS, WORDS, BindingView
from retrokit.augmentation.edits.binding.links import changes_before
from retrokit.augmentation.edits.patterns import Obstacle
from retrokit.augmentation.edits.sentence import Change, Named, Phrase, is_of_name, lemma


def attributes(view: BindingView) -> Iterator[Named]:
    """The red car and the blue truck: The blue car and the red truck."""
    pairs = [(phrase, at) for phrase in view.phrases if (at := _attribute(view, phrase)) is not None]
    for kind in ("AJ0", "AJC", "AJS"):
        alike = [(phrase, at) for phrase, at in pairs if view.tags[at] == kind]
        for (phrase, first), (other, second) in pairwise(alike):
            if _attributes_fit(view, phrase, first, other, second):
                yield "swap-attributes", _swapped_words(view, first, second)


def _attributes_fit(view: BindingView, phrase: Phrase, first: int, other: Phrase, second: int) -> bool:
    """Whether each of two adjectives fits the other's head, and both edits say something else."""
    if not _attributes_part(view, phrase, first, other, second):
        return False
    return _goes_with(view, first, other) and _goes_with(view, second, phrase)


def _goes_with(view: BindingView, adjective: int, phrase: Phrase) -> bool:
    """Whether an adjective fits another phrase's head."""
    for fit in FITS:
        if view.words[adjective] in WORDS[fit.adjectives]:
            return fit.holds(view, phrase)
    return True


class Fit(NamedTuple):
    """Adjectives that do not fit every noun: the list of them, when they fit a phrase, and a sentence in which one fits
    the first noun and not the second."""

    adjectives: str
    holds: Callable[[BindingView, Phrase], bool]
    sentence: str


_OF_PROCESSES = re.compile("(?:tion|sion|ment|ing|sis|growth|change|rise|spread|speed|rate)$")
FITS = [
    Fit(
        "physical-adjectives",
        lambda view, phrase: view.kind_of(phrase) in ("animate", "concrete"),
        "The heavy boy had a heavy idea.",
    ),
    Fit(
        "animate-adjectives",
        lambda view, phrase: view.kind_of(phrase) == "animate",
        "The angry boy had an angry idea.",
    ),
    Fit(
        "plural-adjectives",
        lambda view, phrase: phrase.plural is True,
        "The numerous boys had a numerous idea.",
    ),
    Fit(
        "count-adjectives",
        lambda view, phrase: phrase.plural is True or view.codes[phrase.start] in "dpt",
        "The large boy had large water.",
    ),
    Fit(
        "scale-adjectives",
        lambda view, phrase: view.head(phrase) in WORDS["measures"] | WORDS["scaled"],
        "The high rate was a high idea.",
    ),
    Fit(
        "process-adjectives",
        lambda view, phrase: _OF_PROCESSES.search(view.head(phrase)) is not None,
        "The rapid growth was a rapid idea.",
    ),
]


def _swapped_words(view: BindingView, first: int, second: int) -> list[Change]:
    return [
        Change(first, first + 1, view.sentence.tokens[second].text),
        Change(second, second + 1, view.lowered(first, first + 1)),
    ]


def _attribute(view: BindingView, phrase: Phrase) -> int | None:
    """The adjective before the phrase's nouns, if no other word qualifies it or is next to it."""
    at = view.shape.rfind("a", phrase.start, phrase.head)
    if view.tags[at] == "AJ0" and view.words[at] not in WORDS["free-adjectives"]:
        return None
    if at < 0 or "'" in view.shape[phrase.start : phrase.end] or view.shape[at + 1 : phrase.end].strip("n"):
        return None
    return None if any(obstacle.holds(view, phrase, at) for obstacle in OBSTACLES) else at


def _shares_its_head(view: BindingView, phrase: Phrase, at: int) -> bool:
    """Whether a phrase is one half of *risk and protective factors*, so that its noun may not be its own."""
    tokens = view.sentence.tokens
    if view.codes[at - 1] == "&" and tokens[at - 2].tag == "NN1":
        return True
    after = view.starting.get(phrase.end + 1)
    if after is None or view.codes[phrase.end] != "&" or view.codes[after.start] != "a":
        return False
    return (tokens[phrase.head].tag, tokens[after.head].tag) == ("NN1", "NN2")


def _collocation(view: BindingView, at: int) -> bool:
    noun = lemma(view.words[at + 1], "NOUN")
    fixed = not TERMS["collocations"].isdisjoint({f"{view.words[at]} {noun}", f"{view.words[at]} {view.words[at + 1]}"})
    return fixed or _DISCIPLINE.search(noun) is not None


_DISCIPLINE = re.compile("(?:ology|graphy|istry|physics|medicine|psychiatry|surgery)$")  # "physical geography"


def _is_of_name_only(view: BindingView, at: int) -> bool:
    """Whether the noun is a name, or the adjective a part of one."""
    tokens = view.sentence.tokens
    is_capital = at > 0 and tokens[at].text[0].isupper() and not is_of_name(tokens[at].text)
    return tokens[at + 1].text[0].isupper() or is_capital


OBSTACLES = [
    Obstacle(lambda view, phrase, at: view.words[at] in WORDS["tied"], "The previous test was long."),
    Obstacle(lambda view, phrase, at: view.head(phrase) in WORDS["light-nouns"], "The large number is new."),
    Obstacle(
        lambda view, phrase, at: view.codes[at - 1] in "&," and view.codes[at - 2] not in "nN",
        "It is old and red paint.",
    ),
    Obstacle(_shares_its_head, "It has risk and protective factors."),
    Obstacle(lambda view, phrase, at: view.codes[at - 1] in "ma!nN", "The very red cat sleeps."),
    Obstacle(
        lambda view, phrase, at: view.codes[at - 1] in ("rnNco?" if at == phrase.start else "kg"),
        "A directed acyclic graph was drawn.",
    ),
    Obstacle(lambda view, phrase, at: view.codes[at - 1] in "hw", "The cat that red paint hurt sleeps."),
    Obstacle(lambda view, phrase, at: _is_of_name_only(view, at), "The red Toyota sleeps."),
    Obstacle(lambda view, phrase, at: _collocation(view, at), "The social science sleeps."),
    Obstacle(lambda view, phrase, at: view.words[at] in WORDS["unbound-adjectives"], "The different cat sleeps."),
]
"""Why an adjective before a noun does not change its place."""


def _attributes_part(view: BindingView, phrase: Phrase, first: int, other: Phrase, second: int) -> bool:
    """Whether two adjectives say different things of different heads, before the swap and after it."""
    a, b = view.words[first], view.words[second]
    same_head = view.head(phrase) == view.head(other) or view.words[first + 1] == view.words[second + 1]
    if a == b or _share_group("synonyms", a, b) or same_head:
        return False
    # "incorrect experts", "heterozygous analyses"; "older risk"
    one_lives = (view.kind_of(phrase) == "animate") != (view.kind_of(other) == "animate")
    apart = view.tags[first] == "AJC" and not _share_group("scales", a, b)
    alike = a[:4] == view.words[second + 1][:4] or b[:4] == view.words[first + 1][:4]
    return not (one_lives or apart or alike)


def _share_group(name: str, a: str, b: str) -> bool:
    return any(a in group and b in group for group in GROUPS[name])


def modifiers(view: BindingView) -> Iterator[Named]:
    """Dog food and cat litter: Cat food and dog litter."""
    for phrase, other in pairwise(view.phrases):
        linked = view.shape[phrase.end : other.start] in ("&", ",&")
        if linked and all(re.fullmatch("[dt]?nn", view.shape[each.start : each.end]) for each in (phrase, other)):
            first, second = phrase.head - 1, other.head - 1
            if _modifiers_part(view, phrase, first, other, second):
                yield "swap-modifiers", _swapped_words(view, first, second)


def _modifiers_part(view: BindingView, phrase: Phrase, first: int, other: Phrase, second: int) -> bool:
    """Whether two nouns say different things of different heads, and neither makes a name or a term with its head."""
    a, b = view.words[first], view.words[second]
    if a[:4] == b[:4] or _share_group("synonyms", a, b) or view.head(phrase) == view.head(other):
        return False
    is_one_phrase = view.codes[phrase.start] in "dt" and view.codes[other.start] not in "dt"  # "a new start and end"
    if is_one_phrase or phrase.plural != other.plural or view.codes[phrase.start - 1] in "TM&":
        return False
    return not _is_bound(view, first) and not _is_bound(view, second)


def _is_bound(view: BindingView, at: int) -> bool:
    """Whether a noun before another is a name or makes a term with it."""
    is_name = at > 0 and view.sentence.tokens[at].text[0].isupper()
    return is_name or _collocation(view, at)


_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?%?|[A-Za-z]+")

_PERCENT = re.compile(r"\d+(?:\.\d+)?%")
_MARKED = frozenset("′ ″ ' ’ type types grade stage phase level class us$ $ £ € ± ×".split())
_YEAR = re.compile(r"1[5-9]\d\d|20\d\d")


def numbers(view: BindingView) -> Iterator[Named]:
    """12 men and 30 women: 30 men and 12 women."""
    counts = [(phrase, at) for phrase in view.phrases if (at := _number(view, phrase)) is not None]
    for (phrase, first), (other, second) in pairwise(counts):
        if any(_MARKED & {view.words[at - 1], view.words[at + 1]} for at in (first, second)):
            continue  # 5' ends; type 2 diabetes
        if view.head(phrase) != view.head(other) and _numbers_part(view, phrase.end, first, other.start, second):
            yield "swap-numbers", _swapped_numbers(view, first, second)


def percentages(view: BindingView) -> Iterator[Named]:
    """20% of men and 30% of women: 30% of men and 20% of women."""
    percents = [
        index
        for index, token in enumerate(view.sentence.tokens)
        if _PERCENT.fullmatch(token.text) and "±" not in (view.words[index - 1], view.words[index + 1])
    ]
    for first, second in pairwise(percents):
        is_interval = {view.words[first + 1], view.words[second + 1]} & {"confidence", "ci", "credible"}
        has_noun_between = "n" in view.shape[first + 1 : second]
        if has_noun_between and not is_interval and _numbers_part(view, first + 1, first, second, second):
            yield "swap-numbers", _swapped_numbers(view, first, second)


def years(view: BindingView) -> Iterator[Named]:
    """He came in 1990 and left in 1995: he came in 1995 and left in 1990."""
    texts = [token.text for token in view.sentence.tokens]
    indices = [index for index, text in enumerate(texts) if _YEAR.fullmatch(text) and view.words[index - 1] == "in"]
    for first, second in pairwise(indices):
        if re.search("[zbvykBEK]", view.shape[first:second]) and view.words[first] != view.words[second]:
            yield "swap-years", _swapped_numbers(view, first, second)


def number_changes(view: BindingView) -> Iterator[Named]:
    """It fell from 20% to 15%: it fell from 15% to 20%."""
    for match in re.finditer("(?=P(.)P(.))", view.shape):
        at = match.start()
        origin, goal = view.words[at + 1], view.words[at + 3]
        are_numbers = origin[:1].isdigit() and goal[:1].isdigit() and ("%" in origin) == ("%" in goal)
        are_linked = view.words[at] == "from" and view.words[at + 2] == "to" and changes_before(view, at)
        if are_numbers and origin != goal and are_linked:
            yield "swap-from-to", _swapped_numbers(view, at + 1, at + 3)


def _swapped_numbers(view: BindingView, first: int, second: int) -> list[Change]:
    return [Change(first, first + 1, view.words[second]), Change(second, second + 1, view.words[first])]


def _number(view: BindingView, phrase: Phrase) -> int | None:
    """The phrase's only number, a count above one of its plural head."""
    numbers = [i for i in range(phrase.start, phrase.end) if view.codes[i] == "c"]
    if len(numbers) != 1 or view.tags[phrase.head] != "NN2":
        return None
    at = numbers[0]
    word, before = view.words[at], view.words[at - 1]
    if before in ("all", "any", "every", "other", "another") or word in ("one", "1", "1.0"):
        return None
    return at if _NUMBER.fullmatch(word) and not _is_joined(view, at) else None


def _is_joined(view: BindingView, at: int) -> bool:
    """Whether a number belongs to what is before it: "10 000", "5-6", "$5"."""
    if view.codes[at - 1] == "c":
        return True
    return at > 0 and (view.codes[at - 1] == "?" or view.words[at - 1] in ("-", "/", "–", "$"))


def _numbers_part(view: BindingView, end: int, first: int, start: int, second: int) -> bool:
    """Whether two numbers are of one format and belong to different things."""
    a, b = view.words[first], view.words[second]
    if a == b or not _are_of_one_format(a, b):
        return False
    if view.words[start - 1] in ("per", "by") or view.words[end] == "or":
        return False
    if view.words[second + 1] in ("to", "-", "–") or view.codes[second - 2] == "c":
        return False
    between = view.shape[end:start]
    if between == "&":
        return view.words[end - 1] not in WORDS["units"]
    return between not in ("", "f")


def _are_of_one_format(a: str, b: str) -> bool:
    if _YEAR.fullmatch(a) or _YEAR.fullmatch(b):
        return False
    return ("%" in a) == ("%" in b) and ("." in a) == ("." in b)


def names(view: BindingView) -> Iterator[Named]:
    """Smith claimed that Jones had resigned: Jones claimed that Smith had resigned."""
    names = [phrase for phrase in view.phrases if _is_name(view, phrase)]
    for phrase, other in pairwise(names):
        same_place = _in_place(view, phrase) == _in_place(view, other)
        if same_place and _is_single(view, phrase) and _is_single(view, other) and _verb_parts(view, phrase, other):
            yield "swap-names", view.swapped(phrase, other)


def _is_single(view: BindingView, phrase: Phrase) -> bool:
    """Whether the sentence has the last word of a name only there."""
    return view.sentence.text.count(view.sentence.words(phrase.start, phrase.end).split()[-1]) == 1


def _verb_parts(view: BindingView, phrase: Phrase, other: Phrase) -> bool:
    """Whether a verb is between two names that says other things of them the other way round."""
    between = view.shape[phrase.end : other.start]
    if not re.search("[zbvykBEKHDM]", between) or re.search("[(),&]", between):
        return False
    verbs = [view.verb_lemma(i) for i in range(phrase.end, other.start) if view.codes[i] in VERBS]
    return bool(verbs) and WORDS["symmetric"].isdisjoint(verbs)


def _is_name(view: BindingView, phrase: Phrase) -> bool:
    words = [token.text for token in view.sentence.tokens[phrase.start : phrase.end]]
    if view.words[phrase.end] == "!" or not WORDS["titles"].isdisjoint(word.lower() for word in words):
        return False
    if view.words[phrase.start - 1] == "." or (view.words[phrase.end] == "." and len(words[-1]) < 4):
        return False
    return set(view.shape[phrase.start : phrase.end]) == {"N"} and all(map(_is_part_of_name, words))


def _is_part_of_name(word: str) -> bool:
    return re.fullmatch(r"[A-Z][\w-]*\w", word) is not None and word.lower() not in WORDS["months"]


def _in_place(view: BindingView, phrase: Phrase) -> bool:
    return view.words[phrase.start - 1] in ("in", "at", "from", "near", "to")


ATTRIBUTES = (attributes, modifiers, numbers, percentages, years, number_changes, names)
