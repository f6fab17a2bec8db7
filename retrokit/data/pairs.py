"""Training data: pairs with optional negatives, scored pairs, texts to augment, and the sources they come from.

A source is named by a spec — ``pairs.jsonl``, ``beir:data/scifact,split=train``, ``hf:ORG/NAME`` — and read whole and
validated before training starts, so that a mistake in its last line costs no hours."""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrokit.core.errors import DataError, ServiceError, UsageError, first_line
from retrokit.core.files import check_exists, digest
from retrokit.core.notices import notice
from retrokit.core.registry import Entry, Param, Registry, head_of
from retrokit.data import DOCSTRINGS, DOCSTRINGS_TEXTS, DOCUMENTS
from retrokit.data.beir import RetrievalData, corpus_file, digest_beir, is_beir, located, read_beir
from retrokit.data.columns import used_columns
from retrokit.data.corpus import read_corpus
from retrokit.data.images import Image, content_of, with_images
from retrokit.data.jsonl import fields_of
from retrokit.data.packed_records import PackedRecords, distinct
from retrokit.data.prompted import PROMPT, given_prompt
from retrokit.data.tables import label_names, names_of_classes, read_rows, stem
from retrokit.data.training_rows import (
    WITHOUT_NAMES,
    Kind,
    Pair,
    Records,
    ScoredPair,
    Unlabelled,
    digest64,
    normal_form,
    pair_codes,
    same_kinds,
    text_id,
    texts_of_record,
    training_records,
)

if TYPE_CHECKING:
    import numpy as np
    from datasets import Dataset


@dataclass(frozen=True)
class Source:
    """The records of one source of training data, all of one type.

    Attributes:
        weight: how many times an epoch takes the records.
        query_prompt, document_prompt: what goes before anchors and before documents.
        digest: ``sha256:<hex>`` of the input.
        positives: the codes (:func:`pair_codes`) of each anchor with each of its positives, sorted int64 ``[n]``; none
            of scored pairs; a text with itself.
        counts: records, anchors and documents (distinct), duplicates (left out, negatives count too), images,
            contradictions (negatives that are positives of their anchor too), and of BEIR pairs_without_text (left
            out).
        places: numbers of the records among all that were read, duplicates too; empty: those of the list.
    """

    spec: str
    name: str
    records: Records
    weight: float
    query_prompt: str | None
    document_prompt: str | None
    digest: str
    positives: np.ndarray
    counts: dict[str, int]
    places: Sequence[int] = ()


_USE = (
    Param("weight", 1.0, minimum=0.001, maximum=1000.0, help="how many times an epoch takes its records"),
    Param("query_prompt", pattern=PROMPT, help="text before each anchor; a template ends with {text}"),
    Param("document_prompt", pattern=PROMPT, help="text before each other text; a template ends with {text}"),
)
_SPLIT = Param("split", "train", help="which split")
_SCORE = Param("level", float, help="lowest score of a positive pair; default: labels of 0 and 1")
_LEVEL = Param("level", 1, minimum=1, help="lowest grade that counts as relevant")

registry = Registry(
    "training data",
    "retrokit.data",
    [
        Entry(
            "jsonl",
            "a file (JSON, CSV, TSV, Parquet): anchor, positive, negatives; or sentence1, sentence2, score",
            "retrokit.data.pairs:from_jsonl",
            (Param("path", required=True, help="a file, .gz too; - is standard input"), _SCORE, *_USE),
            positional="path",
        ),
        Entry(
            "beir",
            "the judged queries of a BEIR folder, each with every relevant document",
            "retrokit.data.pairs:from_beir",
            (Param("path", required=True, help="the folder, or hf:ORG/NAME"), _SPLIT, _LEVEL, *_USE),
            positional="path",
        ),
        Entry(
            "hf",
            "a Hugging Face data set: a folder of save_to_disk, a folder of data files, or a hub id",
            "retrokit.data.pairs:from_hf",
            (
                Param("name", required=True, help="a folder or a hub id"),
                Param("config", help="which configuration"),
                _SPLIT,
                _SCORE,
                *_USE,
            ),
            positional="name",
        ),
        Entry(
            DOCSTRINGS,
            "first sentences of docstrings of Python's standard library, each with the rest; built in",
            "retrokit.data.pairs:from_docstrings",
            (DOCUMENTS, _SPLIT, *_USE),
        ),
    ],
    fallback="jsonl",
)


