"""Whatever a file holds, a reader either reads it or says in one line what is wrong."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retrokit.data.beir import read_beir
from retrokit.data.corpus import read_corpus, read_queries
from retrokit.data.files import read_lines
from retrokit.data.jsonl import read_jsonl
from retrokit.data.pairs import read_source
from retrokit.data.trec import read_run
from retrokit.errors import RetrokitError
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
    (folder / name).write_bytes(data.draw(damaged(sound)))
    try:
        read(folder / name)
    except RetrokitError as error:
        message = str(error)
        assert len(message.splitlines()) == 1
        assert message.startswith(str(folder))


@pytest.mark.parametrize("reader", READERS)
def test_the_sound_file_is_read(tmp_path: Path, reader: str) -> None:
    (tmp_path / "qrels").mkdir()
    for other, content in [("corpus.jsonl", CORPUS), ("queries.jsonl", QUERIES), ("qrels/test.tsv", QRELS)]:
        (tmp_path / other).write_bytes(content)
    sound, name, read = READERS[reader]
    (tmp_path / name).write_bytes(sound)
    read(tmp_path / name)
