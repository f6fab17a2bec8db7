"""Retrieval data in BEIR's folder layout: ``corpus.jsonl``, ``queries.jsonl``, ``qrels/SPLIT.tsv``, each also
compressed and in the other formats of its reader. The names of FlagEmbedding (``SPLIT_queries.jsonl``), of Pyserini
(``topics.NAME-SPLIT.tsv``) and the folders of the hub (``corpus/train-00000-of-00001.parquet``) are read too. BEIR's
published sets are downloaded once through the ``beir`` package, and ``hf:ORG/NAME`` from the hub.

Thakur et al., "BEIR: A Heterogeneous Benchmark for Zero-shot Evaluation of Information Retrieval Models", 2021.
"""

import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from retrokit.core.errors import DataError, ServiceError, UsageError, check_extra, did_you_mean, disk_errors, first_line
from retrokit.core.files import check_is_folder, digest, shards, unpacked_name, writing
from retrokit.core.notices import notice
from retrokit.core.outputs import folder_in_the_making
from retrokit.data.corpus import Document, query_rows, read_corpus, read_queries
from retrokit.data.jsonl import Faults, fields_of, names_in, write_jsonl
from retrokit.data.packed_records import TextsById
from retrokit.data.trec import fits_a_column, read_judgements

PUBLISHED = (
    *("arguana", "climate-fever", "cqadupstack", "dbpedia-entity", "fever", "fiqa", "germanquad", "hotpotqa"),
    *("mrtydi", "msmarco", "msmarco-v2", "nfcorpus", "nq", "nq-train", "quora", "scidocs", "scifact"),
    *("trec-covid", "trec-covid-beir", "trec-covid-v2", "vihealthqa", "webis-touche2020"),
)
"""The sets that BEIR publishes for download; cqadupstack's parts are named as ``cqadupstack/android``."""
_DEFAULT_SPLIT = "test"
_ONLY_SPLIT = "train"
"""What the hub calls the split of data that have only one."""
_HUB = "hf:"
_LAYOUT = "a BEIR folder (corpus.jsonl, queries.jsonl, qrels/)"


