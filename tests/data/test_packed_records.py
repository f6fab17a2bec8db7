"""Records and texts in little memory."""

import json
import pickle
import random
import tracemalloc
from pathlib import Path

import pytest

from retrokit.core.errors import DataError
from retrokit.data import packed_records
from retrokit.data.check import check_test
from retrokit.data.corpus import read_corpus
from retrokit.data.images import Image
from retrokit.data.packed_records import FirstLines, PackedRecords, PackedTexts, TextsById
from retrokit.data.pairs import read_source
from retrokit.data.training_rows import Pair, ScoredPair, Unlabelled

RECORDS = {
    "pairs": [
        Pair("a", "b"),
        Pair("Ä\n", "", ("", "c")),
        Pair("a", "b"),
        Pair("a", "b", (), (1.0,)),
        Pair("a", "", ("b",), (0.5, -2.0)),
    ],
    "scored": [ScoredPair("a", "b", 1.0), ScoredPair("a", "b", 1.0), ScoredPair("b", "a", 1e-9)],
    "texts": [Unlabelled("a"), Unlabelled("\U0001f600"), Unlabelled("a")],
}


@pytest.mark.parametrize("records", RECORDS.values(), ids=RECORDS)
def test_it_is_the_list_of_its_records(records: list[object]) -> None:
    packed = PackedRecords(records)
    assert list(packed) == records == packed[:]
    assert packed == records
    assert packed != records[1:]
    assert packed != [*records[:-1], None]
    assert [packed[-1], packed[0], packed[1:3]] == [records[-1], records[0], records[1:3]]
    assert pickle.loads(pickle.dumps(packed)) == records
    with pytest.raises(IndexError):
        packed[len(records)]
    is_first = [record not in records[:position] for position, record in enumerate(records)]
    assert packed.first_of_each().tolist() == is_first
    packed.keep(position for position, first in enumerate(is_first) if first)
    assert packed == list(dict.fromkeys(records))


def test_of_no_records() -> None:
    packed = PackedRecords()
    assert (len(packed), list(packed), packed.first_of_each().tolist()) == (0, [], [])


def test_places_of_records_that_are_left(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    rows = [("a", "b"), ("c", "d"), ("a", "b"), ("e", "f"), ("c", "d")]
    path.write_text("".join(json.dumps({"anchor": anchor, "positive": text}) + "\n" for anchor, text in rows))
    source = read_source(str(path), "pairs")
    assert (list(source.places), source.counts["duplicates"]) == ([0, 1, 3], 2)
    assert source.records == [Pair("a", "b"), Pair("c", "d"), Pair("e", "f")]


@pytest.mark.parametrize("at_once", [2, 512])
@pytest.mark.parametrize("last", ["d", "é", "\ud800", "\U0001f600", Image("d", "digest", ("file", 1))])
def test_texts_are_the_list_of_them(monkeypatch: pytest.MonkeyPatch, at_once: int, last: str) -> None:
    monkeypatch.setattr(packed_records, "_AT_ONCE", at_once)
    texts = ["a", "", "b c", last, "e"]
    packed = PackedTexts(texts)
    assert list(packed) == packed[:] == texts
    assert packed == texts
    assert [type(text) for text in packed] == [type(text) for text in texts]
    assert [packed[3], packed[-1]] == [last, "e"]
    assert pickle.loads(pickle.dumps(packed)) == texts


def test_texts_are_looked_up_by_their_ids() -> None:
    texts = {f"d{number}": f"text {number}" for number in range(1000)}
    packed = TextsById(texts.items())
    assert packed == texts
    assert [packed[id] for id in ("d0", "d512", "d999")] == ["text 0", "text 512", "text 999"]
    assert "d1000" not in packed
    again = pickle.loads(pickle.dumps(packed))
    assert (again["d7"], list(again)) == ("text 7", list(texts))


def test_another_id_of_the_same_hash_is_another_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_records, "hash", len, raising=False)
    packed = TextsById([("b", "1"), ("a", "2"), ("cc", "3")])
    assert [packed[id] for id in ("a", "b", "cc")] == ["2", "1", "3"]
    assert not {"c", "aa"} & {*packed}
    assert "c" not in packed


@pytest.mark.parametrize("most_recent", [1, 3, 1 << 16])
def test_the_first_line_of_a_key_is_known_however_long_ago(monkeypatch: pytest.MonkeyPatch, most_recent: int) -> None:
    monkeypatch.setattr(packed_records, "_MOST_RECENT", most_recent)
    monkeypatch.setattr(packed_records, "_SLOTS", 8)
    lines = FirstLines()
    for line in range(20):
        assert lines.add(f"d{line}", line, -line) is None
    for line in reversed(range(20)):
        assert lines.add(f"d{line}", 50, 50) == (line, -line)


def test_repeated_and_colliding_ids_far_below_are_met(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_records, "_MOST_RECENT", 2)
    rows = [{"_id": f"d{number}", "text": "a"} for number in range(6)]
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, rows[0]]))
    assert [document.id for document in read_corpus(path)] == [row["_id"] for row in rows]
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"_id": "d1", "text": "b"}]))
    with pytest.raises(DataError, match=r"corpus.jsonl:7: the id 'd1' is already on line 2, with another text$"):
        list(read_corpus(path))


@pytest.mark.parametrize("words", [3, 16])
def test_a_test_set_is_checked_in_three_times_the_memory_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: int
) -> None:
    monkeypatch.setattr(packed_records, "_MOST_RECENT", 1 << 8)
    monkeypatch.setattr(packed_records, "_SLOTS", 1 << 12)
    monkeypatch.setattr("retrokit.data.overlap._AT_ONCE", 1 << 8)
    draw = random.Random(words)
    vocabulary = [f"{number:05x}" for number in range(500)]
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\td1\t1\n")
    (tmp_path / "queries.jsonl").write_text('{"_id": "q", "text": "q"}\n')
    with (tmp_path / "corpus.jsonl").open("w") as stream:
        for number in range(20_000):
            text = " ".join(draw.choices(vocabulary, k=words))
            stream.write(json.dumps({"_id": f"d{number}", "title": "", "text": text}) + "\n")
    check_test(str(tmp_path), "test", 1, True)  # what it imports and compiles stays
    tracemalloc.start()
    check_test(str(tmp_path), "test", 1, True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 3 * (tmp_path / "corpus.jsonl").stat().st_size


def test_membership_reads_no_text(monkeypatch):
    texts = TextsById((f"d{number}", "text") for number in range(9))
    monkeypatch.setattr(texts, "texts", None)
    assert "d3" in texts
    assert "d9" not in texts
