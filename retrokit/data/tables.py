"""Rows of data sets as people have them: JSON lines, one JSON array, CSV, TSV or Parquet, by their own columns."""

import codecs
import csv
import json
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrokit.core.errors import DataError, first_line
from retrokit.core.files import LONGEST_LINE, damage, named, opened, read_lines, unpacked_name
from retrokit.core.notices import notice
from retrokit.data.columns import is_header, is_negative, is_score, usual_name
from retrokit.data.jsonl import Row, fields_of, read_json, read_row

if TYPE_CHECKING:
    from pyarrow import Schema

Columns = Mapping[int, tuple[str, ...]]
"""The names of columns without names, by how many there are."""
_TABLE = re.compile(r"\.(csv|tsv|parquet)\Z", re.IGNORECASE)
_ENDINGS = re.compile(r"\.(jsonl|json|csv|tsv|parquet)\Z", re.IGNORECASE)
_SEPARATOR = re.compile(r'"?sep=(.)"?\r?\n?', re.IGNORECASE)
"""Excel's first line of a CSV file, which names the mark between cells."""


def stem(path: str | Path) -> str:
    """The name of a data file without its endings; ``stdin`` for ``-``."""
    return "stdin" if str(path) == "-" else _ENDINGS.sub("", unpacked_name(Path(path).name))


def label_names(path: str | Path) -> dict[str, list[str]]:
    """By column, the names of classes of a Parquet file that a Hugging Face data set wrote; none of another file."""
    import pyarrow
    from pyarrow import parquet

    if not str(path).lower().endswith(".parquet"):
        return {}
    with pyarrow.OSFile(os.fspath(path)) as stream:
        metadata = parquet.read_schema(stream).metadata or {}
    description = json.loads(metadata.get(b"huggingface", b"{}"))
    return names_of_classes(description.get("info", {}).get("features", {}))


def names_of_classes(features: Mapping[str, Any]) -> dict[str, list[str]]:
    """By column, the names of classes among the ``features`` of a Hugging Face data set as a dictionary; names that
    are numbers say nothing and are left out."""
    names_by_column = {}
    for column, feature in features.items():
        if isinstance(feature, dict) and feature.get("_type") in ("List", "LargeList", "Sequence"):
            feature = feature["feature"]
        if isinstance(feature, dict) and feature.get("_type") == "ClassLabel":
            names = feature.get("names") or []
            if not all(name.isdigit() for name in names):
                names_by_column[column] = names
    return names_by_column


def is_table(path: str | Path) -> bool:
    """Whether ``path`` is named as a CSV, TSV or Parquet file."""
    return table_kind(path) is not None


def table_kind(path: str | Path) -> str | None:
    """``csv``, ``tsv`` or ``parquet`` by the name of the file, else ``None``."""
    match = _TABLE.search(unpacked_name(str(path)))
    return None if match is None else match[1].lower()


def is_json_lines(path: str | Path) -> bool:
    """Whether the rows of ``path`` are lines of the file themselves, as in a JSONL file or a pipe."""
    if is_table(path) or not os.path.isfile(path):
        return not is_table(path)
    with opened(path) as stream:
        return stream.read(64).removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"{")


def read_rows(
    path: str | Path,
    expected: str = "rows of a data set",
    feed: Callable[[bytes], object] | None = None,
    columns: Columns | None = None,
) -> Iterator[tuple[int, Row]]:
    """The rows of a data set, each with its line number (of an array or Parquet: its number), from 1.

    By its name a file is ``.csv`` (quoted; commas, semicolons or tabs; a header), ``.tsv`` (quotes are text; a header
    or none) or ``.parquet``; else JSON lines (objects, or arrays of texts), one JSON array of such, or a TSV. Cells of
    scores and labels that are numbers become numbers.

    Args:
        expected, feed: those of :func:`retrokit.core.files.read_lines`.
        columns: names for rows without any, by their number; default: such rows are refused.

    Raises:
        DataError: a file that cannot be read or is empty, or a row of another form.
    """
    kind = table_kind(path)
    if kind == "parquet":
        yield from _parquet(path, feed)
        return
    lines = read_lines(path, expected, feed, as_stored=kind == "csv")
    if kind == "csv":
        yield from _table(path, _quoted(lines, path), expected, columns or {})
    else:
        yield from rows_of_lines(path, lines, expected, columns)


def rows_of_lines(
    path: str | Path,
    lines: Iterator[tuple[int, str]],
    expected: str,
    columns: Columns | None = None,
) -> Iterator[tuple[int, Row]]:
    """As :func:`read_rows`, of the ``lines`` of a file that is neither CSV nor Parquet."""
    number, first = next(lines)
    start = first.lstrip()[0]
    lines = chain([(number, first)], lines)
    if is_table(path) or ("\t" in first and start not in "[{"):
        cells = ((number, line.split("\t")) for number, line in lines)
        yield from _table(path, cells, expected, columns or {})
    elif start == "[" and str(path) != "-" and _is_array_of_rows(first):
        deque(lines, maxlen=0)  # so that all of it is fed
        rows = enumerate(map(json.dumps, read_json(path, "an array of rows", list)), 1)
        yield from _json_rows(path, rows, columns)
    else:
        yield from _json_rows(path, lines, columns if start == "[" else None)


