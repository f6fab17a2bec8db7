"""Folders of prepared embeddings: what ``retrokit export`` writes, whole or in shards that are read as one.

``embeddings.npy`` ``[n, d]`` (float32, float16, int8; of binary ``[n, d / 8]``, eight signs in a byte), ``ids.jsonl``
(line i: row i), ``embeddings.parquet`` (both, as columns ``id`` and ``embedding``), and ``export.json``, which says
what produced them. ``canaries.json`` contains a few texts with their raw embeddings, by which another encoder is
compared with the one that wrote them. int8 also has
``ranges.npy``, float32 ``[2, d]``. If documents are in chunks, each chunk is a row. Its id is the document's and a
number, ``d7#0``, with ``document`` next to it. A folder of shards contains such a folder for each,
``shard-00001-of-00004``. Rows are written in portions. An interruption costs one portion.

:class:`Quantization` defines the storage dtypes, for exports, search and evaluation alike. int8 and binary are those of
sentence-transformers' ``quantize_embeddings`` (its ``int8`` and ``ubinary``). int8 cuts the range of each dimension, as
a sample has it, into 255 steps. A number stands for the middle of its step. binary keeps the signs. Yamada et al.,
"Efficient Passage Retrieval with Hashing for Open-domain Question Answering", 2021, retrieve by the signs only, and
then rescore a few by the query's floats."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from retrokit.core.errors import DataError, UsageError, disk_errors, first_line
from retrokit.core.files import replaced
from retrokit.core.notices import progress
from retrokit.data.dtypes import DTYPES
from retrokit.data.jsonl import COUNT, DIMENSION, Row, checked, json_line, read_json, read_jsonl, write_json
from retrokit.similarities import registry as similarities

CHUNK = 8192  # rows of a portion, and of a row group of the Parquet file
EMBEDDINGS, TABLE, IDS, RANGES, NOTE = "embeddings.npy", "embeddings.parquet", "ids.jsonl", "ranges.npy", "export.json"
CANARIES, CANARY_COUNT = "canaries.json", 20
FILES = (EMBEDDINGS, TABLE, IDS, RANGES, NOTE, CANARIES)
SHARDS = "shard-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9]"
WRITTEN = (*FILES, "index-*.faiss", "index-*.json")
"""Patterns of what commands write in a folder of an export, without those of shards."""
_STATE = "unfinished.json"
_BLOCK = 1 << 24  # bytes of the identifiers that are looked through at a time


@dataclass(frozen=True)
class Export:
    """A folder of prepared embeddings, what its ``export.json`` says, and the shards that it consists of."""

    folder: Path
    note: dict[str, Any]
    shards: tuple[Export, ...] = ()

    @property
    def parts(self) -> tuple[Export, ...]:
        """The folders that hold rows, in the order of the rows."""
        return self.shards or (self,)

    def embeddings(self) -> np.ndarray:
        """``[n, width]`` in the storage dtype, mapped from disk; of shards, take each of :attr:`parts`. Raises
        :class:`DataError` if they are damaged."""
        rows = _loaded(self.folder / EMBEDDINGS)
        if rows.shape != (self.note["count"], self._shape.width):
            raise DataError(self.folder / EMBEDDINGS, f"contains {list(rows.shape)}, and {NOTE} says otherwise")
        return rows

    @property
    def _shape(self) -> Quantization:
        return Quantization(self.note["dtype"], self.note["dimension"])

    def quantization(self) -> Quantization:
        """How its numbers are stored. Raises :class:`DataError` if the ranges of int8 cannot be read."""
        if self._shape.dtype != "int8":
            return self._shape
        ranges = np.array(_loaded(self.folder / RANGES))
        if ranges.shape != (2, self.note["dimension"]):
            raise DataError(self.folder / RANGES, f"contains {list(ranges.shape)}, and {NOTE} says otherwise")
        return replace(self._shape, ranges=ranges)

    def vectors(self) -> np.ndarray:
        """All of them in memory, float32 ``[n, d]``."""
        return np.concatenate([shard.quantization().widened(shard.embeddings()) for shard in self.parts])

    def take(self, rows: np.ndarray) -> np.ndarray:
        """What the vectors at some rows, int64 ``[n]``, stand for, float32 ``[n, d]``, read from disk."""
        vectors = np.empty((len(rows), self.note["dimension"]), dtype=np.float32)
        start = 0
        for quantization, embeddings in self._mapped:
            is_in_shard = (start <= rows) & (rows < start + len(embeddings))
            vectors[is_in_shard] = quantization.widened(embeddings[rows[is_in_shard] - start])
            start += len(embeddings)
        return vectors

    @cached_property
    def _mapped(self) -> list[tuple[Quantization, np.ndarray]]:
        return [(shard.quantization(), shard.embeddings()) for shard in self.parts]

    def ids(self) -> list[str]:
        """The identifiers of the rows, in their order."""
        identifiers: list[str] = self._names["id"].to_pylist()
        return identifiers

    def ids_at(self, positions: Iterable[int]) -> dict[int, str]:
        """The identifiers of some documents by position, as a search has them."""
        rows = np.array(list(positions), dtype=np.int64)
        keys = rows.tolist()
        if self.owners is None:
            return dict(zip(keys, self._names["id"].take(rows).to_pylist(), strict=True))
        rows = np.searchsorted(self.owners, rows)
        return dict(zip(keys, self._names["document"].take(rows).to_pylist(), strict=True))

    def rows_of(self, identifiers: Iterable[str]) -> dict[str, int]:
        """The row of each of some identifiers, or the position of a document in chunks; those that are not here are
        left out."""
        import pyarrow
        from pyarrow import compute

        owners = self.owners
        names = self._names["id" if owners is None else "document"]
        requested = pyarrow.array(list(identifiers), pyarrow.string())
        rows = np.flatnonzero(compute.is_in(names, value_set=requested).to_numpy())
        positions = rows if owners is None else owners[rows]
        return dict(zip(names.take(rows).to_pylist(), positions.tolist(), strict=True))

    @cached_property
    def owners(self) -> np.ndarray | None:
        """The position of each row's document, int64 ``[n]``; ``None``: a row is a document."""
        if "documents" not in self.note:
            return None
        names = np.array(self._names["document"].to_pylist(), dtype=object)
        return np.cumsum(np.append(0, names[1:] != names[:-1]))[: len(names)]

    @cached_property
    def _names(self) -> Any:
        """The columns ``id`` and, of chunks, ``document`` as a table of pyarrow; raises :class:`DataError`."""
        import pyarrow
        from pyarrow import parquet

        tables, columns = [], ["id", "document"] if "documents" in self.note else ["id"]
        for shard in self.parts:
            path = shard.folder / TABLE
            try:
                with open(path, "rb") as file:  # pyarrow takes no path that is not UTF-8
                    table = parquet.read_table(file, columns=columns)
            except (OSError, pyarrow.ArrowException) as error:
                raise DataError(path, f"could not be read ({first_line(error)}); export again") from error
            if table.num_columns != len(columns) or table.num_rows != shard.note["count"]:
                expected = f"{shard.note['count']} rows of {' and '.join(columns)}"
                raise DataError(path, f"has {table.num_rows} rows; expected {expected}; export again")
            tables.append(table)
        return pyarrow.concat_tables(tables)


