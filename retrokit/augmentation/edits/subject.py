"""What a rule sees of a text: its sentence in its document, a query that it answers, and the corpus around it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from retrokit.augmentation.draws import below
from retrokit.augmentation.edits.patterns import lexicon
from retrokit.augmentation.edits.sentence import Sentence, tag, uncapitalized
from retrokit.data.words import units

LEXICON = lexicon(__package__)
FUNCTION_WORDS = LEXICON.words["function-words"]
_TO_STATEMENTS = ("In fact,", "Note that", "As noted,")
_TO_QUESTIONS = ("So,", "Well,", "Then,")


class Passage(NamedTuple):
    """A document: the sentence that edits change, and the text around it."""

    before: str
    sentence: str
    after: str

    @property
    def text(self) -> str:
        """The whole document."""
        return self.with_sentence(self.sentence)

    def with_sentence(self, sentence: str) -> str:
        """The document with another sentence in that place."""
        return " ".join(text for text in (self.before, sentence, self.after) if text)


@dataclass(frozen=True)
class Surroundings:
    """What rules see of the corpus: the ``sentences`` of all texts, each behind its text's index; ``names`` by kind."""

    sentences: Sequence[tuple[int, str]] = ()
    names: dict[str, list[str]] = field(default_factory=dict)

    @cached_property
    def size(self) -> int:
        """The words of all sentences."""
        return sum(len(sentence.split()) for _, sentence in self.sentences)


@dataclass(frozen=True)
class Subject:
    """A text that rules edit.

    Attributes:
        passage: the sentence in its document.
        query: a query that it answers; without a document, the sentence itself.
        id: that of the text, which others may share.
        text_index: the number of the text among all.
        seed: that of the draws.
        translation: that of the query.
    """

    passage: Passage
    query: str
    id: str = ""
    text_index: int = 0
    surroundings: Surroundings = Surroundings()
    seed: int = 0
    translation: str | None = None

    @classmethod
    def of_sentence(cls, sentence: str, seed: int = 0) -> "Subject":
        """A sentence without a document, its own query."""
        return cls(Passage("", sentence, ""), sentence, seed=seed)

    @cached_property
    def tagged(self) -> Sentence:
        """The sentence with its words tagged; raises :class:`MissingExtra` without the tagger."""
        return tag(self.passage.sentence)

    @property
    def has_verb(self) -> bool:
        """Whether the sentence has a verb."""
        return any(token.tag.startswith("V") for token in self.tagged.tokens)

    @cached_property
    def query_words(self) -> list[str]:
        """The distinct words of the query that are no function words, in lower case."""
        return list(dict.fromkeys(word for word in units(self.query) if word not in FUNCTION_WORDS))

    def draw(self, size: int, *key: int | str) -> int:
        """A random number from 0 to ``size`` − 1, by seed, sentence and key only."""
        return below(size, self.seed, self.passage.sentence, *key)

    def unrelated(self, count: int, *key: int | str) -> str:
        """``count`` words of sentences of other texts that share no word with the query, function words apart; empty
        if there are too few."""
        words: list[str] = []
        for sentence in self._unrelated_sentences(*key):
            words += sentence.split()
            if len(words) >= count:
                return " ".join(words[:count])
        return ""

    def _unrelated_sentences(self, *key: int | str) -> Iterator[str]:
        sentences, query = self.surroundings.sentences, set(self.query_words)
        start = self.draw(max(1, len(sentences)), "unrelated", *key)
        for text_index, sentence in (*sentences[start:], *sentences[:start]):
            if text_index != self.text_index and query.isdisjoint(units(sentence)):
                yield sentence

    def harmless(self, passage: Passage) -> list[str]:
        """The passage with its sentence behind words without content, and without its last mark."""
        sentence = passage.sentence
        openers = _TO_QUESTIONS if sentence.endswith("?") else _TO_STATEMENTS
        rest = uncapitalized(self.tagged, 0, len(self.tagged.tokens))
        ending_changed = sentence.rstrip(".?!;") if sentence[-1] in ".?!;" else f"{sentence}."
        sentences = [ending_changed, *(f"{opener} {rest}" for opener in openers)]
        return [passage.with_sentence(changed) for changed in sentences]