def read_source(text: str, kind: Kind, images: bool = False) -> Source:
    """Read and validate the training data of the spec ``text`` as records of a kind, with images if ``images``.

    Raises:
        UsageError: a wrong spec, or a source that has no such records, or has images.
        DataError: a wrong line or row.
        ServiceError: a hub that cannot be reached.
    """
    spec = registry.parse(text)
    if kind != "pairs" and spec.name != "beir" and spec.params.get("level") is not None:
        raise UsageError(f"{spec}: level= selects positive pairs, which are not needed here; leave it out")
    source: Source = registry.create(spec, kind=kind, spec_text=str(spec))
    if source.counts.get("images") and not images:
        raise UsageError(f"{spec} contains images; expected texts")
    return source


def read_any_source(spec: str) -> Source:
    """Training data of any kind: pairs, scored pairs or texts. Raises what is wrong with them as the kind that most
    lines, from the first on, are of."""
    kinds: tuple[Kind, ...] = ("pairs", "scored", "texts")
    errors = []
    for kind in kinds:
        try:
            return read_source(spec, kind, images=True)
        except (DataError, UsageError) as error:
            errors.append(error)
    raise max(errors, key=lambda error: getattr(error, "line", 0))


def check_files(data: Sequence[str]) -> None:
    """Raise :class:`UsageError` for a wrong spec and :class:`DataError` for a file that does not exist, before a
    command imports its libraries. Not in one of several processes: the others would wait for it."""
    for spec in map(registry.parse, data) if os.environ.get("WORLD_SIZE", "1") == "1" else ():
        if spec.name == "jsonl":
            check_exists(spec.path)


def read_pairs(data: Sequence[str]) -> list[Pair]:
    """The distinct pairs of several sources. Raises :class:`UsageError` for a weight or prompts, and as
    :func:`read_source`."""
    pairs: dict[Pair, None] = {}
    for spec in data:
        source = read_source(spec, "pairs")
        if source.weight != 1 or source.query_prompt is not None or source.document_prompt is not None:
            raise UsageError(f"{spec}: rows are taken once, without prompts; leave out weight and prompts")
        pairs.update(dict.fromkeys(pair for pair in source.records if isinstance(pair, Pair)))
    return list(pairs)


def unlabelled_file(source: str) -> str:
    """As :func:`texts_file` of a corpus; of ``docstrings`` the documents of the split train, which no test has."""
    path = texts_file(source, corpus_file)
    folder = built_in_folder(source)
    return path if folder is None else str(folder / DOCSTRINGS_TEXTS)


def beir_folder(source: str | Path) -> Path:
    """The folder of a BEIR folder, of one of BEIR's sets or of ``docstrings``; raises as :func:`beir.located`."""
    return built_in_folder(source) or located(source)


def built_in_folder(source: str | Path) -> Path | None:
    """The folder of the built-in set, if ``source`` names that; ``./docstrings`` is a path."""
    text = str(source)
    if head_of(text) != DOCSTRINGS:
        return None
    return docstrings_of(registry.options(registry.parse(text))["documents"])


def docstrings_of(documents: int) -> Path:
    """The folder of the built-in set, which is written once. Raises as :func:`docstrings.docstrings_folder`."""
    from retrokit.data.docstrings import docstrings_folder

    return docstrings_folder(documents)


def texts_file(source: str, file_of: Callable[[str | Path], Path]) -> str:
    """The file of texts that ``source`` names: a file, ``-``, or ``file_of`` (``beir.corpus_file``, ``queries_file``)
    of what :func:`beir_folder` takes. Raises :class:`UsageError`, and as ``file_of`` and ``beir_folder``."""
    params = registry.parse(source).params
    ignored = [name for name in params if name not in ("path", "name", "documents")]
    if ignored:
        raise UsageError(f"{source}: only the texts are read; leave {ignored[0]} out")
    path = str(params.get("path", source))
    resolved = built_in_folder(source) or located(path)
    return str(file_of(resolved)) if os.path.isdir(resolved) else path