@dataclass(frozen=True)
class Canaries:
    """Texts of an export, their raw embeddings ``[n, d]``, the role, and the prompt that was put before each text."""

    role: Literal["document", "query"]
    prompt: str | None
    texts: list[str]
    embeddings: list[list[float]]


def canaries_among(texts: Iterable[str]) -> list[str]:
    """At most :data:`CANARY_COUNT` of the texts, no images, of all lengths up to the longest."""
    ranked = sorted({text for text in texts if type(text) is str and text.strip()}, key=lambda text: (len(text), text))
    ranks = np.linspace(0, len(ranked) - 1, min(len(ranked), CANARY_COUNT)).astype(int).tolist()
    return [ranked[rank] for rank in ranks]


def open_export(folder: str | Path) -> Export:
    """The export in ``folder``, whole or in shards. Raises :class:`UsageError` if there is none, a shard is missing, or
    shards do not belong together."""
    folder = Path(folder)
    shard_folders = [] if (folder / NOTE).is_file() else sorted(folder.glob(SHARDS))
    if not shard_folders:
        return Export(folder, _note(folder))
    shards = tuple(Export(shard_folder, _note(shard_folder)) for shard_folder in shard_folders)
    _check_shards(folder, shards)
    note = {**shards[0].note, "shard": None}
    for name in ("count", "documents"):
        if name in note:
            note[name] = sum(shard.note[name] for shard in shards)
    return Export(folder, note, shards)


