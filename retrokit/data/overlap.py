"""Overlap of a test with training data: texts that are equal but for case and white space, and near-duplicates.

Near-duplicates are texts whose sets of word bigrams (:mod:`retrokit.data.words`) have a Jaccard similarity of
:data:`NEAR` or more. MinHash (Broder, "On the resemblance and containment of documents", 1997) in bands finds the
candidates, which are then compared exactly.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from typing import Any, Protocol

import numpy as np

from retrokit.core.notices import progress
from retrokit.data.beir import RetrievalData
from retrokit.data.images import Image
from retrokit.data.training_rows import ScoredPair, normal_form, text_id, texts_of_record
from retrokit.data.words import units

NEAR = 0.7
_BANDS, _ROWS = 20, 3  # at a similarity of 0.7 all bands differ in (1 − 0.7³)²⁰ = 2 of 10,000 cases
_AT_ONCE = 4096  # texts
_SIDES = ("queries", "documents")
_MOST = 8  # comparisons of a text for each band, where many have the same words
_FACTORS = np.random.default_rng(42).integers(2**63, size=(_BANDS * _ROWS, 1), dtype=np.uint64) * 2 + 1


class Shingles:
    """Numbers of all words so far, and of word bigrams."""

    def __init__(self) -> None:
        self._words: defaultdict[str, int] = defaultdict(lambda: len(self._words), {"": 0})

    def of(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The bigrams of all texts, uint64 ``[n]``, and the bounds of each text, ``[texts + 1]``. A text of one word
        has that; one without words, or an image, a 0."""
        number = self._words
        words = [[""] if isinstance(text, Image) else units(text) or [""] for text in texts]
        ids = np.array(list(map(number.__getitem__, chain.from_iterable(words))), dtype=np.uint64)
        lengths = np.array(list(map(len, words)))
        ends = np.cumsum(lengths)
        pairs = ids * np.uint64(2**32)
        pairs[:-1] += ids[1:]
        is_alone = lengths == 1
        pairs[ends[is_alone] - 1] = ids[ends[is_alone] - 1]
        keep = np.ones(len(ids), dtype=bool)
        keep[ends[~is_alone] - 1] = False
        return _mixed(pairs[keep]), np.concatenate([[0], np.cumsum(np.maximum(lengths - 1, 1))])


