"""Labelled texts and labelled pairs: what is read, how it is divided, what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from retrokit.core.errors import DataError, UsageError
from retrokit.data.labelled import (
    read_labelled,
    read_labelled_pairs,
    read_split,
    write_split,
)


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def labelled(count: int, labels: int = 3) -> list[dict[str, Any]]:
    return [{"text": f"t{i}", "label": i % labels} for i in range(count)]


def test_texts_labels_and_lines(tmp_path: Path) -> None:
    path = tmp_path / "some" / "file.jsonl"
    path.parent.mkdir()
    path.write_text(
        '{"text": "a", "label": "x", "year": 1}\n\n{"text": "", "label": "b"}\n{"label": "x", "text": "c"}\n'
    )
    data = read_labelled(path)
    assert (data.texts, data.labels, data.classes) == (["a", "", "c"], ["x", "b", "x"], ["b", "x"])
    assert data.ids == ["1", "3", "4"]
    assert data.name == "some/file.jsonl"
    assert data.counts == {"texts": 3, "labels": 2, "texts_without_text": 1}


def test_whole_numbers_are_ordered_by_value(tmp_path: Path) -> None:
    data = read_labelled(write(tmp_path / "x.jsonl", [{"text": "a", "label": n} for n in (10, 9, -1, 10)]))
    assert data.classes == ["-1", "9", "10"]
    assert data.labels == ["10", "9", "-1", "10"]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("", "is empty; expected labelled texts"),
        ('{"text": "a"}', ":1: no field 'label'; the fields are 'text'"),
        ('{"label": "a"}', ":1: no field 'text'; the fields are 'label'"),
        ('{"text": "a", "label": 1.5}', ":1: field 'label' should be a string or a whole number, found a fraction"),
        ('{"text": "a", "label": null}', ":1: field 'label' should be a string or a whole number, found null"),
        ('{"text": "a", "label": true}', ":1: field 'label' should be a string or a whole number, found true or false"),
        ('{"text": 1, "label": "a"}', ":1: field 'text' should be a string, found a number"),
        (
            '{"text": "a", "label": 1}\n{"text": "b", "label": "1"}',
            ":2: this label is not a whole number, as the one on line 1 is",
        ),
        (
            '{"text": "a", "label": "x"}\n{"text": "b", "label": "x"}',
            "every text has the label 'x'; expected at least two",
        ),
    ],
)
def test_bad_labelled_files(tmp_path: Path, lines: str, problem: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(lines)
    with pytest.raises(DataError) as caught:
        read_labelled(path)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_split_is_scikit_learns(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", labelled(57))
    split = read_split(path)
    texts, codes = [f"t{i}" for i in range(57)], [i % 3 for i in range(57)]
    train, test, train_labels, test_labels = train_test_split(texts, codes, test_size=0.1, random_state=42)
    assert [split.texts[i] for i in split.train] == train
    assert [split.texts[i] for i in split.test] == test
    assert np.array(split.labels)[split.train].tolist() == train_labels
    assert np.array(split.labels)[split.test].tolist() == test_labels
    assert (split.counts["test_texts"], split.counts["train_texts"], split.counts["labels"]) == (6, 51, 3)


def test_two_files(tmp_path: Path) -> None:
    train = write(tmp_path / "train.jsonl", [{"text": "a", "label": "x"}, {"text": "b", "label": "z"}])
    test = write(
        tmp_path / "test.jsonl", [{"text": t, "label": label} for t, label in (("c", "z"), ("d", "y"), ("a", "x"))]
    )
    split = read_split(train, test)
    assert split.texts == ["a", "b", "c", "d", "a"]
    assert [split.classes[label] for label in split.labels] == ["x", "z", "z", "y", "x"]
    assert split.classes[:2] == ["x", "z"]  # those to learn from come first: positions of ties stay theirs
    assert (split.train, split.test) == ([0, 1], [2, 3, 4])
    assert split.ids == ["train 1", "train 2", "1", "2", "3"]
    assert split.counts["test_texts_of_unknown_label"] == 1
    with pytest.raises(UsageError, match="sample= draws from the one file"):
        read_split(train, test, sample=2)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (
            [{"text": "a", "label": 1}],
            ":1: expected anchor, positive and negatives; or text and near_miss; or sentence1",
        ),
        ([{"anchor": "a", "positive": "a", "negatives": []}], ":1: field 'negatives' should be a list of near-misses"),
        ([{"anchor": "a", "positive": "a", "negatives": "b"}], ":1: field 'negatives' should be a list of near-misses"),
        ([{"anchor": "a", "negatives": ["b"]}], ":1: no field 'positive'"),
        ([{"anchor": "a", "positive": "a", "negatives": ["a"]}], ":1: the near-miss is the text itself"),
        ([{"text": "a", "near_miss": "b"}, {"text": "a"}], ":2: no field 'near_miss'"),
        ([{"text": "a", "near_miss": "b", "family": 1}], ":1: field 'family' should be a string, found a number"),
        ([{"sentence1": "a", "sentence2": "b", "label": 2}], ":1: field 'label' should be 0 or 1, found 2"),
        ([{"sentence1": "a", "sentence2": "b", "label": "yes"}], ":1: field 'label' should be 0 or 1, found yes"),
        ([{"sentence1": "a", "sentence2": "b", "label": []}], ":1: field 'label' should be 0 or 1, found a list"),
        ([{"sentence1": "a", "sentence2": "b", "label": 1}] * 2, "every pair has the label 1; expected both 0 and 1"),
    ],
)
def test_bad_pairs(tmp_path: Path, rows: list[dict[str, Any]], problem: str) -> None:
    with pytest.raises(DataError) as caught:
        read_labelled_pairs(write(tmp_path / "bad.jsonl", rows))
    assert problem in str(caught.value)


def test_the_parts_of_a_split_are_those_that_are_read(tmp_path):
    rows = [{"text": f"text {i}", "label": i % 3, "more": [i]} for i in range(47)]
    path = write(tmp_path / "all.jsonl", rows)
    train, test = tmp_path / "train.jsonl", tmp_path / "test.jsonl"
    assert write_split(path, train, test) == (42, 5)
    whole, parts = read_split(path), read_split(train, test)
    for name in ("train", "test"):
        asked = [whole.texts[i] for i in sorted(getattr(whole, name))]
        assert asked == [parts.texts[i] for i in getattr(parts, name)]
    written = [json.loads(line) for file in (train, test) for line in file.read_text().splitlines()]
    assert sorted(written, key=lambda row: row["more"]) == rows


@pytest.mark.parametrize(("train", "test"), [("all.jsonl", "b"), ("a", "all.jsonl"), ("a", "./a")])
def test_a_split_destroys_nothing(tmp_path, train, test):
    path = write(tmp_path / "all.jsonl", [{"text": "x", "label": 1}])
    before = path.read_bytes()
    with pytest.raises(UsageError, match=r"is an input too|is the name of two outputs"):
        write_split(path, f"{tmp_path}/{train}", f"{tmp_path}/{test}")
    with pytest.raises(DataError, match="contains one row, which cannot be divided"):
        write_split(path, tmp_path / "a", tmp_path / "b")
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["all.jsonl"]
