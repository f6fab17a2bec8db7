"""Retrieval data in BEIR's folder layout: ``corpus.jsonl``, ``queries.jsonl``, ``qrels/SPLIT.tsv``, each also ``.gz``
and in the other formats of its reader; and BEIR's published sets by name, downloaded once through the ``beir`` package.

Thakur et al., "BEIR: A Heterogeneous Benchmark for Zero-shot Evaluation of Information Retrieval Models", 2021.
"""

import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from retrokit.core.errors import DataError, ServiceError, check_extra, did_you_mean, disk_errors, first_line
from retrokit.core.files import digest, plain_or_packed, writing
from retrokit.core.notices import notice
from retrokit.core.outputs import folder_in_the_making
from retrokit.data.corpus import Document, query_rows, read_corpus, read_queries
from retrokit.data.jsonl import Faults, fields_of, write_jsonl
from retrokit.data.trec import fits_a_column, read_judgements

PUBLISHED = (
    *("arguana", "climate-fever", "cqadupstack", "dbpedia-entity", "fever", "fiqa", "germanquad", "hotpotqa"),
    *("mrtydi", "msmarco", "msmarco-v2", "nfcorpus", "nq", "nq-train", "quora", "scidocs", "scifact"),
    *("trec-covid", "trec-covid-beir", "trec-covid-v2", "vihealthqa", "webis-touche2020"),
)
"""The sets that BEIR publishes for download; cqadupstack's parts are named as ``cqadupstack/android``."""
_ADDRESS = "https://public.ukp.informatik.tu-darmstadt.de/thakur/BEIR/datasets"
_LAYOUT = "a BEIR folder (corpus.jsonl, queries.jsonl, qrels/)"


