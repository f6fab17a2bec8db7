"""Runs and qrels: in columns, as JSON lines or as one JSON object.

A line of a TREC run is ``query-id Q0 document-id rank score tag``; a qrels line ``query-id 0 document-id grade`` (TREC)
or ``query-id<TAB>document-id<TAB>grade`` (BEIR, usually under a header).
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from retrokit.core.errors import DataError
from retrokit.core.files import named, read_lines, shards, writing
from retrokit.core.notices import notice
from retrokit.data.jsonl import DOCUMENT_IDS, QUERY_IDS, Faults, Row, check_id, fields_of, read_row
from retrokit.data.packed_records import FirstLines
from retrokit.data.tables import read_rows, table_kind

LARGEST_GRADE = 1_000_000
"""Measuring takes memory for every grade up to the largest."""
_GRADE = re.compile(r"([+-]?[0-9]{1,99})(\.[0-9]{0,99})?")
_WORD = re.compile(r"[^ \t\r\n\f\v]+")  # white space is ASCII's, as in trec_eval; an id may hold any other character
_QRELS = "judgements, one 'query-id document-id score' (BEIR) or 'query-id 0 document-id grade' (TREC) a line"
_RUN = "a TREC run, 'query-id Q0 document-id rank score tag' a line"
_FIELDS = (
    {*QUERY_IDS, "query", "q", "topic"},
    {*DOCUMENT_IDS, "document"},
    {"score", "grade", "relevance", "rel", "label"},
)
"""Names of the query's, the document's and the grade's column, in small letters with ``_`` for ``-``."""
_UNGRADED = "1"
_WITHOUT_NAMES = {3: ("query-id", "corpus-id", "score")}


def read_judgements(path: str | Path) -> Iterator[tuple[int, str, str, int]]:
    """``(line, query id, document id, grade)`` of each judgement of a qrels file, in file order, repetitions left out.

    The file has columns (three, BEIR; four, TREC; or those of a header), JSON lines, or a JSON object of query id →
    document id → grade; or it is Parquet or CSV. Two named columns without a grade mean grade 1. Grades of zero and
    below mean not relevant. Decimals of a grade are cut off, as in trec_eval; such grades and comments are counted and
    reported.

    Raises:
        DataError: a line with other columns or a grade that is no number or beyond 1,000,000, two grades of a query and
            document, or no judgement.
    """
    faults = Faults(path)
    first_lines = FirstLines()
    is_empty = True
    for line, query_id, document_id, given in _judged(path, faults):
        if not query_id or not document_id:
            raise DataError(named(path), "an id is empty", line)
        number = _GRADE.fullmatch(given)
        if number is None:
            raise DataError(named(path), f"the grade {given[:40]!r} is not a whole number", line)
        grade = int(number[1])
        if abs(grade) > LARGEST_GRADE:
            problem = f"the grade {given!r} is beyond {LARGEST_GRADE:,}, up to which there is memory to measure"
            raise DataError(named(path), problem, line)
        if number[2] is not None:
            faults.add("decimals", f"the grade {given!r} is not a whole number", line)
        check_id(query_id + document_id, path, line)
        is_empty = False
        first = first_lines.add((query_id, document_id), line, grade)
        if first is None:
            yield line, query_id, document_id, grade
        elif first[1] != grade:
            problem = f"query {query_id!r} and document {document_id!r} have grade {first[1]} on an earlier line"
            faults.refuse("contradicting", f"{problem}, here {grade}", line)
    if is_empty:
        raise DataError(named(path), f"contains only a header; expected {_QRELS}")
    faults.report("comments", "{n} comments are skipped")
    faults.report("decimals", "{n} grades are cut to whole numbers, as in trec_eval")


def _judged(path: str | Path, faults: Faults) -> Iterator[tuple[int, str, str, str]]:
    """Line, query id, document id and grade as they are written in a file, or in its shards."""
    for file in shards(path):
        yield from _judged_in_file(file, faults)


