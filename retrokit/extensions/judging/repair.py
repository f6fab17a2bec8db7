"""Repaired copies of test sets and training data, and a list of every change with its reason."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from retrokit.core.errors import DataError, UsageError
from retrokit.core.notices import notice
from retrokit.core.outputs import check_settings, folder_in_the_making
from retrokit.core.registry import Registry, parse_all
from retrokit.core.settings import taking
from retrokit.core.sheet import Sheet
from retrokit.data.beir import (
    RetrievalData,
    corpus_file,
    located,
    queries_of_all_splits,
    read_answers,
    write_beir,
)
from retrokit.data.check import Judgement, copies_of, decoded_again, read_splits, repeated
from retrokit.data.corpus import Document, read_corpus
from retrokit.data.images import Image
from retrokit.data.jsonl import Gathered, gathering, write_jsonl
from retrokit.data.pairs import Source, read_any_source
from retrokit.data.pairs import registry as training_data
from retrokit.data.records import PrintedRecord
from retrokit.data.training_rows import Pair, ScoredPair, normal_form
from retrokit.evaluation import registry as tasks
from retrokit.extensions.judging.false_negatives import doubted_negatives
from retrokit.extensions.judging.judged_splits import BEIR, JudgedSplit, completed, is_test_set
from retrokit.extensions.judging.settings import RepairSettings
from retrokit.extensions.judging.verdicts import read_relevance
from retrokit.ranking import reranking

Verdicts = Mapping[tuple[str, str], float]
"""Query and document id → whether it is relevant, 0 to 1."""
CHANGES = "changes.jsonl"
"""The list of changes, next to the repaired copies."""


@dataclass(frozen=True)
class DataChange:
    """One change.

    Attributes:
        data: the file or folder that is repaired.
        where: the line, the ids, or the text that is changed.
        change: what is done.
        reason: the kind of fault, or ``verdict`` or ``rerankers``.
    """

    data: str
    where: str
    change: str
    reason: str


@dataclass(frozen=True)
class DataRepair(PrintedRecord):
    """Repaired copies.

    Attributes:
        folder: with the copies and ``changes.jsonl``.
        changes: how many, by reason.
    """

    folder: str
    changes: dict[str, int]

    def sheets(self) -> list[Sheet]:
        """A row for each reason."""
        rows = [[reason, f"{count:,}"] for reason, count in self.changes.items()]
        return [Sheet(f"{self.folder}: changes by reason", ["reason", "changes"], 1, rows)]


@taking(RepairSettings)
def repair_data(settings: RepairSettings) -> DataRepair:
    """Write repaired copies of test sets and training data into a new folder, and the list of all changes.

    Raises:
        UsageError: a wrong name, data that cannot be repaired, or an output that would replace an input.
        DataError: a file that cannot be read, verdicts on other data, or an output that cannot be written.
    """
    check_settings(settings)
    specs = [completed(spec) for spec in settings.data]
    test_specs = [spec for spec in specs if is_test_set(spec)]
    training_specs = [spec for spec in specs if not is_test_set(spec)]
    _check_specs(test_specs, training_specs, settings)
    verdicts = _read_verdicts(settings.verdicts)
    with folder_in_the_making(settings.output) as unfinished:
        tests = [JudgedSplit.of_spec(spec) for spec in test_specs]
        for test in tests:
            with gathering():  # faults that are repaired
                data = test.read()
            _check_verdicts(data, verdicts, ", ".join(settings.verdicts))
        sources = list(map(_readable_source, training_specs))
        _check_names(tests, sources)
        changes = _write_repaired(tests, sources, verdicts, settings, unfinished)
    notice(f"{settings.output}: repaired copies, with {len(changes):,} changes listed in {CHANGES}")
    return DataRepair(settings.output, dict(Counter(change.reason for change in changes)))


def _check_specs(test_specs: Sequence[str], training_specs: Sequence[str], settings: RepairSettings) -> None:
    requests: list[tuple[Registry, str]] = [(tasks, spec) for spec in test_specs]
    requests += [(training_data, spec) for spec in training_specs]
    requests += [(reranking.registry_of(spec), spec) for spec in settings.with_]
    parse_all(requests)
    if settings.verdicts and len(test_specs) != 1:
        raise UsageError(f"`verdicts=`: give the test set that they are on, such as {BEIR}:PATH, not {len(test_specs)}")
    if settings.with_ and not training_specs:
        raise UsageError("`with_=` is for negatives; give training data")


def _read_verdicts(paths: Sequence[str]) -> Verdicts:
    if not paths:
        return {}
    return {pair: verdict.relevant for pair, verdict in read_relevance(paths).items()}


def _check_verdicts(data: RetrievalData, verdicts: Verdicts, files: str) -> None:
    """Raise :class:`DataError` for verdicts that are on other data."""
    queries = set(data.query_ids)
    documents = set(data.document_ids)
    for query, document in verdicts:
        pair = f"query {query!r} and document {document!r}"
        if query not in queries or document not in documents:
            raise DataError(files, f"{pair} are not both in {data.name}; give the data of the draw")
        if document in data.qrels.get(query, {}):
            raise DataError(files, f"{pair} are judged in {data.name} already; give the data of the draw")


def _readable_source(spec: str) -> Source:
    """The training data of a spec; raises :class:`UsageError` for texts without labels."""
    source = read_any_source(spec)
    if len(source.records) and not isinstance(source.records[0], (Pair, ScoredPair)):
        raise UsageError(f"{source.spec}: only pairs and scored pairs can be repaired")
    return source


def _check_names(tests: Iterable[JudgedSplit], sources: Iterable[Source]) -> None:
    """Raise :class:`UsageError` if two repaired copies, or a copy and the list of changes, would have one name."""
    folders = dict.fromkeys(test.path for test in tests)
    names = [Path(path).resolve().name for path in folders] + [f"{source.name}.jsonl" for source in sources]
    if CHANGES in names:
        raise UsageError(f"`output=`: a data set has the name of the list of changes, {CHANGES}; rename the data set")
    if repeated_names := sorted({name for name in names if names.count(name) > 1}):
        several = ", ".join(repeated_names)
        raise UsageError(f"`output=`: several data sets are called {several}; repair them one by one")


def _write_repaired(
    tests: Sequence[JudgedSplit],
    sources: Sequence[Source],
    verdicts: Verdicts,
    settings: RepairSettings,
    folder: Path,
) -> list[DataChange]:
    """Write repaired copies of all data into the folder, and the list of changes."""
    splits: dict[str, list[JudgedSplit]] = defaultdict(list)
    for test in tests:
        splits[test.path].append(test)
    changes: list[DataChange] = []
    for path, path_splits in splits.items():
        by_split = {test.split: verdicts for test in path_splits}
        changes += repair_beir(path, path_splits[0].level, by_split, folder / Path(path).resolve().name)
    for source in sources:
        doubted = doubted_negatives(source, settings.with_, settings.device)
        changes += repair_pairs(source, doubted, settings.relabel, folder / f"{source.name}.jsonl")
    write_jsonl(folder / CHANGES, map(vars, changes))
    return changes


def _check_no_images(path: str, texts: Iterable[str]) -> None:
    if any(isinstance(text, Image) for text in texts):
        raise UsageError(f"{path}: contains images; only texts can be repaired")


def _changes_by_reading(name: str, faults: Iterable[Gathered]) -> list[DataChange]:
    """Faults that readers repair."""
    changes = []
    for fault in faults:
        if fault.kind in _REPAIRED_BY_READING:
            where = f"{Path(fault.path).name}:{fault.line}"
            changes.append(DataChange(name, where, _REPAIRED_BY_READING[fault.kind], fault.kind))
    return changes


def _present_judgements(
    name: str,
    split: str,
    rows: Iterable[Judgement],
    queries: Container[str],
    documents: Container[str],
) -> tuple[dict[str, dict[str, int]], list[DataChange]]:
    """The judgements of a split whose query and document exist, and how the others are left out."""
    qrels: dict[str, dict[str, int]] = {}
    changes = []
    for _, query, document, grade in rows:
        if query in queries and document in documents:
            qrels.setdefault(query, {})[document] = grade
            continue
        reason = "absent-documents" if query in queries else "absent-queries"
        changes.append(DataChange(name, f"{split}: {query} {document}", f"judgement {grade} left out", reason))
    return qrels, changes


def repair_beir(path: str, level: int, verdicts: Mapping[str, Verdicts], target: Path) -> list[DataChange]:
    """Write a repaired copy of a BEIR folder with all its splits. The judgements of each split in ``verdicts`` get its
    verdicts, and those of exact copies of relevant documents.

    Raises:
        UsageError: documents are images.
        DataError: as readers do, or the copy cannot be written.
    """
    folder, name = located(path), Path(path).resolve().name
    with gathering() as gathered:
        documents = {document.id: document for document in read_corpus(corpus_file(folder), images=True)}
        queries = queries_of_all_splits(folder)
        read, unreadable = read_splits(folder, list)
    with gathering():  # the same faults again
        answers = read_answers(folder)
    _check_no_images(path, [*queries.values(), *(document.text for document in documents.values())])
    changes = _changes_by_reading(name, gathered)
    changes += [DataChange(name, f"qrels of {split}", "left out", "unreadable-splits") for split in unreadable]
    decoded = {id: _decoded(document, name, changes) for id, document in documents.items()}
    mended = {id: _mended(text, name, f"query {id}", changes) for id, text in queries.items()}
    qrels: dict[str, dict[str, dict[str, int]]] = {}
    for split, rows in read.items():
        qrels[split], left_out = _present_judgements(name, split, rows, queries, documents)
        changes += left_out
    copies = copies_of(list(decoded), [document.full_text for document in decoded.values()])
    for split, split_verdicts in verdicts.items():
        changes += _judge_again(name, split, qrels[split], split_verdicts, level, copies)
    write_beir(target, decoded.values(), mended.items(), qrels, answers)
    return changes


_REPAIRED_BY_READING = {
    **dict.fromkeys(("colliding", "contradicting", "repeated"), "line left out"),
    "encoding": "read as Windows-1252",
}
"""Faults that a reader reports, and what it does about them."""


def _judge_again(
    name: str,
    split: str,
    qrels: dict[str, dict[str, int]],
    verdicts: Verdicts,
    level: int,
    copies: Mapping[str, Collection[str]],
) -> Iterator[DataChange]:
    for (query, document), relevant in verdicts.items():
        grade = level if relevant >= 0.5 else 0
        qrels.setdefault(query, {})[document] = grade
        yield DataChange(name, f"{split}: {query} {document}", f"judged {grade}", "verdict")
    for query, grades in qrels.items():
        for document, grade in [*grades.items()]:
            for copy in sorted(copies.get(document, ())) if grade >= level else ():
                if grades.get(copy, 0) < grade:
                    grades[copy] = grade
                    yield DataChange(
                        name, f"{split}: {query} {copy}", f"judged {grade}, as {document}", "repeated-texts"
                    )


def _decoded(document: Document, name: str, changes: list[DataChange]) -> Document:
    title = _mended(document.title, name, f"document {document.id}, title", changes)
    return Document(document.id, title, _mended(document.text, name, f"document {document.id}", changes))


def _mended(text: str, name: str, where: str, changes: list[DataChange]) -> str:
    mended = decoded_again(text)
    if mended != text:
        changes.append(DataChange(name, where, "decoded again", "encoding"))
    return mended


def repair_pairs(
    source: Source, false_negatives: Mapping[int, Sequence[int]], relabel: bool, target: Path
) -> list[DataChange]:
    """Write a repaired copy of pairs or scored pairs as JSON lines. The ``false_negatives`` (record → its negatives)
    are left out, or become positives if ``relabel``.

    Raises:
        DataError: the copy cannot be written.
    """
    changes: list[DataChange] = []
    records: Sequence[Any] = source.records
    for index in repeated(source):
        changes.append(DataChange(source.spec, f"record {index + 1}", "left out", "repeated-lines"))
    if records and isinstance(records[0], ScoredPair):
        rows = _scored_rows(source.spec, records, changes)
    else:
        rows = _pair_rows(source, records, false_negatives, relabel, changes)
    write_jsonl(target, rows)
    return changes


def _positives_by_anchor(
    pairs: Sequence[Pair], false_negatives: Mapping[int, Sequence[int]], relabel: bool
) -> tuple[Mapping[str, set[str]], Mapping[str, set[str]]]:
    """The normal forms of the positives of each anchor, and of the negatives that become positives."""
    positives, relabelled = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for index, pair in enumerate(pairs):
        anchor = normal_form(pair.anchor)
        positives[anchor].add(normal_form(pair.positive))
        if relabel:
            relabelled[anchor] |= {normal_form(pair.negatives[number]) for number in false_negatives.get(index, ())}
    return positives, relabelled


def _record(source: Source, index: int) -> str:
    row = source.places[index] if source.places else index
    return f"record {row + 1}"


def _pair_rows(
    source: Source,
    pairs: Sequence[Pair],
    false_negatives: Mapping[int, Sequence[int]],
    relabel: bool,
    changes: list[DataChange],
) -> Iterator[dict[str, Any]]:
    spec = source.spec
    positives, relabelled = _positives_by_anchor(pairs, false_negatives, relabel)
    for index, pair in enumerate(pairs):
        where = _record(source, index)
        form = normal_form(pair.anchor)
        if not pair.negatives and form == normal_form(pair.positive):
            changes.append(DataChange(spec, where, "left out", "self-pairs"))
            continue
        negatives, answers = [], [pair.positive]
        for number, text in enumerate(pair.negatives):
            is_doubted, text_form = number in false_negatives.get(index, ()), normal_form(text)
            if text_form in positives[form]:
                changes.append(DataChange(spec, f"{where}: {text}", "negative left out", "contradicting-labels"))
            elif is_doubted and relabel:
                answers.append(text)
                changes.append(DataChange(spec, f"{where}: {text}", "negative made a positive", "rerankers"))
            elif is_doubted or text_form in relabelled[form]:
                changes.append(DataChange(spec, f"{where}: {text}", "negative left out", "rerankers"))
            else:
                negatives.append(text)
        yield from _mended_rows(pair.anchor, answers, negatives, spec, where, changes)


def _mended_rows(
    anchor: str,
    positives: Sequence[str],
    negatives: Sequence[str],
    spec: str,
    where: str,
    changes: list[DataChange],
) -> Iterator[dict[str, Any]]:
    """A row for each positive."""
    anchor = _mended(anchor, spec, f"{where}: anchor", changes)
    negatives = [_mended(text, spec, f"{where}: negative", changes) for text in negatives]
    for text in positives:
        row: dict[str, Any] = {"anchor": anchor, "positive": _mended(text, spec, f"{where}: positive", changes)}
        if negatives:
            row["negatives"] = negatives
        yield row


def _scored_rows(spec: str, pairs: Sequence[ScoredPair], changes: list[DataChange]) -> Iterator[dict[str, Any]]:
    """Scored pairs; those with several scores get the mean, once."""
    scores: dict[tuple[str, ...], list[float]] = {}
    forms = [tuple(sorted((normal_form(pair.sentence1), normal_form(pair.sentence2)))) for pair in pairs]
    for form, pair in zip(forms, pairs, strict=True):
        scores.setdefault(form, []).append(pair.score)
    written: set[tuple[str, ...]] = set()
    for number, (form, pair) in enumerate(zip(forms, pairs, strict=True), start=1):
        where, pair_scores = f"record {number}", scores[form]
        if len(set(pair_scores)) > 1:
            if form in written:
                changes.append(DataChange(spec, where, "left out", "contradicting-labels"))
                continue
            written.add(form)
            pair = replace(pair, score=sum(pair_scores) / len(pair_scores))
            changes.append(DataChange(spec, where, f"score {pair.score:g}, the mean", "contradicting-labels"))
        first, second = (_mended(text, spec, where, changes) for text in (pair.sentence1, pair.sentence2))
        yield {"sentence1": first, "sentence2": second, "score": pair.score}
