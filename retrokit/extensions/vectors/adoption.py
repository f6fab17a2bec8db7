"""Vectors that a data engine wrote, registered as an export: all ids are there once, and a sample embeds to the same.

The engine may have written the rows in any order, in any number of Parquet files. The export has them in the order of
the texts. It is written whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from retrokit.core.errors import DataError, UsageError, first_line
from retrokit.core.files import digest
from retrokit.core.notices import notice, progress
from retrokit.core.outputs import check_folder, folder_in_the_making
from retrokit.core.settings import taking
from retrokit.data.exports import CHUNK, Export, ExportWriter, Quantization, step_of
from retrokit.data.images import Image
from retrokit.extensions.vectors.engines import EMBEDDING, ID, chunks_refused
from retrokit.extensions.vectors.settings import AdoptSettings
from retrokit.ranking.export import ExportedTexts, Prepared, check_names, source_of
from retrokit.ranking.settings import ExportSettings

TOLERANCE = 1e-3
"""Distance of two vectors of a text, divided by the norm; float32 in other batches differs by less, bf16 by more."""
_ROWS = "adopted.npy"


@taking(AdoptSettings)
def adopt(settings: AdoptSettings) -> Export:
    """Register the vectors in a Parquet file, or a folder of such files, as an export of the texts of ``source``.

    Raises:
        UsageError: wrong names, a source that is a pipe, an output that exists, vectors of another width, or a sample
            that embeds to other vectors here.
        DataError: a file without the columns ``id`` and ``embedding``, an id that is missing, repeated or unknown.
    """
    like = ExportSettings(
        settings.encoder,
        settings.source,
        settings.output,
        sim=settings.sim,
        role=settings.role,
        dtype=settings.dtype,
        precision=settings.precision,
        device=settings.device,
    )
    check_names(like)
    source = source_of(like)
    if source.is_pipe:
        raise UsageError(f"{settings.source}: is a pipe, and its texts are read twice; give a file")
    check_folder(settings.output)
    files = _parquet_files(Path(settings.vectors))
    identifiers, first_texts = _read_texts(source, settings)
    with folder_in_the_making(settings.output) as unfinished:
        rows = _ordered_rows(files, identifiers, settings, unfinished / _ROWS)
        note = _write(unfinished, like, source, identifiers, first_texts, rows, settings)
        del rows  # some systems remove no file that is mapped into memory
        (unfinished / _ROWS).unlink(missing_ok=True)
    return Export(Path(settings.output), note)


def _read_texts(source: ExportedTexts, settings: AdoptSettings) -> tuple[list[str], list[str]]:
    """The identifiers of all texts, and the first texts, from which an export takes its canaries."""
    identifiers: list[str] = []
    first_texts: list[str] = []
    for identifier, text in source.read():
        if isinstance(text, Image):
            raise UsageError(f"{settings.source}: contains images; use 'retrokit export --shard' for these")
        identifiers.append(identifier)
        if len(first_texts) < CHUNK:
            first_texts.append(text)
    return identifiers, first_texts


def _parquet_files(path: Path) -> list[Path]:
    """The file, or those of a folder and the folders in it. Engines write other files with names of ``_`` or ``.``."""
    if path.is_file():
        return [path]
    files = [file for file in sorted(path.rglob("*.parquet")) if not file.name.startswith(("_", "."))]
    if not files:
        raise UsageError(f"{path}: contains no Parquet file; give a file or folder with the columns id and embedding")
    return files


def _ordered_rows(files: list[Path], identifiers: list[str], settings: AdoptSettings, path: Path) -> np.ndarray:
    """The vectors in the order of the identifiers, float32 ``[n, d]``, in a file that is mapped into memory."""
    positions = {identifier: position for position, identifier in enumerate(identifiers)}
    is_there = np.zeros(len(identifiers), dtype=bool)
    rows = np.empty((0, 0), dtype=np.float32)
    for file in files:
        for start, ids, vectors in _batches(file):
            if not rows.size:
                shape = (len(identifiers), vectors.shape[1])
                rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
            if vectors.shape[1] != rows.shape[1]:
                problem = f"the vectors have {vectors.shape[1]} numbers, and {files[0].name} has {rows.shape[1]}"
                raise DataError(file, problem, start)
            for number, identifier in enumerate(ids, start=start):
                position = positions.get(identifier)
                if position is None:
                    problem = f"the id {identifier!r} is not in {settings.source}; give the file that was embedded"
                    raise DataError(file, problem, number)
                if is_there[position]:
                    problem = f"the id {identifier!r} is there twice; remove what an earlier job wrote"
                    raise DataError(file, problem, number)
                is_there[position] = True
                rows[position] = vectors[number - start]
    if not is_there.all():
        missing = np.flatnonzero(~is_there)
        first = identifiers[int(missing[0])]
        problem = (
            f"lacks {len(missing):,} of {len(identifiers):,} texts, the first of them {first!r}; run the job again"
        )
        raise DataError(settings.vectors, problem)
    return rows


def _batches(file: Path) -> Iterator[tuple[int, list[str], np.ndarray]]:
    """The number of the first row, from 1, the identifiers and the vectors float32 ``[n, d]`` of each batch."""
    import pyarrow
    from pyarrow.parquet import ParquetFile

    start = 1
    try:
        with open(file, "rb") as stream:
            table = ParquetFile(stream)
            names = table.schema_arrow.names
            for column in (ID, EMBEDDING):
                if column not in names:
                    raise DataError(file, f"has no column {column!r}, only {', '.join(names)}; name it in the job")
            for batch in table.iter_batches(CHUNK, columns=[ID, EMBEDDING]):
                ids = batch.column(ID).cast(pyarrow.string()).to_pylist()
                vectors = _as_array(batch.column(EMBEDDING), file, start)
                if len(ids):
                    yield start, ids, vectors
                start += len(ids)
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(file, f"could not be read ({first_line(error)}); run the job again") from error


def _as_array(column: Any, file: Path, start: int) -> np.ndarray:
    """A column of lists as float32 ``[n, d]``. Raises :class:`DataError` unless all have the same length."""
    vectors = column.to_pylist()
    width = len(vectors[0] or []) if vectors else 0
    for number, vector in enumerate(vectors, start=start):
        if vector is None or len(vector) != width or None in vector:
            raise DataError(file, f"expected an embedding of {width} numbers, without nulls; run the job again", number)
    rows = np.array(vectors, dtype=np.float32).reshape(len(vectors), width)
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        number = start + int(np.argmin(finite))
        raise DataError(file, "the embedding contains numbers that are not finite; run the job again", number)
    return rows


def _write(
    unfinished: Path,
    like: ExportSettings,
    source: ExportedTexts,
    identifiers: list[str],
    first_texts: list[str],
    rows: np.ndarray,
    settings: AdoptSettings,
) -> dict[str, Any]:
    """Check a sample, and write the files of an export; its note."""
    prepared = Prepared(like, source.role)
    if prepared.has_chunks:
        raise chunks_refused(like.encoder)
    if len(rows) and rows.shape[1] != prepared.width:
        problem = f"the vectors have {rows.shape[1]} numbers, and {like.encoder} gives {prepared.width}"
        raise UsageError(f"{settings.vectors}: {problem}; name the encoder and similarity of the job")
    difference, count = _check_sample(prepared, source, identifiers, rows, settings)
    notice(f"{settings.vectors}: {count:,} texts embed to the same vectors here (largest difference {difference:.1g})")
    quantization = Quantization(like.dtype, prepared.width)
    with ExportWriter(unfinished, quantization, None) as writer:
        writer.calibrate(lambda: np.asarray(rows[:: step_of(len(rows))]))
        with progress("registering vectors", len(rows), "embeddings") as advance:
            for start in range(0, len(rows), CHUNK):
                portion = slice(start, start + CHUNK)
                writer.add(identifiers[portion], np.asarray(rows[portion]))
                advance(len(identifiers[portion]))
        about = {
            **prepared.describe(),
            "dtype": like.dtype,
            "shard": None,
            "source": {"spec": like.source, "digest": digest(source.path)},
            "notes": {"adopted": {"from": settings.vectors, "checked": count, "difference": difference}},
        }
        return prepared.finish(writer, unfinished, first_texts, about)


def _check_sample(
    prepared: Prepared, source: ExportedTexts, identifiers: list[str], rows: np.ndarray, settings: AdoptSettings
) -> tuple[float, int]:
    """The largest difference of the sample, relative to the norm, and its size. Raises :class:`UsageError` if a
    difference is larger than :data:`TOLERANCE`."""
    if not len(rows):
        return 0.0, 0
    count = min(settings.sample, len(rows))
    positions = np.unique(np.linspace(0, len(rows) - 1, count).astype(np.int64))
    is_sampled = {*positions.tolist()}
    texts = [text for position, (_, text) in enumerate(source.read()) if position in is_sampled]
    expected = prepared(texts)
    norms = np.maximum(np.linalg.norm(expected, axis=1), 1e-12)
    differences = np.linalg.norm(rows[positions] - expected, axis=1) / norms
    worst = int(differences.argmax())
    if differences[worst] > TOLERANCE:
        identifier = identifiers[int(positions[worst])]
        problem = f"{identifier!r} embeds to another vector here (difference {differences[worst]:.2g} of its norm)"
        raise UsageError(f"{settings.vectors}: {problem}; name the encoder, similarity and precision of the job")
    return float(differences[worst]), len(positions)