def _check_shards(folder: Path, shards: Sequence[Export]) -> None:
    """Raise :class:`UsageError` unless these are all shards of one export."""
    count = _shard(shards[0])["of"]
    for number, shard in enumerate(shards, start=1):
        if _shard(shard)["of"] != count:
            raise UsageError(f"{folder}: contains shards of {count} and of {_shard(shard)['of']}; keep one kind")
        if _shard(shard)["number"] != number:
            raise UsageError(f"{folder}: shard {number} of {count} is missing")
        expected, common = _common(shards[0].note), _common(shard.note)
        different = [name for name in expected if common[name] != expected[name]]
        if different:
            raise UsageError(f"{shard.folder}: does not belong to {shards[0].folder}: another {', '.join(different)}")
    if len(shards) != count:
        raise UsageError(f"{folder}: shard {len(shards) + 1} of {count} is missing")


def _shard(export: Export) -> dict[str, int]:
    shard: dict[str, int] = checked(_SHARD, export.note["shard"], export.folder / NOTE, "the note of a shard")
    return shard


def _common(note: Mapping[str, Any]) -> dict[str, Any]:
    """What shards have in common. Machines may have an encoder and a file under other names."""
    encoder = note["encoder"]
    return {
        "role": note["role"],
        "similarity": note["similarity"],
        "dtype": note["dtype"],
        "fingerprint": encoder["fingerprint"],
        "dims": encoder["dims"],
        "precision": encoder["precision"],
        "source": note["source"]["digest"],
    }


_SHARD = {"number": COUNT, "of": COUNT}
_NOTE = {
    "count": COUNT,
    "documents?": COUNT,
    "dimension": DIMENSION,
    "role": Literal["document", "query"],
    "dtype": tuple(DTYPES),
    "one_length": bool,
    "shard": dict[str, Any] | None,
    "similarity": {"spec": str, "learned": dict[str, float]},
    "encoder": {
        "spec": str,
        "fingerprint": str,
        "dimension": DIMENSION,
        "dims": DIMENSION,
        "precision": str,
        "max_length?": dict[str, Annotated[int, range(1, 1 << 31)] | None],
    },
    "source": {"spec": str, "digest": str | None},
}
"""What is read of a note."""


_UNFINISHED = {"about": Any, "rows": COUNT, "texts": COUNT, "ids": COUNT}
"""What an interrupted export leaves, to be resumed."""


def _note(folder: Path) -> dict[str, Any]:
    if not (folder / NOTE).is_file():
        raise UsageError(f"{folder}: is not a folder of 'retrokit export': it has no {NOTE}")
    note: dict[str, Any] = read_json(folder / NOTE, "the note of an export", _NOTE)
    dims, dimension = note["encoder"]["dims"], note["encoder"]["dimension"]
    if dims > dimension:
        raise DataError(folder / NOTE, f"'encoder.dims' is {dims}; expected at most {dimension}; export again")
    try:
        similarities.parse(note["similarity"]["spec"])
    except UsageError as error:
        raise DataError(folder / NOTE, f"'similarity.spec': {error}") from error
    return note


def _loaded(path: Path) -> np.ndarray:
    try:
        rows: np.ndarray = np.load(path, mmap_mode="r")
    except Exception as error:  # of a damaged header NumPy raises anything
        raise DataError(path, f"could not be read ({first_line(error)})") from error
    return rows


# --- writing