@dataclass(frozen=True)
class RetrievalData:
    """A corpus, and the queries of one split with their judgements, in file order.

    A document's text is its title and text joined as BEIR does. ``queries`` are those that ``qrels`` (query id →
    document id → grade) judges; a grade below ``level`` means not relevant. ``counts`` has documents,
    documents_without_text, queries, queries_without_judgements (left out), judgements, queries_without_relevant; and of
    absent documents judgements_of_absent_documents and highest_recall, the mean share of a query's relevant documents
    that are there.
    """

    name: str
    split: str
    document_ids: list[str]
    documents: list[str]
    query_ids: list[str]
    queries: list[str]
    qrels: dict[str, dict[str, int]]
    counts: dict[str, int | float]
    level: int = 1

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Ids of each query and each of its relevant documents that is among the documents."""
        there = set(self.document_ids)
        for query in self.query_ids:
            relevant = _relevant(self.qrels.get(query, {}), self.level)
            yield from ((query, document) for document in relevant if document in there)


def _relevant(grades: Mapping[str, int], level: int) -> list[str]:
    return [document for document, grade in grades.items() if grade >= level]


def read_beir(
    folder: str | Path,
    split: str = "test",
    images: bool = False,
    documents: Mapping[str, str] | None = None,
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
    folder = located(folder)
    corpus_path, queries_path, qrels_path = _layout(folder, split)
    if documents is None:
        read = (one if titles else one._replace(title="") for one in read_corpus(corpus_path, images=images))
        documents = {document.id: document.full_text for document in read}
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
    data = retrieval_data(Path(folder).resolve().name, split, documents, queries, qrels, level=level)
    faults.report("queries", f"{{n}} judgements of {len(absent_queries):,} absent queries are left out")
    reachable = f"recall can reach {data.counts.get('highest_recall', 1):.4f}"
    faults.report("documents", f"{{n}} judgements are of absent documents, which cannot be retrieved: {reachable}")
    return data


def read_other_split(folder: str | Path, data: RetrievalData) -> RetrievalData | None:
    """The split ``dev``, or else ``train``, over the documents of ``data``, without the queries of ``data`` by id or
    text; ``None`` if none is left. Raises as :func:`read_beir`."""
    documents, texts = dict(zip(data.document_ids, data.documents, strict=True)), set(data.queries)
    for split in ("dev", "train"):
        if split == data.split or _part(located(folder) / "qrels", split, _QRELS) is None:
            continue
        split_data = read_beir(folder, split, True, documents, data.level)
        pairs = zip(split_data.query_ids, split_data.queries, strict=True)
        queries = {id: text for id, text in pairs if id not in data.qrels and text not in texts}
        qrels = {id: split_data.qrels[id] for id in queries}
        if qrels:
            return retrieval_data(split_data.name, split, documents, queries, qrels, level=data.level)
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
    evaluated = {query_id: text for query_id, text in queries.items() if query_id in qrels or not qrels}
    relevant = [relevant_ids for grades in qrels.values() if (relevant_ids := _relevant(grades, level))]
    counts: dict[str, int | float] = {
        "documents": len(documents),
        "documents_without_text": sum(not text.strip() for text in documents.values()),
        "queries": len(evaluated),
        "queries_without_judgements": len(queries) - len(evaluated),
        "judgements": sum(map(len, qrels.values())),
        "queries_without_relevant": len(qrels) - len(relevant),
    }
    if absent := sum(document not in documents for grades in qrels.values() for document in grades):
        reachable = [
            sum(document in documents for document in relevant_ids) / len(relevant_ids) for relevant_ids in relevant
        ]
        counts |= {"judgements_of_absent_documents": absent, "highest_recall": mean(reachable) if reachable else 1.0}
    return RetrievalData(
        *(name, split, list(documents), list(documents.values()), list(evaluated), list(evaluated.values()), qrels),
        counts={**counts, **(more_counts or {})},
        level=level,
    )


def read_answers(folder: str | Path) -> dict[str, list[str]]:
    """The right answers to each query: the field ``answers`` (a list) or ``answer`` (one) of its object or its
    ``metadata``. Queries without any are left out. Raises :class:`DataError` for a missing file or other values."""
    answers_by_query = {}
    for row in query_rows(queries_file(folder)):
        metadata = row.get("metadata")
        fields = {**(metadata if isinstance(metadata, dict) else {}), **row}
        given = fields.get("answers", fields.get("answer"))
        answers = [given] if isinstance(given, str) else [] if given is None else given
        if not isinstance(answers, list) or not all(isinstance(part, str) for part in answers):
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
    """The folder itself, or one of BEIR's published sets by name, downloaded once into ``beir`` of ``$RETROKIT_DATA``,
    by default of ``~/.cache/retrokit``.

    Raises:
        MissingExtra: the ``beir`` package is missing.
        ServiceError: the download failed; the message has the address and the place of the set.
    """
    name = str(folder)
    published = name.partition("/")[0]
    if os.path.exists(folder) or published not in PUBLISHED:
        return Path(folder)
    cache = Path(os.environ.get("RETROKIT_DATA") or "~/.cache/retrokit").expanduser() / "beir"
    if not os.path.isdir(cache / published):
        _download(published, cache)
    return cache / name


def _download(name: str, folder: Path) -> None:
    check_extra(f"beir:{name} (no such folder here, and to download BEIR's)", "beir")
    import requests
    from beir import util

    address = f"{_ADDRESS}/{name}.zip"
    notice(f"beir:{name}: downloading {address} into {folder}")
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = tempfile.mkdtemp(prefix=f".{name}.", dir=folder)
    try:
        requests.head(address, timeout=10).raise_for_status()  # the download itself checks neither
        os.rename(util.download_and_unzip(address, unfinished), folder / name)
    except (requests.RequestException, OSError, zipfile.BadZipFile) as error:
        reason = first_line(error)[:200]
        raise ServiceError(
            f"beir:{name}: no folder {name!r}, and the download failed ({reason}); unpack {address} as "
            f"{folder / name}, or give the unpacked folder: beir:FOLDER"
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def is_beir(folder: str | Path) -> bool:
    """Whether ``folder`` contains a corpus as a BEIR folder does."""
    return _part(folder, "corpus", _TEXTS) is not None


def has_judgements(folder: str | Path) -> bool:
    """Whether ``folder`` contains judgements as a BEIR folder does."""
    return (Path(folder) / "qrels").is_dir()


def read_unjudged(folder: str | Path) -> RetrievalData:
    """Read the corpus and all queries, images too, without judgements. Raises :class:`DataError`."""
    queries = queries_file(folder)
    documents = {document.id: document.full_text for document in read_corpus(corpus_file(folder), images=True)}
    name = Path(folder).resolve().name
    return retrieval_data(name, "without judgements", documents, dict(read_queries(queries, images=True)), {})


def _part(folder: str | Path, name: str, endings: Sequence[str]) -> Path | None:
    """The first file of that name with one of the endings, packed or not."""
    paths = (plain_or_packed(Path(folder) / f"{name}{ending}") for ending in endings)
    return next((path for path in paths if path is not None), None)


def _file(name: str, endings: Sequence[str], folder: str | Path) -> Path:
    """The file of that name in a BEIR folder; raises :class:`DataError` if there is none."""
    file = _part(folder, name, endings)
    if file is None:
        present = fields_of(sorted(path.name for path in Path(folder).glob("*")))
        raise DataError(folder, f"contains no {name}.jsonl; it contains {present}")
    return file


_TEXTS = (".jsonl", ".tsv")
_TOPICS = (*_TEXTS, ".xml", ".txt")
_QRELS = (".tsv", ".txt", ".jsonl", ".json")
corpus_file = partial(_file, "corpus", _TEXTS)
queries_file = partial(_file, "queries", _TOPICS)


def judgements_file(folder: str | Path, split: str) -> Path:
    """The judgements of a split of a BEIR folder. Raises :class:`DataError`, which lists the splits."""
    return _layout(folder, split)[2]


def check_split(folder: str, split: str) -> None:
    """Raise :class:`DataError` unless the BEIR folder has the split; one of BEIR's sets may still be downloaded."""
    if os.path.exists(folder) or folder.partition("/")[0] not in PUBLISHED:
        judgements_file(folder, split)


