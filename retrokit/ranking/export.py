"""Prepared embeddings in files, so that any search by the inner product ranks as an encoder's similarity does.

    score(q, d) = prepare(q, "query") · prepare(d, "document")

A folder has the embeddings of one role (:mod:`retrokit.data.exports`), and how to prepare the other side. They are
written while they are computed: memory has one portion of them, and the identifiers. An interrupted export resumes
where it stopped, with the same result. Several machines may make a shard each.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from retrokit import encoders, similarities
from retrokit.core.errors import Interrupted, RetrokitError, UsageError
from retrokit.core.files import check_exists, digest, read_lines
from retrokit.core.notices import notice, progress
from retrokit.core.outputs import check_folder, check_replaceable, folder_in_the_making, paths_in
from retrokit.core.registry import Registry, file_system, parse_all
from retrokit.core.settings import is_address, taking
from retrokit.core.version import DOCUMENTATION, __version__
from retrokit.data import exports
from retrokit.data.beir import corpus_file, queries_file
from retrokit.data.corpus import read_corpus, read_queries
from retrokit.data.exports import Canaries, Export, ExportWriter, Quantization, open_export
from retrokit.data.images import Image, with_images
from retrokit.data.jsonl import of_kind, write_json
from retrokit.data.pairs import texts_file
from retrokit.encoders.base import Encoder, read_characters
from retrokit.ranking.retrieval.embeddings import SharedEmbeddings, prepared_rows
from retrokit.ranking.settings import ROLES, ExportSettings
from retrokit.similarities.base import Role, Similarity

__all__ = ["Export", "export", "open_export"]

_NAMES = [*exports.WRITTEN, *(f"{exports.SHARDS}/{pattern}" for pattern in exports.WRITTEN)]
"""Patterns of what an export, or one in shards, consists of."""
Texts = Iterator[tuple[str, str]]
"""Identifiers and texts."""


@taking(ExportSettings)
def export(settings: ExportSettings) -> Export:
    """Write the prepared embeddings of the texts of ``source`` into the folder ``output``, whole or not at all.

    An interrupted export leaves its rows next to ``output`` under a hidden name. The same call resumes from there,
    unless ``source`` is a pipe.

    An ``output`` that is an address is written next to the caches and uploaded at the end, ``export.json`` last.

    Raises:
        UsageError: wrong names (all of them in one message), a similarity that is no inner product of prepared
            embeddings or does not fit the encoder, a shard of a pipe, an output that exists, or that another command
            writes.
        DataError: a source that cannot be read, an output that cannot be written, or numbers beyond float16.
        Interrupted: by the user; the same call resumes.
    """
    shard = _shard_of(settings)
    check_names(settings)
    source = source_of(settings)
    output = _output_of(settings, shard)
    folder = _folder_of(output, settings.overwrite)
    check_folder(folder)

    def check_former() -> None:
        open_export(folder)  # nothing else is replaced
        check_replaceable(folder, _NAMES, paths_in([source.path, settings.encoder, settings.only]))

    def refuse() -> None:
        raise UsageError(f"{folder}: exists already; name a new folder, or give `overwrite=`")

    check = check_former if settings.overwrite or is_address(output) else refuse
    making = folder_in_the_making(folder, check, exports.can_go_on)
    try:
        with making as unfinished, encoders.showing_inputs(settings.show_inputs):
            note = _write_folder(unfinished, settings, source, shard)
        if is_address(output):
            file_system().upload(folder, output, last=exports.NOTE)
    except RetrokitError as error:
        error.heard = None if shard is None else True  # it may be of this shard alone
        raise
    except KeyboardInterrupt as error:
        advice = "what was encoded is in the embedding cache, if it is on" if source.is_pipe else "what is done is kept"
        options = ["overwrite"] if settings.overwrite else []
        raise Interrupted(f"{output}: interrupted; {advice}", *options) from error
    return Export(folder, note)


class _Shard(NamedTuple):
    """The shard ``number``, from 1, of ``shards``."""

    number: int
    shards: int

    def rows(self, total: int) -> range:
        """Its texts of ``total``: whole portions, so that its embeddings are those of an export that is whole, to the
        bit."""
        portions = -(-total // exports.CHUNK)
        start, stop = (portions * number // self.shards * exports.CHUNK for number in (self.number - 1, self.number))
        return range(min(total, start), min(total, stop))


@dataclass(frozen=True)
class ExportedTexts:
    """The file of the texts, of one role; a pipe is read once."""

    path: str
    role: Role
    is_pipe: bool
    only: frozenset[str]  # identifiers; none: all

    def read(self) -> Texts:
        """As retrieval reads them."""
        return (text for text in self._read_all() if not self.only or text[0] in self.only)

    def _read_all(self) -> Texts:
        if self.role == "query":
            yield from read_queries(self.path, images=True)
        else:
            for document in read_corpus(self.path, images=True):
                yield document.id, document.full_text

    def check(self) -> tuple[np.ndarray, list[str]]:
        """Read all, but a pipe: by how much each text or image advances progress, and the images."""
        images: list[str] = []
        missing = set(self.only)

        def items() -> Iterator[str]:
            for identifier, item in () if self.is_pipe else self._read_all():
                if isinstance(item, Image):
                    images.append(item)
                if not self.only or identifier in self.only:
                    missing.discard(identifier)
                    yield item

        lengths = read_characters(items())
        if missing:
            raise UsageError(f"{self.path}: lacks {len(missing):,} ids of `only=`, the first {min(missing)!r}")
        return lengths, images


def _shard_of(settings: ExportSettings) -> _Shard | None:
    if settings.shard is None:
        return None
    match = re.fullmatch(r"([0-9]{1,5})/([0-9]{1,5})", settings.shard)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise UsageError(f"`shard=` {settings.shard!r}: expected i/n with i from 1 to n, such as 2/8")
    return _Shard(int(match[1]), int(match[2]))


def check_names(settings: ExportSettings) -> None:
    """Raise :class:`UsageError` for wrong names, or a similarity without an inner product."""
    names: list[tuple[Registry, str]] = [(encoders.registry, settings.encoder)]
    if settings.sim is not None:
        names.append((similarities.registry, settings.sim))
    parse_all(names)
    if settings.sim is not None:
        check_factorable(similarities.registry.create(settings.sim))


def source_of(settings: ExportSettings) -> ExportedTexts:
    """The file of the texts."""
    role: Role = "document" if settings.role == "document" else "query"
    path = texts_file(settings.source, corpus_file if role == "document" else queries_file)
    check_exists(path)
    is_pipe = path == "-" or (os.path.exists(path) and not os.path.isfile(path))
    for name in ("shard", "only"):
        if is_pipe and settings.has(name):
            raise UsageError(f"`{name}=`: the texts must be in a file, and {settings.source} can be read once only")
    lines = read_lines(settings.only, "an id a line") if settings.only else ()
    return ExportedTexts(path, role, is_pipe, frozenset(line for _, line in lines))


def _output_of(settings: ExportSettings, shard: _Shard | None) -> str:
    """The output, or the shard's folder in it."""
    if shard is None:
        return settings.output
    if is_address(settings.output):
        names = file_system().names(settings.output)
    else:
        names = {path.name for path in Path(settings.output).glob("*")}
    if exports.NOTE in names:
        raise UsageError(f"{settings.output}: contains a whole export; name another folder for the shards")
    for former in fnmatch.filter(names, exports.SHARDS):
        count = int(former[-5:])
        if count != shard.shards:
            problem = f"contains shards of {count}; name another folder for shards of {shard.shards}"
            raise UsageError(f"{settings.output}: {problem}")
    return f"{settings.output}/shard-{shard.number:05}-of-{shard.shards:05}"


