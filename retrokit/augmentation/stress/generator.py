"""The edits of many texts: which texts and sentences are taken, and which of their edits."""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from retrokit.augmentation.crops import Multilingual
from retrokit.augmentation.draws import below, bits, distinct
from retrokit.augmentation.near_misses.generator import why_not
from retrokit.augmentation.stress.capability import (
    FUNCTION_WORDS,
    Capability,
    EditTrial,
    Passage,
    Subject,
    Surroundings,
)
from retrokit.augmentation.stress.entities import names_in
from retrokit.core.calls import encodable
from retrokit.core.notices import notice, progress
from retrokit.data.words import units

PER_TEXT = 2
"""Edits of one capability that a text gives at most."""
UNRELATED = 3
"""Documents of other texts that an original is compared with."""


class StressText(NamedTuple):
    """A text to edit. Without a ``query`` every sentence is its own query and document. ``translation`` is that of the
    query, or of the text."""

    id: str
    text: str
    query: str | None = None
    translation: str | None = None


@dataclass(frozen=True)
class StressEdit:
    """One edit of a capability, and what it is compared with.

    Attributes:
        id: that of the text; passages may share their document's.
        capability, kind, edit: the capability, ``edit`` or ``control``, and the kind of edit.
        query, original: the query, and the document that answers it.
        edited, edited_query: the edited document, and the query that it is scored for.
        harmless: the original after edits that mean nothing.
        unrelated: documents of other texts.
        place: that of the text among all.
    """

    id: str
    capability: str
    kind: str
    edit: str
    query: str
    original: str
    edited: str
    edited_query: str
    harmless: tuple[str, ...]
    unrelated: tuple[str, ...]
    place: int

    @property
    def key(self) -> str:
        """What no edit of another text has; in the order of ids."""
        return f"{self.id}\0{self.place}"

    def to_json(self) -> dict[str, str]:
        """What a reader needs to judge it."""
        names = ("id", "capability", "kind", "edit", "query", "original", "edited")
        row = {name: str(getattr(self, name)) for name in names}
        return row | ({"edited_query": self.edited_query} if self.edited_query != self.query else {})


def sample_of(texts: Iterable[StressText], limit: int, seed: int) -> list[StressText]:
    """``limit`` of the texts at random, each text once, in an order that depends on their contents only."""
    chosen = heapq.nsmallest(
        2 * limit, texts, key=lambda text: (bits(seed, "text", text.text, text.query or ""), text.id)
    )
    return list({(text.text, text.query): text for text in reversed(chosen)}.values())[::-1][:limit]


class StressSet(NamedTuple):
    """The edits of texts, and the sentences of all these texts."""

    edits: list[StressEdit]
    sentences: list[str]


def stress_edits(
    texts: Sequence[StressText],
    capabilities: Sequence[Capability],
    seed: int,
    ahead: Callable[[Iterable[tuple[str, str]]], Iterator[Any]] = iter,
) -> StressSet:
    """Edits of the texts in their order, at most two a text and capability, of different kinds if there are any. A
    language model reads the sentences ``ahead`` (:meth:`~retrokit.augmentation.near_misses.by_model.Writer.ahead`).

    Raises:
        MissingExtra: the tagger is not installed.
    """
    pieces = [_sentences(text.text) for text in texts]
    translated = [_translated(*pair) if pair[0].query is None else [] for pair in zip(texts, pieces, strict=True)]
    _report_unaligned(texts, translated)
    sentences = [(place, sentence) for place, own in enumerate(pieces) for sentence in own if why_not(sentence) is None]
    surroundings = Surroundings(sentences, names_in(sentence for _, sentence in sentences))
    parts = zip(range(len(texts)), texts, pieces, translated, strict=True)
    of_texts = (list(_subjects(*of_text, surroundings, seed)) for of_text in parts)
    subjects = {own[0].place: own for own in of_texts if own}
    documents = {place: own[0].passage.text for place, own in subjects.items()}
    edits: list[StressEdit] = []
    with progress("editing", len(subjects), "texts") as advance:
        first = ((own[0].passage.sentence,) * 2 for own in subjects.values())
        for (place, own), _ in zip(subjects.items(), ahead(first), strict=True):
            unrelated = _others(place, documents, seed)
            running = [subject for subject in own if any(token.tag[:1] == "V" for token in subject.tagged.tokens)]
            for capability in capabilities:
                edits += [_edit(*pair, capability, unrelated) for pair in _trials(running, capability)]
            advance(1)
    return StressSet(edits, [sentence for _, sentence in sentences])


