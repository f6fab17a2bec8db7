"""Edits of a stream of texts: near-misses as training data, and edits to measure systems by.

A text is cut into sentences; those that are no running text, or have no verb, are left out. Every family offers its
edits of a sentence: a kind is drawn, and then an edit of that kind, so that rare kinds come out too. A draw depends on
the seed and the sentence only, never on its index in the stream or on the process (COMP 3.1, D.1).
"""

import hashlib
import heapq
import json
import math
import tempfile
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from retrokit.augmentation.draws import below, bits, distinct
from retrokit.augmentation.edits.family import MOST_LOTS, Edit, Family
from retrokit.augmentation.edits.names import names_in
from retrokit.augmentation.edits.running_text import sentences_in, why_not
from retrokit.augmentation.edits.subject import FUNCTION_WORDS, Passage, Subject, Surroundings
from retrokit.core.calls import encodable
from retrokit.core.notices import notice, progress
from retrokit.data.training_rows import normal_form
from retrokit.data.words import units

Text = str | tuple[str, str]
"""A text, or a sentence and its paraphrase."""
Split = Literal["train", "test"]
SPLITS: tuple[Split, ...] = ("train", "test")

PER_TEXT = 2
"""Edits of one family that a text gives at most, where systems are measured."""
UNRELATED = 3
"""Documents of other texts that an original is compared with."""


def by_kind(edits: Iterable[Edit]) -> dict[str, list[Edit]]:
    """The edits by their kinds, in the order of the first of each."""
    kinds: dict[str, list[Edit]] = defaultdict(list)
    for edit in edits:
        kinds[edit.name].append(edit)
    return kinds


# --- near-misses: COMP's structural triplets (s, s, s̃)


class NearMiss(NamedTuple):
    """A triplet of training data, the family of its negative, and the name of the edit."""

    anchor: str
    positive: str
    negatives: tuple[str, ...]
    family: str
    edit: str

    def to_json(self) -> dict[str, object]:
        """The record as a JSON object."""
        return {**self._asdict(), "negatives": list(self.negatives)}


def near_misses(
    texts: Iterable[Text],
    families: Sequence[Family],
    *,
    seed: int = 0,
    per_family: int | None = None,
    split: float | None = None,
    counts: Counter[str] | None = None,
    ahead: Callable[[Iterable[Text]], Iterable[Text]] = iter,
) -> Iterator[tuple[Split, NearMiss]]:
    """Near-misses of ``texts``, at most one per sentence and family, each with its split.

    Args:
        texts: a text, which is cut into sentences that are their own positives; or a sentence and its paraphrase.
        seed: of the draws and the split.
        per_family: number of each family. Sentences are then drawn from all texts in an order that depends on the seed
            and the sentences, until every quota is full. Default: all.
        split: the share of ``train``; everything is ``train`` without it. With ``per_family`` the shares are exact.
        counts: ``texts`` (with ``per_family`` the drawn sentences), ``sentences``, a key of
            :data:`~.running_text.RULES` for each sentence without a near-miss, ``both-splits``, ``repeated`` and
            ``unchanged`` for drawn edits that were dropped, ``FAMILY/SPLIT`` for near-misses, and
            ``missing:FAMILY/SPLIT`` for quotas that the texts did not fill.
        ahead: reads texts ahead for a language model (:meth:`~retrokit.augmentation.edits.by_model.Writer.ahead`).

    No sentence, as anchor, positive or negative, is in both splits, and no pair of anchor and negative comes twice, in
    either order. Memory is eight bytes a text; with ``per_family`` the sentences are in a temporary file, and memory is
    24 bytes a sentence.

    Raises:
        MissingExtra: the tagger or the sentence splitter is not installed.

    >>> from retrokit.augmentation.edits.family import Rewriting
    >>> shout = Family("shout", lambda subject: [Rewriting("louder", subject.query.replace(".", "!"))])
    >>> [miss.negatives for _, miss in near_misses(["The cat sleeps in the box. Hello."], [shout])]
    [('The cat sleeps in the box!',)]
    """
    counts = Counter() if counts is None else counts
    open_quotas = quotas([family.name for family in families], per_family, split)
    if per_family is not None:
        texts = drawn_sentences(texts, seed, counts)
    return _NearMisses(families, seed, split, open_quotas, counts).run(ahead(texts))


