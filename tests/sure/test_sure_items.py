"""What a benchmark is built from: which passage a query gets, and which queries are drawn."""

import json
from pathlib import Path

import pytest

from retrokit.core.errors import DataError, UsageError
from retrokit.core.notices import listening
from retrokit.sure.items import Item, beir_items, jsonl_items
from tests.evaluation.fakes import Notices
from tests.sure.pretending import passage_of, query_of, write_beir_folder


def write_lines(path: Path, *rows: dict) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def judge(folder: Path, *rows: str) -> Path:
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(f"{row}\n" for row in rows))
    return folder


def test_a_beir_folder(tmp_path):
    found = beir_items(write_beir_folder(tmp_path / "law", 3))
    assert found.name == "law"
    assert found.items == [Item(f"q{i}", query_of(i), f"p{i}", passage_of(i)) for i in range(3)]
    assert (found.queries, sum(found.skipped.values())) == (3, 0)


def test_the_highest_grade_is_taken(tmp_path):
    folder = judge(write_beir_folder(tmp_path / "law"), "q0\tp1\t1", "q0\tp2\t3", "q0\tp3\t2", "q1\tp3\t1")
    for seed in range(5):
        assert [item.passage_id for item in beir_items(folder, seed=seed).items] == ["p2", "p3"]


def test_absent_queries_and_passages_are_left_out(tmp_path):
    folder = judge(write_beir_folder(tmp_path / "law"), "q9\tp0\t1", "q0\tgone\t1", "q1\tgone\t1", "q1\tp1\t1")
    notices = Notices()
    with listening(notices):
        found = beir_items(folder)
    assert [(item.query_id, item.passage_id) for item in found.items] == [("q1", "p1")]
    qrels = folder / "qrels" / "test.tsv"
    assert notices.messages == [
        f"{qrels}:2: query 'q9' is not in queries.jsonl; 1 judgements of absent queries are left out",
        f"{qrels}: passage 'gone' is not in {folder / 'corpus.jsonl'}; 1 absent passages are left out",
    ]


def test_what_cannot_be_used_is_counted(tmp_path):
    folder = judge(write_beir_folder(tmp_path / "law"), "q0\tp0\t0", "q1\tp1\t1", "q2\tp2\t1", "q3\tp3\t1")
    rows = [{"_id": f"p{i}", "title": "", "text": " " if i == 2 else passage_of(i)} for i in range(6)]
    write_lines(folder / "corpus.jsonl", *rows)
    write_lines(folder / "queries.jsonl", *({"_id": f"q{i}", "text": "" if i == 3 else query_of(i)} for i in range(6)))
    found = beir_items(folder)
    assert [item.query_id for item in found.items] == ["q1"]
    assert found.skipped == {"without_relevant": 1, "without_text": 2, "passage_taken": 0}


def test_jsonl_with_pairing(tmp_path):
    queries = write_lines(
        tmp_path / "q.jsonl",
        {"id": 1, "text": "a\tb\n c?", "passage_id": 7},
        {"id": "2", "text": "d?", "passage_id": "8"},
    )
    passages = write_lines(tmp_path / "p.jsonl", {"id": "7", "title": "T", "text": "x."}, {"id": 8, "text": "y."})
    assert jsonl_items(queries, passages).items == [Item("1", "a b c?", "7", "T x."), Item("2", "d?", "8", "y.")]
    assert jsonl_items(queries, passages).name == "q"


def test_jsonl_with_judgements(tmp_path):
    queries = write_lines(tmp_path / "q.jsonl", {"id": "1", "text": "a?"}, {"id": "2", "text": "b?"})
    passages = write_lines(tmp_path / "p.jsonl", {"id": "7", "text": "x."}, {"id": "8", "text": "y."})
    (tmp_path / "qrels.txt").write_text("2 0 7 1\n2 0 8 2\n")
    found = jsonl_items(queries, passages, tmp_path / "qrels.txt")
    assert found.items == [Item("2", "b?", "8", "y.")]
    assert found.queries == 1


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"id": "1", "text": "a?"}, r"q\.jsonl:2: field 'passage_id' .*there is none.*`qrels=`"),
        ({"id": "1", "text": "a?", "passage_id": None}, r"q\.jsonl:2: .*found null"),
        ({"id": "0", "text": "a?", "passage_id": "7"}, r"q\.jsonl:2: the id '0' is on an earlier line"),
        ({"id": "1", "passage_id": "7"}, r"q\.jsonl:2: no field 'text'"),
        ({"id": "1\t2", "text": "a?", "passage_id": "8"}, r"q\.jsonl: the id '1\\t2' cannot be written"),
    ],
)
def test_wrong_queries_are_named(tmp_path, query, message):
    queries = write_lines(tmp_path / "q.jsonl", {"id": "0", "text": "z?", "passage_id": "7"}, query)
    passages = write_lines(tmp_path / "p.jsonl", {"id": "7", "text": "x."}, {"id": "8", "text": "y."})
    with pytest.raises(DataError, match=message):
        jsonl_items(queries, passages)


def test_wrong_folders_are_named(tmp_path):
    folder = write_beir_folder(tmp_path / "law")
    with pytest.raises(DataError, match="has no split 'dev'; its splits are 'test'"):
        beir_items(folder, "dev")
    with pytest.raises(DataError, match="no query can be used: 1 no text, or no passage with text"):
        beir_items(judge(folder, "q0\tp9\t1"))
    with pytest.raises(DataError, match="no query can be used: none is judged"):
        beir_items(judge(folder, "q9\tp0\t1"))
    with pytest.raises(DataError, match="no query can be used: 1 no relevant passage"):
        beir_items(judge(folder, "q0\tp0\t0"))
    with pytest.raises(UsageError, match="cannot be both"):
        jsonl_items("-", "-")