@dataclass(frozen=True)
class RetrievalData:
    """A corpus, and the queries of one split with their judgements, in file order.

    A document's text is its title and text joined as BEIR does. ``queries_by_id`` are those that ``qrels`` (query id →
    document id → grade) judges; a grade below ``level`` means not relevant. ``counts`` has documents,
    documents_without_text, queries, queries_without_judgements (left out), judgements, queries_without_relevant; if
    there are any, queries_without_text; and of absent documents judgements_of_absent_documents and highest_recall, the
    mean share of a query's relevant documents that are there.
    """

    name: str
    split: str
    documents_by_id: TextsById
    queries_by_id: TextsById
    qrels: dict[str, dict[str, int]]
    counts: dict[str, int | float]
    level: int = 1

    @property
    def document_ids(self) -> Sequence[str]:
        """Of each document."""
        return self.documents_by_id.ids

    @property
    def documents(self) -> Sequence[str]:
        """The text of each document."""
        return self.documents_by_id.texts

    @property
    def query_ids(self) -> Sequence[str]:
        """Of each query."""
        return self.queries_by_id.ids

    @property
    def queries(self) -> Sequence[str]:
        """The text of each query."""
        return self.queries_by_id.texts

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Ids of each query and each of its relevant documents that is among the documents."""
        for query in self.query_ids:
            for document in _relevant(self.qrels.get(query, {}), self.level):
                if document in self.documents_by_id:
                    yield query, document

    def pairs_of_texts(self) -> Iterator[tuple[str, str]]:
        """The texts of each query and each of its relevant documents that is among the documents."""
        for query, document in self.pairs():
            yield self.queries_by_id[query], self.documents_by_id[document]


def _relevant(grades: Mapping[str, int], level: int) -> list[str]:
    return [document for document, grade in grades.items() if grade >= level]


def read_beir(
    folder: str | Path,
    split: str = "test",
    images: bool = False,
    documents: TextsById | None = None,
    level: int = 1,
    titles: bool = True,
) -> RetrievalData:
    """Read the corpus of a BEIR folder or set (:func:`located`) and the queries that ``split`` judges.

    Judgements of absent queries are left out, those of absent documents stay; both are counted and reported.
    ``documents`` by id are the corpus, if it was read before. Without ``titles`` a document is only its text.

    Raises:
        MissingExtra, ServiceError: as for :func:`located`.
        DataError: no BEIR folder, no such split (the message lists the splits), a wrong line, or no judged query.
    """
    name = Path(str(folder).removeprefix(_HUB)).resolve().name
    folder = located(folder)
    corpus_path, queries_path, qrels_path = _layout(folder, split)
    if documents is None:
        corpus = read_corpus(corpus_path, images=images)
        if not titles:
            corpus = (document._replace(title="") for document in corpus)
        documents = TextsById((document.id, document.full_text) for document in corpus)
    queries = dict(read_queries(queries_path, images))
    qrels: dict[str, dict[str, int]] = {}
    faults, absent_queries = Faults(qrels_path), set()
    for line, query_id, document_id, grade in read_judgements(qrels_path):
        if query_id not in queries:
            faults.add("queries", f"query {query_id!r} is not in {queries_path.name}", line)
            absent_queries.add(query_id)
            continue
        if document_id not in documents:
            faults.add("documents", f"document {document_id!r} is not in {corpus_path.name}", line)
        qrels.setdefault(query_id, {})[document_id] = grade
    if not qrels:
        raise DataError(qrels_path, f"none of its queries is in {queries_path.name}")
    data = retrieval_data(name, split, documents, queries, qrels, level=level)
    faults.report("queries", f"{{n}} judgements of {len(absent_queries):,} absent queries are left out")
    reachable = f"recall can reach {data.counts.get('highest_recall', 1):.4f}"
    faults.report("documents", f"{{n}} judgements are of absent documents, which cannot be retrieved: {reachable}")
    return data


def read_other_split(folder: str | Path, data: RetrievalData) -> RetrievalData | None:
    """The split ``dev``, or else ``train``, over the documents of ``data``, without the queries of ``data`` by id or
    text; ``None`` if none is left. Raises as :func:`read_beir`."""
    texts = set(data.queries)
    for split in ("dev", "train"):
        if split == data.split or _file(located(folder), _JUDGEMENTS, split) is None:
            continue
        split_data = read_beir(folder, split, True, data.documents_by_id, data.level)
        pairs = zip(split_data.query_ids, split_data.queries, strict=True)
        queries = {id: text for id, text in pairs if id not in data.qrels and text not in texts}
        qrels = {id: split_data.qrels[id] for id in queries}
        if qrels:
            return retrieval_data(split_data.name, split, data.documents_by_id, queries, qrels, level=data.level)
    return None


def retrieval_data(
    name: str,
    split: str,
    documents: Mapping[str, str],
    queries: Mapping[str, str],
    qrels: dict[str, dict[str, int]],
    more_counts: Mapping[str, int | float] | None = None,
    level: int = 1,
) -> RetrievalData:
    """The data with their counts, and the ``queries`` that ``qrels`` judges, or all if it judges none."""
    documents_by_id = documents if isinstance(documents, TextsById) else TextsById(documents.items())
    evaluated = TextsById((id, text) for id, text in queries.items() if id in qrels or not qrels)
    counts: dict[str, int | float] = {
        "documents": len(documents),
        "documents_without_text": sum(not text.strip() for text in documents_by_id.texts),
        "queries": len(evaluated),
        "queries_without_judgements": len(queries) - len(evaluated),
    }
    queries_without_text = sum(not text.strip() for text in evaluated.texts)
    if queries_without_text:
        counts["queries_without_text"] = queries_without_text
    counts |= _counts_of_judgements(qrels, documents, level)
    return RetrievalData(
        name=name,
        split=split,
        documents_by_id=documents_by_id,
        queries_by_id=evaluated,
        qrels=qrels,
        counts={**counts, **(more_counts or {})},
        level=level,
    )


def _counts_of_judgements(
    qrels: Mapping[str, Mapping[str, int]], documents: Mapping[str, str], level: int
) -> dict[str, int | float]:
    """The counts of :class:`RetrievalData` that are of its judgements."""
    relevant = [_relevant(grades, level) for grades in qrels.values()]
    counts: dict[str, int | float] = {
        "judgements": sum(map(len, qrels.values())),
        "queries_without_relevant": sum(not ids for ids in relevant),
    }
    absent = sum(document not in documents for document in chain.from_iterable(qrels.values()))
    if absent:
        counts["judgements_of_absent_documents"] = absent
        counts["highest_recall"] = _highest_recall(relevant, documents)
    return counts


def _highest_recall(relevant: Iterable[Sequence[str]], documents: Mapping[str, str]) -> float:
    """The mean share of a query's ``relevant`` documents that are there; 1 without any."""
    shares = []
    for ids in relevant:
        if ids:
            shares.append(sum(id in documents for id in ids) / len(ids))
    return mean(shares) if shares else 1.0


