"""Texts and counts that augmentations share, and random numbers as functions of a key."""

import gzip
import io
import os
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrokit.augmentation.draws import bits, distinct
from retrokit.augmentation.texts import Counts, Rows, Text, Texts
from retrokit.core.errors import DataError, UsageError

LINES = b'{"id": "a", "text": "one"}\n\n{"_id": 7, "text": ""}\n{"text": "three \xc3\xa9", "year": 2020}\n'
TEXTS = [Text(1, "a", "one"), Text(3, "7", ""), Text(4, None, "three é")]


def stdin(monkeypatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_a_file(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(LINES)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(LINES))
    assert list(Texts(tmp_path / "a.jsonl")) == TEXTS
    assert list(Texts(tmp_path / "a.jsonl.gz")) == TEXTS


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"id": "b", "note": "x"}', "no field 'text'; the fields are 'id', 'note'"),
        (b'{"text": 3}', "field 'text' should be a string, found a number"),
        (b'{"text": null}', "field 'text' should be a string, found null"),
        (b'{"text": "x", "id": 1.5}', "field 'id' should be a string or a whole number, found a number"),
        (b'{"text": "x", "id": "a", "_id": "b"}', "has both 'id' and '_id', and they differ"),
        (b'["x"]', "expected a JSON object, found a list"),
        ('{"text": "naïve"}'.encode("latin-1"), "is not UTF-8 text (byte 0xef at position 13 of the line)"),
    ],
)
def test_a_wrong_line_is_named_after_those_before_it(tmp_path, line, problem):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "na\xc3\xafve"}\n' + line + b"\n")
    texts = iter(Texts(path))
    assert next(texts).text == "naïve"
    with pytest.raises(DataError) as caught:
        next(texts)
    assert str(caught.value) == f"{path}:2: {problem}"


def test_an_empty_file(tmp_path):
    (tmp_path / "a.jsonl").touch()
    with pytest.raises(DataError, match=r'is empty; expected texts, one {"text": …} a line$'):
        list(Texts(tmp_path / "a.jsonl"))


def test_a_file_can_be_read_again_and_a_pipe_once(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(LINES)
    texts = Texts(path)
    texts.check(2)
    assert list(texts) == list(texts) == TEXTS
    Texts("-").check(1)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="2 epochs need a file; a pipe can be read once"):
        Rows(tmp_path / "pipe").check(2)


def test_nothing_usable(tmp_path):
    counts = Counts(1003, 0, Counter({"b": 2, "a": 2, "c": 999}))
    assert counts.used == 0
    with pytest.raises(DataError) as caught:
        counts.check_used("f.jsonl", "try more")
    assert str(caught.value) == "f.jsonl: no text gives a pair: 1,003 texts (999: c; 2: a; 2: b); try more"
    assert caught.value.exit_code == 2
    Counts(2, 1, Counter(a=1)).check_used("f.jsonl", "")


def test_bits_do_not_change_between_versions():
    # written down once: a change would give every user other data for the same seed
    assert bits(0) == 8493733112532773764
    assert bits(0, 1, "anchor") == 11607598119340704417


@given(size=st.integers(0, 60), data=st.data())
def test_distinct_is_the_start_of_a_permutation(size, data):
    count = data.draw(st.integers(0, size))
    key = data.draw(st.integers())
    whole = list(distinct(size, size, key))
    assert sorted(whole) == list(range(size))
    assert list(distinct(size, count, key)) == whole[:count]
