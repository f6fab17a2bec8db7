"""Comparison, degree, and the adjectives and nouns of relation (*more/less*, *upper/lower*, *top/bottom*)."""

from __future__ import annotations

import re

from retrokit.augmentation.negatives.rules import Named
from retrokit.augmentation.negatives.sentence import Change
from retrokit.augmentation.negatives.spatial.lexicon import PAIRS, TABLES, WORDS
from retrokit.augmentation.negatives.spatial.verbs import from_to
from retrokit.augmentation.negatives.view import View

_PRONE_TO_CORRELATE = re.compile(
    r"\bthe (?:more|less|higher|lower|larger|smaller|better|worse|faster|longer|greater|older)\b"
)


def _correlative(view: View) -> bool:
    """Whether the sentence says *the more … the more*."""
    return len(_PRONE_TO_CORRELATE.findall(view.sentence.text.lower())) > 1


def comparative(view: View, index: int) -> Named | None:
    word, tag = view.words[index], view.tags[index]
    following = view.words[index + 1]
    if tag not in {"AJC", "AV0", "AJ0"} or _banned(view, index) or _correlative(view) or _coordinated_twin(view, index):
        return None
    adverbial = word in {"better", "faster", "worse", "slower", "longer", "earlier", "later", "harder", "easier"}
    attributive = view.before_noun(index)
    if word == "lower" and attributive and following in WORDS["upper-nouns"]:
        return ("swap-position", (Change(index, index + 1, "upper"),))
    if word == "greater" and following == "than":
        return ("swap-comparative", (Change(index, index + 1, "less"),))
    if word == "greater" and attributive and view.tags[index + 1] == "NN1":
        return ("swap-comparative", (Change(index, index + 1, "lesser"),))
    if view.words[index - 1] in {"no", "any"} and word in {"longer", "later", "earlier"}:
        return None
    predicate = view.tags[view.before_adverbs(index)].startswith("VB") and view.ends_phrase(index + 1)
    if attributive and tag == "AV0" and adverbial and view.tags[index - 1].startswith(("VV", "PNP")):
        return None
    if attributive or predicate or following == "than":
        if word in {"later", "earlier"} and not (attributive or following == "than"):
            return None
        opposite = PAIRS["comparatives"][word]
        if word == "older" and attributive and following not in WORDS["people"] and view.tags[index - 1] != "CJC":
            opposite = "newer"
        return ("swap-comparative", (Change(index, index + 1, opposite),))
    if word in {"later", "earlier"} and view.words[index - 1] in WORDS["time-units"]:
        return ("swap-time", (Change(index, index + 1, PAIRS["comparatives"][word]),))
    return None


def _coordinated_twin(view: View, index: int) -> bool:
    """Whether the word is one of two of its kind joined by *and* or *or* (*higher and higher*)."""
    word = view.words[index]
    return view.says(index + 1, "and", word) or view.says(index - 2, word, "and")


def _banned(view: View, index: int) -> bool:
    return view.words[index + 1] in TABLES["banned-nouns"].get(view.words[index], frozenset())


def superlative(view: View, index: int) -> Named | None:
    if view.tags[index] not in {"AJS", "AJ0", "AV0"} or _banned(view, index):
        return None
    determined = view.tags[index - 1] in {"AT0", "DPS", "POS"} or view.words[index - 1] in {"second", "third"}
    if not determined or not (view.is_noun(index + 1) or view.tags[index + 1] in {"AJ0", "CRD"}):
        return None
    return ("swap-superlative", (Change(index, index + 1, PAIRS["superlatives"][view.words[index]]),))