class ExportWriter:
    """Rows and identifiers of a folder, which grow a portion at a time. ``count`` rows of ``texts`` texts are there,
    with what an earlier writer of the same ``about`` has left; what another one has left is removed. An ``about`` of
    ``None`` leaves nothing. Raises :class:`DataError` if the folder cannot be written."""

    def __init__(self, folder: Path, quantization: Quantization, about: Mapping[str, Any] | None) -> None:
        self.folder, self.kept = folder, quantization
        self.count = self.texts = 0
        self._about = json.loads(json.dumps(about))
        self._stack = ExitStack()
        length = self._left()
        if length is None:
            length = 0
            for file in folder.iterdir():
                file.unlink()
        with disk_errors(folder):
            for name in (EMBEDDINGS, IDS):
                (folder / name).touch()
            self._rows = self._stack.enter_context((folder / EMBEDDINGS).open("r+b"))
            self._ids = self._stack.enter_context((folder / IDS).open("r+b"))
            self._write_header(0)
            self._rows.truncate(self._rows.tell() + self.count * self.kept.row_bytes)
            self._ids.truncate(length)
            for stream in (self._rows, self._ids):
                stream.seek(0, os.SEEK_END)

    def __enter__(self) -> ExportWriter:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        with suppress(OSError) if error is not None else disk_errors(self.folder):
            self._stack.close()  # which writes what a full disk has refused once more

    def _left(self) -> int | None:
        """Resume from existing files, and return the byte length of their identifiers; ``None`` if they do not fit."""
        try:
            state = read_json(self.folder / _STATE, "the state of an export", _UNFINISHED)
            sizes = [(self.folder / name).stat().st_size for name in (EMBEDDINGS, IDS)]
        except (OSError, DataError):
            return None
        if state["about"] != self._about or sizes[0] <= state["rows"] * self.kept.row_bytes or sizes[1] < state["ids"]:
            return None
        self.count, self.texts = state["rows"], state["texts"]
        return int(state["ids"])

    def add(self, ids: Sequence[str], rows: np.ndarray, counts: np.ndarray | None = None) -> None:
        """Append float32 rows and their identifiers to the disk. With ``counts`` each text has as many rows, its
        chunks.
        Raises :class:`DataError` for numbers beyond the storage dtype."""
        stored = self.kept.narrowed(rows)
        names: Iterable[dict[str, str]] = ({"id": id} for id in ids)
        if counts is not None:
            numbered = ((id, n) for id, count in zip(ids, counts.tolist(), strict=True) for n in range(count))
            names = ({"id": f"{id}#{n}", "document": id} for id, n in numbered)
        with disk_errors(self.folder):
            self._rows.write(stored.tobytes())
            self._ids.write("".join(map(json_line, names)).encode())
            for file in (self._rows, self._ids):
                file.flush()
                os.fsync(file.fileno())
            self.count += len(rows)
            self.texts += len(ids)
            if self._about is None or len(ids) < CHUNK:  # nothing to resume from: less than a portion
                return
            state = {"about": self._about, "rows": self.count, "texts": self.texts, "ids": self._ids.tell()}
            write_json(self.folder / _STATE, state, kind="unfinished-export")

    def calibrate(self, sample: Callable[[], np.ndarray]) -> None:
        """Take the ranges of int8 from ``sample``, or those of the rows that are there."""
        if self.kept.dtype != "int8":
            return
        if self.count:
            self.kept = replace(self.kept, ranges=np.array(_loaded(self.folder / RANGES)))
            return
        self.kept = self.kept.calibrated(sample())
        with replaced(self.folder / RANGES) as new, disk_errors(self.folder), open(new, "wb") as file:
            np.save(file, np.asarray(self.kept.ranges), allow_pickle=False)

    def finish(self, note: Mapping[str, Any], one_length: bool = False) -> None:
        """Write what comes last: the header, the table and the note; with ``one_length`` the last dimension too."""
        with disk_errors(self.folder):
            self._write_header(self.count)
            self._stack.close()
            if one_length and self.count:
                # Bachrach et al., "Speeding Up the Xbox Recommender System Using a Euclidean Transformation for
                # Inner-Product Spaces", 2014, Theorem 1
                rows = np.load(self.folder / EMBEDDINGS, mmap_mode="r+")
                portions = [slice(start, start + CHUNK) for start in range(0, len(rows), CHUNK)]
                squares = [np.square(rows[portion, :-1], dtype=np.float64).sum(axis=1) for portion in portions]
                longest = max(float(portion_squares.max()) for portion_squares in squares)
                for portion, portion_squares in zip(portions, squares, strict=True):
                    rows[portion, -1] = np.sqrt(longest - portion_squares)
            about = {"count": self.count, "dimension": self.kept.dimension, "dtype": self.kept.dtype}
            _write_table(Export(self.folder, about))
            write_json(self.folder / NOTE, note, indent=2)
            (self.folder / _STATE).unlink(missing_ok=True)

    def _write_header(self, count: int) -> None:
        """How many rows the array has: NumPy leaves room in a header for this number to grow."""
        self._rows.seek(0)
        described = {"descr": DTYPES[self.kept.dtype], "fortran_order": False, "shape": (count, self.kept.width)}
        np.lib.format.write_array_header_1_0(self._rows, described)


def can_go_on(folder: Path) -> bool:
    """Whether a writer has left something in ``folder`` that another one may take over."""
    return (folder / _STATE).is_file()


