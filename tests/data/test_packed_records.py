"""Records of training data in little memory."""

import json
import pickle
from pathlib import Path

import pytest

from retrokit.data.packed_records import PackedRecords
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
