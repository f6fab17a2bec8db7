"""Near-misses that bind attributes, numbers and names to each other's heads (COMP D.1: attribute–head binding)."""

from __future__ import annotations

import re
from itertools import pairwise

from retrokit.augmentation.negatives.binding.arguments import changes_before
from retrokit.augmentation.negatives.binding.fit import TIED, VERBS, Made, kind_of, swapped, verb_lemma
from retrokit.augmentation.negatives.binding.terms import COLLOCATIONS
from retrokit.augmentation.negatives.binding.words import (
    ANIMATE_ADJECTIVES,
    COUNT_ADJECTIVES,
    FREE_ADJECTIVES,
    LIGHT_NOUNS,
    MEASURES,
    PHYSICAL_ADJECTIVES,
    PLURAL_ADJECTIVES,
    PROCESS_ADJECTIVES,
    SCALE_ADJECTIVES,
    SCALED,
    SCALES,
    SYMMETRIC,
    SYNONYMS,
    UNBOUND_ADJECTIVES,
)
from retrokit.augmentation.negatives.phrases import Parse, Phrase, is_of_name, lowered
from retrokit.augmentation.negatives.sentence import Change, lemma


def attributes(parsed: Parse) -> Made:
    """The red car and the blue truck: The blue car and the red truck."""
    found = [(phrase, at) for phrase in parsed.phrases if (at := _attribute(parsed, phrase)) is not None]
    if len(found) < 2:
        return
    kinds = [_adjective_kinds(parsed, at) for _, at in found]
    for kind in _ADJECTIVES:
        alike = [pair for pair, names in zip(found, kinds, strict=True) if kind in names]
        for (one, first), (other, second) in pairwise(alike):
            same_form = parsed.sentence.tokens[first].tag == parsed.sentence.tokens[second].tag
            fit = _goes_with(parsed, first, other) and _goes_with(parsed, second, one)
            if same_form and fit and _attributes_part(parsed, one, first, other, second):
                yield "swap-attributes", _swapped_words(parsed, first, second)


_ADJECTIVES = ("free", "AJC", "AJS", "relational", "participle")


def _adjective_kinds(parsed: Parse, at: int) -> set[str]:
    """The kinds of an adjective: adjectives of one kind may change places."""
    token = parsed.sentence.tokens[at]
    if token.tag != "AJ0":
        return {token.tag}
    free = {"free"} if token.lower in FREE_ADJECTIVES else set()
    if re.search("(?:[ai]l|ic|[ae]r|ary|ive|ous|ine)$", token.lower):
        return free | {"relational"}
    return free | {"participle"} if token.lower.endswith("ed") else free


def _goes_with(parsed: Parse, adjective: int, phrase: Phrase) -> bool:
    """Whether an adjective can be said of another phrase's head."""
    word, head = parsed.lower(adjective), parsed.head(phrase)
    if word in ANIMATE_ADJECTIVES or word in PHYSICAL_ADJECTIVES:
        kind = kind_of(parsed, phrase)
        return kind == "animate" or (kind == "concrete" and word in PHYSICAL_ADJECTIVES)
    if word in PLURAL_ADJECTIVES:
        return phrase.plural is True
    if word in COUNT_ADJECTIVES:
        return phrase.plural is True or parsed.code(phrase.start) in "dpt"
    if word in SCALE_ADJECTIVES:
        return head in MEASURES or head in SCALED
    if word in PROCESS_ADJECTIVES:
        return re.search("(?:tion|sion|ment|ing|sis|growth|change|rise|spread|speed|rate)$", head) is not None
    return True


def _swapped_words(parsed: Parse, first: int, second: int) -> list[Change]:
    return [
        Change(first, first + 1, parsed.sentence.tokens[second].text),
        Change(second, second + 1, lowered(parsed, first, first + 1)),
    ]


def _attribute(parsed: Parse, phrase: Phrase) -> int | None:
    """The adjective before the phrase's nouns, if no other word qualifies it or stands beside it."""
    at = parsed.shape.rfind("a", phrase.start, phrase.head)
    if at < 0 or "'" in parsed.shape[phrase.start : phrase.end]:
        return None
    if not re.fullmatch("n+", parsed.shape[at + 1 : phrase.end]):
        return None
    if ("-" in parsed.lower(at) and parsed.lower(at) not in FREE_ADJECTIVES) or parsed.lower(at) in TIED:
        return None
    before = parsed.code(at - 1)
    if before in "&," and parsed.code(at - 2) not in "nN":
        return None
    if _shares_its_head(parsed, phrase, at):
        return None
    if before in "ma!nN" or parsed.head(phrase) in LIGHT_NOUNS or before in ("rnNco?" if at == phrase.start else "kg"):
        return None
    verbal = parsed.lower(at).endswith(("ed", "ing")) and parsed.lower(at) not in FREE_ADJECTIVES
    if before in "hw" or (verbal and before not in "dptfPzbvy"):
        return None  # a verb that was read as an adjective
    tokens = parsed.sentence.tokens
    if tokens[at + 1].text[0].isupper() or (at and tokens[at].text[0].isupper() and not is_of_name(tokens[at].text)):
        return None
    return None if _collocation(parsed, at) or tokens[at].lower in UNBOUND_ADJECTIVES else at