def more(view: View, index: int) -> Named | None:
    """*more efficient* → *less efficient*, *more cars* → *fewer cars*, *more than 20 cars* → *fewer than 20 cars*."""
    word, following, previous = view.words[index], view.words[index + 1], view.words[index - 1]
    if following == "than":
        return _more_than(view, index)
    if (
        previous in WORDS["no-more"]
        or view.tags[index - 1] == "CRD"
        or following in WORDS["sentence-adverbs"]
        or _correlative(view)
    ):
        return None
    if previous == "the" and view.tags[index + 1] not in {"AJ0"}:
        return None
    tag = view.tags[index + 1]
    if tag in {"AJ0", "AV0"} and view.tags[index] == "AV0":
        if not _gradable(view, index + 1) or view.tags[index - 1] == "TO0":
            return None
        opposite = "less" if word == "more" else "more"
        if word == "less" and _short(following):
            return None  # "more high" is no English
        return ("swap-more-less", (Change(index, index + 1, opposite),))
    if tag in {"NN1", "NN2", "NN0"} and view.tags[index + 2] not in {"NN1", "NN2", "NN0"}:
        if word == "more":
            return ("swap-more-less", (Change(index, index + 1, "fewer" if tag == "NN2" else "less"),))
        return ("swap-more-less", (Change(index, index + 1, "more"),))
    return None


def _gradable(view: View, index: int) -> bool:
    """Whether *more* before this adjective or adverb means its degree, and not a number of things."""
    word = view.words[index]
    if view.tags[index] == "AV0":
        return word.endswith("ly") or word == "often"
    return not _short(word) and "-" not in word and word not in {"such", "other", "same", "due", "new", "different"}


def _short(word: str) -> bool:
    """One syllable by its look: such adjectives take -er, never *more*."""
    return len(re.findall(r"[aeiouy]+", word.removesuffix("e"))) < 2


def _more_than(view: View, index: int) -> Named | None:
    if view.tags[index + 2] not in {"CRD", "NN0"} and view.words[index + 2] != "$":
        if (
            view.words[index] in {"less", "more"}
            and view.tags[index - 1].startswith("V")
            and view.starts_noun_phrase(index + 2)
        ):
            return ("swap-more-less", (Change(index, index + 1, "less" if view.words[index] == "more" else "more"),))
        return None
    if view.words[index - 1] in {"no", "not", "or", "and"} or view.words[index + 2] in {"one", "once", "half"}:
        return None
    if view.words[index] != "more":
        return ("swap-bound", (Change(index, index + 1, "more"),))
    counted = view.tags[index + 3] in {"NN2", "NN0"} and view.words[index + 3] not in WORDS["units"]
    return ("swap-bound", (Change(index, index + 1, "fewer" if counted else "less"),))


def most(view: View, index: int) -> Named | None:
    word = view.words[index]
    if view.tags[index - 1] not in {"AT0", "DPS", "POS"} or view.tags[index + 1] not in {"AJ0", "AV0"}:
        return None
    if view.words[index + 1] in {"recent", "of"} or (
        view.tags[index + 1] == "AV0" and view.tags[index + 2] not in {"AJ0", "VVN"}
    ):
        return None
    return ("swap-superlative", (Change(index, index + 1, "least" if word == "most" else "most"),))


def at_least(view: View, index: int) -> Named | None:
    """*at least 20* → *at most 20*, and back."""
    if view.words[index - 1] != "at" or view.tags[index + 1] not in {"CRD", "NN0"}:
        return None
    return ("swap-bound", (Change(index, index + 1, "most" if view.words[index] == "least" else "least"),))


def up_to(view: View, index: int) -> Named | None:
    if view.words[index + 1] != "to" or view.tags[index + 2] not in {"CRD", "NN0"}:
        return None
    if view.words[index + 2].isdigit() and len(view.words[index + 2]) == 4:  # a year
        return None
    if view.tags[index - 1].startswith("VV") and view.words[index - 1] in {"add", "adds", "added", "summed", "live"}:
        return None
    return ("swap-bound", (Change(index, index + 2, "at least"),))


