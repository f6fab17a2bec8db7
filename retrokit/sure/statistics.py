"""Lexical statistics of a set of texts (SURE, Table 3): type-token ratio, entropy of words, lengths of sentences."""

import math
from collections import Counter
from typing import Any

from retrokit.llm.answers import words_of


def sentences_of(text: str, language: str) -> list[str]:
    """The sentences of ``text`` without the white space around them, by the rules of ``language``; lines end them."""
    from retrokit.augmentation.crops import Multilingual

    splitter = Multilingual(language)
    cut = (sentence.strip() for line in text.splitlines() for sentence in splitter.cut(line))
    return [sentence for sentence in cut if words_of(sentence)]


class Vocabulary:
    """Counts over texts of one kind, added one by one.

    Args:
        language: whose rules cut the texts into sentences.

    >>> lexicon = Vocabulary("en")
    >>> lexicon.add("A cat. A cat sat on a mat.")
    >>> lexicon.texts, lexicon.type_token_ratio, lexicon.average_sentence, lexicon.longest_sentence
    (1, 0.625, 4.0, 6)
    """

    def __init__(self, language: str) -> None:
        self.texts = 0
        self.longest_sentence = 0
        self._language = language
        self._words: Counter[str] = Counter()
        self._sentences = 0

    def add(self, text: str) -> None:
        """Count one text."""
        self.texts += 1
        self._words.update(words_of(text))
        for sentence in sentences_of(text, self._language):
            self._sentences += 1
            self.longest_sentence = max(self.longest_sentence, len(words_of(sentence)))

    @property
    def type_token_ratio(self) -> float:
        """Different words over all words, of all texts together; 0 without words."""
        return len(self._words) / self._tokens if self._words else 0.0

    @property
    def entropy(self) -> float:
        """Shannon's, of the distribution of words, in bits."""
        return -sum(count / self._tokens * math.log2(count / self._tokens) for count in self._words.values()) + 0.0

    @property
    def average_sentence(self) -> float:
        """Words a sentence; 0 without sentences."""
        return self._tokens / self._sentences if self._sentences else 0.0

    @property
    def _tokens(self) -> int:
        return self._words.total()

    def to_json(self) -> dict[str, Any]:
        """All of it in the order of Table 3, rounded as the paper does or finer."""
        return {
            "texts": self.texts,
            "type_token_ratio": round(self.type_token_ratio, 4),
            "entropy": round(self.entropy, 4),
            "average_sentence": round(self.average_sentence, 1),
            "longest_sentence": self.longest_sentence,
        }
