"""Comparison, degree, and the adjectives and nouns of relation (*more/less*, *upper/lower*, *top/bottom*)."""

from __future__ import annotations

import re

from retrokit.augmentation.negatives.sentence import Change
from retrokit.augmentation.negatives.spatial.verbs import from_to
from retrokit.augmentation.negatives.spatial.view import Swap, View
from retrokit.augmentation.negatives.spatial.words import (
    BANNED_NOUNS,
    COMPARATIVES,
    COMPASS,
    DEGREES,
    NEED_IN,
    NEED_OF,
    NOUNS,
    PREFIXES,
    RELATIONAL_ADJECTIVES,
    RELATIONAL_BANS,
    SIDES,
    SUPERLATIVES,
    TIME_UNITS,
    TWIN_PLACES,
    UNITS,
)

_NO_MORE = frozenset("and or no any once some one two what than".split())
_SENTENCE_ADVERBS = frozenset(
    "importantly specifically generally precisely recently over so often broadly ever".split()
)
_PRONE_TO_CORRELATE = re.compile(
    r"\bthe (?:more|less|higher|lower|larger|smaller|better|worse|faster|longer|greater|older)\b"
)


def _correlative(view: View) -> bool:
    """Whether the sentence says *the more … the more*."""
    return len(_PRONE_TO_CORRELATE.findall(view.sentence.text.lower())) > 1


_PEOPLE = frozenset(
    "adult adults people person persons man men woman women patient patients child children brother "
    "sister siblings age "
    "students subjects participants individuals residents kids generation generations animals mice rats workers groups "
    "investors boys girls users drivers parents age ages group".split()
)


def comparative(view: View, index: int) -> Swap | None:
    word, tag = view.word(index), view.tag(index)
    following = view.word(index + 1)
    if tag not in {"AJC", "AV0", "AJ0"} or _banned(view, index) or _correlative(view) or _coordinated_twin(view, index):
        return None
    adverbial = word in {"better", "faster", "worse", "slower", "longer", "earlier", "later", "harder", "easier"}
    attributive = view.before_noun(index)
    if word == "lower" and attributive and following in _UPPER_NOUNS:
        return Swap("swap-position", (Change(index, index + 1, "upper"),))
    if word == "greater" and following == "than":
        return Swap("swap-comparative", (Change(index, index + 1, "less"),))
    if word == "greater" and attributive and view.tag(index + 1) == "NN1":
        return Swap("swap-comparative", (Change(index, index + 1, "lesser"),))
    if view.word(index - 1) in {"no", "any"} and word in {"longer", "later", "earlier"}:
        return None
    predicate = view.tag(view.before_adverbs(index)).startswith("VB") and view.ends_phrase(index + 1)
    if attributive and tag == "AV0" and adverbial and view.tag(index - 1).startswith(("VV", "PNP")):
        return None
    if attributive or predicate or following == "than":
        if word in {"later", "earlier"} and not (attributive or following == "than"):
            return None
        opposite = COMPARATIVES[word]
        if word == "older" and attributive and following not in _PEOPLE and view.tag(index - 1) != "CJC":
            opposite = "newer"
        return Swap("swap-comparative", (Change(index, index + 1, opposite),))
    if word in {"later", "earlier"} and view.word(index - 1) in TIME_UNITS:
        return Swap("swap-time", (Change(index, index + 1, COMPARATIVES[word]),))
    return None


_UPPER_NOUNS = frozenset(
    "bound bounds limit limits limb limbs extremity extremities body lip jaw house layer layers arm half "
    "part parts left right corner chamber deck floor respiratory airway airways abdomen triangular".split()
)


def _coordinated_twin(view: View, index: int) -> bool:
    """Whether the word is one of two of its kind joined by *and* or *or* (*higher and higher*)."""
    word = view.word(index)
    return view.says(index + 1, "and", word) or view.says(index - 2, word, "and")


def _banned(view: View, index: int) -> bool:
    return view.word(index + 1) in BANNED_NOUNS.get(view.word(index), frozenset())


def superlative(view: View, index: int) -> Swap | None:
    if view.tag(index) not in {"AJS", "AJ0", "AV0"} or _banned(view, index):
        return None
    determined = view.tag(index - 1) in {"AT0", "DPS", "POS"} or view.word(index - 1) in {"second", "third"}
    if not determined or not (view.is_noun(index + 1) or view.tag(index + 1) in {"AJ0", "CRD"}):
        return None
    return Swap("swap-superlative", (Change(index, index + 1, SUPERLATIVES[view.word(index)]),))


