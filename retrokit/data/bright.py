"""BRIGHT in its own layout: per domain, documents (``id``, ``content``) and examples (``id``, ``query``,
``excluded_ids``, ``gold_ids``, ``gold_ids_long``), as JSONL or parquet files; by a domain's name from the hub.

Su et al., "BRIGHT: A Realistic and Challenging Benchmark for Reasoning-Intensive Retrieval", ICLR 2025.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from retrokit.core.errors import DataError, UsageError, did_you_mean
from retrokit.core.files import check_is_folder, digest
from retrokit.data.beir import RetrievalData, hub_files, retrieval_data
from retrokit.data.jsonl import Faults, Row, fields_of, kind_of, names_in
from retrokit.data.tables import read_rows
from retrokit.data.trec import LARGEST_GRADE

HUB_ID = "xlangai/BRIGHT"
NO_ID = "N/A"
"""What the published lists of ids hold where there is none."""

_POST = "{name} post, retrieve relevant {kind} that help answer the post"
_WHAT_HELPS = {
    **dict.fromkeys(("biology", "earth_science", "economics", "psychology", "robotics", "stackoverflow"), _POST),
    "sustainable_living": _POST,
    "leetcode": "coding problem, retrieve relevant examples that help answer the problem",
    "pony": "{name} question, retrieve relevant {kind} that help answer the question",
    "aops": "Math problem, retrieve relevant examples that help answer the problem",
    "theoremqa_questions": "Math problem, retrieve relevant examples that help answer the problem",
    "theoremqa_theorems": "Math problem, retrieve relevant theorems that help answer the problem",
}
DOMAINS = tuple(_WHAT_HELPS)
_FILE = re.compile(r"(?P<stem>.+?)(-\d{5}-of-\d{5})?\.(jsonl|jsonl\.gz|parquet)")
_LAYOUT = "documents and examples of BRIGHT, as documents.jsonl or documents/DOMAIN.parquet (or the other ending)"


@dataclass(frozen=True)
class BrightData:
    """One domain: its judged examples, and the documents that each leaves out of its ranking.

    ``retrieval.counts`` has BEIR's keys, and: repeated_documents (the last one of an id counts, as in the reference),
    exclusions, gold_not_in_documents, gold_excluded (gold and excluded), queries_with_all_gold_excluded.
    """

    retrieval: RetrievalData
    excluded: dict[str, frozenset[str]]


class _Example(NamedTuple):
    id: str
    query: str
    gold: dict[str, int]
    excluded: frozenset[str]


def read_bright(folder: str | Path, domain: str | None = None, long: bool = False) -> BrightData:
    """Read one domain of a folder; ``domain`` may be left out if there is only one.

    Args:
        folder: has ``documents`` and ``examples`` (and ``long_documents``), each a file, or a folder of files per
            domain as on the hub, or both in a folder per domain. Gold ids are a list, or an object of id and grade.
        long: whole pages (``long_documents``, ``gold_ids_long``) in place of passages.

    Raises:
        UsageError: several domains, or not this one; the message lists them.
        DataError: no folder, no such layout, a wrong line, or no example with a gold id.
    """
    folder = Path(folder)
    kind, key = ("long_documents", "gold_ids_long") if long else ("documents", "gold_ids")
    domain, files = _chosen(folder, domain, kind)
    documents, repeated = _read_documents(files[kind])
    examples = _read_examples(files["examples"], key)
    judged = [example for example in examples if example.gold]
    if not judged:
        raise DataError(files["examples"][0], f"no example has a gold id in {key!r}")
    counts = {"repeated_documents": repeated, **_counts(judged, documents)}
    _report(folder, counts)
    queries = {example.id: example.query for example in examples}
    qrels = {example.id: example.gold for example in judged}
    return BrightData(
        retrieval_data(domain, "long" if long else "short", documents, queries, qrels, counts),
        excluded={example.id: example.excluded for example in judged},
    )


def _report(folder: Path, counts: Mapping[str, int]) -> None:
    """Report gold ids that are not documents, and repeated ids; raises :class:`DataError` if faults are errors."""
    faults = Faults(folder)
    problems = {"gold_not_in_documents": "gold ids are not documents", "repeated_documents": "ids repeat"}
    for kind, problem in problems.items():
        if counts[kind]:
            faults.add(kind, f"{counts[kind]:,} {problem}")


def _counts(judged: Iterable[_Example], documents: Mapping[str, str]) -> Mapping[str, int]:
    """The counts of the examples that :class:`BrightData` adds to BEIR's."""
    counts = dict.fromkeys(
        ("exclusions", "gold_not_in_documents", "gold_excluded", "queries_with_all_gold_excluded"), 0
    )
    for example in judged:
        relevant = {document for document, grade in example.gold.items() if grade > 0}
        counts["exclusions"] += len(example.excluded)
        counts["gold_not_in_documents"] += sum(document not in documents for document in example.gold)
        counts["gold_excluded"] += len(relevant & example.excluded)
        counts["queries_with_all_gold_excluded"] += bool(relevant) and relevant <= example.excluded
    return counts


def digest_bright(folder: str | Path, domain: str | None = None, long: bool = False) -> str:
    """``sha256:<hex>`` over the files that :func:`read_bright` reads; raises as it does."""
    kind = "long_documents" if long else "documents"
    _, files = _chosen(Path(folder), domain, kind)
    return digest(folder, [path.relative_to(folder).as_posix() for path in chain.from_iterable(files.values())])