def _write_table(export: Export) -> None:
    """The Parquet file, from the others."""
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    def lines() -> Iterator[Row]:
        return (row for _, row in read_jsonl(export.folder / IDS)) if len(rows) else iter(())

    rows = export.embeddings()
    value = pyarrow.from_numpy_dtype(rows.dtype)
    names = list(next(lines(), {"id": ""}))
    named = [(name, pyarrow.string()) for name in names]
    columns = pyarrow.schema([*named, ("embedding", pyarrow.list_(value, rows.shape[1]))])
    with (
        open(export.folder / TABLE, "wb") as file,  # pyarrow takes no path that is not UTF-8
        ParquetWriter(file, columns, use_dictionary=False) as table,  # no two embeddings are alike
        progress("writing the table", len(rows), "embeddings") as advance,
    ):
        identifiers = lines()
        for start in range(0, len(rows), CHUNK):
            portion = np.array(rows[start : start + CHUNK])
            entries = list(islice(identifiers, len(portion)))
            texts = [pyarrow.array([entry[name] for entry in entries], pyarrow.string()) for name in names]
            vectors = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(portion.reshape(-1)), rows.shape[1])
            table.write_table(pyarrow.table([*texts, vectors], schema=columns))
            advance(len(portion))


SAMPLE = 8192  # rows at most that ranges are taken from


@dataclass(frozen=True)
class Quantization:
    """How embeddings of ``dimension`` numbers are stored in a ``dtype`` (:data:`~retrokit.data.dtypes.DTYPES`). Of
    int8, ``ranges`` are the least and the largest number of each dimension, float32 ``[2, dimension]``."""

    dtype: str
    dimension: int
    ranges: np.ndarray | None = None

    @property
    def width(self) -> int:
        """Numbers of a stored row."""
        return -(-self.dimension // 8) if self.dtype == "binary" else self.dimension

    @property
    def row_bytes(self) -> int:
        """Bytes of a stored row."""
        return self.width * np.dtype(DTYPES[self.dtype]).itemsize

    def calibrated(self, sample: np.ndarray) -> Quantization:
        """With the ranges of ``sample``, float ``[n, dimension]``, where the type has any."""
        if self.dtype != "int8":
            return self
        ranges = np.stack([sample.min(axis=0), sample.max(axis=0)]) if len(sample) else np.zeros((2, self.dimension))
        return replace(self, ranges=ranges.astype("<f4"))

    def linear(self) -> tuple[np.ndarray, np.ndarray]:
        """Of int8, ``scale`` and ``offset``, float32 ``[dimension]``: a stored number x stands for x·scale + offset."""
        assert self.ranges is not None
        steps = (self.ranges[1] - self.ranges[0]) / np.float32(255)
        return steps, self.ranges[0] + np.float32(128.5) * steps

    def narrowed(self, rows: np.ndarray) -> np.ndarray:
        """Float32 ``[n, dimension]`` as they are stored, ``[n, width]``; raises :class:`DataError` for numbers that are
        not finite, or where float16 is too narrow.

        >>> two = Quantization("int8", 2).calibrated(np.array([[0.0, -1.0], [255.0, 1.0]]))
        >>> two.narrowed(np.array([[3.1, -0.9], [900.0, 0.0]])).tolist()
        [[-125, -116], [127, -1]]
        >>> Quantization("binary", 3).narrowed(np.array([[0.5, -2.0, 0.1]])).tolist()
        [[160]]
        """
        if wrong := np.count_nonzero(~np.isfinite(rows)):
            raise DataError("embeddings", f"hold {wrong:,} numbers that are not finite")
        if self.dtype == "binary":
            return np.packbits(rows > 0, axis=-1)
        if self.dtype == "int8":
            steps, _ = self.linear()
            assert self.ranges is not None
            places = np.floor((rows - self.ranges[0]) / np.where(steps == 0, 1, steps))
            return (np.clip(places, 0, 255) - 128).astype(np.int8)
        with np.errstate(over="ignore"):
            stored = np.ascontiguousarray(rows, dtype=DTYPES[self.dtype])
        if not np.isfinite(stored).all():
            raise DataError(
                "embeddings", f"reach {np.abs(rows).max():.6g}, beyond the range of {self.dtype}; take float32 or int8"
            )
        return stored

    def widened(self, stored: np.ndarray) -> np.ndarray:
        """What stored rows stand for, float32 ``[n, dimension]``; of binary 1 and −1."""
        if self.dtype == "binary":
            return np.unpackbits(stored, axis=-1, count=self.dimension).astype(np.float32) * 2 - 1
        values = stored.astype(np.float32)
        if self.dtype == "int8":
            scale, offset = self.linear()
            values = values * scale + offset
        return values


def step_of(count: int) -> int:
    """Every how many of ``count`` rows one is in a sample: evenly, at most :data:`SAMPLE` rows."""
    return max(1, -(-count // SAMPLE))