def drawn_sentences(texts: Iterable[Text], seed: int, counts: Counter[str]) -> Iterator[Text]:
    """The sentences of all texts with their positives, in an order that depends on the seed and the sentences only."""
    with tempfile.TemporaryFile() as file:
        keys, offsets = array("Q"), array("Q", [0])
        for text in texts:
            sentences_before = len(keys)
            for anchor, positive in anchors_of(text):
                keys.append(_digest(f"{seed}\0drawn\0{anchor}\0{positive}"))
                offsets.append(offsets[-1] + file.write(json.dumps((anchor, positive)).encode()))
            if len(keys) == sentences_before:
                counts["empty"] += 1
        for index in np.argsort(np.asarray(keys), kind="stable"):
            file.seek(offsets[index])
            anchor, positive = json.loads(file.read(offsets[index + 1] - offsets[index]))
            yield anchor, positive


def quotas(names: Iterable[str], per_family: int | None, split: float | None) -> dict[tuple[str, Split], float]:
    """How many near-misses are wanted of each family and split."""
    total = math.inf if per_family is None else per_family
    train = total if split is None or per_family is None else round(per_family * split)
    test = total if per_family is None else total - train
    shares: dict[Split, float] = {"train": train, "test": test}
    return {(name, split_name): share for name in names for split_name, share in shares.items()}


def anchors_of(text: Text) -> Iterator[tuple[str, str]]:
    """The anchors of a text or a pair, with their positives; white space is normalised."""
    if isinstance(text, str):
        yield from ((sentence, sentence) for sentence in sentences_in(text))
        return
    anchor, positive = (" ".join(encodable(side).split()) for side in text)
    if anchor and positive:
        yield anchor, positive


@dataclass
class _NearMisses:
    """One pass over the texts: ``quotas``, what each family still needs of each split, and digests of the output."""

    families: Sequence[Family]
    seed: int
    split: float | None
    quotas: dict[tuple[str, Split], float]
    counts: Counter[str]
    anchors: set[int] = field(default_factory=set)
    pairs: set[int] = field(default_factory=set)
    members: dict[Split, set[int]] = field(default_factory=lambda: {"train": set(), "test": set()})

    def run(self, texts: Iterable[Text]) -> Iterator[tuple[Split, NearMiss]]:
        for text in texts if any(self.quotas.values()) else ():
            self.counts["texts"] += 1
            sentences_before = self.counts["sentences"]
            for anchor, positive in anchors_of(text):
                self.counts["sentences"] += 1
                yield from self._of_sentence(anchor, positive)
                if not any(self.quotas.values()):
                    return
            if self.counts["sentences"] == sentences_before:
                self.counts["empty"] += 1
        for (family, split), missing in self.quotas.items():
            if 0 < missing < math.inf:
                self.counts[f"missing:{family}/{split}"] += int(missing)

    def _of_sentence(self, anchor: str, positive: str) -> Iterator[tuple[Split, NearMiss]]:
        subject = Subject.of_sentence(anchor, self.seed)
        split = self._split_of(anchor)
        families = [family for family in self.families if self.quotas[family.name, split] > 0]
        rule = self._why_not(subject, families)
        if rule is not None:
            self.counts[rule] += 1
            return
        has_edits = False
        for family in families:
            kinds = by_kind(family.edits(subject))
            if not kinds:
                continue
            has_edits = True
            edit = self._drawn(family, kinds, normal_form(anchor))
            obstacle = self._obstacle(normal_form(anchor), normal_form(positive), normal_form(edit.after), split)
            if obstacle is not None:
                self.counts[obstacle] += 1
                continue
            self.counts[f"{family.name}/{split}"] += 1
            self.quotas[family.name, split] -= 1
            yield split, NearMiss(anchor, positive, (edit.after,), family.name, edit.name)
        if not has_edits:
            self.counts["no-edit"] += 1

    def _why_not(self, subject: Subject, families: Sequence[Family]) -> str | None:
        """The first rule by which a sentence is not edited."""
        if (rule := why_not(subject.query)) is not None:
            return rule
        if _digest(normal_form(subject.query)) in self.anchors:
            return "duplicate"
        if not families:
            return "quota-full"
        return None if subject.has_verb else "no-verb"

    def _split_of(self, anchor: str) -> Split:
        if self.split is None or _digest(f"{self.seed}\0split\0{normal_form(anchor)}") < self.split * 2**64:
            return "train"
        return "test"

    def _drawn(self, family: Family, kinds: dict[str, list[Edit]], key: str) -> Edit:
        """An edit of a kind, which is drawn by the lots of the kinds."""
        lots = [kind for kind in kinds for _ in range(family.lots.get(kind, MOST_LOTS))]
        number, lot = divmod(_digest(f"{self.seed}\0{family.name}\0{key}"), len(lots))
        of_kind = kinds[lots[lot]]
        return of_kind[number % len(of_kind)]

    def _obstacle(self, anchor: str, positive: str, negative: str, split: Split) -> str | None:
        """Why the triplet may not come out; one that may is remembered."""
        if negative in (anchor, positive):
            return "unchanged"
        texts = {_digest(anchor), _digest(positive), _digest(negative)}
        if not texts.isdisjoint(self.members["test" if split == "train" else "train"]):
            return "both-splits"
        pair = _digest("\0".join(sorted((anchor, negative))))
        if pair in self.pairs:
            return "repeated"
        self.pairs.add(pair)
        self.anchors.add(_digest(anchor))
        if self.split is not None:
            self.members[split] |= texts
        return None


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