def splits_of(folder: str | Path) -> list[str]:
    """The splits that a BEIR folder has judgements of, sorted."""
    files = (path for path in (Path(folder) / "qrels").glob("*") if path.is_file())
    names = [Path(path.name.removesuffix(".gz")) for path in files]
    return sorted({name.stem for name in names if name.suffix in _QRELS})


def _layout(folder: str | Path, split: str) -> tuple[Path, Path, Path]:
    """Where the corpus, the queries and the judgements of one split are."""
    folder = Path(folder)
    if not os.path.isdir(folder):
        problem = "is a file" if os.path.exists(folder) else "does not exist"
        hint = did_you_mean(str(folder), PUBLISHED)
        raise DataError(folder, f"{problem}{hint}; expected {_LAYOUT}")
    corpus, queries = _part(folder, "corpus", _TEXTS), _part(folder, "queries", _TOPICS)
    qrels = folder / "qrels"
    if corpus is None or queries is None or not os.path.isdir(qrels):
        there = {"corpus.jsonl": corpus, "queries.jsonl": queries, "qrels/": os.path.isdir(qrels)}
        missing = ", ".join(name for name, part in there.items() if not part)
        present = fields_of(sorted(path.name for path in folder.glob("*")))
        raise DataError(folder, f"is no BEIR folder: {missing} missing; it contains {present}")
    judged = _part(qrels, split, _QRELS)
    if judged is None:
        raise DataError(folder, f"has no split {split!r}; its splits are {fields_of(splits_of(folder))}")
    return corpus, queries, judged


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
