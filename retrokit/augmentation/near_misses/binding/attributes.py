"""Near-misses that bind attributes, numbers and names to each other's heads (COMP D.1: attribute–head binding)."""

import re
from collections.abc import Iterator
from itertools import pairwise

from retrokit.augmentation.near_misses.binding.arguments import changes_before
from retrokit.augmentation.near_misses.binding.fit import GROUPS, TERMS, VERBS, WORDS, BindingView
from retrokit.augmentation.near_misses.sentence import Change, Named, Phrase, is_of_name, lemma


def attributes(view: BindingView) -> Iterator[Named]:
    """The red car and the blue truck: The blue car and the red truck."""
    pairs = [(phrase, at) for phrase in view.phrases if (at := _attribute(view, phrase)) is not None]
    if len(pairs) < 2:
        return
    kinds = [_adjective_kinds(view, at) for _, at in pairs]
    for kind in _ADJECTIVES:
        alike = [pair for pair, names in zip(pairs, kinds, strict=True) if kind in names]
        for (left, first), (other, second) in pairwise(alike):
            same_form = view.tags[first] == view.tags[second]
            fit = _goes_with(view, first, other) and _goes_with(view, second, left)
            if same_form and fit and _attributes_part(view, left, first, other, second):
                yield "swap-attributes", _swapped_words(view, first, second)


_ADJECTIVES = ("free", "AJC", "AJS", "relational", "participle")


def _adjective_kinds(view: BindingView, at: int) -> set[str]:
    """The kinds of an adjective: adjectives of one kind may change places."""
    token = view.sentence.tokens[at]
    if token.tag != "AJ0":
        return {token.tag}
    free = {"free"} if token.text.lower() in WORDS["free-adjectives"] else set()
    if re.search("(?:[ai]l|ic|[ae]r|ary|ive|ous|ine)$", token.text.lower()):
        return free | {"relational"}
    return free | {"participle"} if token.text.lower().endswith("ed") else free


def _goes_with(view: BindingView, adjective: int, phrase: Phrase) -> bool:
    """Whether an adjective fits another phrase's head."""
    word, head = view.words[adjective], view.head(phrase)
    if word in WORDS["animate-adjectives"] or word in WORDS["physical-adjectives"]:
        kind = view.kind_of(phrase)
        return kind == "animate" or (kind == "concrete" and word in WORDS["physical-adjectives"])
    if word in WORDS["plural-adjectives"]:
        return phrase.plural is True
    if word in WORDS["count-adjectives"]:
        return phrase.plural is True or view.codes[phrase.start] in "dpt"
    if word in WORDS["scale-adjectives"]:
        return head in WORDS["measures"] or head in WORDS["scaled"]
    if word in WORDS["process-adjectives"]:
        return re.search("(?:tion|sion|ment|ing|sis|growth|change|rise|spread|speed|rate)$", head) is not None
    return True


def _swapped_words(view: BindingView, first: int, second: int) -> list[Change]:
    return [
        Change(first, first + 1, view.sentence.tokens[second].text),
        Change(second, second + 1, view.lowered(first, first + 1)),
    ]


def _attribute(view: BindingView, phrase: Phrase) -> int | None:
    """The adjective before the phrase's nouns, if no other word qualifies it or is next to it."""
    at = view.shape.rfind("a", phrase.start, phrase.head)
    if at < 0 or "'" in view.shape[phrase.start : phrase.end] or view.shape[at + 1 : phrase.end].strip("n"):
        return None
    word, before, tokens = view.words[at], view.codes[at - 1], view.sentence.tokens
    free = word in WORDS["free-adjectives"]
    if ("-" in word and not free) or word in WORDS["tied"] or view.head(phrase) in WORDS["light-nouns"]:
        return None
    if (before in "&," and view.codes[at - 2] not in "nN") or _shares_its_head(view, phrase, at):
        return None
    if before in "ma!nN" or before in ("rnNco?" if at == phrase.start else "kg"):
        return None
    if before in "hw" or (word.endswith(("ed", "ing")) and not free and before not in "dptfPzbvy"):
        return None  # a verb that was read as an adjective
    if tokens[at + 1].text[0].isupper() or (at and tokens[at].text[0].isupper() and not is_of_name(tokens[at].text)):
        return None
    return None if _collocation(view, at) or tokens[at].lower in WORDS["unbound-adjectives"] else at


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


