"""Degree and modality: how much, how often, and how certain."""

import re
from collections.abc import Iterator
from functools import partial

from retrokit.augmentation.edits.family import Family, Rewriting
from retrokit.augmentation.edits.sentence import Change, View, rewrite
from retrokit.augmentation.edits.subject import LEXICON, Subject

_DEGREES, _MODALS = LEXICON.pairs["degrees"], LEXICON.pairs["modals"]
_GRADED = frozenset("more most less least as how too so not n't no never without cannot neither nor".split())
_FIXED = LEXICON.tables["fixed"]


def _degree(subject: Subject) -> Iterator[Rewriting]:
    """*strongly associated* → *weakly associated*, *often* → *rarely*"""
    view = View(subject.tagged)
    for place, word in enumerate(view.words[: view.size]):
        other = _DEGREES.get(word)
        near = set(view.words[max(0, place - 3) : place])
        fixed = _FIXED.get(word, frozenset())
        if other is None or not near.isdisjoint(_GRADED) or view.words[place + 1] in fixed | {"and", "or", "than"}:
            continue
        if view.tags[place] in ("AV0", "AJ0") and view.words[place - 1] not in ("and", "or", "to"):
            yield Rewriting(f"{word}-{other}", rewrite(subject.tagged, [Change(place, place + 1, other)]))


def _modality(subject: Subject) -> Iterator[Rewriting]:
    """*may cause* → *will cause*, *suggest that* → *prove that*"""
    sentence = subject.passage.sentence
    for old, new in _MODALS.items():
        for match in re.finditer(rf"(?<![\w-]){old}(?![\w'’-])(?!\s(?:not|never|or|and|hardly)\b)", sentence):
            if re.search(r"\b(?:not|never|and|or)\s$", sentence[: match.start()]) or match[0] == "May":
                continue
            yield Rewriting(f"{old}-{new}".replace(" ", "-"), sentence[: match.start()] + new + sentence[match.end() :])


degree = partial(Family, "degree", _degree)
modality = partial(Family, "modality", _modality)
