"""What a capability is, what its rule sees of a text, and what it gives: trials, each an edit and its original."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from retrokit.augmentation.draws import below
from retrokit.augmentation.near_misses.family import Edit
from retrokit.augmentation.near_misses.patterns import lexicon
from retrokit.augmentation.near_misses.sentence import Sentence, tag, uncapitalized
from retrokit.augmentation.stress import registry
from retrokit.core.errors import UsageError
from retrokit.core.registry import parse_all
from retrokit.data.words import units

EDIT, CONTROL = "edit", "control"
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
        return " ".join(part for part in (self.before, sentence, self.after) if part)


@dataclass(frozen=True)
class Surroundings:
    """What rules know of the corpus: the ``sentences`` of all texts, each behind its text's place; ``names`` by
    kind."""

    sentences: Sequence[tuple[int, str]] = ()
    names: dict[str, list[str]] = field(default_factory=dict)

    @cached_property
    def size(self) -> int:
        """The words of all sentences."""
        return sum(len(sentence.split()) for _, sentence in self.sentences)


@dataclass(frozen=True)
class Subject:
    """A text that rules edit: its ``place`` among all, which share no place as they may an ``id``; a query that it
    answers, and the passage. ``seed`` is that of the draws; ``translation`` that of the query."""

    place: int
    id: str
    query: str
    passage: Passage
    surroundings: Surroundings
    seed: int = 0
    translation: str | None = None

    @cached_property
    def tagged(self) -> Sentence:
        """The sentence with its words tagged; raises :class:`MissingExtra` without the tagger."""
        return tag(self.passage.sentence)

    @cached_property
    def query_words(self) -> list[str]:
        """The distinct words of the query that are no function words, in lower case."""
        return list(dict.fromkeys(word for word in units(self.query) if word not in FUNCTION_WORDS))

    def draw(self, size: int, *key: int | str) -> int:
        """A random number from 0 to ``size`` − 1, by seed, sentence and key only."""
        return below(size, self.seed, self.passage.sentence, *key)

    def unrelated(self, words: int, *key: int | str) -> str:
        """``words`` words of sentences of other texts that share no word with the query, function words apart; empty
        if there are too few."""
        sentences, query = self.surroundings.sentences, set(self.query_words)
        start, text = self.draw(max(1, len(sentences)), "unrelated", *key), list[str]()
        for place in range(len(sentences)):
            owner, sentence = sentences[(start + place) % len(sentences)]
            if owner != self.place and query.isdisjoint(units(sentence)):
                text += sentence.split()
            if len(text) >= words:
                return " ".join(text[:words])
        return ""

    def harmless(self, passage: Passage) -> list[str]:
        """The passage with its sentence behind words without content, and without its last mark."""
        sentence = passage.sentence
        openers = _TO_QUESTIONS if sentence.endswith("?") else _TO_STATEMENTS
        rest = uncapitalized(self.tagged, 0, len(self.tagged.tokens))
        changed = [sentence.rstrip(".?!;") if sentence[-1] in ".?!;" else f"{sentence}."]
        return [passage.with_sentence(text) for text in (*changed, *(f"{opener} {rest}" for opener in openers))]


class EditTrial(NamedTuple):
    """One comparison: the ``edited`` document with ``original`` for the subject's query, or for ``query``, which is
    then the edit."""

    name: str
    edited: str
    original: Passage
    query: str | None = None


@dataclass(frozen=True)
class Capability:
    """One thing that a retriever should be capable of; the target of a registry entry returns one.

    Attributes:
        name: that of the entry.
        kind: ``edit``: the original must score above the edit; ``control``: the score must not fall.
        trials: the edits of a subject in a fixed order.
        mentioned: whether an edit counts only if the query has the words that it takes away.
    """

    name: str
    kind: str
    trials: Callable[[Subject], Iterable[EditTrial]]
    mentioned: bool = False


def of_sentence(rule: Callable[[Subject], Iterable[Edit]]) -> Callable[[Subject], Iterator[EditTrial]]:
    """The trials of a rule that edits the sentence of a subject."""

    def trials(subject: Subject) -> Iterator[EditTrial]:
        for name, text in rule(subject):
            if text != subject.passage.sentence:
                yield EditTrial(name, subject.passage.with_sentence(text), subject.passage)

    return trials


def load_capabilities(names: Sequence[str] | None = None) -> list[Capability]:
    """The named capabilities in the order of the names; without names all that are registered. Raises
    :class:`UsageError` for an unknown name, or one that is given twice."""
    specs = parse_all([(registry, name) for name in (registry.names() if names is None else names)])
    if len({spec.name for spec in specs}) < len(specs):
        raise UsageError(f"a capability is named twice: {', '.join(names or ())}")
    return [registry.create(spec) for spec in specs]
