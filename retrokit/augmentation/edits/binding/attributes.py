"""Near-misses that bind attributes, numbers and names to each other's heads (COMP D.1: attribute–head binding)."""

import re
from collections.abc import Iterator
from itertools import pairwise

from retrokit.augmentation.edits.binding.fit import GROUPS, TERMS, VERBS, WORDS, BindingView
from retrokit.augmentation.edits.binding.links import changes_before
from retrokit.augmentation.edits.patterns import Obstacle
from retrokit.augmentation.edits.sentence import Change, Named, Phrase, is_of_name, lemma


def attributes(view: BindingView) -> Iterator[Named]:
    """The red car and the blue truck: The blue car and the red truck."""
    pairs = [(phrase, at) for phrase in view.phrases if (at := _attribute(view, phrase)) is not None]
    if len(pairs) < 2:
        return
    kinds = [_adjective_kinds(view, at) for _, at in pairs]
    for kind in _ADJECTIVES:
        alike = [pair for pair, names in zip(pairs, kinds, strict=True) if kind in names]
        for (phrase, first), (other, second) in pairwise(alike):
            same_form = view.tags[first] == view.tags[second]
            fit = _goes_with(view, first, other) and _goes_with(view, second, phrase)
            if same_form and fit and _attributes_part(view, phrase, first, other, second):
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


def _is_free(view: BindingView, at: int) -> bool:
    return view.words[at] in WORDS["free-adjectives"]


def _looks_like_verb(view: BindingView, at: int) -> bool:
    """Whether the tagger may have read a verb as an adjective."""
    before = view.codes[at - 1]
    is_participle = view.words[at].endswith(("ed", "ing")) and not _is_free(view, at)
    return before in "hw" or (is_participle and before not in "dptfPzbvy")


def _is_of_name_only(view: BindingView, at: int) -> bool:
    """Whether the noun is a name, or the adjective a part of one."""
    tokens = view.sentence.tokens
    is_capital = at > 0 and tokens[at].text[0].isupper() and not is_of_name(tokens[at].text)
    return tokens[at + 1].text[0].isupper() or is_capital


OBSTACLES = [
    Obstacle(lambda view, phrase, at: "-" in view.words[at] and not _is_free(view, at), "The well-known cat sleeps."),
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
    Obstacle(lambda view, phrase, at: _looks_like_verb(view, at), "The cat that red paint hurt sleeps."),
    Obstacle(lambda view, phrase, at: _is_of_name_only(view, at), "The red Toyota sleeps."),
    Obstacle(lambda view, phrase, at: _collocation(view, at), "The social science sleeps."),
    Obstacle(lambda view, phrase, at: view.words[at] in WORDS["unbound-adjectives"], "The different cat sleeps."),
]
"""Why an adjective before a noun does not change its place."""


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
    counts = [(phrase, at) for phrase in view.phrases if (at := _number(view, phrase)) is not None]
    for (phrase, first), (other, second) in pairwise(counts):
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
    for phrase, other in pairwise(names):
        between = view.shape[phrase.end : other.start]
        parted = re.search("[zbvykBEKHDM]", between) and not re.search("[(),&]", between)
        texts = [view.sentence.words(name.start, name.end) for name in (phrase, other)]
        once = all(view.sentence.text.count(text.split()[-1]) == 1 for text in texts)
        verbs = [i for i in range(phrase.end, other.start) if view.codes[i] in VERBS]
        fits = parted and once and bool(verbs) and _in_place(view, phrase) == _in_place(view, other)
        if fits and not any(view.verb_lemma(i) in WORDS["symmetric"] for i in verbs):
            yield "swap-names", view.swapped(phrase, other)


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


ATTRIBUTES = (attributes, modifiers, numbers, percentages, years, number_changes, names)
