"""Overlap of a test with training data: texts that are equal but for case and white space, and near-duplicates.

Near-duplicates are texts whose sets of word bigrams (:mod:`retrokit.data.words`) have a Jaccard similarity of
:data:`NEAR` or more. MinHash (Broder, "On the resemblance and containment of documents", 1997) in bands finds the
candidates, which are then compared exactly.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice

import numpy as np

from retrokit.core.notices import progress
from retrokit.data.beir import RetrievalData
from retrokit.data.images import Image
from retrokit.data.pairs import Source
from retrokit.data.training_rows import ScoredPair, normal_form, text_id, texts_of_record
from retrokit.data.words import units

NEAR = 0.7
_BANDS, _ROWS = 20, 3  # at a similarity of 0.7 all bands differ in (1 − 0.7³)²⁰ = 2 of 10,000 cases
_AT_ONCE = 4096  # texts
_MOST = 8  # comparisons of a text for each band, where many have the same words
_FACTORS = np.random.default_rng(42).integers(2**63, size=(_BANDS * _ROWS, 1), dtype=np.uint64) * 2 + 1
_SIDES = ("queries", "documents")


class Shingles:
    """Numbers of all words so far, and of word bigrams."""

    def __init__(self) -> None:
        self._words: defaultdict[str, int] = defaultdict(lambda: len(self._words), {"": 0})

    def of(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The bigrams of all texts, uint64 ``[n]``, and the bounds of each text, ``[texts + 1]``. A text of one word
        has that; one without words, or an image, a 0."""
        number = self._words
        words = [[] if isinstance(text, Image) else units(text) or [""] for text in texts]
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
    """The word bigrams of texts, which find near-duplicates among them; the texts are not kept."""

    def __init__(self, texts: Iterable[str], shingles: Shingles) -> None:
        all_pairs, all_starts = array("Q"), array("q", [0])  # which grow without a copy beside them
        for part in _parts(texts):
            pairs, starts = shingles.of(part)
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
        forms, order = self._sorted_forms
        of_others = _forms(others)
        first, end = (np.searchsorted(forms, of_others, side) for side in ("left", "right"))
        for row in (first < end).nonzero()[0].tolist():
            for place in order[first[row] : end[row]].tolist():
                self.exact.setdefault(place, others[row])
        pairs, starts = self._shingles.of(others)
        for band, (keys, order) in enumerate(self._sorted_bands):
            mine = _band(pairs, starts, band)
            first, end = (np.searchsorted(keys, mine, side) for side in ("left", "right"))
            for row in (first < end).nonzero()[0].tolist():
                places = [place for place in order[first[row] : end[row]].tolist() if place not in self._near]
                shingles = _set(pairs[starts[row] : starts[row + 1]]) if places else frozenset()
                for place in places[:_MOST]:
                    if similarity(self._bigrams.of(place), shingles) >= NEAR:
                        self._near[place] = others[row]


def _forms(texts: Sequence[str]) -> np.ndarray:
    """A number for each text, int64 ``[n]``: texts that differ in case and white space only have one."""
    return np.fromiter((text_id(normal_form(text)) for text in texts), dtype=np.int64, count=len(texts))


def _parts(texts: Iterable[str]) -> Iterator[list[str]]:
    stream = iter(texts)
    while part := list(islice(stream, _AT_ONCE)):
        yield part


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
        queries, documents = (
            ([*dict.fromkeys(side)] for side in zip(*unique_pairs, strict=True)) if unique_pairs else ([], [])
        )
        return cls(queries, [*dict.fromkeys([*documents, *more_documents])], unique_pairs)

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


def overlaps(tests: Mapping[str, JudgedTexts], sources: Sequence[Source], examples: int = 0) -> list[Overlap]:
    """The overlap of each test with the records of the sources, with up to ``examples`` queries and documents each."""
    shingles = Shingles()
    queries, documents = (
        {name: TextFinder(getattr(test, side), shingles) for name, test in tests.items()} for side in _SIDES
    )
    pairs = {name: {_code(*pair) for pair in test.pairs} for name, test in tests.items()}
    seen_pairs: set[tuple[int, int]] = set()
    wanted = set().union(*pairs.values())

    def sides(place: int) -> Iterator[str]:
        known: set[int] = set()
        for source in sources:
            for record in source.records:
                anchor, texts = texts_of_record(record)
                if place == 0 and (code := _code(anchor, texts[0])) in wanted:
                    seen_pairs.add(code)
                for text in (anchor, *texts) if isinstance(record, ScoredPair) else texts if place else (anchor,):
                    if (number := text_id(text)) not in known:
                        known.add(number)
                        yield text

    with progress("looking for overlaps", None, "texts") as advance:
        for place, finders in enumerate((queries, documents)):
            for part in _parts(sides(place)):
                for finder in finders.values():
                    finder.look_in(part)
                advance(len(part))
    results = []
    for name, test in tests.items():
        by_side = dict(zip(_SIDES, (queries[name], documents[name]), strict=True))
        counts = {"queries": len(test.queries), "pairs": len(test.pairs), "documents": len(test.documents)}
        for side, finder in by_side.items():
            counts |= {f"{side}_seen": len(finder.exact), f"{side}_near": len(finder.near)}
        counts["pairs_seen"] = sum(_code(*pair) in seen_pairs for pair in test.pairs)
        shown = [
            {"what": side, "test": finder.texts[at], "training": text}
            for side, finder in by_side.items()
            for at, text in islice((finder.exact | finder.near).items(), examples)
        ]
        results.append(Overlap(name, counts, shown))
    return results


def _code(query: str, document: str) -> tuple[int, int]:
    return text_id(normal_form(query)), text_id(normal_form(document))