def _judged_in_file(path: str | Path, faults: Faults) -> Iterator[tuple[int, str, str, str]]:
    if table_kind(path) in ("csv", "parquet"):
        rows = read_rows(path, _QRELS, columns=_WITHOUT_NAMES)
        yield from (entry for _, row in rows for entry in _entries(row))
        return
    columns: int = 0
    places: tuple[int, int, int | None] = (0, -2, -1)
    is_json, lines = _opened(path, _QRELS)
    if is_json:
        yield from _json_entries(path, lines)
        return
    for line, text in lines:
        cells = text.split("\t") if columns == 2 and "\t" in text else _cells(text)
        fits = len(cells) == columns if columns else len(cells) in (3, 4)
        is_judgement = fits and (places[2] is None or _GRADE.fullmatch(cells[places[2]]) is not None)
        if text.startswith("#") and not is_judgement:
            faults.add("comments", "the line is a comment", line)
            continue
        if not columns:
            columns = len(cells)
            header = None if is_judgement else _places(cells)
            if header is None and columns not in (3, 4):
                hint = " without a header" if columns == 2 else ""
                raise DataError(named(path), f"expected 3 columns (BEIR) or 4 (TREC), found {columns}{hint}", line)
            if header is not None or (not is_judgement and cells[0].lower().replace("-", "_") in _FIELDS[0]):
                places = header or places
                continue
        if len(cells) != columns:
            raise DataError(named(path), f"expected {columns} columns as on the lines before, found {len(cells)}", line)
        query, document, grade = places
        yield line, cells[query], cells[document], _UNGRADED if grade is None else cells[grade]


def _places(names: Sequence[str]) -> tuple[int, int, int | None] | None:
    """The places of query, document, and grade or score among columns or fields; the last is ``None`` if they are
    only two. ``None``: one is not there."""
    plain = [re.sub("[- ]", "_", name.strip().lower()) for name in names]
    query, document, value = ([place for place, name in enumerate(plain) if name in field] for field in _FIELDS)
    if not query or not document:
        return None
    if value:
        return query[0], document[0], value[0]
    return (query[0], document[0], None) if len(names) == 2 else None


def _opened(
    path: str | Path, expected: str, feed: Callable[[bytes], object] | None = None
) -> tuple[bool, Iterator[tuple[int, str]]]:
    """Whether the file is JSON, and its lines."""
    lines = read_lines(path, expected, feed)
    first = next(lines)
    return re.match(r"""\s*\{\s*("[^"]*"\s*:|\Z)""", first[1]) is not None, chain([first], lines)


def _json_entries(
    path: str | Path, lines: Iterator[tuple[int, str]], is_run: bool = False
) -> Iterator[tuple[int, str, str, str]]:
    """Line, query id, document id and value of JSON lines, or of a JSON object of query id → document id → value."""
    number, text = next(lines)
    try:
        first = read_row(text, path, number)
    except DataError:  # an object of several lines
        first, lines = read_row("\n".join([text, *(more for _, more in lines)]), path, number), iter(())
    for row in chain([first], (read_row(line, path, number) for number, line in lines)):
        if row and all(isinstance(value, dict) for value in row.values()):
            yield from ((row.line, query, id, str(value)) for query, ids in row.items() for id, value in ids.items())
        else:
            yield from _entries(row, is_run)


def _entries(row: Row, is_run: bool = False) -> Iterator[tuple[int, str, str, str]]:
    """Line, query id, document id and value of a row with names."""
    fields = list(row)
    places = _places(fields)
    if places is None or (is_run and places[2] is None):
        raise row.wrong(f"expected a query's id, a document's id and a score; the fields are {fields_of(fields)}")
    query, document = row[fields[places[0]]], row[fields[places[1]]]
    if not all(isinstance(id, (str, int)) and not isinstance(id, bool) for id in (query, document)):
        raise row.wrong("an id should be a string or a whole number")
    value = _UNGRADED if places[2] is None else row[fields[places[2]]]
    yield row.line, str(query), str(document), str(value)


def _cells(text: str) -> list[str]:
    by_tab = [cell.strip(" ") for cell in text.rstrip(" \t").split("\t")]
    return by_tab if len(by_tab) >= 3 else _WORD.findall(text)


