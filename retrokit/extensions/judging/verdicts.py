"""Pairs of a query and a document for a person to judge, as an HTML page or as CSV, and the verdicts on them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from retrokit.core.errors import DataError, UsageError
from retrokit.core.files import named, writing
from retrokit.core.frames import frame, to_csv
from retrokit.core.judging import JudgedItem, PageWords, judging_page
from retrokit.data.jsonl import Row
from retrokit.data.tables import read_rows

_EXPECTED = "verdicts, with the columns query-id, document-id, probability, of, relevant and sample"
_COLUMNS = ("query-id", "document-id")
_PAGES = (".html", ".htm")


@dataclass(frozen=True)
class PairToJudge:
    """A pair of a sample of ``of`` pairs, and the probability that it was drawn with."""

    query_id: str
    document_id: str
    query: str
    document: str
    probability: float
    of: int

    @property
    def row(self) -> dict[str, str | float | int]:
        """What a line of verdicts has besides the verdict."""
        ids = {"query-id": self.query_id, "document-id": self.document_id}
        return {**ids, "probability": self.probability, "of": self.of}


@dataclass(frozen=True)
class RelevanceVerdict:
    """Whether a document is relevant, 0 to 1 (the mean of several annotators); ``pool`` is the digest of what its
    sample was drawn from."""

    relevant: float
    probability: float
    of: int
    pool: str


Verdicts = Mapping[tuple[str, str], RelevanceVerdict]
"""Query and document id → the verdict."""


def digest_of(value: object) -> str:
    """A short digest of plain values."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:12]


def check_empty(path: str) -> None:
    """Raise :class:`UsageError` if ``path`` is a file of pairs that has verdicts already."""
    if Path(path).suffix in _PAGES or not Path(path).is_file() or not Path(path).stat().st_size:
        return
    if any(row.get("relevant") not in (None, "") for _, row in read_rows(path, _EXPECTED)):
        raise UsageError(f"{path}: contains verdicts; write the pairs to another file")


def write_pairs(path: str, name: str, pool: str, pairs: Sequence[PairToJudge]) -> None:
    """Write the pairs as an HTML page if ``path`` ends in ``.html``, else as CSV with an empty column ``relevant``, to
    fill in with 1 or 0. All name their sample: ``pool``, the digest of the pairs it was drawn from, and its own."""
    sample = f"{pool}-{digest_of([pair.row for pair in pairs])}"
    more = [{"query": pair.query, "document": pair.document, "sample": sample} for pair in pairs]
    rows = [{**pair.row, "relevant": "", **texts} for pair, texts in zip(pairs, more, strict=True)]
    text = _page(name, sample, pairs) if Path(path).suffix in _PAGES else to_csv(frame(rows))
    with writing(path) as stream:
        stream.write(text)


def _page(name: str, sample: str, pairs: Sequence[PairToJudge]) -> str:
    items = [
        JudgedItem(json.dumps([pair.query_id, pair.document_id]), pair.row, pair.query, [(False, pair.document)])
        for pair in pairs
    ]
    words = PageWords(f"Relevance in {name}", "Document", "relevant", "not relevant", "relevant")
    return judging_page(name, sample, items, words)


def read_relevance(paths: Sequence[str]) -> dict[tuple[str, str], RelevanceVerdict]:
    """The verdicts by query and document id, without pairs that nobody judged.

    Raises:
        DataError: a wrong row, or files of different samples.
    """
    verdicts: dict[tuple[str, str], list[float]] = {}
    about: dict[tuple[str, str], tuple[float, int, str]] = {}
    samples: set[tuple[str, int]] = set()
    for path in paths:
        for _, row in read_rows(path, _EXPECTED):
            query, document = (_id(row, column) for column in _COLUMNS)
            if (relevant := _relevant(row)) is None:
                continue
            probability, size = _number(row, "probability"), int(_number(row, "of"))
            if not 0 < probability <= 1 or size < 1:
                raise row.wrong("the probability must be above 0 and at most 1, and `of` at least 1")
            samples.add((sample := _id(row, "sample"), size))
            if len(samples) > 1:
                raise row.wrong("is of another sample than the verdicts before it; give those of one draw")
            verdicts.setdefault((query, document), []).append(relevant)
            about[query, document] = probability, size, sample.partition("-")[0]
    if not verdicts:
        raise DataError(", ".join(map(named, paths)), "contains no verdict; fill the column relevant with 1 or 0")
    return {
        pair: RelevanceVerdict(sum(pair_verdicts) / len(pair_verdicts), *about[pair])
        for pair, pair_verdicts in verdicts.items()
    }


def check_zeros(paths: Sequence[str]) -> None:
    """Raise :class:`DataError` for a file whose verdicts are all 1, with empty rows between them: whoever filled it has
    marked what is relevant and nothing else, and an empty row counts as not judged."""
    for path in paths:
        filled = [_relevant(row) for _, row in read_rows(path, _EXPECTED)]
        while filled and filled[-1] is None:
            filled.pop()
        if None in filled and all(relevant in (None, 1.0) for relevant in filled):
            raise DataError(path, "all verdicts are 1; give what is not relevant a 0: an empty row is not judged")


def _id(row: Row, column: str) -> str:
    value = row.required(column)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise row.wrong(f"field {column!r} should be an id")
    return str(value)


def _number(row: Row, column: str) -> float:
    try:
        return float(row.required(column))
    except (TypeError, ValueError) as error:
        raise row.wrong(f"field {column!r} should be a number") from error


_WORDS: Mapping[str, float | None] = {
    **dict.fromkeys(("1", "1.0", "true", "yes", "y"), 1.0),
    **dict.fromkeys(("0", "0.0", "false", "no", "n"), 0.0),
    **dict.fromkeys(("", "none"), None),
}


def _relevant(row: Row) -> float | None:
    text = str(row.get("relevant", "")).strip().lower()
    if text not in _WORDS:
        raise row.wrong(f"field 'relevant' should be 1 or 0, or empty, found {text[:20]!r}")
    return _WORDS[text]
