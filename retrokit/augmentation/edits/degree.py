"""Degree and modality: how much, how often, and how certain."""

import re
from collections.abc import Iterator

from retrokit.augmentation.edits.family import Rewriting, family
from retrokit.augmentation.edits.sentence import Change, View, rewrite
from retrokit.augmentation.edits.subject import LEXICON, Subject

_DEGREES, _MODALS = LEXICON.pairs["degrees"], LEXICON.pairs["modals"]
_GRADED = frozenset("more most less least as how too so not n't no never without cannot neither nor".split())
_FIXED = LEXICON.tables["fixed"]


@family("degree")
def degree(subject: Subject) -> Iterator[Rewriting]:
    """*strongly associated* → *weakly associated*, *often* → *rarely*"""
    view = View(subject.tagged)
    for index, word in enumerate(view.words[: view.size]):
        if word in _DEGREES and view.tags[index] in ("AV0", "AJ0") and not _is_compared(view, index):
            other = _DEGREES[word]
            yield Rewriting(f"{word}-{other}", rewrite(subject.tagged, [Change(index, index + 1, other)]))


def _is_compared(view: View, index: int) -> bool:
    """Whether a word is one side of a comparison, denied, or part of a fixed phrase."""
    before, after = view.words[index - 1], view.words[index + 1]
    if before in ("and", "or", "to") or after in ("and", "or", "than"):
        return True
    is_fixed = after in _FIXED.get(view.words[index], frozenset())
    return is_fixed or not _GRADED.isdisjoint(view.words[max(0, index - 3) : index])


@family("modality")
def modality(subject: Subject) -> Iterator[Rewriting]:
    """*may cause* → *will cause*, *suggest that* → *prove that*"""
    sentence = subject.passage.sentence
    for old, new in _MODALS.items():
        for match in re.finditer(rf"(?<![\w-]){old}(?![\w'’-])(?!\s(?:not|never|or|and|hardly)\b)", sentence):
            if re.search(r"\b(?:not|never|and|or)\s$", sentence[: match.start()]) or match[0] == "May":
                continue
            yield Rewriting(f"{old}-{new}".replace(" ", "-"), sentence[: match.start()] + new + sentence[match.end() :])