def more(view: View, index: int) -> Swap | None:
    """*more efficient* → *less efficient*, *more cars* → *fewer cars*, *more than 20 cars* → *fewer than 20 cars*."""
    word, following, previous = view.word(index), view.word(index + 1), view.word(index - 1)
    if following == "than":
        return _more_than(view, index)
    if previous in _NO_MORE or view.tag(index - 1) == "CRD" or following in _SENTENCE_ADVERBS or _correlative(view):
        return None
    if previous == "the" and view.tag(index + 1) not in {"AJ0"}:
        return None
    tag = view.tag(index + 1)
    if tag in {"AJ0", "AV0"} and view.tag(index) == "AV0":
        if not _gradable(view, index + 1) or view.tag(index - 1) == "TO0":
            return None
        opposite = "less" if word == "more" else "more"
        if word == "less" and _short(following):
            return None  # "more high" is no English
        return Swap("swap-more-less", (Change(index, index + 1, opposite),))
    if tag in {"NN1", "NN2", "NN0"} and view.tag(index + 2) not in {"NN1", "NN2", "NN0"}:
        if word == "more":
            return Swap("swap-more-less", (Change(index, index + 1, "fewer" if tag == "NN2" else "less"),))
        return Swap("swap-more-less", (Change(index, index + 1, "more"),))
    return None


def _gradable(view: View, index: int) -> bool:
    """Whether *more* before this adjective or adverb means its degree, and not a number of things."""
    word = view.word(index)
    if view.tag(index) == "AV0":
        return word.endswith("ly") or word == "often"
    return not _short(word) and "-" not in word and word not in {"such", "other", "same", "due", "new", "different"}


def _short(word: str) -> bool:
    """One syllable by its look: such adjectives take -er, never *more*."""
    return len(re.findall(r"[aeiouy]+", word.removesuffix("e"))) < 2


def _more_than(view: View, index: int) -> Swap | None:
    if view.tag(index + 2) not in {"CRD", "NN0"} and view.word(index + 2) != "$":
        if (
            view.word(index) in {"less", "more"}
            and view.tag(index - 1).startswith("V")
            and view.starts_noun_phrase(index + 2)
        ):
            return Swap("swap-more-less", (Change(index, index + 1, "less" if view.word(index) == "more" else "more"),))
        return None
    if view.word(index - 1) in {"no", "not", "or", "and"} or view.word(index + 2) in {"one", "once", "half"}:
        return None
    if view.word(index) != "more":
        return Swap("swap-bound", (Change(index, index + 1, "more"),))
    counted = view.tag(index + 3) in {"NN2", "NN0"} and view.word(index + 3) not in UNITS
    return Swap("swap-bound", (Change(index, index + 1, "fewer" if counted else "less"),))


def most(view: View, index: int) -> Swap | None:
    word = view.word(index)
    if view.tag(index - 1) not in {"AT0", "DPS", "POS"} or view.tag(index + 1) not in {"AJ0", "AV0"}:
        return None
    if view.word(index + 1) in {"recent", "of"} or (
        view.tag(index + 1) == "AV0" and view.tag(index + 2) not in {"AJ0", "VVN"}
    ):
        return None
    return Swap("swap-superlative", (Change(index, index + 1, "least" if word == "most" else "most"),))


def at_least(view: View, index: int) -> Swap | None:
    """*at least 20* → *at most 20*, and back."""
    if view.word(index - 1) != "at" or view.tag(index + 1) not in {"CRD", "NN0"}:
        return None
    return Swap("swap-bound", (Change(index, index + 1, "most" if view.word(index) == "least" else "least"),))


def up_to(view: View, index: int) -> Swap | None:
    if view.word(index + 1) != "to" or view.tag(index + 2) not in {"CRD", "NN0"}:
        return None
    if view.word(index + 2).isdigit() and len(view.word(index + 2)) == 4:  # a year
        return None
    if view.tag(index - 1).startswith("VV") and view.word(index - 1) in {"add", "adds", "added", "summed", "live"}:
        return None
    return Swap("swap-bound", (Change(index, index + 2, "at least"),))