def instruction(domain: str, long: bool = False) -> str:
    """The published evaluation's prompt of queries of ``domain``; raises :class:`UsageError` for another domain.

    >>> instruction("biology")
    'Instruct: Given a biology post, retrieve relevant passages that help answer the post\\nQuery: '
    """
    if domain not in _WHAT_HELPS:
        raise UsageError(f"{domain!r} has no instruction of BRIGHT's; its domains are {', '.join(DOMAINS)}")
    task = _WHAT_HELPS[domain].format(name=domain, kind="documents" if long else "passages")
    return f"Instruct: Given a {task}\nQuery: "


def bright_folder(name: str, long: bool = False) -> tuple[str, str | None]:
    """A folder as it is, or the hub's copy of the domain ``name``, and the domain.

    Raises:
        UsageError: neither a folder nor a domain; the message has the nearest ones.
        ServiceError: the hub cannot be reached; the message has what to download.
    """
    if os.path.exists(name):
        return name, None
    if name not in DOMAINS:
        if "/" in name or name.startswith((".", "~")):
            raise DataError(name, f"does not exist; expected a folder with {_LAYOUT}")
        hint = did_you_mean(name, DOMAINS, limit=2)
        raise UsageError(f"bright:{name}: no such folder, and no domain of BRIGHT{hint}: {', '.join(DOMAINS)}")
    patterns = [f"{part}/{name}-*.parquet" for part in ("long_documents" if long else "documents", "examples")]
    return str(hub_files(HUB_ID, patterns)), name


def _chosen(folder: Path, domain: str | None, kind: str) -> tuple[str, dict[str, list[Path]]]:
    """The domain and its files by part."""
    check_is_folder(folder, f"a folder with {_LAYOUT}")
    files_by_part = {part: _files_by_domain(folder, part, domain) for part in (kind, "examples")}
    missing = [part for part, files in files_by_part.items() if not files]
    if missing:
        problem = f"contains no {' and no '.join(missing)}"
        raise DataError(folder, f"{problem}; expected {_LAYOUT}; it contains {names_in(folder)}")
    domains = sorted(set(files_by_part[kind]) & set(files_by_part["examples"]))
    if domain is None and len(domains) == 1:
        domain = domains[0]
    if domain in domains:
        return domain, {part: sorted(files[domain]) for part, files in files_by_part.items()}
    reason = "contains several domains; add domain=" if domain is None else f"has no domain {domain!r}"
    raise UsageError(f"{folder}: {reason}; those with {kind} and examples are {fields_of(domains)}")


def _files_by_domain(folder: Path, part: str, domain: str | None) -> dict[str, list[Path]]:
    """The files of ``part`` by domain; one that names none is of the requested domain, or of its folder's name."""
    files: dict[str, list[Path]] = {}
    for path in [*folder.glob(f"{part}*"), *folder.glob(f"*/{part}*"), *folder.glob(f"{part}/*")]:
        match = _FILE.fullmatch(path.name)
        if match is None or not os.path.isfile(path):
            continue
        if path.parent == folder / part:
            files.setdefault(match["stem"], []).append(path)
        elif match["stem"] == part:
            of_folder = path.parent.resolve().name
            if path.parent == folder and domain is not None:
                of_folder = domain
            files.setdefault(of_folder, []).append(path)
    return files


def _read_documents(paths: Iterable[Path]) -> tuple[dict[str, str], int]:
    """Text by id (the last one counts), and the number of repeated ids."""
    rows = [(row.id, row.text("content")) for path in paths for _, row in read_rows(path)]
    documents = dict(rows)
    return documents, len(rows) - len(documents)


def _read_examples(paths: Iterable[Path], key: str) -> list[_Example]:
    examples: dict[str, _Example] = {}
    for row in (row for path in paths for _, row in read_rows(path)):
        row.required(key)
        example = _Example(row.id, row.text("query"), _grades(row, key), frozenset(_ids(row, "excluded_ids")))
        if example.id in examples:
            raise row.wrong(f"the id {example.id!r} is already that of an earlier example")
        examples[example.id] = example
    return list(examples.values())


def _grades(row: Row, key: str) -> dict[str, int]:
    value = row[key]
    if not isinstance(value, dict):
        return dict.fromkeys(_ids(row, key), 1)
    for grade in value.values():
        if type(grade) is not int:
            raise row.wrong(f"a grade in {key!r} should be a whole number, found {grade!r}")
        if abs(grade) > LARGEST_GRADE:
            raise row.wrong(f"the grade {grade} in {key!r} is beyond {LARGEST_GRADE:,}")
    return {identifier: grade for identifier, grade in value.items() if identifier != NO_ID}


def _ids(row: Row, key: str) -> list[str]:
    value = row.get(key) or []
    if not isinstance(value, list):
        raise row.wrong(f"field {key!r} should be a list of ids, found {kind_of(value)}")
    for item in value:
        if not isinstance(item, (str, int)) or isinstance(item, bool):
            raise row.wrong(f"field {key!r} should hold ids alone, found {kind_of(item)}")
    return [str(item) for item in value if item != NO_ID]
