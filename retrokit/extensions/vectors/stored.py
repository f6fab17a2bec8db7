"""Tables of ids, vectors and perhaps texts, as vector databases and libraries store them.

Parquet, Arrow, Feather; JSON lines, among them dumps of Qdrant (``vector``, ``payload.text``) and pgvector (a text of
numbers); ``.npy`` with ids in a file next to it; a table of LanceDB; a folder of ``retrokit export``.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from retrokit.core.errors import DataError, UsageError, first_line
from retrokit.core.files import check_exists, read_lines
from retrokit.data.beir import corpus_file
from retrokit.data.exports import NOTE, SHARDS, Export, open_export
from retrokit.data.jsonl import TEXTS, Row, fields_of, read_jsonl
from retrokit.data.pairs import texts_file
from retrokit.ranking.retrieval.files import exported_texts, texts_by_id

VECTORS = ("vector", "embedding", "embeddings", "vectors")
"""Names of the field of a vector; the first that a row has counts."""
IDS = ("{}.ids.jsonl", "{}.ids.txt")
"""Names of the file of ids next to a ``.npy``, by the stem of its name."""
ARROW = (".parquet", ".arrow", ".feather", ".ipc")

Entry = tuple[int, str, Any, str | None]
"""Line number, id, vector, and text of a row."""


@dataclass(frozen=True)
class StoredTable:
    """Rows of a table: ``ids``, ``vectors`` float32 ``[n, d]``, and ``texts`` if they are known. ``similarity`` is the
    spec of what prepared them, if that is known."""

    path: str
    ids: list[str]
    vectors: np.ndarray
    texts: list[str]
    similarity: str | None = None


def read_table(path: str, texts: str | None) -> StoredTable:
    """The rows of the table ``path``, with texts from the file or folder ``texts``, if given.

    Raises:
        UsageError: another kind of file, no texts, or rows without a text.
        DataError: a file that cannot be read, a row without a vector, vectors of several lengths or with numbers that
            are not finite, or an id given twice.
    """
    check_exists(path)
    folder = Path(path)
    if (folder / NOTE).is_file() or any(folder.glob(SHARDS)):
        return _of_export(open_export(path), texts)
    return _with_texts(_collected(path, _entries(path), texts is None), texts)


def _entries(path: str) -> Iterator[Entry]:
    suffix = Path(path).suffix.lower()
    if suffix == ".npy":
        return _of_array(Path(path))
    if suffix in ARROW or suffix == ".lance":
        return _of_rows(_arrow_rows(path, suffix))
    if Path(path).is_dir():
        raise UsageError(f"{path}: is no folder of retrokit export, and no LanceDB table (NAME.lance)")
    return _of_rows(row for _, row in read_jsonl(path, 'a vector a line, {"id": …, "vector": […]}'))


def _arrow_rows(path: str, suffix: str) -> Iterator[Row]:
    """The rows of a file of pyarrow, or of a table of LanceDB."""
    import pyarrow
    from pyarrow import ipc, parquet

    try:
        if suffix == ".lance":
            table = _lance_table(Path(path))
        elif suffix == ".parquet":
            table = parquet.read_table(path)
        else:
            with open(path, "rb") as stream:
                is_file = stream.read(6) == b"ARROW1"
                stream.seek(0)
                table = (ipc.open_file(stream) if is_file else ipc.open_stream(stream)).read_all()
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        raise DataError(path, f"could not be read ({first_line(error)})") from error
    batches = table.to_batches(max_chunksize=8192)
    rows = (values for batch in batches for values in batch.to_pylist())
    for number, values in enumerate(rows, 1):
        yield Row(values, path, number)


def _lance_table(path: Path) -> Any:
    try:
        lancedb = import_module("lancedb")
    except ImportError as error:
        raise UsageError(f"{path}: needs the package lancedb; install it, or write the table as Parquet") from error
    return lancedb.connect(path.parent).open_table(path.stem).to_arrow()


def _of_rows(rows: Iterator[Row]) -> Iterator[Entry]:
    """Each row's id, vector and text."""
    for row in rows:
        name = next((name for name in VECTORS if name in row), None)
        if name is None:
            raise row.wrong(f"no field {VECTORS[0]!r} or {VECTORS[1]!r}; the fields are {fields_of(row)}")
        vector = row[name]
        if isinstance(vector, dict):
            if len(vector) != 1:
                raise row.wrong(f"field {name!r} has {len(vector)} vectors: {fields_of(vector)}; keep one")
            (vector,) = vector.values()
        fields = row
        if isinstance(row.get("payload"), dict):
            fields = Row(row["payload"], row.path, row.line)
        text = None
        if any(fields.get(key) is not None for key in TEXTS):
            text = f"{fields.text('title', '')} {fields.content}".strip()
        yield row.line, row.id, vector, text


