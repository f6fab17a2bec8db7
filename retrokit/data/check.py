"""What is wrong with a test set or with training data: each kind of fault with its count, its examples, and what it
costs a system that ranks perfectly.

The readers' own faults (:func:`~retrokit.data.jsonl.gathering`) are among them.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from retrokit.core.errors import DataError, shortened
from retrokit.data.beir import RetrievalData, judgements_file, located, queries_of_all_splits, read_beir, splits_of
from retrokit.data.images import Image
from retrokit.data.jsonl import Gathered, gathering
from retrokit.data.labelled import LabelledTexts
from retrokit.data.overlap import Bigrams, Overlap, Shingles
from retrokit.data.packed_records import first_of_each
from retrokit.data.pairs import Source
from retrokit.data.training_rows import (
    Pair,
    ScoredPair,
    Unlabelled,
    normal_form,
    pair_codes,
    text_id,
    texts_of_record,
)
from retrokit.data.trec import read_judgements
from retrokit.data.words import has_units
from retrokit.metrics.ranking import evaluate_run, mean

KINDS = {
    "absent-documents": "judgements of documents that the corpus lacks: nothing can retrieve them",
    "absent-queries": "judgements of queries that the query file lacks: left out",
    "unreadable-splits": "files in qrels/ without judgements: of no use to any command",
    "unjudged-queries": "queries that no split judges: never evaluated",
    "no-relevant": "judged queries without a relevant document: every system scores 0",
    "colliding-ids": "an id with several texts, or ids that differ in case or white space only",
    "contradicting-labels": "one pair or text with labels that exclude each other",
    "repeated-lines": "lines that repeat another one, id included",
    "repeated-texts": "texts that differ from another one in case and white space at most",
    "near-duplicates": "texts that share most word pairs with another one",
    "empty-texts": "texts without a word",
    "boilerplate": "texts that mostly repeat sentences of many other texts",
    "encoding": "texts in a wrong encoding: not UTF-8, or with traces of one (Ã©, \ufffd)",
    "invisible-characters": "words with an invisible character inside, such as U+200B: other tokens",
    "odd-grades": "grades that are no whole numbers: cut off, as in trec_eval",
    "truncated": "texts longer than the encoder reads",
    "training-overlap": "queries of the test in training data, exactly or nearly",
    "self-pairs": "training pairs of a text and itself, without negatives",
}
"""Kinds of faults, and what each of them is."""
METRICS = ("ndcg@10", "recall@100", "mrr@10")
QUICK = 16 << 20
"""Characters of a test set up to which it is checked on the way."""
TEST, TRAINING = "test", "training"

Judgement = tuple[int, str, str, int]
Reduced = TypeVar("Reduced")

_OF_READERS = {
    "documents": ("absent-documents", "judgements"),
    "queries": ("absent-queries", "judgements"),
    "colliding": ("colliding-ids", "ids"),
    "contradicting": ("contradicting-labels", "judgements"),
    "repeated": ("repeated-lines", "lines"),
    "decimals": ("odd-grades", "judgements"),
    "encoding": ("encoding", "lines"),
}
_HEAD = 200  # characters of a text that differ in most texts
_SHOWN = 100  # characters of a text in an example
_SHARED, _SHARE, _MOSTLY = 8, 0.01, 0.5
"""Different texts that have a sentence that is boiler-plate, and the share of them; and of a text, how much is that."""
_SENTENCE = re.compile(r"(?<=[.!?\u3002\uff01\uff1f])\s+|\n+")
_CONTINUED = (
    "\u0080-\u00bf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013\u2014\u2018-\u201a"
    "\u201c-\u201e\u2020-\u2022\u2026\u2030\u2039\u203a\u20ac\u2122"
)
_WRONGLY_READ = re.compile(
    f"[ÂÃ][{_CONTINUED}]|[ÄÅ](?![«»])[{_CONTINUED}]|â[\u20ac\u201a\u201e\u2020\u2021\u02c6\x80-\x86]"
    f"[{_CONTINUED}]|(?:[ÐÑ][{_CONTINUED}]){{2,}}|ï[»¿][¿½]"
)
"""Letters outside ASCII, or dashes and quotes, in UTF-8 that was read as Windows-1252."""
_LOST = re.compile("[\ufffd\u0080-\u009f]")
_CONTROLS = re.compile("[\u0080-\u0084\u0086-\u009f]")
_INVISIBLE = re.compile(
    "(?<=[0-9A-Za-z\u00c0-\u058f])[\u00ad\u180e\u200b-\u200f\u2060-\u2064\ufeff]+(?=[0-9A-Za-z\u00c0-\u058f])"
)
"""Within words of scripts that need none of them; Persian, Thai and the scripts of India do."""


@dataclass(frozen=True)
class DataFault:
    """A kind of fault.

    Attributes:
        kind: one of :data:`KINDS`.
        unit: what is counted.
        count: items with the fault.
        of: all items.
        about: more about it; may be empty.
        cost: by metric, what a system that ranks perfectly loses.
        examples: as many as were requested.
    """

    kind: str
    unit: str
    count: int
    of: int
    about: str = ""
    cost: dict[str, float] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class CheckedData:
    """The faults of a data set.

    Attributes:
        role: ``test`` or ``training``.
        counts: of its items.
        highest: by metric, what a system that ranks perfectly reaches; empty of training data.
    """

    name: str
    role: str
    counts: dict[str, int | float]
    faults: list[DataFault]
    highest: dict[str, float] = field(default_factory=dict)


def shown(text: str) -> str:
    """A text for an example: on one line, its end cut."""
    return shortened(text, _SHOWN)


def faults_of(kind: str, unit: str, items: Iterable[str], of: int, examples: int, about: str = "") -> list[DataFault]:
    """A fault that counts its ``items``, with the first of them as examples; none without items."""
    stream = iter(items)
    first = list(islice(stream, examples))
    count = len(first) + sum(1 for _ in stream)
    return [DataFault(kind, unit, count, of, about, {}, first)] if count else []


# --- test sets


def check_test(
    folder: str, split: str, level: int, titles: bool, metrics: Sequence[str] = METRICS, examples: int = 0
) -> tuple[RetrievalData, CheckedData]:
    """Read a split of a BEIR folder, and check it. Raises :class:`DataError` after which no reader can continue."""
    with gathering() as gathered:
        data = read_beir(folder, split, images=True, level=level, titles=titles)
    path = located(folder)
    with gathering():
        queries = queries_of_all_splits(path)
        judged_in_splits, unreadable = read_splits(path, _queries_of)
    judged = set[str]().union(*judged_in_splits.values())
    splits = len(judged_in_splits) + len(unreadable)
    perfect = perfect_run(data)
    highest = means(data, perfect, metrics)
    unjudged = [f"{query}: {shown(text)}" for query, text in queries.items() if query not in judged]
    faults = [
        *_of_readers(gathered, data, metrics, highest, examples),
        *faults_of("unreadable-splits", "splits", unreadable.values(), splits, examples),
        *faults_of("unjudged-queries", "queries", unjudged, len(queries), examples),
        *_without_relevant(data, metrics, highest, examples),
        *_alike_ids("queries", data.query_ids, examples),
        *_alike_ids("documents", data.document_ids, examples),
        *_repeated("queries", data.query_ids, data.queries, examples),
        *_copies(data, perfect, metrics, highest, examples),
        *of_texts("queries", data.query_ids, data.queries, examples),
        *of_texts("documents", data.document_ids, data.documents, examples),
    ]
    return data, CheckedData(data.name, TEST, dict(data.counts), faults, highest)


def _queries_of(judgements: Iterable[Judgement]) -> set[str]:
    return {query for _, query, *_ in judgements}


def read_splits(
    folder: Path, reduced: Callable[[Iterable[Judgement]], Reduced]
) -> tuple[dict[str, Reduced], dict[str, str]]:
    """The judgements of each split of a BEIR folder, ``reduced`` while they are read; and by split, why it cannot be
    read."""
    splits: dict[str, Reduced] = {}
    unreadable: dict[str, str] = {}
    for split in splits_of(folder):
        try:
            splits[split] = reduced(read_judgements(judgements_file(folder, split)))
        except DataError as error:
            unreadable[split] = str(error)
    return splits, unreadable


def perfect_run(data: RetrievalData, absent: bool = False) -> dict[str, dict[str, float]]:
    """The ranking of a system that knows the judgements: relevant documents of the corpus, and ``absent`` ones, the
    highest grade first."""
    run: dict[str, dict[str, float]] = {}
    for query, grades in data.qrels.items():
        run[query] = {}
        for document, grade in grades.items():
            if grade > 0 and (absent or document in data.documents_by_id):
                run[query][document] = float(grade)
    return run


def means(data: RetrievalData, run: Mapping[str, Mapping[str, float]], metrics: Sequence[str]) -> dict[str, float]:
    """The mean of each metric over the judged queries."""
    return {name: mean(values) for name, values in evaluate_run(data.qrels, run, metrics, data.level).items()}


def _lost(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    return {name: before[name] - after[name] for name in before}


def _of_readers(
    gathered: Sequence[Gathered], data: RetrievalData, metrics: Sequence[str], highest: dict[str, float], examples: int
) -> Iterator[DataFault]:
    """What the readers met; of absent documents, what a perfect system would gain if they were there."""
    by_kind: dict[str, list[str]] = defaultdict(list)
    for met in gathered:
        where = met.path if met.line is None else f"{met.path}:{met.line}"
        by_kind[met.kind].append(f"{where}: {met.problem}")
    for kind, (name, unit) in _OF_READERS.items():
        items = by_kind.get(kind, [])
        of = int(data.counts["judgements"]) if unit == "judgements" else len(data.documents) + len(data.queries)
        if kind != "documents":
            yield from faults_of(name, unit, items, of + len(items), examples)  # which is none of those that were read
            continue
        for fault in faults_of(name, unit, items, of, examples):
            yield replace(fault, cost=_lost(means(data, perfect_run(data, absent=True), metrics), highest))


def _without_relevant(
    data: RetrievalData, metrics: Sequence[str], highest: dict[str, float], examples: int
) -> Iterator[DataFault]:
    none = [query for query, grades in data.qrels.items() if max(grades.values(), default=0) < data.level]
    items = [f"{query}: {shown(data.queries_by_id[query])}" for query in none]
    for fault in faults_of("no-relevant", "queries", items, len(data.qrels), examples):
        rest = len(data.qrels) - len(none)
        cost = {name: value * len(data.qrels) / rest - value for name, value in highest.items()} if rest else {}
        yield replace(fault, cost=cost)


def _alike_ids(unit: str, ids: Sequence[str], examples: int) -> list[DataFault]:
    """Ids that tools which strip white space or ignore case take for one."""
    groups = _grouped(ids, lambda id: " ".join(id.split()).casefold())
    items = [", ".join(repr(ids[index]) for index in group) for group in groups]
    return faults_of("colliding-ids", unit, items, len(ids), examples, "they differ in case or white space only")


def _grouped(texts: Sequence[str], key: Callable[[str], str]) -> list[list[int]]:
    """The indices of texts that have one key, two or more; texts without a key are left out."""
    codes, indices = array("q"), array("q")
    for index, text in enumerate(texts):
        form = key(text)
        if form:
            codes.append(hash(form))
            indices.append(index)
    is_first = first_of_each(codes)
    if is_first.all():
        return []
    values = np.frombuffer(codes, dtype=np.int64)
    is_shared = np.isin(values, values[~is_first])
    shared_indices = np.frombuffer(indices, dtype=np.int64)[is_shared].tolist()
    groups: dict[int, list[int]] = defaultdict(list)
    for code, index in zip(values[is_shared].tolist(), shared_indices, strict=True):
        groups[code].append(index)
    return list(groups.values())


def _repeated(unit: str, ids: Sequence[str], texts: Sequence[str], examples: int) -> list[DataFault]:
    groups = _grouped(texts, normal_form)
    items = [f"{', '.join(ids[index] for index in group)}: {shown(texts[group[0]])}" for group in groups]
    extra = sum(len(group) - 1 for group in groups)
    return [replace(fault, count=extra) for fault in faults_of("repeated-texts", unit, items, len(ids), examples)]


def copies_of(ids: Sequence[str], texts: Sequence[str]) -> dict[str, set[str]]:
    """The exact copies of each document that has any, by id, both ways."""
    copies: dict[str, set[str]] = {}
    for group in _grouped(texts, normal_form):
        identifiers = {ids[index] for index in group}
        for identifier in identifiers:
            copies[identifier] = identifiers - {identifier}
    return copies


def _near_copies_of(
    ids: Sequence[str], texts: Sequence[str], exact: Mapping[str, Collection[str]]
) -> dict[str, set[str]]:
    """The near copies of each document that has any, by id, both ways. Of ``exact`` copies only the first counts."""
    repeated: set[str] = set()
    distinct = array("q")
    for index, (identifier, text) in enumerate(zip(ids, texts, strict=True)):
        if identifier not in repeated and not isinstance(text, Image):
            distinct.append(index)
        repeated.update(exact.get(identifier, ()))
    alike: dict[str, set[str]] = defaultdict(set)
    for numbers in set(Bigrams((texts[index] for index in distinct), Shingles()).alike()):
        first, second = (ids[distinct[number]] for number in numbers)
        alike[first].add(second)
        alike[second].add(first)
    return alike


def _copies(
    data: RetrievalData,
    perfect: Mapping[str, Mapping[str, float]],
    metrics: Sequence[str],
    highest: dict[str, float],
    examples: int,
) -> Iterator[DataFault]:
    """Documents that are copies of others. A perfect system cannot tell a relevant document from a copy that is not
    judged relevant, and loses most if the copy comes first."""
    exact = copies_of(data.document_ids, data.documents)
    near = _near_copies_of(data.document_ids, data.documents, exact)
    later = sum(1 for id in exact if id != min(id, *exact[id]))
    texts = data.documents_by_id
    for kind, copies, count in (("repeated-texts", exact, later), ("near-duplicates", near, len(near))):
        if not copies:
            continue
        first, items = _copies_first(perfect, copies, texts)
        unjudged = sum(len(first[query]) - len(scores) for query, scores in perfect.items())
        items += [f"{id}, {min(copies[id])}: {shown(texts[id])}" for id in copies if id < min(copies[id])]
        about, cost = "", {}
        if unjudged:
            about = f"{unjudged:,} copies of relevant documents are not judged relevant"
            cost = _lost(highest, means(data, first, metrics))
        yield DataFault(kind, "documents", count, len(data.documents), about, cost, items[:examples])


def _copies_first(
    perfect: Mapping[str, Mapping[str, float]], copies: Mapping[str, set[str]], texts: Mapping[str, str]
) -> tuple[dict[str, dict[str, float]], list[str]]:
    """The perfect ranking with each copy that is not judged relevant before its document; and each, as an example."""
    ranking = {}
    items = []
    for query, scores in perfect.items():
        ranking[query] = dict(scores)
        for document, score in scores.items():
            for copy in sorted(copies.get(document, set()).difference(scores)):
                ranking[query][copy] = max(ranking[query].get(copy, 0.0), score + 0.5)
                items.append(f"query {query}: {document} is relevant, {copy} is not: {shown(texts[copy])}")
    return ranking, items


# --- texts


def of_texts(unit: str, ids: Iterable[object], texts: Iterable[str], examples: int) -> Iterator[DataFault]:
    """Texts without words, mostly of boiler-plate, read in a wrong encoding, or with invisible characters. ``ids`` and
    ``texts`` are iterated over several times."""
    traces_of_kind: dict[str, Callable[[str], str | None]] = {
        "empty-texts": _trace_of_emptiness,
        "encoding": trace_of_encoding,
        "invisible-characters": trace_of_invisible,
    }
    total = 0
    counts = dict.fromkeys(traces_of_kind, 0)
    first: dict[str, list[str]] = {kind: [] for kind in traces_of_kind}
    for id, text in zip(ids, texts, strict=True):
        if isinstance(text, Image):
            continue
        total += 1
        for kind, trace_of in traces_of_kind.items():
            trace = trace_of(text)
            if trace is None:
                continue
            counts[kind] += 1
            if counts[kind] <= examples:
                first[kind].append(f"{id}: {trace}")
    for kind, count in counts.items():
        if count:
            yield DataFault(kind, unit, count, total, examples=first[kind])
    yield from faults_of("boilerplate", unit, _boilerplate_texts(ids, texts), total, examples)


def _boilerplate_texts(ids: Iterable[object], texts: Iterable[str]) -> Iterator[str]:
    """Each text that is mostly boiler-plate, as an example."""
    common = set(boilerplate(texts))
    if common:
        for index, (id, text) in enumerate(zip(ids, texts, strict=True)):
            if index in common:
                yield f"{id}: {shown(text)}"


def _trace_of_emptiness(text: str) -> str | None:
    return None if has_units(text) else repr(shown(text))


def trace_of_encoding(text: str) -> str | None:
    """Where a text shows that it was read in a wrong encoding; ``None`` if it does not.

    >>> trace_of_encoding("CafÃ© au lait"), trace_of_encoding("Café, NÃO")
    ('CafÃ© au lait', None)
    """
    if text.isascii():
        return None
    match = _LOST.search(text) or next((m for m in _WRONGLY_READ.finditer(text) if _decoded(m) != m[0]), None)
    return None if match is None else shown(text[max(0, match.start() - 30) : match.start() + 50])


def trace_of_invisible(text: str) -> str | None:
    """Where a word of a text has an invisible character, which is written as its code; ``None`` if none has.

    >>> trace_of_invisible("re\\u200btrieval"), trace_of_invisible("retrieval \\u200b")
    ('re<U+200B>trieval', None)
    """
    if text.isascii():
        return None
    match = _INVISIBLE.search(text)
    if match is None:
        return None
    code = f"<U+{ord(match[0][0]):04X}>"
    return shown(text[max(0, match.start() - 30) : match.start()] + code + text[match.end() : match.end() + 50])


def decoded_again(text: str) -> str:
    """``text`` with letters that were read in a wrong encoding as they were meant; what is lost stays.

    >>> decoded_again("CafÃ© \x96 itâ€™s")
    'Café – it’s'
    """
    if text.isascii():
        return text
    text = _WRONGLY_READ.sub(_decoded, text)
    return _CONTROLS.sub(lambda match: match[0].encode("latin-1").decode("cp1252", "replace"), text)


def _decoded(match: re.Match[str]) -> str:
    """What UTF-8 gives for the bytes that Windows-1252 reads as the match; the match itself if they are none."""
    with suppress(UnicodeDecodeError, UnicodeEncodeError):
        return bytes(map(_byte, match[0])).decode("utf-8")
    return match[0]


def _byte(letter: str) -> int:
    """The byte that Windows-1252 reads as ``letter``; those that it leaves out are read as in Latin-1."""
    return ord(letter) if ord(letter) < 256 else letter.encode("cp1252")[0]


def boilerplate(texts: Iterable[str]) -> list[int]:
    """The indices of texts of which most is sentences that many different texts have. ``texts`` are iterated over
    several times; images are none."""
    shared = _shared_sentences(texts)
    indices = []
    for index, text in enumerate(texts) if shared else ():
        if isinstance(text, Image):
            continue
        size, shared_size = 0, 0
        for sentence, length in _sentences(text):
            size += length
            if hash(sentence) in shared:
                shared_size += length
        if size and shared_size >= _MOSTLY * size:
            indices.append(index)
    return indices


def _shared_sentences(texts: Iterable[str]) -> set[int]:
    """The hashes of sentences that many different texts have."""
    is_distinct = first_of_each(array("q", (hash(normal_form(text)) for text in texts)))
    codes, distinct = array("q"), 0
    for text, is_first in zip(texts, is_distinct, strict=True):
        if is_first and not isinstance(text, Image):
            distinct += 1
            codes.extend({hash(sentence) for sentence, _ in _sentences(text)})
    values = np.frombuffer(codes, dtype=np.int64) if len(codes) else np.empty(0, np.int64)
    values.sort()  # so that a number that comes often is followed by itself
    apart = max(_SHARED, math.ceil(_SHARE * distinct)) - 1
    return set(values[apart:][values[apart:] == values[:-apart]].tolist())


def _sentences(text: str) -> Iterator[tuple[str, int]]:
    """Each sentence with more than one word in its normal form, and its length."""
    for sentence in _SENTENCE.split(text):
        form = normal_form(sentence)
        if " " in form:
            yield form, len(form)


# --- training data


def check_training(source: Source, examples: int = 0) -> CheckedData:
    """Check the records of a source. In memory are its records and a few numbers for each text."""
    records: Sequence[Any] = source.records
    texts = RecordTexts(records)
    total = len(records) + source.counts.get("duplicates", 0)
    contradictions = chain(_contradicting_negatives(records), _contradicting_scores(records))
    faults = [
        *faults_of("contradicting-labels", "pairs", contradictions, len(records), examples),
        *faults_of("repeated-lines", "records", (f"record {index + 1}" for index in repeated(source)), total, examples),
        *faults_of("self-pairs", "pairs", _self_pairs(records), len(records), examples),
        *of_texts("texts", range(1, len(texts) + 1), texts, examples),
    ]
    return CheckedData(source.spec, TRAINING, dict(source.counts), faults)


def repeated(source: Source) -> list[int]:
    """The indices of the records that repeat an earlier one, and are left out."""
    is_repeated = np.ones(len(source.records) + source.counts.get("duplicates", 0), dtype=bool)
    is_repeated[np.asarray(source.places, dtype=np.int64)] = False
    indices: list[int] = is_repeated.nonzero()[0].tolist()
    return indices if source.places else []


def _self_pairs(records: Iterable[Pair | ScoredPair | Unlabelled]) -> Iterator[str]:
    for record in records:
        if not isinstance(record, Pair) or record.negatives:
            continue
        if normal_form(record.anchor) == normal_form(record.positive):
            yield shown(record.anchor)


class RecordTexts:
    """The different texts of records in their order, which are taken from the records each time."""

    def __init__(self, records: Iterable[Pair | ScoredPair | Unlabelled]) -> None:
        self._records = records
        self._is_first = first_of_each(array("Q", map(text_id, self._all_texts())))

    def __len__(self) -> int:
        return int(self._is_first.sum())

    def __iter__(self) -> Iterator[str]:
        return (text for text, is_first in zip(self._all_texts(), self._is_first, strict=True) if is_first)

    def _all_texts(self) -> Iterator[str]:
        for record in self._records:
            anchor, texts = texts_of_record(record)
            yield anchor
            yield from texts


def _contradicting_negatives(records: Sequence[Pair | ScoredPair | Unlabelled]) -> Iterator[str]:
    """Pairs of an anchor and a text that are both a positive and a negative pair, each once."""

    def negative_pairs() -> Iterator[tuple[str, str]]:
        for record in records:
            if isinstance(record, Pair):
                for text in record.negatives:
                    yield record.anchor, text

    negatives = _codes(negative_pairs())
    if not len(negatives):
        return
    positives = _codes((record.anchor, record.positive) for record in records if isinstance(record, Pair))
    contradicts = first_of_each(array("Q", negatives.tobytes())) & np.isin(negatives, positives)
    for (anchor, text), is_positive in zip(negative_pairs(), contradicts, strict=True):
        if is_positive:
            yield f"{shown(anchor)} | {shown(text)}: positive and negative"


def _contradicting_scores(records: Sequence[Pair | ScoredPair | Unlabelled]) -> Iterator[str]:
    """Pairs of sentences, in either order, that have several scores."""
    if not records or not isinstance(records[0], ScoredPair):
        return
    pairs: Any = records
    scores = np.array(array("d", (pair.score for pair in pairs)))
    codes = _codes(sorted((normal_form(pair.sentence1), normal_form(pair.sentence2))) for pair in pairs)
    order = np.lexsort((scores, codes))
    is_other = (codes[order][1:] == codes[order][:-1]) & (scores[order][1:] != scores[order][:-1])
    by_code: dict[int, list[int]] = {}
    for position in np.isin(codes, codes[order][1:][is_other]).nonzero()[0].tolist():
        by_code.setdefault(int(codes[position]), []).append(position)
    for positions in by_code.values():
        first = pairs[positions[0]]
        several = ", ".join(f"{score:g}" for score in sorted({float(scores[position]) for position in positions}))
        yield f"{shown(first.sentence1)} | {shown(first.sentence2)}: {several}"


def _codes(pairs: Iterable[Sequence[str]]) -> np.ndarray:
    """A number for each pair of texts that differ in more than case and white space, int64 ``[n]``."""
    firsts, seconds = array("q"), array("q")
    for first, second in pairs:
        firsts.append(text_id(normal_form(first)))
        seconds.append(text_id(normal_form(second)))
    codes: np.ndarray = pair_codes(np.array(firsts, dtype=np.int64), np.array(seconds, dtype=np.int64))
    return codes


def check_labelled(data: LabelledTexts, examples: int = 0) -> CheckedData:
    """Check texts with labels."""
    labels = []
    for group in _grouped(data.texts, normal_form):
        different = sorted({data.labels[index] for index in group})
        if len(different) > 1:
            labels.append(f"{shown(data.texts[group[0]])}: {', '.join(different)}")
    faults = [
        *faults_of("contradicting-labels", "texts", labels, len(data.texts), examples),
        *_repeated("texts", data.ids, data.texts, examples),
        *of_texts("texts", data.ids, data.texts, examples),
    ]
    return CheckedData(data.name, TRAINING, {"texts": len(data.texts), "labels": len(data.classes)}, faults)


def overlap_fault(overlap: Overlap) -> list[DataFault]:
    """Queries of a test in training data, as a fault."""
    counts, warning = overlap.counts, overlap.warning()
    if warning is None:
        return []
    items = [f"{row['what']}: {shown(row['test'])} | {shown(row['training'])}" for row in overlap.examples]
    seen = counts["queries_seen"] + counts["queries_near"]
    about = f"{counts['pairs_seen']:,} of {counts['pairs']:,} query-document pairs too"
    return [DataFault("training-overlap", "queries", seen, counts["queries"], about, {}, items)]


# --- on the way of an evaluation or a training


def quick_line(data: RetrievalData) -> str | None:
    """A line about faults that cost an evaluation something and that nothing else reports; ``None`` without any, and of
    large data."""
    if sum(map(len, data.documents)) > QUICK:
        return None
    parts = []
    unjudged = _unjudged_copies(data)
    if unjudged:
        parts.append(f"{unjudged:,} times a document with the text of a relevant one is not judged relevant")
    wrong = sum(1 for text in data.documents if not isinstance(text, Image) and trace_of_encoding(text) is not None)
    if wrong:
        parts.append(f"{wrong:,} documents show a wrong encoding")
    return f"{data.name}: {'; '.join(parts)} (see retrokit check)" if parts else None


def _unjudged_copies(data: RetrievalData) -> int:
    """How many times a document with the text of a relevant one is not judged relevant."""
    copies = _copies_by_head(data.document_ids, data.documents)
    count = 0
    for grades in data.qrels.values():
        relevant = {document for document, grade in grades.items() if grade >= data.level}
        count += sum(1 for group in copies if relevant & group and group - relevant)
    return count


def _copies_by_head(ids: Sequence[str], texts: Sequence[str]) -> list[set[str]]:
    """The ids of texts that are copies, in groups. Only texts that begin alike are normalised."""
    groups = []
    for head in _grouped(texts, lambda text: " ".join(text[:_HEAD].split())[: _HEAD // 2].lower()):
        for copies in _grouped([texts[index] for index in head], normal_form):
            groups.append({ids[head[index]] for index in copies})
    return groups