def read_answers(folder: str | Path) -> dict[str, list[str]]:
    """The right answers to each query: the field ``answers`` (a list) or ``answer`` (one) of its object or its
    ``metadata``. Queries without any are left out. Raises :class:`DataError` for a missing file or other values."""
    answers_by_query = {}
    for row in query_rows(queries_file(folder)):
        metadata = row.get("metadata")
        fields = {**(metadata if isinstance(metadata, dict) else {}), **row}
        answers = fields.get("answers", fields.get("answer"))
        if answers is None:
            continue
        if isinstance(answers, str):
            answers = [answers]
        if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
            raise row.wrong("the answers should be a string or a list of strings")
        if answers:
            answers_by_query[row.id] = answers
    return answers_by_query


def digest_beir(folder: str | Path, split: str) -> str:
    """``sha256:<hex>`` over the three files that :func:`read_beir` reads. Raises :class:`DataError` if one is
    missing."""
    folder = located(folder)
    return digest(folder, [path.relative_to(folder).as_posix() for path in _layout(folder, split)])


def located(folder: str | Path) -> Path:
    """The folder itself; or one of BEIR's published sets by name, downloaded once into ``beir`` of ``$RETROKIT_DATA``,
    by default of ``~/.cache/retrokit``; or ``hf:ORG/NAME``, a data set in the hub's cache.

    Raises:
        MissingExtra: the ``beir`` package is missing.
        ServiceError: the download failed; the message has the address and the place of the set.
    """
    name = str(folder)
    if os.path.exists(folder) or not _is_downloaded(name):
        return Path(folder)
    if name.startswith(_HUB):
        return _hub_folder(name.removeprefix(_HUB))
    published = name.partition("/")[0]
    cache = data_folder() / "beir"
    if not os.path.isdir(cache / published):
        _download(published, cache)
    return cache / name


def data_folder() -> Path:
    """``$RETROKIT_DATA``, or ``~/.cache/retrokit``: where data sets are stored that are downloaded or written once."""
    return Path(os.environ.get("RETROKIT_DATA") or "~/.cache/retrokit").expanduser()


def _is_downloaded(name: str) -> bool:
    """Whether ``name`` is no folder but a set that is downloaded."""
    return name.startswith(_HUB) or name.partition("/")[0] in PUBLISHED


def _hub_folder(name: str) -> Path:
    """The files of a BEIR folder of the hub's data set ``name``; of a local folder, the folder."""
    if os.path.isdir(name):
        return Path(name)
    patterns = [f"*{name_of}*" for kind in (_CORPUS, _QUERIES, _JUDGEMENTS) for name_of in kind.names]
    return hub_files(name, patterns)


def hub_files(name: str, patterns: list[str], folder: str | None = None) -> Path:
    """The files of a data set of the hub, in its cache, or in ``folder`` after a check of their checksums.

    Raises:
        UsageError: no name of a data set.
        ServiceError: the hub cannot be reached, or a file is damaged; the message has what to download.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    hub = HfApi()
    try:
        files = hub.snapshot_download(
            name, repo_type="dataset", allow_patterns=patterns, etag_timeout=10, local_dir=folder
        )
        if folder is not None and hub.verify_repo_checksums(name, repo_type="dataset", local_dir=folder).mismatches:
            raise OSError("checksums differ")
        return Path(files)
    except HFValidationError as error:
        raise UsageError(f"hf:{name}: expected hf:ORG/NAME, a data set of the hub") from error
    except (OSError, HfHubHTTPError) as error:  # a missing connection is one of OSError's kinds
        raise ServiceError(
            f"hf:{name}: not in the cache of the hub, and the download failed ({first_line(error)}); download "
            f"{' and '.join(patterns)} of https://huggingface.co/datasets/{name} and give the folder"
        ) from error


def _download(name: str, folder: Path) -> None:
    """Download a published set into ``folder``, from the hub or else from BEIR's host."""
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = tempfile.mkdtemp(prefix=f".{name}.", dir=folder)
    try:
        download = _from_host if name == "cqadupstack" else _from_hub  # the hub has not its parts
        files = download(name, unfinished)
        with disk_errors(folder):
            os.rename(files, folder / name)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _from_hub(name: str, folder: str) -> str:
    files = f"{folder}/hub"
    try:
        hub_files(f"BeIR/{name}", ["*"], files)
        hub_files(f"BeIR/{name}-qrels", ["*"], f"{files}/qrels")
    except ServiceError as error:
        notice(f"{error}; the host of BEIR is next")
        return _from_host(name, folder)
    return files