def from_jsonl(path: str, level: float | None, *, kind: Kind, spec_text: str, **use: Any) -> Source:
    """The source ``jsonl``: a file that :func:`read_rows` reads; a list of positives gives one pair each. Raises as
    :func:`read_source`."""
    if os.path.isdir(path):
        raise UsageError(f"{path}: is a folder; for training data write {'beir' if is_beir(path) else 'hf'}:{path}")
    seen = hashlib.sha256()
    rows: Iterator[tuple[int, dict[str, Any]]]
    feed = None if os.path.isfile(path) else seen.update  # a pipe cannot be read again
    rows = read_rows(path, "training data, one JSON object a line", feed, WITHOUT_NAMES[kind])

    def digest_read() -> str:
        return digest(path) if feed is None else f"sha256:{seen.hexdigest()}"

    if kind == "pairs":
        rows = _with_named_labels(rows, lambda: label_names(path))
    return build_source(training_records(rows, kind, path, level), spec_text, stem(path), digest_read, **use)


def from_beir(path: str, split: str, level: int, *, kind: Kind, spec_text: str, **use: Any) -> Source:
    """The source ``beir``: a pair for each query and document with a grade of at least ``level`` in the split, those
    without text left out; or the corpus' texts. Raises as :func:`read_source`."""
    if kind == "texts":
        file = corpus_file(located(path))
        texts = (Unlabelled(document.text) for document in read_corpus(file))
        return build_source(texts, spec_text, Path(path).name, lambda: digest(file), **use)
    if kind != "pairs":
        what = "scored sentences" if kind == "scored" else "a teacher's scores"
        raise UsageError(f"{spec_text}: a BEIR folder gives pairs or texts, not {what}")
    data = read_beir(path, split, images=True, level=level)
    for query_id, query in zip(data.query_ids, data.queries, strict=True):
        if not query.strip():
            raise DataError(path, f"query {query_id!r} of split {split!r} has no text")
    records, without_text = _pairs_with_text(data, path)
    if not records:
        raise DataError(path, f"split {split!r} gives no training records: no relevant document has a text")
    if without_text:
        notice(f"{path}: {without_text} relevant documents of split {split!r} have no text; their pairs are left out")
    left_out = {"pairs_without_text": without_text}
    return build_source(records, spec_text, data.name, lambda: digest_beir(path, split), **use, left_out=left_out)


def _pairs_with_text(data: RetrievalData, path: str) -> tuple[list[Pair], int]:
    """The pairs of each query and its relevant documents, and how many are left out because one has no text."""
    records = []
    without_text = 0
    kinds = None
    for query, document in data.pairs_of_texts():
        if not document:
            without_text += 1
            continue
        record = Pair(query, document)
        try:
            kinds = same_kinds(record, kinds)
        except ValueError as error:
            raise DataError(path, str(error)) from error
        records.append(record)
    return records, without_text


def from_docstrings(documents: int, split: str, *, kind: Kind, spec_text: str, **use: Any) -> Source:
    """The source ``docstrings``: the pairs of a split, or the texts of the split train. Raises as
    :func:`read_source`."""
    folder = docstrings_of(documents)
    if kind == "texts":
        return from_jsonl(str(folder / DOCSTRINGS_TEXTS), None, kind=kind, spec_text=spec_text, **use)
    return from_beir(str(folder), split, 1, kind=kind, spec_text=spec_text, **use)


def build_source(
    records: Iterable[Any],
    spec: str,
    name: str,
    digest: Callable[[], str],
    *,
    weight: float,
    query_prompt: str | None,
    document_prompt: str | None,
    left_out: Mapping[str, int] | None = None,
) -> Source:
    """A source of ``records``, all of one type, without repeated ones (scored pairs may repeat). ``digest`` is called
    when all are read. Raises :class:`DataError` if there are none."""
    every, has_images = _packed(records)
    if not every:
        raise DataError(spec, "gives no training records")
    count = len(every)
    indices: Sequence[int] = range(count)
    if isinstance(every[0], ScoredPair):
        unique: Any = every
    elif isinstance(every, PackedRecords):
        is_first = every.first_of_each()
        unique = every
        if not is_first.all():
            indices = array("q", is_first.nonzero()[0].tobytes())
            unique.keep(indices)
    else:
        first_indices: dict[Any, int] = {}
        for index, record in enumerate(every):
            first_indices.setdefault(record, index)
        unique, indices = [*first_indices], [*first_indices.values()]
    positives, record_counts, images = _numbered(unique)
    counts = {"records": len(unique), **record_counts, "duplicates": count - len(unique), **(left_out or {})}
    counts |= {"images": len(set(images))} if has_images else {}
    return Source(
        spec=spec,
        name=name,
        records=unique,
        weight=weight,
        query_prompt=given_prompt(query_prompt),
        document_prompt=given_prompt(document_prompt),
        digest=with_images(digest(), images),
        positives=positives,
        counts=counts,
        places=indices,
    )


