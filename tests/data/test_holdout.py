"""Examples held out by their anchors, and folders of splits without leaks."""

import json
from pathlib import Path

import numpy as np
import pytest

from retrokit.core.errors import DataError
from retrokit.data.pairs import Source, hold_out, read_source
from retrokit.data.training_rows import texts_of_record
from tests.codes import codes


def source_of(path: Path, rows: list[dict[str, object]], kind: str = "pairs") -> Source:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_source(str(path), kind)  # type: ignore[arg-type]


def anchors_of(sources: list[Source]) -> set[str]:
    return {texts_of_record(record)[0] for source in sources for record in source.records}


KINDS = {
    "pairs": lambda i: {"anchor": f"question {i}", "positive": f"answer {i}", "negatives": [f"wrong {i}"]},
    "taught": lambda i: {
        "anchor": f"question {i}",
        "positive": f"answer {i}",
        "negatives": [],
        "positive_score": 0.5,
        "negative_scores": [],
    },
    "scored": lambda i: {"sentence1": f"question {i}", "sentence2": f"answer {i}", "score": i},
    "texts": lambda i: {"text": f"question {i}"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_anchor_is_in_one_part_by_its_text_and_the_seed(tmp_path: Path, kind: str) -> None:
    rows = [KINDS[kind](i % 100) for i in range(120)]
    source = source_of(tmp_path / "rows.jsonl", rows, kind)
    (train,), (held,) = hold_out([source], 0.2)
    assert anchors_of([train]).isdisjoint(anchors_of([held]))
    assert sorted([*train.records, *held.records], key=str) == sorted(source.records, key=str)
    assert 10 <= held.counts["anchors"] <= 30
    assert train.counts["anchors"] + held.counts["anchors"] == 100
    assert held.counts["records"] == len(held.records)
    again = source_of(tmp_path / "fewer.jsonl", rows[:50][::-1], kind)
    (_,), (fewer,) = hold_out([again], 0.2)
    assert anchors_of([fewer]) == anchors_of([held]) & anchors_of([again]), "other anchors and their order do not count"
    assert anchors_of(hold_out([source], 0.2, seed=1)[1]) != anchors_of([held])
    more = hold_out([source], 0.5)[1]
    assert anchors_of([held]) < anchors_of(more)


def test_sources_are_divided_alike(tmp_path: Path) -> None:
    first = source_of(tmp_path / "a.jsonl", [{"anchor": f"Question {i}", "positive": f"a {i}"} for i in range(60)])
    second = source_of(tmp_path / "b.jsonl", [{"anchor": f"question  {i} ", "positive": f"b {i}"} for i in range(60)])
    train, held = hold_out([first, second], 0.3)
    parts = [[{text.casefold().split()[1] for text in anchors_of([one])} for one in part] for part in (train, held)]
    assert parts[0][0] == parts[0][1]
    assert parts[1][0] == parts[1][1]
    pairs = {record.anchor: [record.positive] for record in held[0].records}
    np.testing.assert_array_equal(held[0].positives, codes(pairs))


def test_a_number_of_anchors_and_the_most(tmp_path: Path) -> None:
    source = source_of(tmp_path / "a.jsonl", [{"anchor": f"q {i}", "positive": "p"} for i in range(2000)])
    assert 150 < hold_out([source], 200)[1][0].counts["anchors"] < 250
    assert 70 < hold_out([source], 0.5, most=100)[1][0].counts["anchors"] < 130


@pytest.mark.parametrize(("size", "part"), [(0.001, "hold out"), (0.999, "train on"), (5, "train on"), (9, "train on")])
def test_nothing_left_in_a_part(tmp_path: Path, size: float, part: str) -> None:
    source = source_of(tmp_path / "few.jsonl", [{"anchor": f"q {i}", "positive": "p"} for i in range(3)])
    with pytest.raises(DataError, match=f"few.jsonl.*{size:g} leaves nothing to {part}; anchors: 3"):
        hold_out([source], size)


def test_a_source_without_anchors_in_a_part_is_not_in_it(tmp_path: Path) -> None:
    many = source_of(tmp_path / "many.jsonl", [{"anchor": f"q {i}", "positive": "p"} for i in range(50)])
    (_,), (held,) = hold_out([many], 0.2)
    out, kept = (next(iter(anchors_of([part]))) for part in (held, hold_out([many], 0.2)[0][0]))
    one, other = (source_of(tmp_path / f"{a}.jsonl", [{"anchor": a, "positive": "p"}]) for a in (out, kept))
    train, held_out = hold_out([many, one, other], 0.2)
    assert [source.spec for source in train] == [many.spec, other.spec]
    assert [source.spec for source in held_out] == [many.spec, one.spec]