def _sentences(text: str) -> list[str]:
    return [sentence for piece in Multilingual("en").cut(encodable(text)) if (sentence := " ".join(piece.split()))]


def _subjects(
    own_place: int,
    text: StressText,
    pieces: list[str],
    translated: Sequence[str | None],
    surroundings: Surroundings,
    seed: int,
) -> Iterator[Subject]:
    """The sentences that rules may edit: in random order, or the one that shares most words with the query."""
    places = [place for place, sentence in enumerate(pieces) if why_not(sentence) is None]
    if text.query is None:
        for number in distinct(len(places), len(places), seed, "sentences", text.text):
            place = places[number]
            passage = Passage("", pieces[place], "")
            yield Subject(own_place, text.id, pieces[place], passage, surroundings, seed, translated[place])
        return
    if len(pieces) > 2:
        places = [place for place in places if place > 0]  # which begins with the title
    wanted = set(units(text.query)) - FUNCTION_WORDS
    shared = {place: len(wanted & set(units(pieces[place]))) for place in places}
    best = max(shared, key=lambda place: (shared[place], -place), default=None)
    if best is not None:
        passage = Passage(" ".join(pieces[:best]), pieces[best], " ".join(pieces[best + 1 :]))
        yield Subject(own_place, text.id, text.query, passage, surroundings, seed, text.translation)


def _report_unaligned(texts: Sequence[StressText], translated: Sequence[Sequence[str | None]]) -> None:
    """Say how many texts the capability ``language`` leaves out."""
    given = [own for text, own in zip(texts, translated, strict=True) if text.translation and text.query is None]
    if unaligned := sum(None in own for own in given):
        notice(
            f"language: {unaligned:,} of {len(given):,} texts have more or fewer sentences than their translation; "
            "left out"
        )


def _translated(text: StressText, pieces: list[str]) -> Sequence[str | None]:
    """The translation of each sentence: the one of the same number, if both texts have equally many."""
    translated = [text.translation] if len(pieces) == 1 else _sentences(text.translation or "")
    return translated if len(translated) == len(pieces) else [None] * len(pieces)


def _trials(subjects: Sequence[Subject], capability: Capability) -> Iterator[tuple[Subject, EditTrial]]:
    """At most two trials of a text: a kind is drawn and then one of that kind, sentence by sentence."""
    left = PER_TEXT
    for subject in subjects:
        by_kind: dict[str, list[EditTrial]] = defaultdict(list)
        for trial in capability.trials(subject):
            if not capability.mentioned or _is_mentioned(subject, trial):
                by_kind[trial.name].append(trial)
        kinds = list(by_kind)
        for number in distinct(
            len(kinds), min(left, len(kinds)), subject.seed, capability.name, subject.passage.sentence
        ):
            of_kind = by_kind[kinds[number]]
            yield subject, of_kind[subject.draw(len(of_kind), capability.name, kinds[number])]
            left -= 1
        if not left:
            return


def _is_mentioned(subject: Subject, trial: EditTrial) -> bool:
    """Whether the query has the words that the edit takes away."""
    return set(units(trial.original.text)) - set(units(trial.edited)) <= set(units(subject.query))


def _edit(subject: Subject, trial: EditTrial, capability: Capability, unrelated: tuple[str, ...]) -> StressEdit:
    return StressEdit(
        subject.id,
        capability.name,
        capability.kind,
        trial.name,
        subject.query,
        trial.original.text,
        trial.edited,
        subject.query if trial.query is None else trial.query,
        tuple(subject.harmless(trial.original)),
        unrelated,
        subject.place,
    )


def _others(own: int, documents: dict[int, str], seed: int) -> tuple[str, ...]:
    """Documents of other texts, drawn by the seed and the text."""
    others = [place for place in documents if place != own]
    start = below(max(1, len(others)), seed, "others", documents[own])
    return tuple(documents[others[(start + step) % len(others)]] for step in range(min(UNRELATED, len(others))))
