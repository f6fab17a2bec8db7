"""Near-misses of relation: a word of place, direction, time, degree, change or cause gives way to its converse or
opposite (COMP 3.1, D.1): *before* to *after*, *into* to *out of*, *larger* to *smaller*, *rose* to *fell*.

The words stand in tables; a rule says where one may be swapped. Whatever could be an idiom, a name, a quotation, the
other reading of the word, or one side of a contrast that the sentence itself draws (*before and after*) is left alone.
Relations that read the same both ways (*next to*, *between*, *similar to*) are in no table.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from retrokit.augmentation.negatives.data import text
from retrokit.augmentation.negatives.family import Edit, Family
from retrokit.augmentation.negatives.sentence import Sentence, inflected, rewrite
from retrokit.augmentation.negatives.spatial.grades import (
    at_least,
    comparative,
    compound,
    degree,
    more,
    most,
    noun,
    ordinal,
    relational_adjective,
    side,
    superlative,
    up_to,
)
from retrokit.augmentation.negatives.spatial.links import (
    ahead_of,
    although,
    because,
    before_after,
    behind,
    despite,
    due_to,
    during,
    following,
    from_name,
    front,
    including,
    into,
    motion_adverb,
    near,
    onto,
    over,
    place,
    polar_adverb,
    prior_to,
    toward,
    unlike,
    within,
)
from retrokit.augmentation.negatives.spatial.verbs import (
    allow,
    begin,
    caused_by,
    depend_on,
    end,
    followed_by,
    lead_to,
    prevent_from,
    support,
    verb_rule,
)
from retrokit.augmentation.negatives.spatial.view import Rule, Swap, View
from retrokit.augmentation.negatives.spatial.words import (
    COMPARATIVES,
    COMPASS_NAMES,
    COMPOUNDS,
    DEGREES,
    INTRANSITIVE,
    NOUNS,
    OPPOSITE_OF_CHANGE,
    RELATIONAL_ADJECTIVES,
    SUPERLATIVES,
    TRANSITIVE,
)


def family() -> Family:
    """The family, as the registry makes it."""
    return Family("spatial", edits, prompt=text(__package__, "prompt.txt"))


def edits(sentence: Sentence) -> Iterator[Edit]:
    """Every swap of one relation in the sentence, in the order of its words.

    >>> from retrokit.augmentation.negatives.sentence import tag
    >>> [edit.text for edit in edits(tag("The cat sleeps inside the box."))]
    ['The cat sleeps outside the box.']
    """
    table = _table()
    view = View(sentence)
    hits = [index for index, word in enumerate(view.words) if word in table]
    if not hits:
        return
    closed = _quoted_or_bracketed(view)
    seen = {sentence.text}
    for index in hits:
        if index in closed or not _stands_free(sentence, index):
            continue
        for rule in table[view.words[index]]:
            swap = rule(view, index)
            if swap is None or _names_the_opposite(view, swap):
                continue
            text = rewrite(sentence, swap.changes)
            if text not in seen:
                seen.add(text)
                yield Edit(swap.name, text)


def _stands_free(sentence: Sentence, index: int) -> bool:
    """Whether the token is a word of running text: no part of a name, a title or a hyphenated compound."""
    token, text = sentence.tokens[index], sentence.text
    if index > 0 and not token.text.islower() and token.text not in COMPASS_NAMES:
        return False
    before, after = text[max(token.start - 1, 0) : token.start], text[token.end : token.end + 1]
    return before not in _JOINTS and after not in _JOINTS


_JOINTS = frozenset("-/–")


def _quoted_or_bracketed(view: View) -> set[int]:
    """The tokens inside quotation marks or brackets."""
    inside: set[int] = set()
    depth, quoted = 0, False
    for index, word in enumerate(view.words):
        if word in {"(", "[", "{"}:
            depth += 1
        elif word in {")", "]", "}"}:
            depth = max(0, depth - 1)
        elif word in {'"', "“", "”", "``", "''"}:
            quoted = word == "“" or (word != "”" and not quoted)
        elif depth or quoted:
            inside.add(index)
    return inside


_FUNCTION_WORDS = frozenset("of from to in on at by than the a an most least more less fewer not out away off".split())


def _names_the_opposite(view: View, swap: Swap) -> bool:
    """Whether the sentence already holds a word that the swap puts in, or a form of it: a contrast of its own."""
    changed = {index for change in swap.changes for index in range(change.start, change.end)}
    others = "".join(f" {word}" for index, word in enumerate(view.words) if index not in changed) + " "
    for change in swap.changes:
        for word in change.text.lower().split():
            if word in _FUNCTION_WORDS or not word.isalpha():
                continue
            if f" {word} " in others or (len(word) > 2 and f" {_stem(word)}" in others):
                return True
    words = {view.words[index] for index in changed}
    pairs = {"more": "less", "most": "least", "less": "more", "fewer": "more", "least": "most"}
    return any(pairs[word] in view.words for word in words & pairs.keys())


def _stem(word: str) -> str:
    return word if len(word) <= 5 else word[: max(5, len(word) - 3)]


_SINGLE: dict[str, Rule] = {
    "more less fewer": more,
    "most least": most,
    "begin begins began start starts started": begin,
    "ends ended": end,
    "followed preceded": followed_by,
    "leads lead led leading results result resulted resulting": lead_to,
    "caused": caused_by,
    "depends depend depended": depend_on,
    "supports support supported supporting": support,
    "allows allow allowed allowing enables enable enabled enabling permits permit": allow,
    "prevents prevent preventing prevented": prevent_from,
    "before after": before_after,
    "prior": prior_to,
    "during": during,
    "following": following,
    "within": within,
    "inside outside above below beneath underneath": place,
    "behind": behind,
    "front": front,
    "near": near,
    "into": into,
    "up down forward backward upstairs downstairs": motion_adverb,
    "over under": over,
    "onto": onto,
    "toward towards": toward,
    "from": from_name,
    "ahead": ahead_of,
    "despite": despite,
    "although": although,
    "because": because,
    "due": due_to,
    "like unlike": unlike,
    "including excluding": including,
    "positively negatively": polar_adverb,
    "first last": ordinal,
    "left right": side,
}


@lru_cache(maxsize=1)
def _table() -> dict[str, tuple[Rule, ...]]:
    """Every word that may be swapped, and its rules in their order."""
    table: dict[str, list[Rule]] = {}
    for words, rule in _SINGLE.items():
        for word in words.split():
            table.setdefault(word, []).append(rule)
    table["least"].append(at_least)
    table["most"].append(at_least)
    table["up"].append(up_to)
    for pairs, rule in (
        (COMPARATIVES, comparative),
        (SUPERLATIVES, superlative),
        (DEGREES, degree),
        (RELATIONAL_ADJECTIVES, relational_adjective),
        (NOUNS, noun),
    ):
        for word in pairs:
            table.setdefault(word, []).append(rule)
    for word in COMPOUNDS:
        table.setdefault(word, []).append(compound)
    _add_verbs(table)
    return {word: tuple(rules) for word, rules in table.items()}


def _add_verbs(table: dict[str, list[Rule]]) -> None:
    for verbs, transitive in ((TRANSITIVE, True), (INTRANSITIVE, False)):
        for lemma, opposite in verbs.items():
            name = "swap-change" if lemma in OPPOSITE_OF_CHANGE else "swap-action"
            for form, ending in {inflected(lemma, penn): penn for penn in ("VB", "VBZ", "VBN", "VBD", "VBG")}.items():
                rule = verb_rule(name, lemma, opposite, ending, transitive=transitive)
                table.setdefault(form, []).append(rule)