def _mixed(values: np.ndarray) -> np.ndarray:
    """Numbers uint64 ``[n]`` as random ones (the finalizer of SplitMix64)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
    return values ^ (values >> np.uint64(31))


def _band(pairs: np.ndarray, starts: np.ndarray, band: int) -> np.ndarray:
    """The key of each text in a MinHash band, uint64 ``[texts]``, given its bigrams (:meth:`Shingles.of`)."""
    factors = _FACTORS[band * _ROWS : (band + 1) * _ROWS]
    first, second, third = (np.minimum.reduceat(pairs * factor, starts[:-1]) for factor in factors)
    return _mixed(first ^ _mixed(second ^ _mixed(third)))


class Bigrams:
    """The word bigrams of texts, which find near-duplicates among them; the texts are not stored."""

    def __init__(self, texts: Iterable[str], shingles: Shingles) -> None:
        all_pairs, all_starts = array("Q"), array("q", [0])  # which grow without a copy beside them
        for block in _blocks(texts):
            pairs, starts = shingles.of(block)
            all_starts.frombytes((starts[1:] + len(all_pairs)).tobytes())
            all_pairs.frombytes(pairs.tobytes())
        self._pairs = np.frombuffer(all_pairs, dtype=np.uint64)
        self._starts = np.frombuffer(all_starts, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def sorted_band(self, band: int) -> tuple[np.ndarray, np.ndarray]:
        """The keys of a band, ascending, and the number of the text of each."""
        keys = np.empty(len(self), dtype=np.uint64)
        for start in range(0, len(self), _AT_ONCE):
            starts = self._starts[start : start + _AT_ONCE + 1]
            pairs = self._pairs[starts[0] : starts[-1]]
            keys[start : start + _AT_ONCE] = _band(pairs, starts - starts[0], band)
        order = keys.argsort()
        return keys[order], order

    def alike(self) -> Iterator[tuple[int, int]]:
        """The numbers of two near-duplicates. Chains of them reach a whole cluster, unless more than :data:`_MOST`
        others are between in all bands."""
        for band in range(_BANDS):
            yield from self._alike_in(band)

    def _alike_in(self, band: int) -> Iterator[tuple[int, int]]:
        keys, order = self.sorted_band(band)
        for apart in range(1, _MOST + 1):
            for at in (keys[apart:] == keys[:-apart]).nonzero()[0].tolist():
                first, second = int(order[at]), int(order[at + apart])
                if similarity(self.of(first), self.of(second)) >= NEAR:
                    yield first, second

    def of(self, number: int) -> frozenset[int]:
        """The bigrams of a text: a set takes many times their memory, and is created for one comparison."""
        return _set(self._pairs[self._starts[number] : self._starts[number + 1]])


class TextFinder:
    """Finds ``texts`` in others. ``exact`` and ``near`` have the first match: number of a text → the other text."""

    def __init__(self, texts: Sequence[str], shingles: Shingles) -> None:
        self.texts, self._shingles = texts, shingles
        self._bigrams = Bigrams(texts, shingles)
        self.exact: dict[int, str] = {}
        self._near: dict[int, str] = {}

    @cached_property
    def _sorted_forms(self) -> tuple[np.ndarray, np.ndarray]:
        """The :func:`_forms` of the texts, ascending, and the number of the text of each."""
        forms = _forms(self.texts)
        order = forms.argsort(kind="stable")
        return forms[order], order

    @cached_property
    def _sorted_bands(self) -> list[tuple[np.ndarray, np.ndarray]]:
        return [self._bigrams.sorted_band(band) for band in range(_BANDS)]

    @property
    def near(self) -> dict[int, str]:
        """Near-duplicates that are not exact."""
        return {number: text for number, text in self._near.items() if number not in self.exact}

    def look_in(self, others: Sequence[str]) -> None:
        """Find the texts among ``others``."""
        for row, numbers in _matches(self._sorted_forms, _forms(others)):
            for number in numbers:
                self.exact.setdefault(number, others[row])
        pairs, starts = self._shingles.of(others)
        for band, sorted_keys in enumerate(self._sorted_bands):
            for row, numbers in _matches(sorted_keys, _band(pairs, starts, band)):
                candidates = [number for number in numbers if number not in self._near][:_MOST]
                shingles = _set(pairs[starts[row] : starts[row + 1]]) if candidates else frozenset()
                for number in candidates:
                    if similarity(self._bigrams.of(number), shingles) >= NEAR:
                        self._near[number] = others[row]


def _matches(sorted_keys: tuple[np.ndarray, np.ndarray], keys: np.ndarray) -> Iterator[tuple[int, list[int]]]:
    """The index of each of the ``keys`` that is among ascending keys, and the numbers of those."""
    ascending, numbers = sorted_keys
    first, end = (np.searchsorted(ascending, keys, side) for side in ("left", "right"))
    for row in (first < end).nonzero()[0].tolist():
        yield row, numbers[first[row] : end[row]].tolist()


def _forms(texts: Sequence[str]) -> np.ndarray:
    """A number for each text, int64 ``[n]``: texts that differ in case and white space only have one."""
    return np.fromiter((text_id(normal_form(text)) for text in texts), dtype=np.int64, count=len(texts))


def _blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    stream = iter(texts)
    while block := list(islice(stream, _AT_ONCE)):
        yield block


def _set(pairs: np.ndarray) -> frozenset[int]:
    return frozenset(pairs.tolist()) - {0}


def similarity(first: frozenset[int], second: frozenset[int]) -> float:
    """The Jaccard similarity of two sets, 0 of empty ones."""
    shared = len(first & second)
    return shared / (len(first) + len(second) - shared) if shared else 0.0


@dataclass(frozen=True)
class JudgedTexts:
    """Distinct queries and documents of a test, and their relevant pairs."""

    queries: list[str]
    documents: list[str]
    pairs: list[tuple[str, str]]

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]], more_documents: Iterable[str] = ()) -> JudgedTexts:
        """The texts of the ``pairs``, and more documents."""
        unique_pairs = list(dict.fromkeys(pairs))
        queries = dict.fromkeys(query for query, _ in unique_pairs)
        documents = dict.fromkeys(document for _, document in unique_pairs)
        documents.update(dict.fromkeys(more_documents))
        return cls([*queries], [*documents], unique_pairs)

    @classmethod
    def judged(cls, data: RetrievalData) -> JudgedTexts:
        """The queries and their relevant documents."""
        return cls.of(data.pairs_of_texts())


@dataclass(frozen=True)
class Overlap:
    """Overlap of a test with training data.

    Attributes:
        counts: of ``queries``, ``pairs`` and ``documents``: their number, and those in the training data, exactly
            (``queries_seen``) or nearly (``queries_near``).
        examples: of queries and documents: ``what``, and the ``test`` and ``training`` texts.
    """

    test: str
    counts: dict[str, int]
    examples: list[dict[str, str]] = field(default_factory=list)

    def warning(self) -> str | None:
        """A line about seen queries or pairs; documents are usually shared."""
        queries, seen, near, pairs, pairs_seen = (
            f"{self.counts[name]:,}" for name in ("queries", "queries_seen", "queries_near", "pairs", "pairs_seen")
        )
        if not any(self.counts[name] for name in ("queries_seen", "queries_near", "pairs_seen")):
            return None
        summary = f"{seen} of {queries} queries are in the training data, {near} are near-duplicates of it"
        return f"{self.test}: {summary}; {pairs_seen} of {pairs} query-document pairs are in it"


class HasRecords(Protocol):
    """Training data."""

    @property
    def records(self) -> Sequence[Any]:
        """Pairs, scored pairs or texts."""


def overlaps(tests: Mapping[str, JudgedTexts], sources: Sequence[HasRecords], examples: int = 0) -> list[Overlap]:
    """The overlap of each test with the records of the sources, with up to ``examples`` queries and documents each."""
    shingles = Shingles()
    finders_by_test = {}
    for name, test in tests.items():
        finders_by_test[name] = {side: TextFinder(getattr(test, side), shingles) for side in _SIDES}
    seen_pairs = _seen_pairs(tests.values(), sources)
    with progress("looking for overlaps", None, "texts") as advance:
        for side in _SIDES:
            for block in _blocks(_texts_of_side(sources, side)):
                for finders in finders_by_test.values():
                    finders[side].look_in(block)
                advance(len(block))
    return [_overlap(name, test, finders_by_test[name], seen_pairs, examples) for name, test in tests.items()]


def _seen_pairs(tests: Iterable[JudgedTexts], sources: Sequence[HasRecords]) -> set[tuple[int, int]]:
    """The codes of pairs of the tests that are pairs of the sources too."""
    test_pairs = {_code(*pair) for test in tests for pair in test.pairs}
    seen = set()
    for source in sources:
        for record in source.records:
            anchor, texts = texts_of_record(record)
            code = _code(anchor, texts[0])
            if code in test_pairs:
                seen.add(code)
    return seen


def _overlap(
    name: str, test: JudgedTexts, finders: Mapping[str, TextFinder], seen_pairs: Set[tuple[int, int]], examples: int
) -> Overlap:
    counts = {"queries": len(test.queries), "pairs": len(test.pairs), "documents": len(test.documents)}
    rows = []
    for side, finder in finders.items():
        counts |= {f"{side}_seen": len(finder.exact), f"{side}_near": len(finder.near)}
        for number, text in islice((finder.exact | finder.near).items(), examples):
            rows.append({"what": side, "test": finder.texts[number], "training": text})
    counts["pairs_seen"] = sum(_code(*pair) in seen_pairs for pair in test.pairs)
    return Overlap(name, counts, rows)


def _texts_of_side(sources: Sequence[HasRecords], side: str) -> Iterator[str]:
    """The different texts of records that may be ``queries`` or ``documents`` of a test."""
    seen: set[int] = set()
    for source in sources:
        for record in source.records:
            anchor, documents = texts_of_record(record)
            texts = documents if side == "documents" else (anchor,)
            if isinstance(record, ScoredPair):
                texts = (anchor, *documents)
            for text in texts:
                number = text_id(text)
                if number not in seen:
                    seen.add(number)
                    yield text


def _code(query: str, document: str) -> tuple[int, int]:
    return text_id(normal_form(query)), text_id(normal_form(document))