def _attributes_part(view: BindingView, phrase: Phrase, first: int, other: Phrase, second: int) -> bool:
    """Whether two adjectives say different things of different heads, before the swap and after it."""
    a, b = view.words[first], view.words[second]
    same_head = view.head(phrase) == view.head(other) or view.words[first + 1] == view.words[second + 1]
    if a == b or _are_synonyms(a, b) or same_head:
        return False
    # "incorrect experts", "heterozygous analyses"; "older risk"
    one_lives = (view.kind_of(phrase) == "animate") != (view.kind_of(other) == "animate")
    apart = view.tags[first] == "AJC" and not any(a in scale and b in scale for scale in GROUPS["scales"])
    alike = a[:4] == view.words[second + 1][:4] or b[:4] == view.words[first + 1][:4]
    return not (one_lives or apart or alike)


def _are_synonyms(a: str, b: str) -> bool:
    return any(a in group and b in group for group in GROUPS["synonyms"])


def modifiers(view: BindingView) -> Iterator[Named]:
    """Dog food and cat litter: Cat food and dog litter."""
    for phrase, other in pairwise(view.phrases):
        if view.shape[phrase.end : other.start] not in ("&", ",&"):
            continue
        if any(not re.fullmatch("[dt]?nn", view.shape[p.start : p.end]) for p in (phrase, other)):
            continue
        first, second = phrase.head - 1, other.head - 1
        a, b = view.words[first], view.words[second]
        same = view.head(phrase) == view.head(other) or a == b or _are_synonyms(a, b)
        named = any(view.sentence.tokens[i].text[0].isupper() for i in (first, second) if i)
        fixed = _collocation(view, first) or _collocation(view, second)
        if same or named or fixed or phrase.plural != other.plural or view.codes[phrase.start - 1] in "TM&":
            continue
        yield "swap-modifiers", _swapped_words(view, first, second)


_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?%?|[A-Za-z]+")

_PERCENT = re.compile(r"\d+(?:\.\d+)?%")
_YEAR = re.compile(r"1[5-9]\d\d|20\d\d")


def numbers(view: BindingView) -> Iterator[Named]:
    """12 men and 30 women: 30 men and 12 women."""
    counts = [(p, at) for p in view.phrases if (at := _number(view, p)) is not None]
    for (phrase, first), (other, second) in pairwise(counts):
        if view.head(phrase) != view.head(other) and _numbers_part(view, phrase.end, first, other.start, second):
            yield "swap-numbers", _swapped_numbers(view, first, second)
    texts = [token.text for token in view.sentence.tokens]
    percentages = (i for i, text in enumerate(texts) if _PERCENT.fullmatch(text))
    percents = [i for i in percentages if "±" not in (view.words[i - 1], view.words[i + 1])]
    for first, second in pairwise(percents):
        interval = {view.words[first + 1], view.words[second + 1]} & {"confidence", "ci", "credible"}
        parted = "n" in view.shape[first + 1 : second] and _numbers_part(view, first + 1, first, second, second)
        if parted and not interval:
            yield "swap-numbers", _swapped_numbers(view, first, second)
    years = [i for i, text in enumerate(texts) if _YEAR.fullmatch(text) and view.words[i - 1] == "in"]
    for first, second in pairwise(years):
        if re.search("[zbvykBEK]", view.shape[first:second]) and view.words[first] != view.words[second]:
            yield "swap-years", _swapped_numbers(view, first, second)
    for match in re.finditer("(?=P(.)P(.))", view.shape):  # "fell from 20% to 15%"
        at = match.start()
        origin, goal = view.words[at + 1], view.words[at + 3]
        alike = origin[:1].isdigit() and goal[:1].isdigit() and ("%" in origin) == ("%" in goal)
        links = view.words[at] == "from" and view.words[at + 2] == "to" and changes_before(view, at)
        if alike and origin != goal and links:
            yield "swap-from-to", _swapped_numbers(view, at + 1, at + 3)