def _from_host(name: str, folder: str) -> str:
    check_extra(f"beir:{name} (no such folder here, and to download BEIR's)", "beir")
    import requests
    from beir import util

    address = f"https://public.ukp.informatik.tu-darmstadt.de/thakur/BEIR/datasets/{name}.zip"
    try:
        requests.head(address, timeout=10).raise_for_status()  # the download itself checks neither
        notice(f"beir:{name}: downloading {address}")
        return str(util.download_and_unzip(address, folder))
    except (OSError, zipfile.BadZipFile) as error:
        raise ServiceError(
            f"beir:{name}: no folder {name!r}, and the download failed ({first_line(error)}); "
            f"unpack {address} as {data_folder() / 'beir' / name}, or give the unpacked folder: beir:FOLDER"
        ) from error


def is_beir(folder: str | Path) -> bool:
    """Whether ``folder`` contains a corpus as a BEIR folder does."""
    return any(_locations(folder, _CORPUS))


def has_judgements(folder: str | Path) -> bool:
    """Whether ``folder`` contains judgements as a BEIR folder does."""
    return (Path(folder) / "qrels").is_dir() or bool(splits_of(folder))


def sets_in(folder: str | Path) -> list[Path]:
    """The sub-folders of ``folder`` that are BEIR folders, sorted; none if it is a BEIR folder itself."""
    if is_beir(folder) or not os.path.isdir(folder):
        return []
    return sorted(path for path in Path(folder).iterdir() if path.is_dir() and is_beir(path))


def read_unjudged(folder: str | Path) -> RetrievalData:
    """Read the corpus and all queries, images too, without judgements. Raises :class:`DataError`."""
    queries = queries_file(folder)
    corpus = read_corpus(corpus_file(folder), images=True)
    documents = TextsById((document.id, document.full_text) for document in corpus)
    name = Path(folder).resolve().name
    return retrieval_data(name, "without judgements", documents, dict(read_queries(queries, images=True)), {})


class _FileKind(NamedTuple):
    """A kind of file in a BEIR folder: the names of the file, or of the folder of such files, and the endings in the
    order in which they count."""

    names: tuple[str, ...]
    endings: tuple[str, ...]


_TEXTS = (".jsonl", ".tsv", ".csv", ".json", ".parquet")
_CORPUS = _FileKind(("corpus", "collection"), _TEXTS)
_QUERIES = _FileKind(("queries", "topics"), (*_TEXTS, ".xml", ".txt"))
_JUDGEMENTS = _FileKind(("qrels",), (".tsv", ".txt", ".jsonl", ".json", ".csv", ".parquet"))
_SHARD = re.compile(r"(?P<base>.+-)[0-9]{5}(?P<total>-of-[0-9]{5})(-[0-9a-f]{16})?")
_NUMBERED = re.compile(r"(?P<base>(.+-)?)[0-9]+(?P<total>)")


