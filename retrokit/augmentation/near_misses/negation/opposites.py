"""Adjectives and prepositions that give way to their opposite: *able*, *with*, *without*."""

from collections.abc import Iterator

from retrokit.augmentation.near_misses import tags as c5
from retrokit.augmentation.near_misses.negation.clauses import PAIRS, WORDS, ClauseView
from retrokit.augmentation.near_misses.negation.remove import without_polarity
from retrokit.augmentation.near_misses.sentence import Change, Named


def swap_paired(view: ClauseView, i: int) -> Iterator[Named]:
    """*is able to* ↔ *is unable to*, *it is possible that* ↔ *it is impossible that*"""
    words, tags, word = view.words, view.tags, view.words[i]
    verb = i - 2 if words[i - 1] in {"also", "still", "often", "very", "highly", "therefore", "thus"} else i - 1
    if words[i + 1] not in {"to", "that"} or tags[verb] not in c5.BE | {"VBI"}:
        return
    if view.question or view.clause_opening(i) == "whether":
        return
    if word not in WORDS["negative"]:
        if not view.has_negative(i):
            yield f"insert-{PAIRS['paired'][word]}", [Change(i, i + 1, PAIRS["paired"][word])]
    elif without_polarity(view, i) == []:
        yield f"remove-{word}", [Change(i, i + 1, PAIRS["paired"][word])]


def remove_without(view: ClauseView, i: int) -> Iterator[Named]:
    """*without training* → *with training*"""
    words, tags = view.words, view.tags
    if tags[i] != "PRP" or words[i - 1] in {"or", "and", "not", "with", "but"} or words[i + 1] in {"or", "and"}:
        return
    first = i + 2 if words[i + 1] == "any" else i + 1
    if words[first] in WORDS["no-idiom"] or words[first] == "further" or words[first].endswith("ing"):
        return
    if (first == i + 2 or tags[first] in c5.NOUN | c5.ADJECTIVE | {"AT0", "DPS"}) and view.noun_end(first):
        yield "remove-without", [Change(i, first, "with")]


def insert_without(view: ClauseView, i: int) -> Iterator[Named]:
    """*patients with diabetes* → *patients without diabetes*, where "with" belongs to the noun before it."""
    words, tags = view.words, view.tags
    if tags[i] != "PRP" or tags[i - 1] not in {"NN1", "NN2", ""} or view.has_negative(i):
        return
    if any(word.startswith(stem) for word in view.clause_before(i)[-6:] for stem in _WITH_STEMS.get(word[:2], ())):
        return
    first = i + 2 if words[i + 1] in {"a", "an"} else i + 1
    if tags[first] not in c5.NOUN | c5.ADJECTIVE or not view.noun_end(i + 1):
        return
    if words[first] in WORDS["universal"] | WORDS["amount"] | _AFTER_WITH:
        return
    yield "insert-without", [Change(i, i + 1, "without")]


_AFTER_WITH = frozenset(("respect", "regard", "reference", "view", "various", "certain", "different"))
_WITH_STEMS: dict[str, tuple[str, ...]] = {}
for _stem in WORDS["takes-with"]:
    _WITH_STEMS[_stem[:2]] = (*_WITH_STEMS.get(_stem[:2], ()), _stem)
