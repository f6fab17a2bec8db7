"""TREC runs, and qrels in TREC's four columns or BEIR's three.

A run line is ``query-id Q0 document-id rank score tag``; a qrels line ``query-id 0 document-id grade`` (TREC) or
``query-id<TAB>document-id<TAB>grade`` (BEIR, usually under a header).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import cast

from retrokit.data.faults import Faults
from retrokit.data.files import named, read_lines, writing
from retrokit.data.jsonl import check_id
from retrokit.errors import DataError

LARGEST_GRADE = 1_000_000
"""Measuring takes memory for every grade up to the largest."""
_GRADE = re.compile(r"([+-]?[0-9]{1,99})(\.[0-9]{0,99})?")
_WORD = re.compile(r"[^ \t\r\n\f\v]+")  # white space is ASCII's, as in trec_eval; an id may hold any other character
_QRELS = "judgements, one 'query-id document-id score' (BEIR) or 'query-id 0 document-id grade' (TREC) a line"
_FIELDS = (
    {"query", "query_id", "queryid", "qid", "q_id", "q", "topic", "topic_id"},
    {"corpus_id", "document", "document_id", "doc_id", "docid", "docno", "did", "passage_id", "pid"},
    {"score", "grade", "relevance", "rel", "label"},
)
"""Names of the query's, the document's and the grade's column, in small letters with ``_`` for ``-``."""


def read_judgements(path: str | Path) -> Iterator[tuple[int, str, str, int]]:
    """``(line, query id, document id, grade)`` of each judgement of a qrels file, in file order, repetitions left out.

    The file is read by its content: columns (three, BEIR; four, TREC; or those that a header names), JSON lines, or a
    JSON object of query id → document id → grade. Grades of zero and below mean not relevant. As in trec_eval, decimals
    of a grade are cut off. Such grades, comments and blank lines are counted and reported.

    Raises:
        DataError: a line (named) with another number of columns or a grade that is no number or beyond 1,000,000, a
            document judged twice for a query with different grades, or no judgement at all.
    """
    faults = Faults(path)
    grades: dict[tuple[str, str], int] = {}
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
            kind = "fractions" if number[2].strip(".0") else "decimals"
            faults.add(kind, f"the grade {given!r} is not a whole number", line)
        check_id(query_id + document_id, path, line)
        pair = query_id, document_id
        if pair not in grades:
            grades[pair] = grade
            yield line, query_id, document_id, grade
        elif grades[pair] != grade:
            problem = f"query {query_id!r} and document {document_id!r} have grade {grades[pair]} on an earlier line"
            raise DataError(named(path), f"{problem}, here {grade}", line)
    if not grades:
        raise DataError(named(path), f"holds a header alone; expected {_QRELS}")
    faults.report("comments", "{n} comments are skipped")
    faults.report("blank", "{n} blank lines are skipped")
    faults.report("decimals", "{n} grades are read without their decimals")
    faults.report("fractions", "{n} grades are cut to whole numbers, as in trec_eval")


def _judged(path: str | Path, faults: Faults) -> Iterator[tuple[int, str, str, str]]:
    """Line, query id, document id and grade as they are written."""
    columns, places, last = 0, (0, -2, -1), 0
    for line, text in read_lines(path, _QRELS):
        for blank in range(last + 1, line):
            faults.add("blank", "the line is blank", blank)
        last = line
        cells = _cells(text)
        fits = len(cells) == columns if columns else len(cells) in (3, 4)
        is_judgement = fits and _GRADE.fullmatch(cells[places[2]]) is not None
        if text.startswith("#") and not is_judgement:
            faults.add("comments", "the line is a comment", line)
            continue
        if not columns:
            columns = len(cells)
            names = [re.sub("[- ]", "_", cell.lower()) for cell in cells]
            named_places = [next((i for i, name in enumerate(names) if name in field), None) for field in _FIELDS]
            if not is_judgement and None not in named_places:
                places = cast(tuple[int, int, int], tuple(named_places))
                continue
            if columns not in (3, 4):
                raise DataError(named(path), f"expected 3 columns (BEIR) or 4 (TREC), found {columns}", line)
            if not is_judgement and names[0] in _FIELDS[0]:
                continue
        if len(cells) != columns:
            raise DataError(named(path), f"expected {columns} columns as on the lines before, found {len(cells)}", line)
        yield line, *(cells[place] for place in places)


def _cells(text: str) -> list[str]:
    by_tab = [cell.strip(" ") for cell in text.rstrip(" \t").split("\t")]
    return by_tab if len(by_tab) >= 3 else _WORD.findall(text)


def read_run_lines(
    path: str | Path, feed: Callable[[bytes], object] | None = None
) -> Iterator[tuple[int, str, str, float]]:
    """``(line, query id, document id, score)`` of each line of a TREC run, in file order; higher scores are better.
    Ranks and tags are not used, as in trec_eval.

    Raises:
        DataError: a line (named) without six columns, a score that is no finite number, or a document that a query
            has on an earlier line.
    """
    seen: set[tuple[str, str]] = set()
    for line, text in read_lines(path, "a TREC run, 'query-id Q0 document-id rank score tag' a line", feed):
        cells = _WORD.findall(text)
        if len(cells) != 6:
            raise DataError(named(path), f"expected 6 columns (qid Q0 docid rank score tag), found {len(cells)}", line)
        query_id, _, document_id, _, score_text, _ = cells
        try:
            score = float(score_text)
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            raise DataError(named(path), f"the score {score_text[:40]!r} is not a finite number", line)
        check_id(query_id + document_id, path, line)
        if (query_id, document_id) in seen:
            raise DataError(named(path), f"query {query_id!r} has document {document_id!r} on an earlier line", line)
        seen.add((query_id, document_id))
        yield line, query_id, document_id, score


def read_run(path: str | Path) -> dict[str, dict[str, float]]:
    """Query id → document id → score (higher is better) from a TREC run; raises as :func:`read_run_lines`."""
    run: dict[str, dict[str, float]] = {}
    for _, query_id, document_id, score in read_run_lines(path):
        run.setdefault(query_id, {})[document_id] = score
    return run


def write_run(path: str | Path, run: Mapping[str, Mapping[str, float]], tag: str) -> None:
    """Write ``run`` (query id → document id → score) as a TREC run named ``tag``, whole or not at all.

    Ranks count from 1 by descending score, then by descending document id, as trec_eval orders. Scores keep every
    digit: what :func:`read_run` gives back is equal. A query without documents leaves no line.

    Raises:
        DataError: the file cannot be written, an id or the tag is empty or holds white space (which the format cannot
            express), or a score is not finite.
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
        raise DataError(path, f"could not be written: the {what} {word!r} is empty or holds white space")
