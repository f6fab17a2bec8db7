"""BRIGHT's layout: which files are read, what is counted, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from retrokit.core.errors import DataError, UsageError
from retrokit.data.bright import read_bright
from retrokit.data.jsonl import strictly

DOCUMENTS = [{"id": "a", "content": "first"}, {"id": "b", "content": "second"}, {"id": "c", "content": ""}]
EXAMPLES = [
    {"id": "0", "query": "one?", "excluded_ids": ["N/A"], "gold_ids": ["a"], "gold_ids_long": ["A"]},
    {"id": "1", "query": "two?", "excluded_ids": ["c", "c", "zz"], "gold_ids": ["b", "a", "b"], "gold_ids_long": ["B"]},
]
LONG = [{"id": "A", "content": "all of it"}, {"id": "B", "content": "and this"}]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One domain, one file a part."""
    for part, rows in (("documents", DOCUMENTS), ("long_documents", LONG), ("examples", EXAMPLES)):
        write(tmp_path / "biology" / f"{part}.jsonl", rows)
    return tmp_path / "biology"


def test_one_domain(folder: Path) -> None:
    data = read_bright(folder)
    found = data.retrieval
    assert (found.name, found.split) == ("biology", "short")
    assert dict(zip(found.document_ids, found.documents, strict=True)) == {"a": "first", "b": "second", "c": ""}
    assert dict(zip(found.query_ids, found.queries, strict=True)) == {"0": "one?", "1": "two?"}
    assert found.qrels == {"0": {"a": 1}, "1": {"b": 1, "a": 1}}
    assert data.excluded == {"0": frozenset(), "1": frozenset({"c", "zz"})}
    assert found.counts == {
        "documents": 3,
        "documents_without_text": 1,
        "queries": 2,
        "queries_without_judgements": 0,
        "judgements": 3,
        "queries_without_relevant": 0,
        "repeated_documents": 0,
        "exclusions": 2,
        "gold_not_in_documents": 0,
        "gold_excluded": 0,
        "queries_with_all_gold_excluded": 0,
    }


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_the_hubs_layout_has_a_file_per_domain(tmp_path: Path, folder: Path, ending: str) -> None:
    hub = tmp_path / "hub"
    for part, rows in (("documents", DOCUMENTS), ("long_documents", LONG), ("examples", EXAMPLES)):
        write(hub / part / f"biology-00000-of-00001.{ending}", rows)
        write(hub / part / f"pony-00000-of-00001.{ending}", [{**row, "id": f"{row['id']}!"} for row in rows])
    for long in (False, True):
        assert read_bright(hub, "biology", long) == read_bright(folder, long=long)
    assert read_bright(hub, "pony").retrieval.document_ids == ["a!", "b!", "c!"]
    with pytest.raises(UsageError, match=r"several domains; add domain=.*'biology', 'pony'"):
        read_bright(hub)
    with pytest.raises(UsageError, match=r"no domain 'aops'.*'biology', 'pony'"):
        read_bright(hub, "aops")


def test_what_cannot_count_is_counted(tmp_path: Path) -> None:
    write(tmp_path / "documents.jsonl", [*DOCUMENTS, {"id": "a", "content": "again"}])
    examples = [
        {"id": "kept", "query": "x", "excluded_ids": ["a"], "gold_ids": ["a", "b", "nowhere"]},
        {"id": "lost", "query": "x", "excluded_ids": ["a"], "gold_ids": ["a"]},
        {"id": "graded", "query": "x", "gold_ids": {"a": 2, "b": 0}},
        {"id": "zero", "query": "x", "gold_ids": {"a": 0}, "excluded_ids": None},
        {"id": "none", "query": "x", "excluded_ids": [], "gold_ids": ["N/A"]},
    ]
    write(tmp_path / "examples.jsonl", examples)
    data = read_bright(tmp_path)
    assert data.retrieval.documents[0] == "again"
    assert data.retrieval.qrels["graded"] == {"a": 2, "b": 0}
    counts = data.retrieval.counts
    assert {key: counts[key] for key in counts if key not in ("documents", "documents_without_text")} == {
        "queries": 4,
        "queries_without_judgements": 1,
        "judgements": 7,
        "queries_without_relevant": 1,
        "repeated_documents": 1,
        "exclusions": 2,
        "gold_not_in_documents": 1,
        "gold_excluded": 2,
        "queries_with_all_gold_excluded": 1,
        "judgements_of_absent_documents": 1,
        "highest_recall": pytest.approx((2 / 3 + 1 + 1) / 3),
    }
    with strictly(True), pytest.raises(DataError, match="1 gold ids are not documents"):
        read_bright(tmp_path)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"gold_ids": None, "id": "9"}, None),
        ({"gold_ids": "a"}, r"examples.jsonl:3: field 'gold_ids' should be a list of ids, found a string"),
        ({"gold_ids": [1.5]}, r"examples.jsonl:3: field 'gold_ids' should hold ids alone, found a number"),
        ({"gold_ids": ["a", None]}, r"examples.jsonl:3: field 'gold_ids' should hold ids alone, found null"),
        ({"gold_ids": {"a": None}}, r"examples.jsonl:3: a grade in 'gold_ids' should be a whole number, found None"),
        ({"gold_ids": {"a": 999999999}}, r"examples.jsonl:3: the grade 999999999 in 'gold_ids' is beyond 1,000,000"),
        ({"gold_ids": {"a": 0.5}}, r"examples.jsonl:3: a grade in 'gold_ids' should be a whole number, found 0.5"),
        ({"excluded_ids": "N/A"}, r"examples.jsonl:3: field 'excluded_ids' should be a list of ids"),
        ({"query": 3}, r"examples.jsonl:3: field 'query' should be a string"),
        ({"id": "0"}, r"examples.jsonl:3: the id '0' is already that of an earlier example"),
    ],
)
def test_wrong_examples(folder: Path, change: dict[str, Any], problem: str | None) -> None:
    row = {"id": "9", "query": "three?", "excluded_ids": [], "gold_ids": ["a"], **change}
    with open(folder / "examples.jsonl", "a") as stream:
        stream.write(json.dumps(row) + "\n")
    if problem is None:
        assert read_bright(folder).retrieval.counts["queries_without_judgements"] == 1
        return
    with pytest.raises(DataError, match=problem):
        read_bright(folder)
