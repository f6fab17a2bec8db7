"""Runs and qrels: in columns, as JSON lines or as one JSON object.

A line of a TREC run is ``query-id Q0 document-id rank score tag``; a qrels line ``query-id 0 document-id grade`` (TREC)
or ``query-id<TAB>document-id<TAB>grade`` (BEIR, usually under a header).
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

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
_QUERY_NAMES = {*QUERY_IDS, "query", "q", "topic"}
_DOCUMENT_NAMES = {*DOCUMENT_IDS, "document"}
_GRADE_NAMES = {"score", "grade", "relevance", "rel", "label"}
"""Names of columns, as :func:`_plain_name` has them."""
Entry = tuple[int, str, str, str]
"""Line, query id, document id, and the grade or score as they are written."""
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
    entries = chain.from_iterable(_judged_in_file(file, faults) for file in shards(path))
    for line, query_id, document_id, written in entries:
        if not query_id or not document_id:
            raise DataError(path, "an id is empty", line)
        grade = _grade(written, line, faults)
        check_id(query_id + document_id, path, line)
        is_empty = False
        first = first_lines.add((query_id, document_id), line, grade)
        if first is None:
            yield line, query_id, document_id, grade
        elif first[1] != grade:
            problem = f"query {query_id!r} and document {document_id!r} have grade {first[1]} on an earlier line"
            faults.refuse("contradicting", f"{problem}, here {grade}", line)
    if is_empty:
        raise DataError(path, f"contains only a header; expected {_QRELS}")
    faults.report("comments", "{n} comments are skipped")
    faults.report("decimals", "{n} grades are cut to whole numbers, as in trec_eval")


def _grade(written: str, line: int, faults: Faults) -> int:
    number = _GRADE.fullmatch(written)
    if number is None:
        raise DataError(faults.path, f"the grade {written[:40]!r} is not a whole number", line)
    grade = int(number[1])
    if abs(grade) > LARGEST_GRADE:
        problem = f"the grade {written!r} is beyond {LARGEST_GRADE:,}, up to which there is memory to measure"
        raise DataError(faults.path, problem, line)
    if number[2] is not None:
        faults.add("decimals", f"the grade {written!r} is not a whole number", line)
    return grade


class _Columns(NamedTuple):
    """Where a line or a row has the ids of the query and the document, and the grade or score if there is one."""

    query: int
    document: int
    value: int | None

    def value_in(self, cells: Sequence[Any]) -> str:
        """The grade or score among the cells of a line; grade 1 if there is none."""
        return "1" if self.value is None else str(cells[self.value])


_FIRST_AND_LAST = _Columns(query=0, document=-2, value=-1)


def _judged_in_file(path: str | Path, faults: Faults) -> Iterator[Entry]:
    if table_kind(path) in ("csv", "parquet"):
        for _, row in read_rows(path, _QRELS, columns=_WITHOUT_NAMES):
            yield from _entries(row)
        return
    is_json, lines = _opened(path, _QRELS)
    yield from _json_entries(path, lines) if is_json else _judged_lines(path, lines, faults)


def _judged_lines(path: str | Path, lines: Iterator[tuple[int, str]], faults: Faults) -> Iterator[Entry]:
    """The judgements in columns, three or four, or those of a header."""
    columns = _FIRST_AND_LAST
    counts: tuple[int, ...] = (3, 4)
    is_first = True
    for line, text in lines:
        cells = text.split("\t") if counts == (2,) and "\t" in text else _cells(text)
        is_judgement = len(cells) in counts and _GRADE.fullmatch(columns.value_in(cells)) is not None
        if text.startswith("#") and not is_judgement:
            faults.add("comments", "the line is a comment", line)
            continue
        if is_first:
            is_first = False
            counts = (len(cells),)
            header = None if is_judgement else _header(path, cells, line)
            if header is not None:
                columns = header
                continue
        _check_count(path, line, cells, *counts)
        yield line, cells[columns.query], cells[columns.document], columns.value_in(cells)


def _check_count(path: str | Path, line: int, cells: Sequence[str], count: int) -> None:
    """Raise :class:`DataError` for a line of another number of columns."""
    if len(cells) != count:
        raise DataError(path, f"expected {count} columns as on the lines before, found {len(cells)}", line)


def _header(path: str | Path, cells: Sequence[str], line: int) -> _Columns | None:
    """The columns that a first line names; ``None`` if it is no header. Raises :class:`DataError` for a line that is
    neither a header nor a judgement."""
    columns = _columns_of(cells)
    if columns is not None:
        return columns
    if len(cells) not in (3, 4):
        hint = {1: "; they are separated by tabs", 2: " without a header"}.get(len(cells), "")
        raise DataError(path, f"expected 3 columns (BEIR) or 4 (TREC), found {len(cells)}{hint}", line)
    return _FIRST_AND_LAST if _plain_name(cells[0]) in _QUERY_NAMES else None


def _columns_of(names: Sequence[str]) -> _Columns | None:
    """The columns or fields that ``names`` say; without a grade or score only if they are two. ``None``: one is not
    there."""
    indices: list[int | None] = []
    plain = [_plain_name(name) for name in names]
    for accepted in (_QUERY_NAMES, _DOCUMENT_NAMES, _GRADE_NAMES):
        indices.append(next((index for index, name in enumerate(plain) if name in accepted), None))
    query, document, value = indices
    if query is None or document is None or (value is None and len(names) != 2):
        return None
    return _Columns(query, document, value)


def _plain_name(name: str) -> str:
    return re.sub("[- ]", "_", name.strip().lower())


def _opened(
    path: str | Path, expected: str, feed: Callable[[bytes], object] | None = None
) -> tuple[bool, Iterator[tuple[int, str]]]:
    """Whether the file is JSON, and its lines."""
    lines = read_lines(path, expected, feed)
    first = next(lines)
    return re.match(r"""\s*\{\s*("[^"]*"\s*:|\Z)""", first[1]) is not None, chain([first], lines)