def _shares_its_head(parsed: Parse, phrase: Phrase, at: int) -> bool:
    """Whether a phrase is one half of *risk and protective factors*, so that its noun may not be its own."""
    tokens = parsed.sentence.tokens
    if parsed.code(at - 1) == "&" and tokens[at - 2].tag == "NN1":
        return True
    after = parsed.starting.get(phrase.end + 1)
    if after is None or parsed.code(phrase.end) != "&" or parsed.code(after.start) != "a":
        return False
    return (tokens[phrase.head].tag, tokens[after.head].tag) == ("NN1", "NN2")


def _collocation(parsed: Parse, at: int) -> bool:
    noun = lemma(parsed.lower(at + 1), "NOUN")
    fixed = not COLLOCATIONS.isdisjoint({f"{parsed.lower(at)} {noun}", f"{parsed.lower(at)} {parsed.lower(at + 1)}"})
    return fixed or _DISCIPLINE.search(noun) is not None


_DISCIPLINE = re.compile("(?:ology|graphy|istry|physics|medicine|psychiatry|surgery)$")  # "physical geography"


def _attributes_part(parsed: Parse, one: Phrase, first: int, other: Phrase, second: int) -> bool:
    """Whether two adjectives say different things of different heads, before the swap and after it."""
    a, b = parsed.lower(first), parsed.lower(second)
    if a == b or _are_synonyms(a, b):
        return False
    if parsed.head(one) == parsed.head(other) or parsed.lower(first + 1) == parsed.lower(second + 1):
        return False
    if (kind_of(parsed, one) == "animate") != (kind_of(parsed, other) == "animate"):
        return False  # "incorrect experts", "heterozygous analyses"
    if parsed.sentence.tokens[first].tag == "AJC" and not any(a in scale and b in scale for scale in SCALES):
        return False  # "older risk"
    return a[:4] != parsed.lower(second + 1)[:4] and b[:4] != parsed.lower(first + 1)[:4]


def _are_synonyms(a: str, b: str) -> bool:
    return any(a in group and b in group for group in SYNONYMS)


def modifiers(parsed: Parse) -> Made:
    """Dog food and cat litter: Cat food and dog litter."""
    for one, other in pairwise(parsed.phrases):
        if not re.fullmatch("&|,&", parsed.shape[one.end : other.start]):
            continue
        if any(not re.fullmatch("[dt]?nn", parsed.shape[p.start : p.end]) for p in (one, other)):
            continue
        first, second = one.head - 1, other.head - 1
        same = parsed.head(one) == parsed.head(other) or parsed.lower(first) == parsed.lower(second)
        same = same or _are_synonyms(parsed.lower(first), parsed.lower(second))
        named = any(parsed.sentence.tokens[i].text[0].isupper() for i in (first, second) if i)
        fixed = _collocation(parsed, first) or _collocation(parsed, second)
        if same or named or fixed or one.plural != other.plural or parsed.code(one.start - 1) in "TM&":
            continue
        yield "swap-modifiers", _swapped_words(parsed, first, second)


_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?%?|[A-Za-z]+")

_YEAR = re.compile(r"1[5-9]\d\d|20\d\d")


def numbers(parsed: Parse) -> Made:
    """12 men and 30 women: 30 men and 12 women."""
    counts = [(p, at) for p in parsed.phrases if (at := _number(parsed, p)) is not None]
    for (one, first), (other, second) in pairwise(counts):
        if parsed.head(one) != parsed.head(other) and _numbers_part(parsed, one.end, first, other.start, second):
            yield "swap-numbers", _swapped_numbers(parsed, first, second)
    percents = [
        i
        for i, token in enumerate(parsed.sentence.tokens)
        if re.fullmatch(r"\d+(?:\.\d+)?%", token.text) and "±" not in (parsed.lower(i - 1), parsed.lower(i + 1))
    ]
    for first, second in pairwise(percents):
        interval = {parsed.lower(first + 1), parsed.lower(second + 1)} & {"confidence", "ci", "credible"}
        if (
            "n" in parsed.shape[first + 1 : second]
            and not interval
            and _numbers_part(parsed, first + 1, first, second, second)
        ):
            yield "swap-numbers", _swapped_numbers(parsed, first, second)
    years = [i for i, t in enumerate(parsed.sentence.tokens) if _YEAR.fullmatch(t.text) and parsed.lower(i - 1) == "in"]
    for first, second in pairwise(years):
        if re.search("[zbvykBEK]", parsed.shape[first:second]) and parsed.lower(first) != parsed.lower(second):
            yield "swap-years", _swapped_numbers(parsed, first, second)
    for match in re.finditer("(?=P(.)P(.))", parsed.shape):
        yield from _change_of_number(parsed, match.start())


