"""JSON lines and corpora."""

from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrokit.core.errors import DataError
from retrokit.data.corpus import Document, read_corpus, read_queries
from retrokit.data.jsonl import COUNT, DIMENSION, FILE_NAME, Row, read_json, read_jsonl, restored, write_jsonl

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
ROWS = st.lists(st.dictionaries(st.text(), SCALARS | st.lists(SCALARS), max_size=4), min_size=1, max_size=4)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
@given(rows=ROWS)
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, name: str, rows: list[dict[str, object]]) -> None:
    path = tmp_path_factory.mktemp("round") / name
    assert write_jsonl(path, rows) == len(rows)
    assert list(read_jsonl(path)) == list(enumerate(rows, start=1))


def test_text_is_written_as_it_is(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", [{"text": "Straße 東京"}])
    assert (tmp_path / "a.jsonl").read_text("utf-8") == '{"text": "Straße 東京"}\n'


def test_nan_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_jsonl(tmp_path / "a.jsonl", [{"score": float("nan")}])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"a": 1', "malformed JSON: Expecting ',' delimiter (column 8)"),
        ("{} {}", "malformed JSON: Extra data (column 4)"),
        ("[1]", "expected a JSON object, found a list"),
        ('"text"', "expected a JSON object, found a string"),
        ("null", "expected a JSON object, found null"),
        ('{"a": NaN}', "malformed JSON: NaN is no JSON number"),
        ('{"a": [-Infinity]}', "malformed JSON: -Infinity is no JSON number"),
        ('{"a": "\\ud83d"}', "malformed JSON: \\ud83d is half of a surrogate pair"),
        ("[" * 100_000, "malformed JSON: nested too deeply"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"a": 0}}\n\n{line}\n')
    with pytest.raises(DataError) as caught:
        list(read_jsonl(path))
    assert str(caught.value) == f"{path}:3: {problem}"


def test_a_whole_surrogate_pair_is_a_character(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": "\\ud83d\\ude00"}')
    assert list(read_jsonl(path)) == [(1, {"a": "😀"})]


def test_an_empty_file_says_what_was_expected(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.touch()
    with pytest.raises(DataError, match=r"a\.jsonl: is empty; expected one JSON object a line$"):
        list(read_jsonl(path))
    with pytest.raises(DataError, match=r"a\.jsonl: is empty; expected STS pairs$"):
        list(read_jsonl(path, expected="STS pairs"))


def test_required_text() -> None:
    row = {"text": "x", "n": 3, "flag": True, "none": None, "list": [], "object": {}}
    assert Row(row, "f", 7).text("text") == "x"
    for key, kind in [
        ("n", "a number"),
        ("flag", "true or false"),
        ("none", "null"),
        ("list", "a list"),
        ("object", "an object"),
    ]:
        with pytest.raises(DataError) as caught:
            Row(row, "f", 7).text(key)
        assert str(caught.value) == f"f:7: field {key!r} should be a string, found {kind}"
    with pytest.raises(DataError) as caught:
        Row({"txt": "x", "new\nline": ""}, "-", 7).text("text")
    assert str(caught.value) == "standard input:7: no field 'text'; the fields are 'txt', 'new\\nline'"
    with pytest.raises(DataError, match=r"the fields are none$"):
        Row({}, "f", 7).text("text")
    with pytest.raises(DataError, match=r"'k4', 'k5', and 9 more$"):
        Row({f"k{i}": 0 for i in range(15)}, "f", 7).text("text")


@pytest.mark.parametrize(
    ("row", "expected"),
    [({"id": "a"}, "a"), ({"_id": "a"}, "a"), ({"id": 3}, "3"), ({"id": "a", "_id": "a"}, "a"), ({"_id": 0}, "0")],
)
def test_identifier(row: dict[str, object], expected: str) -> None:
    assert Row(row, "f", 1).id == expected


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"ID": "a"}, "no field 'id' or '_id'; the fields are 'ID'"),
        ({"id": "a", "_id": "b"}, "has both 'id' and '_id', and they differ"),
        ({"id": 1.5}, "field 'id' should be a string or a whole number, found a number"),
        ({"id": True}, "field 'id' should be a string or a whole number, found true or false"),
        ({"_id": None}, "field '_id' should be a string or a whole number, found null"),
        ({"id": ""}, "field 'id' is empty"),
    ],
)
def test_no_identifier(row: dict[str, object], problem: str) -> None:
    with pytest.raises(DataError) as caught:
        Row(row, "f", 4).id  # noqa: B018
    assert str(caught.value) == f"f:4: {problem}"


