"""Texts as a stream, and the record of what became of them."""

import gzip
import io
import os
import sys
import tempfile
import threading
from collections import Counter

import pytest

from retrokit.augmentation.texts import Counts, Rows, Text, Texts
from retrokit.core.errors import DataError

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
        (b'{"id": "b", "body": "x"}', "no field 'text'; the fields are 'id', 'body'"),
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


def test_a_file_is_read_again_without_a_copy(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))  # a copy would fail
    path = tmp_path / "a.jsonl"
    path.write_bytes(LINES)
    texts = Texts(path)
    texts.keep()
    assert list(texts) == list(texts) == TEXTS


def test_standard_input_is_read_again_from_a_copy(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    stdin(monkeypatch, LINES)
    texts = Texts("-")
    texts.keep()
    first = iter(texts)
    assert next(first) == TEXTS[0]  # the first reading streams
    assert list(first) == TEXTS[1:]
    assert list(texts) == list(texts) == TEXTS
    assert len(list(tmp_path.iterdir())) == 1
    del texts, first
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_is_read_again_from_a_copy(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(LINES,))
    writer.start()
    texts = Texts(pipe)
    texts.keep()
    assert list(texts) == list(texts) == TEXTS
    writer.join()


def test_a_full_disk_is_not_blamed_on_the_input(monkeypatch):
    class Full(io.BytesIO):
        name = "copy"

        def write(self, data):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", lambda **_: Full())
    stdin(monkeypatch, LINES)
    rows = Rows("-")
    rows.keep()
    with pytest.raises(
        DataError, match=r"^the copy of standard input in .* could not be written: No space left on device$"
    ):
        list(rows)


def test_nothing_usable(tmp_path):
    counts = Counts(1003, 0, Counter({"b": 2, "a": 2, "c": 999}))
    assert counts.used == 0
    with pytest.raises(DataError) as caught:
        counts.check_used("f.jsonl", "try more")
    assert str(caught.value) == "f.jsonl: no text gives a pair: 1,003 texts (999: c; 2: a; 2: b); try more"
    assert caught.value.exit_code == 2
    Counts(2, 1, Counter(a=1)).check_used("f.jsonl", "")