def degree(view: View, index: int) -> Swap | None:
    word = view.word(index)
    if view.tag(index) not in {"AJ0", "VVN", "VVG"} or _banned(view, index) or view.tag(index - 1) in {"CJC", "ORD"}:
        return None
    if view.word(index - 1) in {"more", "most", "less", "least"}:
        return None
    if view.tag(index + 1) == "CJC" or (view.word(index + 1) == "," and view.tag(index + 2) in {"AJ0", "AV0"}):
        return None
    attributive = view.before_noun(index)
    if word in {"increased", "decreased", "reduced", "increasing", "decreasing"}:
        if view.tag(index) != "AJ0" or not view.is_noun(index + 1):
            return None
        return Swap("swap-change", (Change(index, index + 1, DEGREES[word]),))
    if word in {"long", "short", "early", "late", "fast", "poor", "rich"} and not attributive:
        return None
    if word == "late" and view.word(index - 1) == "the" and view.tag(index + 1) == "NP0":
        return None
    predicate = view.tag(view.before_adverbs(index)).startswith("VB") and (
        view.tag(index + 1) in {"PUN", ""} or view.word(index + 1) in {"in", "for", "at"}
    )
    if attributive or predicate:
        return Swap(
            "swap-time" if word in {"early", "late"} else "swap-degree", (Change(index, index + 1, DEGREES[word]),)
        )
    return None


def compound(view: View, index: int) -> Swap | None:
    """*long-term* → *short-term*."""
    word = view.word(index)
    prefix, _, rest = word.partition("-")
    if not view.before_noun(index):
        return None
    if view.says(index + 1, "memory") or view.says(index + 1, "short") or view.tag(index - 1) == "CJC":
        return None
    return Swap("swap-degree", (Change(index, index + 1, f"{PREFIXES[prefix]}-{rest}"),))


def relational_adjective(view: View, index: int) -> Swap | None:
    word = view.word(index)
    name = (
        "swap-time" if word in _TIME_ADJECTIVES else "swap-position" if word in _PLACE_ADJECTIVES else "swap-polarity"
    )
    if view.tag(index) not in {"AJ0", "AJC", "NN1", "ORD"} or view.tag(index - 1) == "CJC":
        return None
    if view.word(index + 1) in RELATIONAL_BANS.get(word, "").split() or view.word(index - 1) in {"false", "true", "-"}:
        return None
    if not view.before_noun(index):
        return None
    if view.tag(index) == "NN1" and word not in {"input", "output"}:
        return None
    opposite = RELATIONAL_ADJECTIVES[word]
    named = index > 0 and view.sentence.tokens[index].text[0].isupper()  # "the Western programme"
    return Swap(name, (Change(index, index + 1, opposite.capitalize() if named else opposite),))


_TIME_ADJECTIVES = frozenset("initial final previous subsequent future preceding prior".split())
_PLACE_ADJECTIVES = frozenset(
    "upper inner outer internal external northern southern eastern western northeastern southeastern "
    "rightmost leftmost "
    "topmost bottommost indoor outdoor rear anterior posterior dorsal ventral proximal distal "
    "upstream downstream forward "
    "backward inward outward upward downward".split()
)


def noun(view: View, index: int) -> Swap | None:
    word, following = view.word(index), view.word(index + 1)
    opposite = NOUNS[word]
    if view.tag(index - 1) == "CJC" or view.tag(index + 1) == "CJC":
        return None
    if word in COMPASS:
        return _compass(view, index)
    if not view.is_noun(index):
        return None
    if word in NEED_OF:
        return _noun_of(view, index)
    if word in NEED_IN:
        if following not in {"in", "of"} or view.word(index - 1) == "dimensionality":
            return None
        if word in {"fall", "rise", "growth", "gain", "gains"} and following != "in":
            return None
        numbers = from_to(view, index)
        if numbers is None:
            return None
        return Swap("swap-change", (Change(index, index + 1, opposite), *numbers))
    if word.startswith("advantage") and following == "over":
        return None
    if "advantage" in word and any(re.match("tak|took", view.word(k)) for k in range(index - 3, index)):
        return None
    if word.startswith("child") and view.tag(index - 1) == "AJ0":
        return None
    if word == "doctors" and view.word(index - 1) == "family":
        return None
    if word.startswith("child") and following in {"under", "aged", "age", "ages", "younger", "older"}:
        return None
    if view.is_noun(index + 1) or view.tag(index + 1) == "POS":
        return None
    return Swap("swap-role", (Change(index, index + 1, opposite),))