def test_corpus(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text(
        '{"_id": "a", "title": "T", "text": "x"}\n'
        '{"id": 7, "text": "only text "}\n'
        '{"id": "c", "title": null, "text": ""}\n'
        '{"id": "d", "title": "only title", "text": "", "year": 2020}\n'
    )
    documents = list(read_corpus(path))
    assert documents == [
        Document("a", "T", "x"),
        Document("7", "", "only text "),
        Document("c", "", ""),
        Document("d", "only title", ""),
    ]
    assert [document.full_text for document in documents] == ["T x", "only text", "", "only title"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"id": "a", "text": "again"}', "the id 'a' is already on line 1, with another text"),
        ('{"id": "b"}', "no field 'text'; the fields are 'id'"),
        ('{"id": "b", "text": null}', "field 'text' should be a string, found null"),
        ('{"id": "b", "text": "x", "title": 3}', "field 'title' should be a string, found a number"),
    ],
)
def test_a_wrong_document_is_named(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text(f'{{"id": "a", "text": "x"}}\n\n{line}\n')
    with pytest.raises(DataError) as caught:
        list(read_corpus(path))
    assert str(caught.value) == f"{path}:3: {problem}"


def test_queries(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    path.write_text('{"_id": "q1", "text": "who?", "metadata": {}}\n{"id": 2, "text": "what?"}\n')
    assert list(read_queries(path)) == [("q1", "who?"), ("2", "what?")]
    path.write_text('{"id": "2", "text": "who?"}\n{"id": 2, "text": "what?"}\n')
    with pytest.raises(DataError, match=r"queries\.jsonl:2: the id '2' is already on line 1, with another text$"):
        list(read_queries(path))
    (tmp_path / "queries.tsv").write_text("id\ttext\n")
    with pytest.raises(DataError, match=r"queries\.tsv: contains only a header; expected lines below it"):
        list(read_queries(tmp_path / "queries.tsv"))


@pytest.mark.parametrize(
    "text",
    [
        "q1\tcats & dogs\nq2\tbirds\n",
        "query_id\tquery\nq1\tcats & dogs\nq2\tbirds\n",
        "<top>\n\n<num> Number: q1\n<title> Topic:  cats &amp;\n dogs\n\n<desc> Description:\nMore.\n</top>\n\n<top>\n"
        "<num> Number: q2 \n<title> birds\n<desc> x\n</top>\n",
        "<top><num>q1</num><title>cats &amp; dogs</title></top><top><num>q2</num><title>birds</title></top>",
        '<?xml version="1.0"?>\n<topics task="x"><topic number="q1"><query>cats &amp; dogs</query><question>y'
        '</question></topic>\n<topic number="q2"><query>birds</query></topic></topics>',
    ],
    ids=["table", "table with a header", "TREC", "closed elements", "XML"],
)
def test_queries_in_other_formats(tmp_path: Path, text: str) -> None:
    path = tmp_path / "queries"
    path.write_text(text)
    assert list(read_queries(path)) == [("q1", "cats & dogs"), ("q2", "birds")]


def test_wrong_topics(tmp_path: Path) -> None:
    path = tmp_path / "topics.xml"
    path.write_text("<topics>\n\n<topic number='1'>\n</topic>\n</topics>")
    with pytest.raises(DataError, match=r"topics\.xml:3: the topic has no number or no title$"):
        list(read_queries(path))
    path.write_text("<html></html>")
    with pytest.raises(DataError, match=r"topics\.xml: has no TREC topic; expected <top> or <topic> with a number"):
        list(read_queries(path))


def test_a_corpus_in_a_table(tmp_path: Path) -> None:
    path = tmp_path / "collection.tsv"
    path.write_text('0\tThe "presence" of\n1\tsaid "so\n')
    assert list(read_corpus(path)) == [("0", "", 'The "presence" of'), ("1", "", 'said "so')]
    path.write_text("id\ttext\ttitle\n1\tis a language\tPython\n")
    assert [document.full_text for document in read_corpus(path)] == ["Python is a language"]
    path.write_text("1\ta\tb\n")
    with pytest.raises(DataError, match=r"collection\.tsv:1: the first line names no column that is known"):
        list(read_corpus(path))


def test_a_corpus_is_read_as_a_stream(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"id": "a", "text": "x"}\nnot json\n')
    documents = read_corpus(path)
    assert next(documents).id == "a"
    with pytest.raises(DataError, match=":2: malformed JSON"):
        next(documents)


@dataclass(frozen=True)
class Scored:
    name: FILE_NAME
    score: float
    scale: Annotated[dict[str, Any] | None, {"unit": str}] = None


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (COUNT, 3, 3),
        (tuple[str, int], ["a", 1], ("a", 1)),
        ({"*": COUNT, "name": str}, {"name": "a", "b": 1}, {"name": "a", "b": 1}),
        (Literal["a", "b"], "b", "b"),
        (("a", "b"), "a", "a"),
        (Scored, {"name": "a", "score": 1, "more": 2}, Scored("a", 1)),
        (
            Scored,
            {"name": "a", "score": 1, "scale": {"unit": "m", "more": 2}},
            Scored("a", 1, {"unit": "m", "more": 2}),
        ),
    ],
)
def test_a_value_of_the_type_is_restored(kind: Any, value: Any, expected: Any) -> None:
    assert restored(kind, value) == expected


