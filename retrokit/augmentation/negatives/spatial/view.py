"""What the rules of the near-misses of relation look at, and what they answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from retrokit.augmentation.negatives.sentence import Change, Sentence


class Swap(NamedTuple):
    """What was done, and the changes that do it."""

    name: str
    changes: tuple[Change, ...]


class View:
    """A sentence's lower-case words and tags, empty beyond its ends."""

    def __init__(self, sentence: Sentence) -> None:
        self.sentence = sentence
        self.size = len(sentence.tokens)
        self.words = [token.text.lower() for token in sentence.tokens]
        self.tags = [token.tag for token in sentence.tokens]

    def word(self, index: int) -> str:
        return self.words[index] if 0 <= index < self.size else ""

    def tag(self, index: int) -> str:
        return self.tags[index] if 0 <= index < self.size else ""

    def says(self, index: int, *words: str) -> bool:
        """Whether ``words`` stand from ``index`` on."""
        return all(self.word(index + k) == word for k, word in enumerate(words))

    def before_adverbs(self, index: int) -> int:
        """The place of the last token before ``index`` that is neither adverb nor *not*."""
        index -= 1
        while self.tag(index) in {"AV0", "XX0"}:
            index -= 1
        return index

    def starts_noun_phrase(self, index: int) -> bool:
        if self.word(index) in {"that", "such", "all", "both"}:
            return False
        return self.tag(index) in _NOUN_PHRASE_START

    def is_noun(self, index: int) -> bool:
        return self.tag(index).startswith("NN")

    def before_noun(self, index: int) -> bool:
        """Whether the word at ``index`` stands before a noun, at most one adjective between."""
        return self.is_noun(index + 1) or (self.tag(index + 1) == "AJ0" and self.is_noun(index + 2))

    def ends_phrase(self, index: int) -> bool:
        """Whether a predicate or an object may end before ``index``."""
        return not self.tag(index) or self.tag(index) in {"PUN", "PRP", "PRF", "CJC", "CJS", "CJT", "TO0"}

    def is_passive(self, index: int) -> bool:
        return self.tag(self.before_adverbs(index)).startswith("VB")


Rule = Callable[[View, int], "Swap | None"]
_NOUN_PHRASE_START = frozenset("AT0 DPS AJ0 AJC AJS NN0 NN1 NN2 NP0 CRD DT0 ORD PNP PNI".split())