def _json_rows(
    path: str | Path, lines: Iterable[tuple[int, str]], columns: Columns | None
) -> Iterator[tuple[int, Row]]:
    for number, line in lines:
        yield number, read_row(line, path, number, columns)


def _is_array_of_rows(line: str) -> bool:
    with suppress(ValueError, RecursionError):
        return not all(isinstance(value, (str, float, int)) for value in json.loads(line))
    return True  # it goes on on the next line


def _quoted(lines: Iterator[tuple[int, str]], path: str | Path) -> Iterator[tuple[int, list[str]]]:
    start, first = next(lines)
    separator = _SEPARATOR.fullmatch(first)
    if separator is not None:
        delimiter = separator[1]
        start += 1
    else:
        names = first.replace('"', "").strip()
        delimiter = next((mark for mark in ",;\t" if mark in names and is_header(names.split(mark))), ",")
        lines = chain([(start, first)], lines)
    csv.field_size_limit(LONGEST_LINE)
    lines_before = start - 1
    reader = csv.reader((line for _, line in lines), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if row:
                yield start, row
            start = lines_before + reader.line_num + 1
    except csv.Error as error:
        raise DataError(path, f"is not CSV: {error}", start) from error


def _table(
    path: str | Path,
    cells: Iterator[tuple[int, list[str]]],
    expected: str,
    columns: Columns,
) -> Iterator[tuple[int, Row]]:
    number, first = next(cells, (0, []))
    if not first:
        raise DataError(path, f"is empty; expected {expected}")
    names = [*map(usual_name, first)]
    if is_header(names):
        second = next(cells, None)
        if second is None:
            problem = f"contains only a header; expected lines below it ({', '.join(names)})"
            raise DataError(path, problem)
        cells = chain([second], cells)
    else:
        names = _names_without_header(path, number, first, expected, columns)
        cells = chain([(number, first)], cells)
    _check_distinct(path, number, names, first)
    for line, row in cells:
        if len(row) != len(names):
            problem = f"expected {len(names)} columns ({', '.join(names)}), found {len(row)}"
            raise DataError(path, problem, line)
        values = {name: _cell(name, cell) for name, cell in zip(names, row, strict=True) if name}
        yield line, Row(values, path, line)


def _names_without_header(
    path: str | Path, number: int, first: list[str], expected: str, columns: Columns
) -> list[str]:
    """The names of columns whose first line has none; raises :class:`DataError` where there are no usual ones."""
    names = columns.get(len(first), ())
    is_pair = "anchor" in names
    if not names or (is_pair and any(_number(cell) != cell for cell in first)):
        problem = f"the first line names no column that is known: {fields_of(first)}"
        raise DataError(path, f"{problem}; expected {expected}, below a line of column names", number)
    if is_pair:
        problem = "no column names in the first line, which is read as a pair"
        notice(f"{named(path)}: {problem}: {fields_of(first)}", once=True)
    return [*names]


def _check_distinct(path: str | Path, number: int, names: list[str], first: list[str]) -> None:
    """Raise :class:`DataError` for several columns of one name."""
    for name in names:
        if name and names.count(name) > 1:
            same = fields_of(cell for cell, other in zip(first, names, strict=True) if other == name)
            raise DataError(path, f"several columns are the {name}: {same}", number)


def _cell(name: str, cell: str) -> Any:
    if is_score(name):
        return _number(cell)
    return None if not cell and is_negative(name) else cell


def _number(cell: str) -> Any:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(cell)
    return cell


def _parquet(path: str | Path, feed: Callable[[bytes], object] | None) -> Iterator[tuple[int, Row]]:
    import pyarrow
    from pyarrow import parquet

    try:
        if feed is not None:
            with open(path, "rb") as stream:
                while chunk := stream.read(1 << 20):
                    feed(chunk)
        number = 0
        with pyarrow.OSFile(os.fspath(path)) as stream, parquet.ParquetFile(stream) as file:
            names, decimals = _columns_of(file.schema_arrow)
            _name_unread(path, [name for name in file.schema_arrow.names if name not in names])
            for batch in file.iter_batches(1024, columns=names):
                for values in batch.to_pylist():
                    for name in decimals:
                        if values[name] is not None:
                            values[name] = float(values[name])
                    number += 1
                    yield number, Row(values, path, number)
    except OSError as error:
        raise DataError(path, damage(error)) from error
    except pyarrow.ArrowException as error:
        raise DataError(path, f"is not a Parquet file: {first_line(error)}") from error
    if not number:
        raise DataError(path, "has no rows")


def _name_unread(path: str | Path, columns: list[str]) -> None:
    """A notice about the columns that are not read, if there are any."""
    if columns:
        notice(f"{named(path)}: columns of bytes, dates or decimals are not read: {fields_of(columns)}", once=True)


def _columns_of(schema: "Schema") -> tuple[list[str], list[str]]:
    """The columns with values of JSON, which dates, bytes and the like are not; and labels among them that are
    decimals."""
    from pyarrow import types

    names = []
    decimals = []
    for column in schema:
        if types.is_decimal(column.type) and is_score(column.name):
            decimals.append(column.name)
        elif types.is_temporal(column.type) or types.is_binary(column.type) or types.is_decimal(column.type):
            continue
        names.append(column.name)
    return names, decimals
