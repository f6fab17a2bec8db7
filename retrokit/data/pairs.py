"""Training data: pairs with optional negatives, scored pairs, and the sources that they come from.

A source is named by a spec — ``pairs.jsonl``, ``beir:data/scifact,split=train``, ``hf:ORG/NAME`` — and read whole and
validated before training starts, so that a mistake in its last line costs no hours.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from retrokit.data.beir import digest_beir, is_beir, read_beir
from retrokit.data.columns import pair_columns, scored_columns
from retrokit.data.files import digest, named
from retrokit.data.jsonl import kind_of, read_jsonl
from retrokit.errors import DataError, UsageError
from retrokit.notices import notice
from retrokit.registry import Entry, Param, Registry

Kind = Literal["pairs", "scored"]


@dataclass(frozen=True, slots=True)
class Pair:
    """A query-like text, a text that belongs to it, and texts that do not."""

    anchor: str
    positive: str
    negatives: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """Two sentences and how similar people found them; higher is more similar, the scale is the data's own."""

    sentence1: str
    sentence2: str
    score: float


@dataclass(frozen=True)
class Source:
    """The records of one source of training data, all of one type, and how to use them.

    ``weight`` is how many times an epoch takes the records; the prompts go before anchors and before documents.
    ``digest`` is ``sha256:<hex>`` of what was read. ``known_positives`` maps each anchor to all its positives, so that
    none of them is taken for a negative (empty for scored pairs). ``counts`` has the keys records, anchors (distinct),
    documents (distinct: positives and negatives, or second sentences) and duplicates (pairs that repeat an earlier
    one, negatives included: left out); a BEIR source adds pairs_without_text (left out).
    """

    spec: str
    name: str
    records: list[Pair] | list[ScoredPair]
    weight: float
    query_prompt: str | None
    document_prompt: str | None
    digest: str
    known_positives: dict[str, set[str]]
    counts: dict[str, int]


_USE = (
    Param("weight", float, 1.0, minimum=0.001, maximum=1000.0, summary="how many times an epoch takes its records"),
    Param("query_prompt", summary="text before each anchor"),
    Param("document_prompt", summary="text before each positive and negative"),
)
_SPLIT = Param("split", default="train", summary="which split")

registry = Registry(
    "training data",
    "retrokit.data",
    [
        Entry(
            "jsonl",
            "JSON lines: anchor, positive, negatives; or sentence1, sentence2, score",
            "retrokit.data.pairs:from_jsonl",
            (Param("path", required=True, summary="a file, .gz too; - is standard input"), *_USE),
            positional="path",
        ),
        Entry(
            "beir",
            "the judged queries of a BEIR folder, each with every relevant document",
            "retrokit.data.pairs:from_beir",
            (Param("path", required=True, summary="the folder"), _SPLIT, *_USE),
            positional="path",
        ),
        Entry(
            "hf",
            "a Hugging Face data set: a folder of save_to_disk, a folder of data files, or a hub id",
            "retrokit.data.hub:from_hf",
            (
                Param("name", required=True, summary="a folder or a hub id"),
                Param("config", summary="which configuration"),
                _SPLIT,
                *_USE,
            ),
            positional="name",
        ),
    ],
    fallback="jsonl",
)


def read_source(text: str, kind: Kind) -> Source:
    """Read and validate the training data that the spec ``text`` names, as pairs or as scored pairs.

    Raises:
        UsageError: a wrong spec, or a source that cannot give this kind.
        DataError: a line or row that is wrong.
        ServiceError: a hub that cannot be reached.
    """
    spec = registry.parse(text)
    return registry.create(spec, kind=kind, spec_text=str(spec))


def from_jsonl(
    path: str,
    weight: float,
    query_prompt: str | None,
    document_prompt: str | None,
    *,
    kind: Kind,
    spec_text: str,
) -> Source:
    """The source ``jsonl``: a file of one object a line (``-``: standard input), columns named as in ``columns.py``.

    A list of positives gives one pair each. Raises as :func:`read_source`.
    """
    if os.path.isdir(path):
        raise UsageError(f"{path}: is a folder; for training data write {'beir' if is_beir(path) else 'hf'}:{path}")
    seen = hashlib.sha256()
    rows = read_jsonl(path, expected="training data, one JSON object a line", feed=seen.update)
    records = read_records(rows, kind, path)
    packed = path.endswith(".gz")
    return build_source(
        records,
        spec=spec_text,
        name="stdin" if path == "-" else Path(path).name.removesuffix(".gz").removesuffix(".jsonl"),
        weight=weight,
        query_prompt=query_prompt,
        document_prompt=document_prompt,
        # of a plain file, the bytes read are the file's; a pipe could not be read again
        digest=digest(path) if packed else f"sha256:{seen.hexdigest()}",
    )