def _files_by_split(folder: Path, kind: _FileKind, is_subfolder: bool) -> dict[str, Path]:
    """The files of a kind in ``folder`` by the split that their names have, or the empty string. Several shards are
    one path with ``*``. ``is_subfolder``: the folder has the name of the kind, so its files need not."""
    candidates = []
    for path in folder.glob("*"):
        plain_name = unpacked_name(path.name)
        stem, ending = os.path.splitext(plain_name)
        if ending in kind.endings and path.is_file():
            candidates.append((kind.endings.index(ending), plain_name != path.name, path.name, stem, path))
    files: dict[str, Path] = {}
    for _, _, name, stem, path in sorted(candidates):
        shard = _SHARD.fullmatch(stem)
        if shard is None and is_subfolder and kind is _CORPUS:
            shard = _NUMBERED.fullmatch(stem)
        if shard is not None:
            path = _all_shards(path, shard, name.removeprefix(stem))
            stem = shard["base"].removesuffix("-")
        split = _split_in(stem, kind, is_subfolder)
        if split is not None:
            files.setdefault(split, path)
    return files


def _all_shards(path: Path, shard: re.Match[str], ending: str) -> Path:
    """A pattern of the shards of which ``path`` is one, or ``path`` if it is the only one."""
    number = f"*{shard['total']}*" if shard["total"] else "*"
    pattern = path.with_name(f"{shard['base']}{number}{ending}")
    return pattern if len(shards(pattern)) > 1 else path


def _split_in(stem: str, kind: _FileKind, is_subfolder: bool) -> str | None:
    """The split in the name of a file, or the empty string; ``None``: it is no file of the kind."""
    for name in kind.names:
        if stem == name:
            return ""
        match = re.fullmatch(rf"{name}[._-](.+)|(.+)[._-]{name}", stem)
        if match is not None and (is_subfolder or kind is not _CORPUS):
            return match[1] or match[2]
    return stem if is_subfolder else None


def _locations(folder: str | Path, kind: _FileKind) -> Iterator[dict[str, Path]]:
    """The files of a kind by split, in each folder that may contain them and does."""
    folder = Path(folder)
    subfolders = [folder / name for name in kind.names]
    locations = [folder, folder / "data", *subfolders]
    if kind is _JUDGEMENTS:
        locations = [*subfolders, folder, folder / "data"]
    for location in locations:
        files = _files_by_split(location, kind, is_subfolder=location in subfolders)
        if files:
            yield files


def _file(folder: str | Path, kind: _FileKind, split: str) -> Path | None:
    """The file of a kind for a split. The corpus and the queries may be those of all splits."""
    for files in _locations(folder, kind):
        names = [split]
        if kind is not _JUDGEMENTS or split == _DEFAULT_SPLIT:
            names.append("")
        names += [name for name in files if name.endswith((f".{split}", f"-{split}", f"_{split}"))]
        if kind is not _JUDGEMENTS and len(files) == 1:
            names += files
        for name in names:
            if name in files:
                return files[name]
    return None


def _present(folder: str | Path, kind: _FileKind, split: str) -> Path:
    """As :func:`_file`; raises :class:`DataError` if there is none."""
    file = _file(folder, kind, split)
    if file is None:
        raise DataError(folder, f"contains no {kind.names[0]}.jsonl; it contains {names_in(folder)}")
    return file


def corpus_file(folder: str | Path) -> Path:
    """The corpus of a BEIR folder; raises :class:`DataError` if there is none."""
    return _present(folder, _CORPUS, _DEFAULT_SPLIT)


def queries_file(folder: str | Path, split: str = _DEFAULT_SPLIT) -> Path:
    """The queries of a BEIR folder, if it has some for each split those of ``split``; raises :class:`DataError` if
    there are none."""
    return _present(folder, _QUERIES, split)


def queries_of_all_splits(folder: str | Path) -> dict[str, str]:
    """The queries of a BEIR folder, texts or images by id; raises :class:`DataError`."""
    files = dict.fromkeys(queries_file(folder, split) for split in splits_of(folder) or [_DEFAULT_SPLIT])
    return {id: text for file in files for id, text in read_queries(file, images=True)}


def judgements_file(folder: str | Path, split: str) -> Path:
    """The judgements of a split of a BEIR folder. Raises :class:`DataError`, which lists the splits."""
    return _layout(folder, split)[2]


def check_split(folder: str, split: str) -> None:
    """Raise :class:`DataError` unless the BEIR folder has the split; a set that is downloaded may still come."""
    if os.path.exists(folder) or not _is_downloaded(folder):
        for name in sets_in(folder) or [Path(folder)]:
            judgements_file(name, split)


def splits_of(folder: str | Path) -> list[str]:
    """The splits that a BEIR folder has judgements of, sorted."""
    return sorted({name or _DEFAULT_SPLIT for files in _locations(folder, _JUDGEMENTS) for name in files})


