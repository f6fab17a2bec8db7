"""Whatever a file holds, a reader either reads it or says in one line what is wrong."""

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retrokit.core import files
from retrokit.core.errors import DataError, RetrokitError
from retrokit.core.files import read_lines, read_toml
from retrokit.data.beir import read_beir
from retrokit.data.corpus import read_corpus, read_queries
from retrokit.data.exports import open_export
from retrokit.data.jsonl import read_jsonl
from retrokit.data.pairs import read_source
from retrokit.data.runs import read_run as described
from retrokit.data.trec import read_run
from retrokit.evaluation.comparison.gates import read_baseline
from retrokit.evaluation.comparison.results_folder import ResultsFolder
from retrokit.report.records import read_record
from tests.trec import read_qrels

CORPUS = b'{"_id": "d1", "title": "Cats", "text": "They purr."}\n{"id": 2, "text": "Dogs \xc3\xa4 \\ud83d\\ude00"}\n'
QUERIES = b'{"_id": "q1", "text": "who?"}\n{"_id": "q2", "text": "what?"}\n'
QRELS = b"query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\t2\t0\n"
RUN = b"q1 Q0 d1 1 0.5 tag\nq1 Q0 d2 2 0.25 tag\n"
PAIRS = b'{"anchor": "a", "positive": "b", "negatives": ["x"]}\n{"anchor": "c", "positive": ["d", "e"]}\n'
SCORED = b'{"sentence1": "a", "sentence2": "b", "score": 4.5}\n{"sentence1": "a", "sentence2": "c", "score": 1}\n'


def read_text(path: Path) -> None:
    list(read_lines(path, "text"))


# a sound file, its name in the folder, and what reads it
READERS: dict[str, tuple[bytes, str, Callable[[Path], object]]] = {
    "text": (CORPUS, "a.txt", read_text),
    "text.gz": (gzip.compress(CORPUS), "a.txt.gz", read_text),
    "jsonl": (CORPUS, "a.jsonl", lambda path: list(read_jsonl(path))),
    "jsonl.gz": (gzip.compress(CORPUS), "a.jsonl.gz", lambda path: list(read_jsonl(path))),
    "corpus": (CORPUS, "a.jsonl", lambda path: list(read_corpus(path))),
    "queries": (QUERIES, "a.jsonl", lambda path: list(read_queries(path))),
    "qrels": (QRELS, "a.tsv", read_qrels),
    "run": (RUN, "a.trec", read_run),
    "run.gz": (gzip.compress(RUN), "a.trec.gz", read_run),
    "pairs": (PAIRS, "a.jsonl", lambda path: read_source(f"jsonl:{path}", "pairs")),
    "scored": (SCORED, "a.jsonl", lambda path: read_source(f"jsonl:{path}", "scored")),
    "beir corpus": (CORPUS, "corpus.jsonl", lambda path: read_beir(path.parent)),
    "beir queries": (QUERIES, "queries.jsonl", lambda path: read_beir(path.parent)),
    "beir qrels": (QRELS, "qrels/test.tsv", lambda path: read_beir(path.parents[1])),
    "beir training": (QRELS, "qrels/train.tsv", lambda path: read_source(f"beir:{path.parents[1]}", "pairs")),
}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = [
    "_id",
    "id",
    "text",
    "title",
    "anchor",
    "positive",
    "negatives",
    "negative_1",
    "sentence1",
    "sentence2",
    "score",
]