def _json_entries(path: str | Path, lines: Iterator[tuple[int, str]], is_run: bool = False) -> Iterator[Entry]:
    """The entries of JSON lines, or of a JSON object of query id → document id → value."""
    number, text = next(lines)
    try:
        first = read_row(text, path, number)
    except DataError:  # an object of several lines
        first, lines = read_row("\n".join([text, *(more for _, more in lines)]), path, number), iter(())
    for row in chain([first], (read_row(line, path, number) for number, line in lines)):
        if not row or not all(isinstance(value, dict) for value in row.values()):
            yield from _entries(row, is_run)
            continue
        for query, values in row.items():
            for document, value in values.items():
                yield row.line, query, document, str(value)


def _entries(row: Row, is_run: bool = False) -> Iterator[Entry]:
    """The entry of a row with names."""
    fields = list(row)
    columns = _columns_of(fields)
    if columns is None or (is_run and columns.value is None):
        raise row.wrong(f"expected a query's id, a document's id and a score; the fields are {fields_of(fields)}")
    ids = row[fields[columns.query]], row[fields[columns.document]]
    for id in ids:
        if not isinstance(id, (str, int)) or isinstance(id, bool):
            raise row.wrong("an id should be a string or a whole number")
    yield row.line, str(ids[0]), str(ids[1]), columns.value_in([*row.values()])


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
            raise DataError(path, f"the score {score_text[:40]!r} is not a finite number", line)
        check_id(query_id + document_id, path, line)
        if first_lines.add((query_id, document_id), line, 0) is not None:
            raise DataError(path, f"query {query_id!r} has document {document_id!r} on an earlier line", line)
        yield line, query_id, document_id, score


def _ranked(path: str | Path, lines: Iterator[tuple[int, str]]) -> Iterator[Entry]:
    """The entries of a run in columns: six of TREC, else three or four."""
    number, text = next(lines)
    count = len(_cells(text))
    lines = chain([(number, text)], lines)
    if count in (3, 4):
        yield from _ranked_table(path, lines, count)
        return
    for line, text in lines:
        by_tab = text.split("\t")
        cells = by_tab if len(by_tab) == 6 else _WORD.findall(text)
        if len(cells) < 6:
            problem = f"expected 6 columns (qid Q0 docid rank score tag), found {len(cells)}"
            raise DataError(path, problem, line)
        yield line, cells[0], cells[2], cells[4]


def _ranked_table(path: str | Path, lines: Iterator[tuple[int, str]], count: int) -> Iterator[Entry]:
    """The entries of a table of ``count`` columns, in whose last one are scores, or ranks."""
    rows = [(line, _cells(text)) for line, text in lines]
    first = rows[0][1]
    if first[0].lower() in _QUERY_NAMES and not first[-1][-1:].isdigit():
        rows = rows[1:]  # below a header
    for line, cells in rows:
        _check_count(path, line, cells, count)
    are_ranks = count == 3 and _are_ranks([cells for _, cells in rows])
    if are_ranks:
        notice(f"{named(path)}: the third column is read as ranks", once=True)
    for line, cells in rows:
        yield line, cells[0], cells[1], f"-{cells[-1]}" if are_ranks else cells[-1]


def _are_ranks(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the last column has different whole numbers for each query, 1 among them."""
    numbers_by_query: dict[str, list[str]] = {}
    for cells in rows:
        numbers_by_query.setdefault(cells[0], []).append(cells[-1])
    for numbers in numbers_by_query.values():
        if "1" not in numbers or len(set(numbers)) < len(numbers) or not all(map(str.isdecimal, numbers)):
            return False
    return True


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
    check_words(path, "tag", [tag])
    with writing(path) as stream:
        for query_id, scores in run.items():
            check_words(path, "query id", [query_id])
            ranked = sorted(((float(score), document_id) for document_id, score in scores.items()), reverse=True)
            for rank, (score, document_id) in enumerate(ranked, start=1):
                check_words(path, "document id", [document_id])
                if not math.isfinite(score):
                    problem = f"the score of query {query_id!r} and document {document_id!r} is {score}"
                    raise DataError(path, f"could not be written: {problem}")
                stream.write(f"{query_id} Q0 {document_id} {rank} {score!r} {tag}\n")


def fits_a_column(identifier: str) -> bool:
    """Whether an identifier can stand in a file of columns."""
    return identifier == identifier.strip() and "\t" not in identifier and len(identifier.splitlines()) == 1


def check_words(path: str | Path, what: str, words: Iterable[str]) -> None:
    """Raise :class:`DataError` for the first of the ``words``, each a ``what``, that no TREC run at ``path`` can have
    in a column."""
    for word in words:
        if not _WORD.fullmatch(word):
            raise DataError(path, f"could not be written: the {what} {word!r} is empty or contains white space")