def _packed(records: Iterable[Any]) -> tuple[Sequence[Any], bool]:
    """The records, packed unless they have images; and whether they have."""
    packed = PackedRecords()
    stream = iter(records)
    for record in stream:
        anchor, texts = texts_of_record(record)
        if any(isinstance(item, Image) for item in (anchor, *texts)):
            return [*packed, record, *stream], True
        packed.append(record)
    return packed, False


def part_of(source: Source, keep: np.ndarray) -> Source:
    """The source with the records that ``keep``, bool ``[n]``, names, counted again; the others are left out."""
    rows = keep.nonzero()[0].tolist()
    records: Any = (source.records[row] for row in rows)
    records = PackedRecords(records) if isinstance(source.records, PackedRecords) else [*records]
    positives, record_counts, _ = _numbered(records)
    before = {name: count for name, count in source.counts.items() if name != "contradictions"}
    counts = {**before, "records": len(records), **record_counts}
    places = array("q", (source.places[row] for row in rows)) if source.places else ()
    return replace(source, records=records, positives=positives, counts=counts, places=places)


def _numbered(records: Records) -> tuple[np.ndarray, dict[str, int], list[str]]:
    """The codes of the positives (none of scored pairs), counts of distinct anchors and documents, and all images."""
    import numpy as np

    anchors, positives, negatives, each = array("q"), array("q"), array("q"), array("q")
    images: list[str] = []
    for record in records:
        anchor, texts = texts_of_record(record)
        anchors.append(text_id(anchor))
        positives.append(text_id(texts[0]))
        negatives.extend(map(text_id, texts[1:]))
        each.append(len(texts) - 1)
        images += [item for item in (anchor, *texts) if isinstance(item, Image)]
    first, second, rest, counts = (
        np.frombuffer(numbers, dtype=np.int64) for numbers in (anchors, positives, negatives, each)
    )
    scored = len(records) and isinstance(records[0], ScoredPair)
    codes = np.empty(0, dtype=np.int64) if scored else distinct(pair_codes(first, second))
    documents = len(distinct(np.concatenate([second, rest])))
    contradictions = int(np.isin(pair_codes(first.repeat(counts), rest), codes).sum()) if len(rest) else 0
    record_counts = {"anchors": len(distinct(first)), "documents": documents}
    if contradictions:
        record_counts["contradictions"] = contradictions
    return codes, record_counts, images


def from_hf(
    name: str, config: str | None, split: str, level: float | None, *, kind: Kind, spec_text: str, **use: Any
) -> Source:
    """The source ``hf``: the rows, from 1, of one split of a Hugging Face data set: a folder of ``save_to_disk`` or of
    data files, or a hub id.

    Raises:
        UsageError: no such split or configuration; the message lists those that are there.
        DataError: a folder without a data set, or a wrong row.
        ServiceError: the hub cannot be reached, or has no such data set.
    """
    saved = any(os.path.isfile(os.path.join(name, mark)) for mark in ("dataset_dict.json", "state.json"))
    dataset = _saved(name, config, split) if saved else _loaded(name, config, split)
    where = f"{name}, split {split}"
    names = tuple(dataset.column_names)
    try:
        used = used_columns(names, kind)
    except ValueError as error:
        raise DataError(where, str(error)) from error
    seen = hashlib.sha256()
    # the other columns may hold images or audio, which would be decoded row by row
    rows = _rows(dataset.select_columns(used), seen.update)
    if kind == "pairs":
        rows = _with_named_labels(rows, lambda: names_of_classes(dataset.features.to_dict()))
    records = training_records(rows, kind, where, level, names)
    return build_source(records, spec_text, Path(name).name, lambda: f"sha256:{seen.hexdigest()}", **use)