# --- edits to measure systems by


class TextToEdit(NamedTuple):
    """A text to edit. Without a ``query`` every sentence is its own query and document. ``translation`` is that of the
    query, or of the text."""

    id: str
    text: str
    query: str | None = None
    translation: str | None = None


@dataclass(frozen=True)
class EditCase:
    """An edit, and what it is compared with.

    Attributes:
        id: that of the text; passages may share their document's.
        text_index: that of the text among all.
        query: the query that the document before the edit answers.
        edit: the edit.
        harmless: the document after edits that mean nothing.
        unrelated: documents of other texts.
    """

    id: str
    text_index: int
    query: str
    edit: Edit
    harmless: tuple[str, ...]
    unrelated: tuple[str, ...]

    @property
    def key(self) -> str:
        """What no edit of another text has; in the order of ids."""
        return f"{self.id}\0{self.text_index}"

    @property
    def edited_query(self) -> str:
        """The query that the edited document is scored for."""
        return self.query if self.edit.query is None else self.edit.query

    def to_json(self) -> dict[str, str]:
        """What a reader needs to judge it."""
        row = {
            "id": self.id,
            "capability": self.edit.family,
            "kind": self.edit.kind,
            "edit": self.edit.name,
            "query": self.query,
            "original": self.edit.before,
            "edited": self.edit.after,
        }
        if self.edited_query != self.query:
            row["edited_query"] = self.edited_query
        return row


class EditSet(NamedTuple):
    """The edits of texts, and the sentences of all these texts."""

    cases: list[EditCase]
    sentences: list[str]


def sample_of(texts: Iterable[TextToEdit], limit: int, seed: int) -> list[TextToEdit]:
    """``limit`` of the texts at random, each text once, in an order that depends on their contents only."""
    chosen = heapq.nsmallest(
        2 * limit, texts, key=lambda text: (bits(seed, "text", text.text, text.query or ""), text.id)
    )
    return list({(text.text, text.query): text for text in reversed(chosen)}.values())[::-1][:limit]


def edit_set(
    texts: Sequence[TextToEdit],
    families: Sequence[Family],
    seed: int,
    ahead: Callable[[Iterable[tuple[str, str]]], Iterator[Any]] = iter,
) -> EditSet:
    """Edits of the texts in their order, at most two a text and family, of different kinds if there are any. A language
    model reads the sentences ``ahead`` (:meth:`~retrokit.augmentation.edits.by_model.Writer.ahead`).

    Raises:
        MissingExtra: the tagger is not installed.
    """
    sentences_by_text = [list(sentences_in(text.text)) for text in texts]
    running: list[tuple[int, str]] = []
    for text_index, sentences in enumerate(sentences_by_text):
        running += [(text_index, sentence) for sentence in sentences if why_not(sentence) is None]
    subjects_by_text = _subjects_by_text(texts, sentences_by_text, running, seed)
    documents = {text_index: subjects[0].passage.text for text_index, subjects in subjects_by_text.items()}
    cases: list[EditCase] = []
    with progress("editing", len(documents), "texts") as advance:
        first_sentences = ((subjects[0].passage.sentence,) * 2 for subjects in subjects_by_text.values())
        for (text_index, subjects), _ in zip(subjects_by_text.items(), ahead(first_sentences), strict=True):
            unrelated = _unrelated_documents(text_index, documents, seed)
            cases += _cases_of(subjects, families, unrelated)
            advance(1)
    return EditSet(cases, [sentence for _, sentence in running])