def _folder_of(output: str, overwrite: bool) -> Path:
    """The folder to write; of an address a local one, which is uploaded."""
    if not is_address(output):
        return Path(output)
    return Path(file_system().target(output, _NAMES if overwrite else None))


def _write_folder(
    unfinished: Path, settings: ExportSettings, source: ExportedTexts, shard: _Shard | None
) -> dict[str, Any]:
    """Write all into the folder ``unfinished``, or what is missing there; the note of the export."""
    lengths, images = source.check()
    total = len(lengths)
    rows = (shard or _Shard(1, 1)).rows(total)
    prepared = Prepared(settings, source.role)
    about = {
        **prepared.describe(),
        "dtype": settings.dtype,
        "shard": {"number": shard.number, "of": shard.shards, "first": rows.start} if shard is not None else None,
        "source": {
            "spec": settings.source,
            "digest": None if source.is_pipe else with_images(digest(source.path), images),
        },
    }
    decided_by = None
    if not source.is_pipe:
        decided_by = {**about, "key": prepared.key(), "portion": exports.CHUNK, "only": sorted(source.only)}
    with ExportWriter(unfinished, Quantization(settings.dtype, prepared.width), decided_by) as writer:
        first_texts = _write_rows(writer, prepared, source, rows, lengths)
        return prepared.finish(writer, unfinished, first_texts, about)


