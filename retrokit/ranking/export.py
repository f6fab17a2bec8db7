"""Prepared embeddings in files, so that any search by the inner product ranks as an encoder's similarity does.

    score(q, d) = prepare(q, "query") · prepare(d, "document")

A folder has the embeddings of one role (:mod:`retrokit.data.exports`), and how to prepare the other side. They are
written while they are computed: memory has one portion of them, and the identifiers. An interrupted export resumes
where it stopped, with the same result. Several machines may make a shard each.
"""

import copy
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from retrokit import encoders, similarities
from retrokit.core.errors import Interrupted, RetrokitError, UsageError
from retrokit.core.files import check_exists, digest
from retrokit.core.notices import notice, progress
from retrokit.core.outputs import check_folder, check_replaceable, folder_in_the_making, paths_in
from retrokit.core.registry import parse_all
from retrokit.core.settings import taking
from retrokit.core.version import DOCUMENTATION, __version__
from retrokit.data import exports
from retrokit.data.beir import corpus_file, queries_file
from retrokit.data.corpus import read_corpus, read_queries
from retrokit.data.exports import Canaries, Export, ExportWriter, Quantization, open_export
from retrokit.data.images import Image, with_images
from retrokit.data.jsonl import of_kind, write_json
from retrokit.data.pairs import texts_file
from retrokit.encoders.base import Encoder
from retrokit.ranking.settings import ROLES, ExportSettings
from retrokit.similarities.base import Role, Similarity

__all__ = ["Export", "export", "open_export"]

Texts = Iterator[tuple[str, str]]
"""Identifiers and texts."""


@taking(ExportSettings)
def export(settings: ExportSettings) -> Export:
    """Write the prepared embeddings of the texts of ``source`` into the folder ``output``, whole or not at all.

    An interrupted export leaves its rows next to ``output`` under a hidden name. The same call resumes from there,
    unless ``source`` is a pipe.

    Raises:
        UsageError: wrong names (all of them in one message), a similarity that is no inner product of prepared
            embeddings or does not fit the encoder, a shard of a pipe, an output that exists, or that another command
            writes.
        DataError: a source that cannot be read, an output that cannot be written, or numbers beyond float16.
        Interrupted: by the user; the same call resumes.
    """
    shard = re.fullmatch(r"([0-9]{1,5})/([0-9]{1,5})", settings.shard or "1/1")
    if shard is None or not 1 <= int(shard[1]) <= int(shard[2]):
        raise UsageError(f"`shard=` {settings.shard!r}: expected i/n with i from 1 to n, such as 2/8")
    number, count = int(shard[1]), int(shard[2])
    parse_all(
        [(encoders.registry, settings.encoder), *([(similarities.registry, settings.sim)] if settings.sim else [])]
    )
    if settings.sim is not None:
        _check_factorable(similarities.registry.create(settings.sim))
    path = texts_file(settings.source, corpus_file if settings.role == "document" else queries_file)
    check_exists(path)
    is_pipe = path == "-" or (os.path.exists(path) and not os.path.isfile(path))  # which is read once
    folder = Path(settings.output)
    if settings.shard is not None:
        if is_pipe:
            raise UsageError(
                f"`shard=` {settings.shard}: the texts must be in a file, and {settings.source} can be read once only"
            )
        if (folder / exports.NOTE).exists():
            raise UsageError(f"{settings.output}: contains a whole export; name another folder for the shards")
        folder /= f"shard-{number:05}-of-{count:05}"
    inputs = paths_in([path, settings.encoder])

    def check() -> None:
        open_export(folder)  # nothing else is replaced
        of_shards = [f"{exports.SHARDS}/{pattern}" for pattern in exports.WRITTEN]
        check_replaceable(folder, [*exports.WRITTEN, *of_shards], inputs)

    check_folder(folder)
    try:
        making = folder_in_the_making(folder, check if settings.overwrite else None, exports.can_go_on)
        with making as unfinished, encoders.showing_inputs(settings.show_inputs):
            note = _write_folder(unfinished, settings, path, is_pipe, number, count)
    except RetrokitError as error:
        error.heard = None if settings.shard is None else True  # it may be of this shard alone
        raise
    except KeyboardInterrupt as error:
        detail = "what was encoded is in the embedding cache, if it is on" if is_pipe else "what is done is kept"
        raise Interrupted(f"{folder}: interrupted; {detail}", *(["overwrite"] if settings.overwrite else [])) from error
    return Export(folder, note)