@st.composite
def damaged(draw: st.DrawFn, sound: bytes) -> bytes:
    """Bytes near ``sound``, or far from it."""
    how = draw(st.sampled_from(["noise", "cut", "swap", "overwrite", "insert", "wrong types", "wrong cells", "pack"]))
    start = draw(st.integers(0, len(sound)))
    end = draw(st.integers(0, len(sound)))
    match how:
        case "noise":
            return draw(st.binary(max_size=60))
        case "cut":
            return sound[:start]
        case "swap":
            moved = bytearray(sound)
            start, end = min(start, len(sound) - 1), min(end, len(sound) - 1)
            moved[start], moved[end] = moved[end], moved[start]
            return bytes(moved)
        case "overwrite":
            return sound[:start] + draw(st.binary(max_size=4)) + sound[min(start + 4, len(sound)) :]
        case "insert":
            return (
                sound[:start]
                + draw(st.sampled_from([b"\n", b"\0", b"\r", b"\xff", b"\t", b'"', b"\xc2\x85"]))
                + sound[start:]
            )
        case "wrong types":
            rows = draw(st.lists(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4) | JSON, max_size=3))
            return "\n".join(json.dumps(row) for row in rows).encode()
        case "wrong cells":
            cell = st.sampled_from(
                ["q1", "d1", "2", "0", "1", "-1", "nan", "1e999", "٣", "9" * 30, "", "\u2028", "query-id"]
            )
            table = draw(st.lists(st.lists(cell, max_size=7), max_size=3))
            return "\n".join(draw(st.sampled_from(["\t", " "])).join(row) for row in table).encode()
        case _:
            return gzip.compress(sound)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damaged")
    (folder / "qrels").mkdir()
    return folder


@pytest.mark.parametrize("reader", READERS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_damage_is_one_clear_line(folder: Path, reader: str, data: st.DataObject) -> None:
    sound, name, read = READERS[reader]
    for other, content in [("corpus.jsonl", CORPUS), ("queries.jsonl", QUERIES), ("qrels/test.tsv", QRELS)]:
        (folder / other).write_bytes(content)
    (folder / name).write_bytes(sound)
    read(folder / name)
    (folder / name).write_bytes(data.draw(damaged(sound)))
    try:
        read(folder / name)
    except RetrokitError as error:
        message = str(error)
        assert len(message.splitlines()) == 1
        assert message.startswith(str(folder))


# --- files that hold one value


def export(folder: Path) -> object:
    note = {
        **{"count": 2, "dimension": 4, "role": "document", "similarity": {"spec": "cosine", "learned": {}}},
        **{"dtype": "float32", "one_length": False, "shard": None},
        "encoder": {"spec": "minilm", "fingerprint": "f", "dimension": 4, "dims": 4, "precision": "fp32"},
        "source": {"spec": "data", "digest": None},
    }
    if not (folder / "export.json").exists():
        (folder / "export.json").write_text(json.dumps(note))
    return open_export(folder).ids(), open_export(folder).ids_at([1])


def results(folder: Path) -> object:
    """A damaged result is left out, so that the folder holds none."""
    return ResultsFolder(str(folder)).read()


RESULT = {
    **{"encoder": "e", "similarity": "cosine", "task": "t", "main_metric": "m", "metrics": {"m": 0.5}},
    **{"per_query": {"m": {"q": 0.5}}, "counts": {}, "norms": {}, "configuration": {}, "resampled": {}},
}


def record_of(path: Path) -> object:
    """The record in a file; raises :class:`DataError` for JSON of something else, as a report does."""
    record = read_record(str(path), "what --json has printed")
    if record is None:
        raise DataError(str(path), "is JSON of something else")
    return record


SYSTEM = {"data": None, "results": [RESULT], "seeds": [], "trained_with": None, "distinction": ""}
RUN_NOTE = {"status": "finished", "similarity": "cosine", "steps": 3, "outcome": {"steps": 3}}
WHOLE: dict[str, tuple[object, str, Callable[[Path], object]]] = {
    "run": (RUN_NOTE, "retrokit.json", lambda path: described(path.parent)),
    "baseline": ({"format": 1, "systems": [SYSTEM]}, "base.json", lambda path: read_baseline(str(path))),
    "results": (None, "r.json", lambda path: results(path.parent)),
    "export": (None, "export.json", lambda path: export(path.parent)),
    "ids": (None, "embeddings.parquet", lambda path: export(path.parent)),
    "report": (None, "found.json", record_of),
    "TOML": (None, "options.toml", read_toml),
}
NO_VALUE: dict[str, bytes] = {
    **{"nothing": b"", "blanks": b" \n \n", "a mark": b"\xef\xbb\xbf", "UTF-16": '{"a": 1}'.encode("utf-16")},
    **{"NUL": b"\0\0", "Latin-1": b'{"a": "\xe9"}', "half": b'{"a": ', "list": b"[1]", "number": b"3", "null": b"null"},
    **{"deep": b"[" * 100_000, "deep object": b'{"a":' * 100_000, "foreign": b'{"a": 1}', "NaN": b'{"a": NaN}'},
    "digits": b'{"count": ' + b"9" * 5000 + b"}",
    "TOML digits": b"a = " + b"9" * 5000,
    "TOML deep": b"a = " + b"[" * 100_000,
    "surrogate": b'{"a": "\\ud800"}',
}


IS_TOML = ("nothing", "blanks", "a mark", "list")


@pytest.mark.parametrize(
    ("reader", "content"),
    [(reader, content) for reader in WHOLE for content in NO_VALUE if reader != "TOML" or content not in IS_TOML],
)
def test_what_is_no_value_is_one_clear_line(tmp_path: Path, reader: str, content: str) -> None:
    _, name, read = WHOLE[reader]
    (tmp_path / name).write_bytes(NO_VALUE[content])
    with pytest.raises(DataError) as caught:
        read(tmp_path / name)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path}/{name}" if reader != "results" else f"{tmp_path}: contains no results")
    assert len(message.splitlines()) == 1
    assert "sys.set_int_max_str_digits" not in message