def _cases_of(
    subjects: Sequence[Subject], families: Sequence[Family], unrelated: tuple[str, ...]
) -> Iterator[EditCase]:
    """The edits of a text by each family."""
    with_verb = [subject for subject in subjects if subject.has_verb]
    for family in families:
        for subject, edit in _drawn_edits(with_verb, family):
            harmless = tuple(subject.harmless(edit.passage))
            yield EditCase(subject.id, subject.text_index, subject.query, edit, harmless, unrelated)


def _subjects_by_text(
    texts: Sequence[TextToEdit],
    sentences_by_text: Sequence[list[str]],
    running: Sequence[tuple[int, str]],
    seed: int,
) -> dict[int, list[Subject]]:
    """What rules may edit of each text, for texts that have something."""
    surroundings = Surroundings(running, names_in(sentence for _, sentence in running))
    subjects_by_text: dict[int, list[Subject]] = {}
    unaligned: list[bool] = []
    for text_index, (text, sentences) in enumerate(zip(texts, sentences_by_text, strict=True)):
        make = partial(Subject, id=text.id, text_index=text_index, surroundings=surroundings, seed=seed)
        if text.query is None:
            translations = _translated(text, sentences)
            unaligned += [None in translations] if text.translation else []
            subjects = list(_of_sentences(text, sentences, translations, make, seed))
        else:
            subjects = list(_of_query(text, text.query, sentences, make))
        if subjects:
            subjects_by_text[text_index] = subjects
    if any(unaligned):
        notice(
            f"language: {sum(unaligned):,} of {len(unaligned):,} texts have more or fewer sentences than their "
            "translation; left out"
        )
    return subjects_by_text


def _translated(text: TextToEdit, sentences: list[str]) -> Sequence[str | None]:
    """The translation of each sentence: the one of the same number, if both texts have equally many."""
    translated = [text.translation] if len(sentences) == 1 else list(sentences_in(text.translation or ""))
    return translated if len(translated) == len(sentences) else [None] * len(sentences)


def _running(sentences: Sequence[str]) -> list[int]:
    return [index for index, sentence in enumerate(sentences) if why_not(sentence) is None]


def _of_sentences(
    text: TextToEdit,
    sentences: list[str],
    translations: Sequence[str | None],
    make: Callable[..., Subject],
    seed: int,
) -> Iterator[Subject]:
    """The sentences that rules may edit, in random order, each its own query and document."""
    running = _running(sentences)
    for number in distinct(len(running), len(running), seed, "sentences", text.text):
        index = running[number]
        sentence = sentences[index]
        yield make(Passage("", sentence, ""), sentence, translation=translations[index])


def _of_query(text: TextToEdit, query: str, sentences: list[str], make: Callable[..., Subject]) -> Iterator[Subject]:
    """The sentence that shares most words with the query, in its document."""
    running = _running(sentences)
    if len(sentences) > 2:
        running = [index for index in running if index > 0]  # sentence 0 begins with the title
    query_words = set(units(query)) - FUNCTION_WORDS
    best = max(running, key=lambda index: len(query_words & set(units(sentences[index]))), default=None)
    if best is not None:
        passage = Passage(" ".join(sentences[:best]), sentences[best], " ".join(sentences[best + 1 :]))
        yield make(passage, query, translation=text.translation)


def _drawn_edits(subjects: Sequence[Subject], family: Family) -> Iterator[tuple[Subject, Edit]]:
    """At most two edits of a text, sentence by sentence."""
    missing = PER_TEXT
    for subject in subjects:
        edits = by_kind(family.edits(subject))
        kinds = list(edits)
        count = min(missing, len(kinds))
        for number in distinct(len(kinds), count, subject.seed, family.name, subject.passage.sentence):
            of_kind = edits[kinds[number]]
            yield subject, of_kind[subject.draw(len(of_kind), family.name, kinds[number])]
        missing -= count
        if not missing:
            return


def _unrelated_documents(text_index: int, documents: dict[int, str], seed: int) -> tuple[str, ...]:
    """Documents of other texts, drawn by the seed and the text."""
    others = [other for index, other in documents.items() if index != text_index]
    start = below(max(1, len(others)), seed, "others", documents[text_index])
    return tuple((others[start:] + others[:start])[:UNRELATED])