def _layout(folder: str | Path, split: str) -> tuple[Path, Path, Path]:
    """Where the corpus, the queries and the judgements of one split are."""
    folder = Path(folder)
    _check_folder(folder)
    judgements = _judgements(folder, split)
    corpus, queries = _file(folder, _CORPUS, split), _file(folder, _QUERIES, split)
    if corpus is None or queries is None:
        missing = "corpus" if corpus is None else "queries"
        raise DataError(folder, f"contains judgements of the split {split!r}, but no {missing} for it")
    return corpus, queries, judgements


def _check_folder(folder: Path) -> None:
    """Raise :class:`DataError` for what is no BEIR folder."""
    check_is_folder(folder, _LAYOUT, did_you_mean(str(folder), PUBLISHED))
    missing = []
    if not is_beir(folder):
        missing.append("corpus.jsonl")
    if not any(_locations(folder, _QUERIES)):
        missing.append("queries.jsonl")
    if not has_judgements(folder):
        missing.append("qrels/")
    if not missing:
        return
    sets = sets_in(folder)
    if sets:
        names = fields_of(path.name for path in sets)
        raise DataError(folder, f"contains several BEIR folders: {names}; name one of them: beir:{sets[0]}")
    raise DataError(folder, f"is no BEIR folder: {', '.join(missing)} missing; it contains {names_in(folder)}")


def _judgements(folder: Path, split: str) -> Path:
    """The judgements of a split; the only one that the hub has, ``train``, is taken for ``test``."""
    judgements = _file(folder, _JUDGEMENTS, split)
    if judgements is not None:
        return judgements
    splits = splits_of(folder)
    only = _file(folder, _JUDGEMENTS, _ONLY_SPLIT)
    if split == _DEFAULT_SPLIT and splits == [_ONLY_SPLIT] and only is not None and only.suffix == ".parquet":
        notice(f"{folder}: the only split, {_ONLY_SPLIT}, is taken for {split}", once=True)
        return only
    raise DataError(folder, f"has no split {split!r}; its splits are {fields_of(splits)}")


def write_beir(
    folder: str | Path,
    documents: Iterable[Document],
    queries: Iterable[tuple[str, str]],
    qrels: Mapping[str, Mapping[str, Mapping[str, int]]],
    answers: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Write a BEIR folder, whole or not at all: ``queries`` are (id, text), ``qrels`` split → query → document → grade,
    ``answers`` those of :func:`read_answers`.

    Raises:
        UsageError: ``folder`` exists already.
        DataError: it cannot be written, or a judged id was not written or does not fit a TSV.
    """
    folder = Path(folder)
    with folder_in_the_making(folder) as unfinished:
        document_ids, query_ids = set(), set()

        def corpus_rows() -> Iterator[dict[str, str]]:
            for document in documents:
                document_ids.add(document.id)
                yield {"_id": document.id, "title": document.title, "text": document.text}

        def rows_of_queries() -> Iterator[dict[str, Any]]:
            for query_id, text in queries:
                query_ids.add(query_id)
                extra = {"answers": list(answers[query_id])} if answers and query_id in answers else {}
                yield {"_id": query_id, "text": text, **extra}

        write_jsonl(unfinished / "corpus.jsonl", corpus_rows())
        write_jsonl(unfinished / "queries.jsonl", rows_of_queries())
        with disk_errors(folder):
            (unfinished / "qrels").mkdir()
        for split, judgements in qrels.items():
            with writing(unfinished / "qrels" / f"{split}.tsv") as stream:
                stream.write("query-id\tcorpus-id\tscore\n")
                for query_id, grades in judgements.items():
                    _check_id(folder, "query", query_id, query_ids)
                    for document_id, grade in grades.items():
                        _check_id(folder, "document", document_id, document_ids)
                        stream.write(f"{query_id}\t{document_id}\t{grade}\n")


def _check_id(folder: Path, what: str, identifier: str, written: set[str]) -> None:
    if identifier not in written:
        raise DataError(folder, f"could not be written: {what} {identifier!r} is judged, but is not there")
    if not fits_a_column(identifier):
        raise DataError(folder, f"could not be written: a TSV cannot hold the {what} id {identifier!r}")
