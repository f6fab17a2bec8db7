"""Prepared embeddings in files, so that whatever searches by the inner product ranks as an encoder's similarity does.

    score(q, d) = prepare(q, "query") · prepare(d, "document")

A folder holds the embeddings of one role: ``embeddings.npy`` (float32 ``[n, d]``), ``ids.jsonl`` (line i: row i),
``embeddings.parquet`` (both, as columns ``id`` and ``embedding``), and ``export.json``, which says what made them and
how to prepare the other side. Embeddings are written while they are made: memory does not grow with their number.
"""

from __future__ import annotations

import copy
import json
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np
import torch

import retrokit
from retrokit import encoders, similarities
from retrokit.data.beir import corpus_file, queries_file
from retrokit.data.corpus import read_corpus, read_queries
from retrokit.data.files import digest
from retrokit.data.jsonl import json_line
from retrokit.data.outputs import check_folder, check_replaceable, folder_in_the_making, paths_in
from retrokit.data.pairs import texts_file
from retrokit.encoders.base import Encoder
from retrokit.errors import Interrupted, UsageError, disk_errors
from retrokit.notices import progress
from retrokit.registry import parse_all
from retrokit.similarities.base import Role, Similarity

CHUNK = 8192  # texts encoded at a time: enough to sort by length, and a row group of the Parquet file
ROLES: tuple[Role, Role] = ("document", "query")
EMBEDDINGS, TABLE, IDS, NOTE = "embeddings.npy", "embeddings.parquet", "ids.jsonl", "export.json"


@dataclass(frozen=True)
class Export:
    """A folder of prepared embeddings, and what its ``export.json`` says."""

    folder: Path
    note: dict[str, Any]

    def embeddings(self) -> np.ndarray:
        """float32 ``[n, d]``, read from disk where it is touched."""
        rows: np.ndarray = np.load(self.folder / EMBEDDINGS, mmap_mode="r")
        return rows

    def ids(self) -> list[str]:
        """The identifiers of the rows, in their order."""
        with open(self.folder / IDS, encoding="utf-8") as lines:
            return [json.loads(line)["id"] for line in lines]


