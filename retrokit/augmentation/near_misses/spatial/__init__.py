"""Near-misses of relation: a word of place, direction, time, degree, change or cause gives way to its converse or
opposite (COMP 3.1, D.1): *before* to *after*, *into* to *out of*, *larger* to *smaller*, *rose* to *fell*.

The words stand in tables; a rule says where one may be swapped. Whatever could be an idiom, a name, a quotation, the
other reading of the word, or one side of a contrast that the sentence itself draws (*before and after*) is left alone.
Relations that read the same both ways (*next to*, *between*, *similar to*) are in no table.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache

from retrokit.augmentation.near_misses.data import text
from retrokit.augmentation.near_misses.family import Edit, Family, written
from retrokit.augmentation.near_misses.patterns import read_swaps
from retrokit.augmentation.near_misses.sentence import Named, Sentence, inflected
from retrokit.augmentation.near_misses.spatial.conditions import CONDITIONS, LEXICON, PAIRS, WORDS
from retrokit.augmentation.near_misses.spatial.verbs import Rule, allow, begin, change_noun, from_name, into, verb_rule
from retrokit.augmentation.near_misses.view import View


def family() -> Family:
    """The family, as the registry makes it."""
    return Family("spatial", edits, prompt=text(__package__, "prompt.txt"))


def edits(sentence: Sentence) -> Iterator[Edit]:
    """Every swap of one relation in the sentence, in the order of its words.

    >>> from retrokit.augmentation.near_misses.sentence import tag
    >>> [edit.text for edit in edits(tag("The cat sleeps inside the box."))]
    ['The cat sleeps outside the box.']
    """
    table, view = _table(), View(sentence)
    hits = [index for index, word in enumerate(view.words) if word in table]
    if not hits:
        return
    closed = _quoted_or_bracketed(view)
    free = (i for i in hits if i not in closed and _stands_free(sentence, i))
    swaps = (swap for i in free for rule in table[view.words[i]] if (swap := rule(view, i)) is not None)
    yield from written(sentence, (swap for swap in swaps if not _names_the_opposite(view, swap)))


def _stands_free(sentence: Sentence, index: int) -> bool:
    """Whether the token is a word of running text: no part of a name, a title or a hyphenated compound."""
    token, text = sentence.tokens[index], sentence.text
    if index > 0 and not token.text.islower() and token.text not in WORDS["compass-names"]:
        return False
    return set("-/–").isdisjoint((text[max(token.start - 1, 0) : token.start], text[token.end : token.end + 1]))


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


def _names_the_opposite(view: View, swap: Named) -> bool:
    """Whether the sentence already holds a word that the swap puts in, or a form of it: a contrast of its own."""
    changed = {index for change in swap[1] for index in range(change.start, change.end)}
    words = {view.words[index] for index in changed}
    others = "".join(f" {word}" for index, word in enumerate(view.words) if index not in changed) + " "
    for change in swap[1]:
        for word in change.text.lower().split():
            if word in WORDS["function-words"] or word in words or not word.isalpha():
                continue
            stem = word if len(word) <= 5 else word[: max(5, len(word) - 3)]
            if f" {word} " in others or (len(word) > 2 and f" {stem}" in others):
                return True
    pairs = {"more": "less", "most": "least", "less": "more", "fewer": "more", "least": "most"}
    return any(pairs[word] in view.words for word in words & pairs.keys())


_RULES: dict[str, Rule] = {
    "begin begins began start starts started": begin,
    "allows allow allowed allowing enables enable enabled enabling permits permit": allow,
    "prevents prevent preventing prevented": allow,
    "into": into,
    "from": from_name,
    " ".join(PAIRS["change-nouns"]): change_noun,
}


@lru_cache(maxsize=1)
def _table() -> dict[str, list[Rule]]:
    """Every word that may be swapped, and its rules in their order."""
    table: defaultdict[str, list[Rule]] = defaultdict(list)
    for word, swap in read_swaps(text(__package__, "relations.txt"), LEXICON, CONDITIONS):
        table[word].append(swap)
    for words, rule in _RULES.items():
        for word in words.split():
            table[word].append(rule)
    for verbs, transitive in ((PAIRS["transitive"], True), (PAIRS["intransitive"], False)):
        for lemma, opposite in verbs.items():
            name = "swap-change" if lemma in WORDS["opposite-of-change"] else "swap-action"
            for form, ending in {inflected(lemma, penn): penn for penn in ("VB", "VBZ", "VBN", "VBD", "VBG")}.items():
                table[form].append(verb_rule(name, lemma, opposite, ending, transitive=transitive))
    return dict(table)