def _with_named_labels(
    rows: Iterator[tuple[int, dict[str, Any]]], names_by_column: Callable[[], Mapping[str, Sequence[str]]]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """``rows`` with the names of labels that are numbers of classes. ``names_by_column`` is called after the first
    row was read, which shows that the file can be."""
    names: Mapping[str, Sequence[str]] | None = None
    for number, row in rows:
        if names is None:
            names = names_by_column()
        for column, classes in names.items():
            if column in row:
                row[column] = _name_of_class(row[column], classes)
        yield number, row


def _name_of_class(label: Any, classes: Sequence[str]) -> Any:
    if isinstance(label, list):
        return [_name_of_class(item, classes) for item in label]
    if isinstance(label, int) and 0 <= label < len(classes):
        return classes[label]
    return label


def _rows(dataset: Dataset, feed: Callable[[bytes], object]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, row in enumerate(dataset, start=1):
        feed(json.dumps(row, default=str).encode() + b"\n")
        yield number, row


def _saved(name: str, config: str | None, split: str) -> Dataset:
    from datasets import DatasetDict, load_from_disk

    if config is not None:
        raise UsageError(f"{name}: a saved data set has no configurations; leave config={config} out")
    try:
        dataset = load_from_disk(name)
    except Exception as error:
        raise DataError(name, f"the saved data set could not be read: {_reason(error)}") from error
    if not isinstance(dataset, DatasetDict):
        # one saved split may not know its own name; then it is the one that is meant
        dataset = {str(dataset.split or split): dataset}
    if split not in dataset:
        raise UsageError(f"{name}: has no split {split!r}; its splits are {fields_of(dataset)}")
    return dataset[split]


def _loaded(name: str, config: str | None, split: str) -> Dataset:
    from datasets import load_dataset

    local = os.path.exists(name)
    if os.path.isfile(name):
        raise UsageError(f"{name}: is a file; write jsonl:{name}, or name the folder that it is in")
    if not local and name.startswith(("/", ".", "~")):
        raise DataError(name, "does not exist; expected a folder with a data set, or a hub id")
    try:
        return load_dataset(name, config, split=split)
    except Exception as error:
        # whatever a server or another package's file readers raise is about the data set, not about this program
        reason = _reason(error)
        if isinstance(error, ValueError) and reason.startswith(("Unknown split", "BuilderConfig", "Unrecognized")):
            raise UsageError(f"{name}: {reason}") from error
        if local:
            raise DataError(name, f"is not a data set that can be read: {reason}") from error
        tried = f"no folder {name!r} here, and loading it from the hub failed"
        raise ServiceError(f"hf:{name}: {tried}: {reason}") from error


def _reason(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return first_line(error)[:300]


def hold_out(
    sources: Sequence[Source], size: float, seed: int = 0, most: int | None = None
) -> tuple[list[Source], list[Source]]:
    """The sources without the examples of some anchors, and those examples; empty sources are left out.

    An anchor is held out by the hash of its text and the seed. The same text, regardless of case and spacing, is in
    one part in all sources. ``size`` is a share of the anchors, or from 1 on about their number, as is ``most``.

    Raises:
        DataError: nothing is left in one of the parts.
    """
    import numpy as np

    positions = [_positions(source, seed) for source in sources]
    count = len(distinct(np.concatenate(positions)))
    share = min(size if size < 1 else size / count, 1.0 if most is None else most / count)
    kept: list[Source] = []
    held_out: list[Source] = []
    for source, of_source in zip(sources, positions, strict=True):
        is_held_out = of_source < share
        if not is_held_out.all():
            kept.append(part_of(source, ~is_held_out))
        if is_held_out.any():
            held_out.append(part_of(source, is_held_out))
    for purpose, left in (("hold out", held_out), ("train on", kept)):
        if not left:
            names = ", ".join(source.spec for source in sources)
            raise DataError(names, f"a holdout of {size:g} leaves nothing to {purpose}; anchors: {count}")
    return kept, held_out


def _positions(source: Source, seed: int) -> np.ndarray:
    """The hash of the anchor of each record, 0 to below 1."""
    import numpy as np

    return np.array([_position(texts_of_record(record)[0], seed) for record in source.records])


def _position(anchor: str, seed: int) -> float:
    """The hash of an anchor, 0 to below 1."""
    return (digest64(b"%d " % seed + content_of(normal_form(anchor))) >> 11) / 2**53
