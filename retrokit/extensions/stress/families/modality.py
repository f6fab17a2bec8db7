"""Modality: how certain something is."""

import re
from collections.abc import Iterator

from retrokit.augmentation.edits.family import Rewriting, family
from retrokit.augmentation.edits.subject import LEXICON, Subject

_MODALS = LEXICON.pairs["modals"]


@family("modality")
def modality(subject: Subject) -> Iterator[Rewriting]:
    """*may cause* → *will cause*, *suggest that* → *prove that*"""
    sentence = subject.passage.sentence
    for old, new in _MODALS.items():
        for match in re.finditer(rf"(?<![\w-]){old}(?![\w'’-])(?!\s(?:not|never|or|and|hardly)\b)", sentence):
            if re.search(r"\b(?:not|never|and|or)\s$", sentence[: match.start()]) or match[0] == "May":
                continue
            yield Rewriting(f"{old}-{new}".replace(" ", "-"), sentence[: match.start()] + new + sentence[match.end() :])