WRONG = [None, [], {}, -1, 10**400, True, "", "x", [None], {"a": None}]


@pytest.mark.parametrize("reader", ["run", "baseline"])
def test_a_field_of_another_type_is_named(tmp_path: Path, reader: str) -> None:
    sound, name, read = WHOLE[reader]

    def check(value: object, field: str) -> None:
        (tmp_path / name).write_text(json.dumps(value))
        message = ""
        try:
            read(tmp_path / name)
        except DataError as error:
            message = str(error)
        assert message == "" or message.startswith(f"{tmp_path}/{name}: "), field
        assert len(message.splitlines()) < 2

    check(sound, "")
    for replaced, field in _replaced(sound):
        check(replaced, field)


def _replaced(value: object, field: str = "") -> Iterator[tuple[object, str]]:
    """The value with each of its parts missing, or of another type."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        inner = f"{field}.{key}"
        if isinstance(value, dict):
            yield {name: one for name, one in value.items() if name != key}, inner
        part = value[key]
        for other in [*((one, inner) for one in WRONG), *_replaced(part, inner)]:
            copy = dict(value) if isinstance(value, dict) else list(value)
            copy[key] = other[0]
            yield copy, other[1]


@pytest.mark.parametrize(
    ("content", "read"),
    [
        (b'{"id": "a\\u0000b", "text": "t"}\n', lambda path: list(read_corpus(path))),
        (b'{"_id": "a\\u0000", "text": "t"}\n', lambda path: list(read_queries(path))),
        (b"q\0\td\t1\n", read_qrels),
        (b"q\t0\td\0d\t1\n", read_qrels),
        (b"q Q0 d\0 1 0.5 tag\n", read_run),
    ],
)
def test_a_nul_in_an_identifier_is_refused(tmp_path: Path, content: bytes, read: Callable[[Path], object]) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"file:1: an identifier contains a NUL character$"):
        read(path)


@pytest.mark.parametrize("name", ["file", "/dev/zero"])
def test_a_line_without_end_is_not_read_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE", 2 << 20)
    (tmp_path / "file").write_bytes(b"x" * (2 << 20) + b"\n")
    seen: list[bytes] = []
    with pytest.raises(DataError, match=r"1: the line is longer than 2 MiB; expected texts$"):
        list(read_lines(tmp_path / name, "texts", seen.append))
    assert seen == []
    (tmp_path / "file").write_bytes(b"x" * ((2 << 20) - 1) + b"\n")
    assert len(list(read_lines(tmp_path / "file", "texts"))) == 1