def read_run_lines(
    path: str | Path, feed: Callable[[bytes], object] | None = None
) -> Iterator[tuple[int, str, str, float]]:
    """``(line, query id, document id, score)`` of each line of a run, in file order; higher scores are better.

    The file is a TREC run, a table, JSON lines, or a JSON object of query id → document id → score. The ranks and
    tags of a TREC run are not used, as in trec_eval. A table has three or four columns: query, document, rank (MS
    MARCO) and score. If it has only ranks, the score is the negated rank.

    Raises:
        DataError: a line with other columns, a score that is no finite number, or a repeated document of a query.
    """
    first_lines = FirstLines()
    is_json, lines = _opened(path, _RUN, feed)
    entries = _json_entries(path, lines, is_run=True) if is_json else _ranked(path, lines)
    for line, query_id, document_id, score_text in entries:
        try:
            score = float(score_text)
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            raise DataError(named(path), f"the score {score_text[:40]!r} is not a finite number", line)
        check_id(query_id + document_id, path, line)
        if first_lines.add((query_id, document_id), line, 0) is not None:
            raise DataError(named(path), f"query {query_id!r} has document {document_id!r} on an earlier line", line)
        yield line, query_id, document_id, score


def _ranked(path: str | Path, lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str, str, str]]:
    """Line, query id, document id and score of a run in columns."""
    number, text = next(lines)
    columns = len(_cells(text))
    lines = chain([(number, text)], lines)
    if columns not in (3, 4):
        for line, text in lines:
            by_tab = text.split("\t")
            cells = by_tab if len(by_tab) == 6 else _WORD.findall(text)
            if len(cells) < 6:
                problem = f"expected 6 columns (qid Q0 docid rank score tag), found {len(cells)}"
                raise DataError(named(path), problem, line)
            yield line, cells[0], cells[2], cells[4]
        return
    rows = [(line, _cells(text)) for line, text in lines]
    if rows[0][1][0].lower() in _FIELDS[0] and not rows[0][1][-1][-1:].isdigit():  # a header
        rows = rows[1:]
    for line, cells in rows:
        if len(cells) != columns:
            raise DataError(named(path), f"expected {columns} columns as on the lines before, found {len(cells)}", line)
    ranks: dict[str, list[str]] = {}
    for _, cells in rows:
        ranks.setdefault(cells[0], []).append(cells[-1])
    are_ranks = columns == 3 and all(
        "1" in given and len(set(given)) == len(given) and all(map(str.isdecimal, given)) for given in ranks.values()
    )
    if are_ranks:
        notice(f"{named(path)}: the third column is read as ranks", once=True)
    for line, cells in rows:
        yield line, cells[0], cells[1], f"-{cells[-1]}" if are_ranks else cells[-1]


def read_run(path: str | Path) -> dict[str, dict[str, float]]:
    """Query id → document id → score (higher is better) from a TREC run; raises as :func:`read_run_lines`."""
    run: dict[str, dict[str, float]] = {}
    for _, query_id, document_id, score in read_run_lines(path):
        run.setdefault(query_id, {})[document_id] = score
    return run


def write_run(path: str | Path, run: Mapping[str, Mapping[str, float]], tag: str) -> None:
    """Write ``run`` (query id → document id → score) as a TREC run named ``tag``, whole or not at all, with all digits.
    Ranks count from 1 by descending score, then by descending document id, as trec_eval orders.

    Raises:
        DataError: the file cannot be written, an id or the tag is empty or has white space, or a score is not finite.
    """
    _check_word(path, "tag", tag)
    with writing(path) as stream:
        for query_id, scores in run.items():
            _check_word(path, "query id", query_id)
            ranked = sorted(((float(score), document_id) for document_id, score in scores.items()), reverse=True)
            for rank, (score, document_id) in enumerate(ranked, start=1):
                _check_word(path, "document id", document_id)
                if not math.isfinite(score):
                    problem = f"the score of query {query_id!r} and document {document_id!r} is {score}"
                    raise DataError(path, f"could not be written: {problem}")
                stream.write(f"{query_id} Q0 {document_id} {rank} {score!r} {tag}\n")


def fits_a_column(identifier: str) -> bool:
    """Whether an identifier can stand in a file of columns."""
    return identifier == identifier.strip() and "\t" not in identifier and len(identifier.splitlines()) == 1


def _check_word(path: str | Path, what: str, word: str) -> None:
    if not _WORD.fullmatch(word):
        raise DataError(path, f"could not be written: the {what} {word!r} is empty or contains white space")