def _write_rows(
    writer: ExportWriter, prepared: Prepared, source: ExportedTexts, rows: range, lengths: np.ndarray
) -> list[str]:
    """Write the ``rows`` that are missing, of a pipe all; the first texts of the source. Ranges of int8 are those of
    texts from the whole source, of a pipe of the first ones."""
    step = exports.step_of(len(lengths))
    texts = source.read()
    first = list(islice(texts, exports.CHUNK))
    sample: Iterable[tuple[str, str]]
    if source.is_pipe:
        sample = first
        texts = chain(first, texts)
    else:
        sample = islice(source.read(), 0, None, step)
        texts = islice(source.read(), rows.start + writer.texts, rows.stop)
    writer.calibrate(lambda: prepared([text for _, text in sample]))
    if writer.count:
        notice(f"resuming after {writer.count:,} embeddings of an interrupted export")
    total = None if source.is_pipe else lengths[rows.start : rows.stop].sum()
    with progress("exporting embeddings", total, "characters") as advance:
        advance(lengths[rows.start : rows.start + writer.texts].sum(), earlier=True)
        while portion := list(islice(texts, exports.CHUNK)):
            embeddings, chunk_counts = prepared.of_chunks([text for _, text in portion])
            writer.add([identifier for identifier, _ in portion], embeddings, chunk_counts)
            advance(read_characters(text for _, text in portion).sum())
    return [text for _, text in first]