def degree(view: View, index: int) -> Named | None:
    word = view.words[index]
    if view.tags[index] not in {"AJ0", "VVN", "VVG"} or _banned(view, index) or view.tags[index - 1] in {"CJC", "ORD"}:
        return None
    if view.words[index - 1] in {"more", "most", "less", "least"}:
        return None
    if view.tags[index + 1] == "CJC" or (view.words[index + 1] == "," and view.tags[index + 2] in {"AJ0", "AV0"}):
        return None
    attributive = view.before_noun(index)
    if word in {"increased", "decreased", "reduced", "increasing", "decreasing"}:
        if view.tags[index] != "AJ0" or not view.is_noun(index + 1):
            return None
        return ("swap-change", (Change(index, index + 1, PAIRS["degrees"][word]),))
    if word in {"long", "short", "early", "late", "fast", "poor", "rich"} and not attributive:
        return None
    if word == "late" and view.words[index - 1] == "the" and view.tags[index + 1] == "NP0":
        return None
    predicate = view.tags[view.before_adverbs(index)].startswith("VB") and (
        view.tags[index + 1] in {"PUN", ""} or view.words[index + 1] in {"in", "for", "at"}
    )
    if attributive or predicate:
        return (
            "swap-time" if word in {"early", "late"} else "swap-degree",
            (Change(index, index + 1, PAIRS["degrees"][word]),),
        )
    return None


def compound(view: View, index: int) -> Named | None:
    """*long-term* → *short-term*."""
    word = view.words[index]
    prefix, _, rest = word.partition("-")
    if not view.before_noun(index):
        return None
    if view.says(index + 1, "memory") or view.says(index + 1, "short") or view.tags[index - 1] == "CJC":
        return None
    return ("swap-degree", (Change(index, index + 1, f"{PAIRS['prefixes'][prefix]}-{rest}"),))


def relational_adjective(view: View, index: int) -> Named | None:
    word = view.words[index]
    name = (
        "swap-time"
        if word in WORDS["time-adjectives"]
        else "swap-position"
        if word in WORDS["place-adjectives"]
        else "swap-polarity"
    )
    if view.tags[index] not in {"AJ0", "AJC", "NN1", "ORD"} or view.tags[index - 1] == "CJC":
        return None
    if view.words[index + 1] in TABLES["banned-nouns"].get(word, frozenset()) or view.words[index - 1] in {
        "false",
        "true",
        "-",
    }:
        return None
    if not view.before_noun(index):
        return None
    if view.tags[index] == "NN1" and word not in {"input", "output"}:
        return None
    opposite = PAIRS["relational-adjectives"][word]
    named = index > 0 and view.sentence.tokens[index].text[0].isupper()  # "the Western programme"
    return (name, (Change(index, index + 1, opposite.capitalize() if named else opposite),))


def noun(view: View, index: int) -> Named | None:
    word, following = view.words[index], view.words[index + 1]
    opposite = PAIRS["nouns"][word]
    if view.tags[index - 1] == "CJC" or view.tags[index + 1] == "CJC":
        return None
    if word in WORDS["compass"]:
        return _compass(view, index)
    if not view.is_noun(index):
        return None
    if word in WORDS["need-of"]:
        return _noun_of(view, index)
    if word in WORDS["need-in"]:
        if following not in {"in", "of"} or view.words[index - 1] == "dimensionality":
            return None
        if word in {"fall", "rise", "growth", "gain", "gains"} and following != "in":
            return None
        numbers = from_to(view, index)
        if numbers is None:
            return None
        return ("swap-change", (Change(index, index + 1, opposite), *numbers))
    if word.startswith("advantage") and following == "over":
        return None
    if "advantage" in word and any(re.match("tak|took", view.words[k]) for k in range(index - 3, index)):
        return None
    if word.startswith("child") and view.tags[index - 1] == "AJ0":
        return None
    if word == "doctors" and view.words[index - 1] == "family":
        return None
    if word.startswith("child") and following in {"under", "aged", "age", "ages", "younger", "older"}:
        return None
    if view.is_noun(index + 1) or view.tags[index + 1] == "POS":
        return None
    return ("swap-role", (Change(index, index + 1, opposite),))