@pytest.mark.parametrize(
    ("kind", "value", "problem"),
    [
        ({"a": COUNT}, {"a": -1}, "field 'a' is -1; expected at least 0"),
        ({"a": COUNT}, {"a": True}, "field 'a' should be a whole number, found true or false"),
        ({"a": DIMENSION}, {"a": 1 << 40}, f"field 'a' is {1 << 40}; expected at most {(1 << 31) - 1}"),
        ({"a": tuple[str, int]}, {"a": ["a", "b"]}, "field 'a.1' should be a whole number, found a string"),
        ({"a": tuple[str, int]}, {"a": ["a"]}, "field 'a' should have 2 items, found 1"),
        ({"*": COUNT}, {"b": "x"}, "field 'b' should be a whole number, found a string"),
        ({"a": Literal["b", "c"]}, {"a": "d"}, "field 'a' is 'd'; expected b or c"),
        ({"a": ("b", "c")}, {"a": []}, "field 'a' is '[]'; expected b or c"),
        ({"a": Real}, {"a": 10**400}, "field 'a' is no finite number"),
        (Scored, {"name": "../a", "score": 1}, "field 'name' is '../a'; expected the name of a file in the folder"),
        (Scored, {"name": "a"}, "no field 'score'"),
        (Scored, {"name": "a", "score": 1, "scale": {}}, "no field 'scale.unit'"),
        ({"a": np.ndarray}, {"a": [[1, 2], ["x", 3]]}, "field 'a.1.0' should be a number, found a string"),
    ],
)
def test_a_value_of_another_type_is_named(kind: Any, value: Any, problem: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        restored(kind, value)
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"a": ' + "[" * 150 + "]" * 150 + "}", ": is nested more than 100 levels deep"),
        ('{"a": 1e400}', ": malformed JSON: 1e400 is larger than a number can be; expected a value"),
        ('{"kind": "x", "version": 2}', ": has version 2 of its format; expected version 1"),
        ('{"kind": "x", "version": true}', ": has version true of its format; expected version 1"),
        ('[{"kind": "x", "version": 2}]', ": has version 2 of its format; expected version 1"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    with pytest.raises(DataError) as caught:
        read_json(path, "a value", Any)
    assert str(caught.value).startswith(f"{path}{problem}")