def _noun_of(view: View, index: int) -> Swap | None:
    word = view.word(index)
    if view.word(index + 1) != "of":
        return None
    previous = view.word(index - 1)
    if word in {"top", "bottom"}:
        return _top(view, index)
    if previous not in {"the", "a", "its", "their", "in"} or view.says(index + 1, "of", "the", "day"):
        return None
    if word in {"beginning", "end", "start"} and previous != "the":
        return None
    if word in {"majority", "lack"}:  # their opposites want the other article
        text = "a minority" if word == "majority" else "an abundance"
        return Swap("swap-polarity", (Change(index - 1, index + 1, text),)) if previous in {"the", "a"} else None
    name = "swap-time" if word in {"beginning", "end", "start", "arrival", "departure"} else "swap-polarity"
    return Swap(name, (Change(index, index + 1, NOUNS[word]),))


def _top(view: View, index: int) -> Swap | None:
    """*at the top of* → *at the bottom of*, *on top of* → *beneath*."""
    if view.says(index - 1, "on") and view.word(index) == "top" and view.starts_noun_phrase(index + 2):
        if view.word(index + 2) in {"that", "this", "it"} or view.tag(index + 2) == "DT0":
            return None
        return Swap("swap-position", (Change(index - 1, index + 2, "beneath"),))
    if view.word(index - 1) != "the":
        return None
    return Swap("swap-position", (Change(index, index + 1, NOUNS[view.word(index)]),))


def _compass(view: View, index: int) -> Swap | None:
    word = view.word(index)
    token = view.sentence.tokens[index]
    if token.text[0].isupper():
        if index == 0 or view.word(index + 1) not in TWIN_PLACES:
            return None
        opposite = NOUNS[word].capitalize()
    else:
        pointed = view.word(index - 1) in {"the", "to", "from", "due", "just", "further", "miles", "kilometers", "km"}
        if not pointed and view.word(index + 1) not in {"of", "side", "coast", "bank", "end", "wall", "shore"}:
            return None
        opposite = NOUNS[word]
    return Swap("swap-position", (Change(index, index + 1, opposite),))


def side(view: View, index: int) -> Swap | None:
    """*the left hand* → *the right hand*, *on the right* → *on the left*, *turn left* → *turn right*."""
    word, following = view.word(index), view.word(index + 1)
    opposite = "right" if word == "left" else "left"
    if view.tag(index - 1) == "CJC" or view.tag(index + 1) == "CJC":
        return None
    beside = following in SIDES and view.tag(index - 1) in {"AT0", "DPS", "PRP", "POS", "AJ0", "AJC", "VVG", "NN1", ""}
    pointed = view.word(index - 1) in {"the", "my", "your", "his", "her"} and view.word(index - 2) in {"on", "to"}
    turned = view.word(index - 1).startswith("turn") and view.tag(index + 1) in {"PRP", "PUN", ""}
    if beside or turned or (pointed and (following in {"of", "side"} or view.tag(index + 1) in {"PUN", ""})):
        return Swap("swap-position", (Change(index, index + 1, opposite),))
    return None


def ordinal(view: View, index: int) -> Swap | None:
    """*the first chapter* → *the last chapter*."""
    word, following = view.word(index), view.word(index + 1)
    if view.tag(index) not in {"ORD", "AJ0"} or view.word(index - 1) not in {"the", "his", "her", "its", "their", "my"}:
        return None
    if following in _NO_ORDINAL or (word == "last" and (following in TIME_UNITS or view.word(index + 2) in TIME_UNITS)):
        return None
    if view.tag(index - 2) == "CJC" or (view.word(index - 2) in {"in", "from"} and following in {"place", ","}):
        return None
    if word == "last" and following in {"few", "couple", "several", "two", "three", "five"}:
        return None
    if view.before_noun(index) or view.tag(index + 1) in {"CRD", "TO0"}:
        return Swap("swap-time", (Change(index, index + 1, "last" if word == "first" else "first"),))
    return None


_NO_ORDINAL = frozenset(
    "name lady aid person degree place order author world amendment class one ones hand name names resort minute night "
    "week year month summer winter decade century decades years months weeks days spring fall approximation principle "
    "principles glance word derivative moment quarter half".split()
)