def _of_array(path: Path) -> Iterator[Entry]:
    try:
        vectors = np.load(path, mmap_mode="r")
    except (OSError, ValueError) as error:
        raise DataError(path, f"could not be read ({first_line(error)})") from error
    if vectors.ndim != 2:
        raise DataError(path, f"contains {list(vectors.shape)}; expected [rows, dimensions]")
    names = [name.format(path.stem) for name in IDS]
    ids = next((path.parent / name for name in names if (path.parent / name).is_file()), None)
    if ids is None:
        raise UsageError(f"{path}: has no ids; write them next to it as {names[0]} or {names[1]}")
    rows: list[tuple[str, str | None]] = []
    if ids.suffix == ".txt":
        rows = [(line, None) for _, line in read_lines(ids, "an id a line")]
    else:
        for _, row in read_jsonl(ids):
            rows.append((row.id, row.content if any(key in row for key in TEXTS) else None))
    if len(rows) != len(vectors):
        raise DataError(ids, f"has {len(rows):,} ids, and {path.name} {len(vectors):,} vectors; write one for each")
    for number, ((id, text), vector) in enumerate(zip(rows, vectors, strict=True), start=1):
        yield number, id, vector, text


def _collected(path: str, entries: Iterator[Entry], needs_texts: bool) -> StoredTable:
    """The table of checked rows."""
    lines: dict[str, int] = {}
    vectors: list[np.ndarray] = []
    texts: list[str] = []
    for line, id, numbers, text in entries:
        if id in lines:
            raise DataError(path, f"the id {id!r} is already on line {lines[id]}", line)
        lines[id] = line
        vectors.append(_vector(path, line, numbers, vectors))
        if text is not None:
            texts.append(text)
    if not vectors:
        raise DataError(path, "has no rows")
    if needs_texts and 0 < len(texts) < len(vectors):
        raise DataError(path, f"{len(vectors) - len(texts):,} of {len(vectors):,} rows have no text; give `texts=`")
    return StoredTable(path, list(lines), np.stack(vectors), texts)


def _vector(path: str, line: int, numbers: Any, before: Sequence[np.ndarray]) -> np.ndarray:
    try:
        if isinstance(numbers, str):
            numbers = json.loads(numbers)
        vector = np.atleast_1d(np.asarray([] if numbers is None else numbers, dtype=np.float32))
    except (TypeError, ValueError) as error:
        raise DataError(path, "its vector is not a list of numbers", line) from error
    if not vector.any():
        raise DataError(path, "has no vector, or zeros only; embed it, or leave the row out", line)
    if vector.ndim != 1:
        raise DataError(path, "has several vectors; expected one", line)
    if before and len(before[0]) != len(vector):
        raise DataError(path, f"its vector has {len(vector)} numbers, and the first row's {len(before[0])}", line)
    if not np.isfinite(vector).all():
        raise DataError(path, "its vector contains a number that is not finite", line)
    return vector


def _of_export(export: Export, texts: str | None) -> StoredTable:
    if export.owners is not None:
        raise UsageError(f"{export.folder}: contains chunks; export documents without chunks")
    vectors = export.vectors()
    if export.note["one_length"]:
        vectors = vectors[:, :-1]
    table = StoredTable(str(export.folder), export.ids(), vectors, [], export.note["similarity"]["spec"])
    if texts is not None:
        return _with_texts(table, texts)
    texts_of_export = exported_texts(export, {*table.ids})
    return replace(table, texts=[texts_of_export[id] for id in table.ids])


def _with_texts(table: StoredTable, source: str | None) -> StoredTable:
    if source is None:
        if not table.texts:
            raise UsageError(f"{table.path}: has no texts; give `texts=`, their file")
        return table
    texts = texts_by_id(texts_file(source, corpus_file), {*table.ids})
    missing = [id for id in table.ids if id not in texts]
    if missing:
        problem = f"has no text of {len(missing):,} of {len(table.ids):,} rows, the first {missing[0]!r}"
        raise UsageError(f"{source}: {problem}; give the texts that were embedded")
    return replace(table, texts=[texts[id] for id in table.ids])