class Prepared:
    """Prepared embeddings of texts in one role; with ``one_length`` a 0 follows each. Raises :class:`UsageError` if the
    similarity or ``dims`` does not fit the encoder."""

    def __init__(self, settings: ExportSettings, role: Role) -> None:
        encoder: Encoder = encoders.registry.create(settings.encoder, device=settings.device)
        similarity = encoder.similarity_of(settings.sim)
        check_factorable(similarity)
        self._embeddings = SharedEmbeddings(encoder, [similarity], settings.precision, settings.dims)
        self._encoder, self._similarity, self._role = encoder, similarity, role
        self._precision, self._dims, self._one_length = settings.precision, settings.dims, settings.one_length
        self.has_chunks = role == "document" and self._embeddings.chunks is not None
        self.width = self.of_raw(np.ones((1, self._embeddings.dims), dtype=np.float32)).shape[1]

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """float32 ``[n, d]`` in the order of ``texts``; of documents in chunks those of all chunks."""
        return self.of_chunks(texts)[0]

    def of_chunks(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray | None]:
        """The same, and how many chunks each text has, int64 ``[n]``; ``None``: they have one embedding each."""
        items, counts = self._embeddings.split(texts, self._role)
        return self.of_raw(self._embeddings.embed(items, self._role, chunks=self.has_chunks)), counts

    def of_raw(self, raw: np.ndarray) -> np.ndarray:
        """The same of raw embeddings."""
        rows = prepared_rows(self._similarity, raw, self._role)
        return np.ascontiguousarray(np.pad(rows, [(0, 0), (0, int(self._one_length))]), dtype="<f4")

    def canaries(self, texts: Sequence[str]) -> dict[str, Any]:
        """The texts, of documents in chunks the first chunk of each, with their raw embeddings."""
        encoder = self._encoder
        chunks = self._embeddings.chunks
        if self.has_chunks and chunks is not None:
            encoder = chunks.encoder
            texts = [chunks.split([text])[0][0] for text in texts]
        raw = self._embeddings.embed(texts, self._role, chunks=self.has_chunks)
        rows = [[float(f"{number:.9g}") for number in row] for row in raw.tolist()]  # float32 to the bit
        return asdict(Canaries(self._role, encoder.prompts[self._role], list(texts), rows))

    def finish(
        self, writer: ExportWriter, unfinished: Path, first_texts: Sequence[str], about: dict[str, Any]
    ) -> dict[str, Any]:
        """Write canaries among the first texts next to the rows, and the note, which is returned."""
        canaries = exports.canaries_among(first_texts)
        if canaries:
            write_json(unfinished / exports.CANARIES, self.canaries(canaries), kind="canaries")
        documents = {"documents": writer.texts} if self.has_chunks else {}
        note = of_kind("export", {"count": writer.count, **documents, "dimension": self.width, **about})
        writer.finish(note, self._one_length and self._role == "document")
        return note

    def key(self) -> str:
        """The digest of all that decides the bits of a raw embedding (:meth:`Encoder.key`)."""
        return self._encoder.key(self._precision)

    def describe(self) -> dict[str, Any]:
        """What makes them, and what makes the embeddings of the other role."""
        encoder, similarity = self._encoder, self._similarity
        metric = "inner product, higher is better"
        first_dims = f"the first {self._dims} dimensions of the embedding as x; " if self._dims else ""
        endings = {"query": "", "document": ""}
        if self._one_length:
            metric += "; cosine and L2 rank alike"
            endings["query"] = ", then a 0"
            endings["document"] = ", then √(M² − the square of its length), M the greatest length"
        return {
            "role": self._role,
            "metric": metric,
            "similarity": {"spec": similarity.spec, "learned": similarity.statistics()},
            "transform": {role: f"{first_dims}{similarity.prepare_in_words(role)}{endings[role]}" for role in ROLES},
            "one_length": self._one_length,
            "encoder": {
                "spec": encoder.spec,
                "fingerprint": encoder.fingerprint() if self._role == "query" else encoder.document_fingerprint(),
                "dimension": encoder.dimension,
                "dims": self._embeddings.dims,
                "precision": encoder.computes_in(self._precision),
                "device": encoder.device.type,
                "prompts": encoder.prompts,
                "max_length": {role: encoder.max_length(role) for role in ROLES},
            },
            "prepare_queries": self._how_to_prepare(),
            "retrokit": __version__,
        }

    def _how_to_prepare(self) -> dict[str, str]:
        """Python code for queries in memory, and a command for a file of them."""
        encoder, spec = self._encoder, self._similarity.spec
        options = ["--dims", str(self._dims)] if self._dims else []
        options += ["--precision", self._precision] if self._precision != "auto" else []
        options += ["--one-length"] if self._one_length else []
        words = ["retrokit", "export", encoder.spec, "--role", "query", "--sim", spec, *options]
        columns = f"[:, :{self._dims}]" if self._dims else ""
        precision = f", {self._precision!r}" if self._precision != "auto" else ""
        # the encoder's own may have learned something
        similarity = "encoder.similarity" if encoder.similarity.spec == spec else f"retrokit.similarity({spec!r})"
        imports, expression = "", f'{similarity}.prepare(raw, "query")'
        if self._one_length:
            imports, expression = "import torch\n", f"torch.nn.functional.pad({expression}, (0, 1))"
        return {
            "python": f"import retrokit\n{imports}\n"
            f"encoder = retrokit.encoder({encoder.spec!r})\n"
            f'raw = encoder.embed(["a query"], "query"{precision}){columns}\n'
            f"prepared = {expression}.numpy(force=True)",
            "command": f"{shlex.join(words)} --on queries.jsonl --output queries",
        }


def check_factorable(similarity: Similarity) -> None:
    """Raise :class:`UsageError` for a similarity without an inner product."""
    if not similarity.factorable:
        raise UsageError(
            f"{similarity.spec} is not an inner product of prepared embeddings, so there are none to export "
            f"(what to do instead: {DOCUMENTATION}/how-to/export-vectors.md)"
        )