def _swapped_numbers(view: BindingView, first: int, second: int) -> list[Change]:
    return [Change(first, first + 1, view.words[second]), Change(second, second + 1, view.words[first])]


def _number(view: BindingView, phrase: Phrase) -> int | None:
    """The phrase's only number, a count above one of its plural head."""
    numbers = [i for i in range(phrase.start, phrase.end) if view.codes[i] == "c"]
    if len(numbers) != 1 or view.tags[phrase.head] != "NN2":
        return None
    at, word, before = numbers[0], view.words[numbers[0]], view.words[numbers[0] - 1]
    joined = view.codes[at - 1] == "c" or (at > 0 and (view.codes[at - 1] == "?" or before in ("-", "/", "–", "$")))
    if before in ("all", "any", "every", "other", "another") or word in ("one", "1", "1.0"):
        return None
    return at if _NUMBER.fullmatch(word) and not joined else None


def _numbers_part(view: BindingView, end: int, first: int, start: int, second: int) -> bool:
    """Whether two numbers are of one format and belong to different things."""
    a, b = view.words[first], view.words[second]
    if a == b or ("%" in a) != ("%" in b) or ("." in a) != ("." in b) or _YEAR.fullmatch(a) or _YEAR.fullmatch(b):
        return False
    each = view.words[start - 1] in ("per", "by") or view.words[end] == "or"
    if each or view.words[second + 1] in ("to", "-", "–") or view.codes[second - 2] == "c":
        return False
    between = view.shape[end:start]
    return between not in ("", "f") and not (between == "&" and view.words[end - 1] in WORDS["units"])


def names(view: BindingView) -> Iterator[Named]:
    """Smith claimed that Jones had resigned: Jones claimed that Smith had resigned."""
    names = [phrase for phrase in view.phrases if _is_name(view, phrase)]
    for left, other in pairwise(names):
        between = view.shape[left.end : other.start]
        parted = re.search("[zbvykBEKHDM]", between) and not re.search("[(),&]", between)
        texts = [view.sentence.words(*phrase[:2]) for phrase in (left, other)]
        once = all(view.sentence.text.count(text.split()[-1]) == 1 for text in texts)
        verbs = [i for i in range(left.end, other.start) if view.codes[i] in VERBS]
        fits = parted and once and bool(verbs) and _in_place(view, left) == _in_place(view, other)
        if fits and not any(view.verb_lemma(i) in WORDS["symmetric"] for i in verbs):
            yield "swap-names", view.swapped(left, other)


def _is_name(view: BindingView, phrase: Phrase) -> bool:
    words = [token.text for token in view.sentence.tokens[phrase.start : phrase.end]]
    if view.words[phrase.end] == "!" or not WORDS["titles"].isdisjoint(word.lower() for word in words):
        return False
    if view.words[phrase.start - 1] == "." or (view.words[phrase.end] == "." and len(words[-1]) < 4):
        return False
    capital = all(re.fullmatch(r"[A-Z][\w-]*\w", word) and word.lower() not in WORDS["months"] for word in words)
    return capital and set(view.shape[phrase.start : phrase.end]) == {"N"}


def _in_place(view: BindingView, phrase: Phrase) -> bool:
    return view.words[phrase.start - 1] in ("in", "at", "from", "near", "to")


ATTRIBUTES = (attributes, modifiers, numbers, names)