def from_beir(
    path: str,
    split: str,
    weight: float,
    query_prompt: str | None,
    document_prompt: str | None,
    *,
    kind: Kind,
    spec_text: str,
) -> Source:
    """The source ``beir``: one pair per query and document with a grade above 0 in the split.

    Documents without any text are left out, counted, and mentioned in a notice. Raises as :func:`read_source`.
    """
    if kind != "pairs":
        raise UsageError(f"{spec_text}: a BEIR folder gives pairs, not sentences with scores")
    data = read_beir(path, split)
    documents = dict(zip(data.document_ids, data.documents, strict=True))
    records, without_text = [], 0
    for query_id, query in zip(data.query_ids, data.queries, strict=True):
        if not query.strip():
            raise DataError(path, f"query {query_id!r} of split {split!r} has no text")
        relevant = [documents[document_id] for document_id, grade in data.qrels[query_id].items() if grade > 0]
        records += [Pair(query, document) for document in relevant if document]
        without_text += relevant.count("")
    if without_text:
        notice(f"{path}: {without_text} relevant documents of split {split!r} have no text; their pairs are left out")
    return build_source(
        records,
        spec=spec_text,
        name=data.name,
        weight=weight,
        query_prompt=query_prompt,
        document_prompt=document_prompt,
        digest=digest_beir(path, split),
        left_out={"pairs_without_text": without_text},
    )


def build_source(
    records: list[Pair] | list[ScoredPair],
    *,
    spec: str,
    name: str,
    weight: float,
    query_prompt: str | None,
    document_prompt: str | None,
    digest: str,
    left_out: Mapping[str, int] | None = None,
) -> Source:
    """A source of ``records``, all of one type: repeated pairs left out, positives gathered, everything counted.

    Scored pairs are kept as they are: how often people judged a pair is part of the data.

    Raises:
        DataError: there are no records.
    """
    if not records:
        raise DataError(spec, "gives no training records")
    kept: list[Any] = list(records) if isinstance(records[0], ScoredPair) else list(dict.fromkeys(records))
    known: dict[str, set[str]] = {}
    anchors: set[str] = set()
    documents: set[str] = set()
    for record in kept:
        if isinstance(record, Pair):
            known.setdefault(record.anchor, set()).add(record.positive)
            anchors.add(record.anchor)
            documents.update((record.positive, *record.negatives))
        else:
            anchors.add(record.sentence1)
            documents.add(record.sentence2)
    counts = {
        "records": len(kept),
        "anchors": len(anchors),
        "documents": len(documents),
        "duplicates": len(records) - len(kept),
        **(left_out or {}),
    }
    return Source(spec, name, kept, weight, query_prompt, document_prompt, digest, known, counts)


def read_records(
    rows: Iterable[tuple[int, Mapping[str, Any]]], kind: Kind, where: str
) -> list[Pair] | list[ScoredPair]:
    """The records of numbered rows of the place ``where`` (a path or a data set's name).

    Raises:
        DataError: a row (named by its number) without the columns that ``kind`` needs, or with a wrong value in one.
    """
    records_of: Callable[[Mapping[str, Any]], list[Any]] = _pairs_of if kind == "pairs" else _scored_of
    records: list[Any] = []
    for line, row in rows:
        try:
            records += records_of(row)
        except ValueError as error:
            raise DataError(named(where), str(error), line) from error
    return records


def _pairs_of(row: Mapping[str, Any]) -> list[Pair]:
    columns = pair_columns(tuple(row))
    anchor = _text(row, columns.anchor)
    negatives: list[str] = []
    for column in columns.negatives:
        if row[column] is not None:
            negatives += _texts(row, column)
    positives = _texts(row, columns.positive)
    if not positives:
        raise ValueError(f"field {columns.positive!r} is an empty list")
    return [Pair(anchor, positive, tuple(negatives)) for positive in positives]


def _scored_of(row: Mapping[str, Any]) -> list[ScoredPair]:
    columns = scored_columns(tuple(row))
    score = row[columns.score]
    if isinstance(score, bool) or not isinstance(score, (int, float)):
        raise ValueError(f"field {columns.score!r} should be a number, found {kind_of(score)}")
    try:
        number = float(score)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"field {columns.score!r} should be a finite number")
    return [ScoredPair(_text(row, columns.sentence1), _text(row, columns.sentence2), number)]


def _text(row: Mapping[str, Any], column: str) -> str:
    value = row[column]
    if not isinstance(value, str):
        raise ValueError(f"field {column!r} should be a string, found {kind_of(value)}")
    return _not_blank(value, column)


def _texts(row: Mapping[str, Any], column: str) -> list[str]:
    value = row[column]
    if isinstance(value, str):
        return [_not_blank(value, column)]
    if not isinstance(value, list):
        raise ValueError(f"field {column!r} should be a string or a list of strings, found {kind_of(value)}")
    for item in value:
        if not isinstance(item, str):
            raise ValueError(f"field {column!r} should hold strings, found {kind_of(item)} in its list")
        _not_blank(item, column)
    return value


def _not_blank(text: str, column: str) -> str:
    if not text or text.isspace():
        raise ValueError(f"field {column!r} is empty")
    return text