def _write_folder(
    unfinished: Path, settings: ExportSettings, path: str, is_pipe: bool, number: int, count: int
) -> dict[str, Any]:
    """Write all into the folder ``unfinished``, or what is missing there; the note of the export."""
    role: Role = "document" if settings.role == "document" else "query"
    images: list[str] = []

    def read() -> Texts:
        """As retrieval reads them."""
        if role == "query":
            return read_queries(path, images=True)
        return ((document.id, document.full_text) for document in read_corpus(path, images=True))

    total = 0
    for _, item in () if is_pipe else read():  # checked before anything is encoded
        total += 1
        if isinstance(item, Image):
            images.append(item)
    # a shard has whole portions, so that its embeddings are those of an export that is whole, to the bit
    portions = -(-total // exports.CHUNK)
    rows = range(*(min(total, portions * i // count * exports.CHUNK) for i in (number - 1, number)))
    prepared = Prepared(settings, role)
    about = {
        **prepared.describe(),
        "dtype": settings.dtype,
        "shard": {"number": number, "of": count, "first": rows.start} if settings.shard else None,
        "source": {"spec": settings.source, "digest": None if is_pipe else with_images(digest(path), images)},
    }
    decided_by = None if is_pipe else {**about, "key": prepared.key(), "portion": exports.CHUNK}
    numbers = Quantization(settings.dtype, prepared.width)
    with ExportWriter(unfinished, numbers, decided_by) as writer:
        if is_pipe:
            piped = read()
            sample = list(islice(piped, exports.CHUNK))
            texts: Texts = chain(sample, piped)
            writer.calibrate(lambda: prepared([text for _, text in sample]))
        else:
            step = exports.step_of(total)
            writer.calibrate(lambda: prepared([text for _, text in islice(read(), 0, None, step)]))
            sample = list(islice(read(), exports.CHUNK))
            texts = islice(read(), rows.start + writer.texts, rows.stop)
        if writer.count:
            notice(f"resuming after {writer.count:,} embeddings of an interrupted export")
        with progress("exporting embeddings", None if is_pipe else len(rows), "texts") as advance:
            advance(writer.texts)
            while chunk := list(islice(texts, exports.CHUNK)):
                writer.add([identifier for identifier, _ in chunk], *prepared.of_chunks([text for _, text in chunk]))
                advance(len(chunk))
        documents = {"documents": writer.texts} if prepared.has_chunks else {}
        if canaries := exports.canaries_among(text for _, text in sample):
            write_json(unfinished / exports.CANARIES, prepared.canaries(canaries), kind="canaries")
        note = of_kind("export", {"count": writer.count, **documents, "dimension": prepared.width, **about})
        writer.finish(note, settings.one_length and role == "document")
    return note


class Prepared:
    """Prepared embeddings of texts in one role; with ``one_length`` a 0 follows each. Raises :class:`UsageError` if the
    similarity or ``dims`` does not fit the encoder."""

    def __init__(self, settings: ExportSettings, role: Role) -> None:
        encoder: Encoder = encoders.registry.create(settings.encoder, device=settings.device)
        similarity, dims = encoder.similarity_of(settings.sim), settings.dims
        _check_factorable(similarity)
        if dims is not None and not 1 <= dims <= encoder.dimension:
            raise UsageError(f"`dims=` {dims}: {encoder.spec} has {encoder.dimension} dimensions")
        encoder.use_with(similarity, dims)
        self._encoder, self._similarity, self._role = encoder, copy.deepcopy(similarity).cpu(), role
        self._precision, self._dims, self._one_length = settings.precision, dims, settings.one_length
        self._chunks = encoder.in_chunks() if role == "document" else None
        self.has_chunks = self._chunks is not None
        prepared = self._similarity.prepare(torch.ones(1, dims or encoder.dimension), role)
        self.width = prepared.shape[1] + int(self._one_length)

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """float32 ``[n, d]`` in the order of ``texts``; of documents in chunks those of all chunks."""
        return self.of_chunks(texts)[0]

    def of_chunks(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray | None]:
        """The same, and how many chunks each text has, int64 ``[n]``; ``None``: they have one embedding each."""
        items, counts = (texts, None) if self._chunks is None else self._chunks.split(texts)
        encoder = self._encoder if self._chunks is None else self._chunks.encoder
        return self.of_raw(encoder.embed(items, self._role, self._precision)[:, : self._dims]), counts

    @torch.inference_mode()
    def of_raw(self, raw: np.ndarray) -> np.ndarray:
        """The same of raw embeddings."""
        rows = self._similarity.prepare(torch.as_tensor(raw), self._role)
        padded = torch.nn.functional.pad(rows, (0, int(self._one_length)))
        return np.ascontiguousarray(padded.numpy(), dtype="<f4")

    def canaries(self, texts: Sequence[str]) -> dict[str, Any]:
        """The texts, of documents in chunks the first chunk of each, with their raw embeddings."""
        encoder = self._encoder
        if self._chunks is not None:
            encoder = self._chunks.encoder
            texts = [self._chunks.split([text])[0][0] for text in texts]
        raw = encoder.embed(texts, self._role, self._precision)[:, : self._dims]
        rows = [[float(f"{number:.9g}") for number in row] for row in raw.tolist()]  # float32 to the bit
        return asdict(Canaries(self._role, encoder.prompts[self._role], list(texts), rows))

    def key(self) -> str:
        """The digest of all that decides the bits of a raw embedding (:meth:`Encoder.key`)."""
        return self._encoder.key(self._precision)

    def describe(self) -> dict[str, Any]:
        """What makes them, and what makes the embeddings of the other role."""
        encoder, similarity = self._encoder, self._similarity
        taken = f"the first {self._dims} dimensions of the embedding as x; " if self._dims else ""
        added = {"query": ", then a 0", "document": ", then √(M² − the square of its length), M the greatest length"}
        added = added if self._one_length else dict.fromkeys(added, "")
        return {
            "role": self._role,
            "metric": "inner product, higher is better" + ("; cosine and L2 rank alike" if self._one_length else ""),
            "similarity": {"spec": similarity.spec, "learned": similarity.statistics()},
            "transform": {role: f"{taken}{similarity.prepare_in_words(role)}{added[role]}" for role in ROLES},
            "one_length": self._one_length,
            "encoder": {
                "spec": encoder.spec,
                "fingerprint": encoder.fingerprint() if self._role == "query" else encoder.document_fingerprint(),
                "dimension": encoder.dimension,
                "dims": self._dims or encoder.dimension,
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
        is_own = encoder.similarity.spec == spec
        similarity = "encoder.similarity" if is_own else f"retrokit.similarity({spec!r})"
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


def _check_factorable(similarity: Similarity) -> None:
    if not similarity.factorable:
        raise UsageError(
            f"{similarity.spec} is not an inner product of prepared embeddings, so there are none to export "
            f"(what to do instead: {DOCUMENTATION}/how-to/export-vectors.md)"
        )