def open_export(folder: str | Path) -> Export:
    """The export that lies in ``folder``. Raises :class:`UsageError` if there is none."""
    folder = Path(folder)
    try:
        return Export(folder, json.loads((folder / NOTE).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder}: is not a folder of 'retrokit export': it holds no sound {NOTE}") from error


def export(
    encoder: str,
    source: str,
    output: str,
    *,
    role: str = "document",
    sim: str | None = None,
    precision: str = "auto",
    dims: int | None = None,
    device: str | None = None,
    overwrite: bool = False,
) -> Export:
    """Write the prepared embeddings of the texts of ``source`` into the folder ``output``, whole or not at all.

    Args:
        encoder: spec of the encoder.
        source: JSONL of ``id`` and ``text`` (documents: also ``title``), ``-`` for standard input; or a BEIR folder, of
            which the corpus is taken, or the queries.
        output: the folder, which must not exist yet.
        role: ``document`` or ``query``.
        sim: spec of the similarity; default: the encoder's own.
        precision: of the encoding.
        dims: use the first dims dimensions of the raw embeddings only.
        device: where to encode; default: the best there is.
        overwrite: replace an export that lies in ``output``.

    Raises:
        UsageError: wrong names (all of them in one message), a similarity that is no inner product of prepared
            embeddings or does not fit the encoder, an output that exists, or that another command writes.
        DataError: a source that cannot be read, or an output that cannot be written.
        Interrupted: by the user; the same call goes on from what the embedding cache holds.
    """
    side = next((one for one in ROLES if one == role), None)
    if side is None:
        raise UsageError(f"role {role!r} is none of {', '.join(ROLES)}")
    parse_all([(encoders.registry, encoder), *([(similarities.registry, sim)] if sim else [])])
    if sim is not None:
        _check_factorable(similarities.registry.create(sim))
    path = texts_file(source, corpus_file if side == "document" else queries_file)
    inputs = [path, *paths_in([encoders.registry.parse(encoder)])]

    def check() -> None:
        open_export(output)  # nothing else is replaced
        check_replaceable(output, (EMBEDDINGS, TABLE, IDS, NOTE), inputs)

    check_folder(output)
    try:
        with folder_in_the_making(output, check if overwrite else None) as folder:
            again = os.path.isfile(path)  # a pipe is read once
            known = sum(1 for _ in _read(path, side)) if again else None  # finds bad lines before the long work
            prepared = _prepared(encoders.registry.create(encoder, device=device), sim, side, precision, dims)
            count, width = _write(folder, prepared, _read(path, side), known)
            made_of = {"spec": source, "digest": digest(path) if again else None}
            note = {"count": count, "dimension": width, **prepared.describe(), "source": made_of}
            with disk_errors(folder), open(folder / NOTE, "w", encoding="utf-8") as stream:
                stream.write(json.dumps(note, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    except KeyboardInterrupt as error:
        raise Interrupted(f"{output}: interrupted; what was encoded is in the embedding cache, if it is on") from error
    return Export(Path(output), note)


def _prepared(encoder: Encoder, sim: str | None, role: Role, precision: str, dims: int | None) -> Prepared:
    """What prepares; raises :class:`UsageError` if the similarity or ``dims`` does not fit the encoder."""
    similarity = encoder.similarity_of(sim)
    _check_factorable(similarity)
    if dims is not None and not 1 <= dims <= encoder.dimension:
        raise UsageError(f"`dims` {dims}: {encoder.spec} has {encoder.dimension} dimensions")
    encoder.use_with(similarity, dims)
    return Prepared(encoder, copy.deepcopy(similarity).cpu(), role, precision, dims)


class Prepared:
    """Prepared embeddings of texts in one role, a chunk at a time."""

    def __init__(self, encoder: Encoder, similarity: Similarity, role: Role, precision: str, dims: int | None) -> None:
        self._encoder, self._similarity, self._role = encoder, similarity, role
        self._precision, self._dims = precision, dims

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """float32 ``[n, d]`` in the order of ``texts``."""
        raw = self._encoder.embed(texts, self._role, self._precision)[:, : self._dims]
        rows = self._similarity.prepare(torch.as_tensor(raw), self._role)
        return np.ascontiguousarray(rows.numpy(), dtype="<f4")

    def describe(self) -> dict[str, Any]:
        """What makes them, and what makes the embeddings of the other role."""
        encoder, similarity = self._encoder, self._similarity
        taken = f"the first {self._dims} dimensions of the embedding as x; " if self._dims else ""
        return {
            "role": self._role,
            "metric": "inner product, higher is better",
            "similarity": {"spec": similarity.spec, "learned": similarity.statistics()},
            "transform": {role: f"{taken}{similarity.prepare_in_words(role)}" for role in ROLES},
            "encoder": {
                "spec": encoder.spec,
                "fingerprint": encoder.fingerprint(),
                "dimension": encoder.dimension,
                "dims": self._dims or encoder.dimension,
                "precision": encoder.computes_in(self._precision),
                "device": encoder.device.type,
                "prompts": encoder.prompts,
                "max_length": {role: encoder.max_length(role) for role in ROLES},
            },
            "prepare_queries": self._how_to_prepare(),
            "retrokit": retrokit.__version__,
        }

    def _how_to_prepare(self) -> dict[str, str]:
        """Python code for queries in memory, and a command for a file of them."""
        encoder, spec = self._encoder, self._similarity.spec
        is_own = encoder.similarity.spec == spec  # which may have learned something
        options = ["--dims", str(self._dims)] if self._dims else []
        options += ["--precision", self._precision] if self._precision != "auto" else []
        words = ["retrokit", "export", encoder.spec, "--role", "query", "--sim", spec, *options]
        columns = f"[:, :{self._dims}]" if self._dims else ""
        precision = f", {self._precision!r}" if self._precision != "auto" else ""
        similarity = "encoder.similarity" if is_own else f"retrokit.similarity({spec!r})"
        return {
            "python": f"import retrokit\n\nencoder = retrokit.encoder({encoder.spec!r})\n"
            f'raw = encoder.embed(["a query"], "query"{precision}){columns}\n'
            f'prepared = {similarity}.prepare(raw, "query").numpy(force=True)',
            "command": f"{shlex.join(words)} --on queries.jsonl --output queries",
        }


def _check_factorable(similarity: Similarity) -> None:
    if not similarity.factorable:
        raise UsageError(
            f"{similarity.spec} is not an inner product of prepared embeddings, so there are none to export "
            "(what to do instead: docs/export.md)"
        )


def _read(path: str, role: Role) -> Iterator[tuple[str, str]]:
    """Identifiers and texts, as retrieval reads them."""
    if role == "query":
        return read_queries(path, images=True)
    return ((document.id, document.full_text) for document in read_corpus(path, images=True))


def _write(folder: Path, prepared: Prepared, texts: Iterator[tuple[str, str]], known: int | None) -> tuple[int, int]:
    """Write all but the note; how many embeddings there are, and how many dimensions they have."""
    writer: _Writer | None = None
    with ExitStack() as stack, progress("exporting embeddings", known, "texts") as advance:
        while chunk := list(islice(texts, CHUNK)):
            rows = prepared([text for _, text in chunk])
            with disk_errors(folder):
                writer = writer or stack.enter_context(_writer(folder, rows.shape[1]))
                writer.add([identifier for identifier, _ in chunk], rows)
            advance(len(chunk))
    assert writer is not None  # an empty file is an error of its reader
    return writer.count, writer.dimension


@contextmanager
def _writer(folder: Path, dimension: int) -> Iterator[_Writer]:
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    columns = pyarrow.schema([("id", pyarrow.string()), ("embedding", pyarrow.list_(pyarrow.float32(), dimension))])
    with (
        open(folder / EMBEDDINGS, "wb") as array,
        open(folder / IDS, "w", encoding="utf-8", newline="\n") as ids,
        open(folder / TABLE, "wb") as parquet,  # pyarrow takes no path that is not UTF-8
        ParquetWriter(parquet, columns, use_dictionary=False) as table,  # no two embeddings are alike
    ):
        writer = _Writer(array, ids, table, columns, dimension)
        writer.write_header()
        yield writer
        array.seek(0)
        writer.write_header()


class _Writer:
    """The three files of embeddings and identifiers, which grow together."""

    def __init__(self, array: BinaryIO, ids: TextIO, table: Any, columns: Any, dimension: int) -> None:
        self._array, self._ids, self._table, self._columns = array, ids, table, columns
        self.dimension = dimension
        self.count = 0

    def add(self, ids: Sequence[str], rows: np.ndarray) -> None:
        """Append embeddings float32 ``[n, d]`` and their identifiers."""
        import pyarrow

        self._array.write(rows.tobytes())
        self._ids.writelines(json_line({"id": identifier}) for identifier in ids)
        vectors = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(rows.reshape(-1)), self.dimension)
        self._table.write_table(pyarrow.table([pyarrow.array(ids, pyarrow.string()), vectors], schema=self._columns))
        self.count += len(ids)

    def write_header(self) -> None:
        """How many rows the array has so far: NumPy leaves room in a header for this number to grow."""
        described = {"descr": "<f4", "fortran_order": False, "shape": (self.count, self.dimension)}
        np.lib.format.write_array_header_1_0(self._array, described)
