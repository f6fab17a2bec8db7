"""Comparatives, *more* and *less*, whose opposite depends on what they compare."""

from __future__ import annotations

import re

from retrokit.augmentation.negatives.rules import Named
from retrokit.augmentation.negatives.sentence import Change
from retrokit.augmentation.negatives.spatial.lexicon import PAIRS, TABLES, WORDS
from retrokit.augmentation.negatives.view import View


def banned(view: View, index: int) -> bool:
    """Whether the noun after a word makes a term or an idiom of it."""
    return view.words[index + 1] in TABLES["banned-nouns"].get(view.words[index], frozenset())


_PRONE_TO_CORRELATE = re.compile(
    r"\bthe (?:more|less|higher|lower|larger|smaller|better|worse|faster|longer|greater|older)\b"
)


def _correlative(view: View) -> bool:
    """Whether the sentence says *the more … the more*."""
    return len(_PRONE_TO_CORRELATE.findall(view.sentence.text.lower())) > 1


def comparative(view: View, index: int) -> Named | None:
    word, tag = view.words[index], view.tags[index]
    following = view.words[index + 1]
    if tag not in {"AJC", "AV0", "AJ0"} or banned(view, index) or _correlative(view) or _coordinated_twin(view, index):
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