def _change_of_number(parsed: Parse, at: int) -> Made:
    """Fell from 20% to 15%: fell from 15% to 20%."""
    first, second = parsed.lower(at + 1), parsed.lower(at + 3)
    numbers = first != second and first[:1].isdigit() and second[:1].isdigit() and ("%" in first) == ("%" in second)
    if numbers and (parsed.lower(at), parsed.lower(at + 2)) == ("from", "to") and changes_before(parsed, at):
        yield "swap-from-to", _swapped_numbers(parsed, at + 1, at + 3)


def _swapped_numbers(parsed: Parse, first: int, second: int) -> list[Change]:
    return [Change(first, first + 1, parsed.lower(second)), Change(second, second + 1, parsed.lower(first))]


def _number(parsed: Parse, phrase: Phrase) -> int | None:
    """The phrase's only number, a count above one of its plural head."""
    numbers = [i for i in range(phrase.start, phrase.end) if parsed.code(i) == "c"]
    if len(numbers) != 1 or parsed.sentence.tokens[phrase.head].tag != "NN2":
        return None
    at = numbers[0]
    word = parsed.lower(at)
    joined = at > 0 and (parsed.code(at - 1) == "?" or parsed.sentence.tokens[at - 1].text in ("-", "/", "–", "$"))
    if parsed.lower(at - 1) in ("all", "any", "every", "other", "another"):
        return None
    if word in ("one", "1", "1.0") or not _NUMBER.fullmatch(word) or parsed.code(at - 1) == "c" or joined:
        return None
    return at


def _numbers_part(parsed: Parse, end: int, first: int, start: int, second: int) -> bool:
    """Whether two numbers are of one format and belong to different things."""
    a, b = parsed.lower(first), parsed.lower(second)
    if a == b or ("%" in a) != ("%" in b) or ("." in a) != ("." in b) or _YEAR.fullmatch(a) or _YEAR.fullmatch(b):
        return False
    if (
        parsed.lower(second + 1) in ("to", "-", "–")
        or parsed.lower(start - 1) in ("per", "by")
        or parsed.lower(end) == "or"
        or parsed.code(second - 2) == "c"
    ):
        return False
    between = parsed.shape[end:start]
    return between not in ("", "f") and not (between == "&" and parsed.lower(end - 1) in _UNITS)


_UNITS = frozenset("feet hours minutes seconds years months weeks days pounds dollars degrees miles cents".split())

_MONTHS = frozenset(
    """january february march april may june july august september october november december monday tuesday wednesday
    thursday friday saturday sunday mr mrs ms dr jan feb mar apr jun jul aug sep sept oct nov dec st""".split()
)


def names(parsed: Parse) -> Made:
    """Smith said that Jones had resigned: Jones said that Smith had resigned."""
    names = [phrase for phrase in parsed.phrases if _is_name(parsed, phrase)]
    for one, other in pairwise(names):
        between = parsed.shape[one.end : other.start]
        parted = re.search("[zbvykBEKHDM]", between) and not re.search("[(),&]", between)
        texts = [parsed.sentence.words(*phrase[:2]) for phrase in (one, other)]
        once = all(parsed.sentence.text.count(text.split()[-1]) == 1 for text in texts)
        if parted and once and _in_place(parsed, one) == _in_place(parsed, other) and _name_verb(parsed, one, other):
            yield "swap-names", swapped(parsed, one, other)


def _is_name(parsed: Parse, phrase: Phrase) -> bool:
    words = [token.text for token in parsed.sentence.tokens[phrase.start : phrase.end]]
    if parsed.lower(phrase.end) == "!" or not _TITLES.isdisjoint(word.lower() for word in words):
        return False
    if parsed.lower(phrase.start - 1) == "." or (parsed.lower(phrase.end) == "." and len(words[-1]) < 4):
        return False
    return set(parsed.shape[phrase.start : phrase.end]) == {"N"} and all(
        re.fullmatch(r"[A-Z][\w-]*\w", word) and word.lower() not in _MONTHS for word in words
    )


_TITLES = frozenset("ceo cfo cto president premier minister king queen pope mayor governor senator pm mp fm".split())


def _in_place(parsed: Parse, phrase: Phrase) -> bool:
    return parsed.lower(phrase.start - 1) in ("in", "at", "from", "near", "to")


def _name_verb(parsed: Parse, one: Phrase, other: Phrase) -> bool:
    """Whether no symmetric verb stands between two names."""
    verbs = [i for i in range(one.end, other.start) if parsed.code(i) in VERBS]
    return bool(verbs) and not any(verb_lemma(parsed, i) in SYMMETRIC for i in verbs)