def _noun_of(view: View, index: int) -> Named | None:
    word = view.words[index]
    if view.words[index + 1] != "of":
        return None
    previous = view.words[index - 1]
    if word in {"top", "bottom"}:
        return _top(view, index)
    if previous not in {"the", "a", "its", "their", "in"} or view.says(index + 1, "of", "the", "day"):
        return None
    if word in {"beginning", "end", "start"} and previous != "the":
        return None
    if word in {"majority", "lack"}:  # their opposites want the other article
        text = "a minority" if word == "majority" else "an abundance"
        return ("swap-polarity", (Change(index - 1, index + 1, text),)) if previous in {"the", "a"} else None
    name = "swap-time" if word in {"beginning", "end", "start", "arrival", "departure"} else "swap-polarity"
    return (name, (Change(index, index + 1, PAIRS["nouns"][word]),))


def _top(view: View, index: int) -> Named | None:
    """*at the top of* → *at the bottom of*, *on top of* → *beneath*."""
    if view.says(index - 1, "on") and view.words[index] == "top" and view.starts_noun_phrase(index + 2):
        if view.words[index + 2] in {"that", "this", "it"} or view.tags[index + 2] == "DT0":
            return None
        return ("swap-position", (Change(index - 1, index + 2, "beneath"),))
    if view.words[index - 1] != "the":
        return None
    return ("swap-position", (Change(index, index + 1, PAIRS["nouns"][view.words[index]]),))


def _compass(view: View, index: int) -> Named | None:
    word = view.words[index]
    token = view.sentence.tokens[index]
    if token.text[0].isupper():
        if index == 0 or view.words[index + 1] not in WORDS["twin-places"]:
            return None
        opposite = PAIRS["nouns"][word].capitalize()
    else:
        pointed = view.words[index - 1] in {"the", "to", "from", "due", "just", "further", "miles", "kilometers", "km"}
        if not pointed and view.words[index + 1] not in {"of", "side", "coast", "bank", "end", "wall", "shore"}:
            return None
        opposite = PAIRS["nouns"][word]
    return ("swap-position", (Change(index, index + 1, opposite),))


def side(view: View, index: int) -> Named | None:
    """*the left hand* → *the right hand*, *on the right* → *on the left*, *turn left* → *turn right*."""
    word, following = view.words[index], view.words[index + 1]
    opposite = "right" if word == "left" else "left"
    if view.tags[index - 1] == "CJC" or view.tags[index + 1] == "CJC":
        return None
    beside = following in WORDS["sides"] and view.tags[index - 1] in {
        "AT0",
        "DPS",
        "PRP",
        "POS",
        "AJ0",
        "AJC",
        "VVG",
        "NN1",
        "",
    }
    pointed = view.words[index - 1] in {"the", "my", "your", "his", "her"} and view.words[index - 2] in {"on", "to"}
    turned = view.words[index - 1].startswith("turn") and view.tags[index + 1] in {"PRP", "PUN", ""}
    if beside or turned or (pointed and (following in {"of", "side"} or view.tags[index + 1] in {"PUN", ""})):
        return ("swap-position", (Change(index, index + 1, opposite),))
    return None


def ordinal(view: View, index: int) -> Named | None:
    """*the first chapter* → *the last chapter*."""
    word, following = view.words[index], view.words[index + 1]
    if view.tags[index] not in {"ORD", "AJ0"} or view.words[index - 1] not in {
        "the",
        "his",
        "her",
        "its",
        "their",
        "my",
    }:
        return None
    if following in WORDS["no-ordinal"] or (
        word == "last" and (following in WORDS["time-units"] or view.words[index + 2] in WORDS["time-units"])
    ):
        return None
    if view.tags[index - 2] == "CJC" or (view.words[index - 2] in {"in", "from"} and following in {"place", ","}):
        return None
    if word == "last" and following in {"few", "couple", "several", "two", "three", "five"}:
        return None
    if view.before_noun(index) or view.tags[index + 1] in {"CRD", "TO0"}:
        return ("swap-time", (Change(index, index + 1, "last" if word == "first" else "first"),))
    return None
