"""Data sets as people have them: each layout and each kind of file gives the same records, or one clear line."""

import gzip
import json
from datetime import date
from pathlib import Path

import pandas as pd
import pyarrow.parquet
import pytest

from retrokit.augmentation.texts import Texts
from retrokit.core.errors import DataError
from retrokit.core.notices import heard
from retrokit.data.corpus import read_corpus, read_queries
from retrokit.data.jsonl import Row
from retrokit.data.labelled import read_labelled
from retrokit.data.pairs import read_source
from retrokit.data.tables import label_names, read_rows
from retrokit.data.training_rows import Pair

PASSAGES = [{"docid": "1", "title": "T", "text": "b"}], [{"docid": "2", "title": "", "text": "x"}]


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


@pytest.mark.parametrize(
    ("rows", "pairs", "notice"),
    [
        (
            [{"query_id": "1", "query": "a", "positive_passages": PASSAGES[0], "negative_passages": PASSAGES[1]}],
            [Pair("a", "T b", ("x",))],
            "read as Tevatron (query, positive_passages, negative_passages)",
        ),
        (
            [
                {"question": "a", "answers": ["z"], "positive_ctxs": PASSAGES[0], "hard_negative_ctxs": PASSAGES[1]},
                {"question": "c", "answers": ["z"], "positive_ctxs": [], "hard_negative_ctxs": []},
            ],
            [Pair("a", "T b", ("x",))],
            "read as DPR (question, positive_ctxs, hard_negative_ctxs); columns not used: 'answers'; "
            "rows left out that are no positive pair: 1",
        ),
        (
            [{"messages": user("a"), "positive_messages": [user("b")], "negative_messages": [user("x"), user("y")]}],
            [Pair("a", "b", ("x", "y"))],
            "read as ms-swift (messages, positive_messages, negative_messages)",
        ),
        (
            [{"query": "a", "response": "b", "rejected_response": ["x"]}],
            [Pair("a", "b", ("x",))],
            None,
        ),
        ([{"sentence1": "a", "sentence2": "b"}], [Pair("a", "b")], None),
        ([{"id": "1", "anchor": "a", "positive": "b"}], [Pair("a", "b")], None),
        (
            [{"sentence_A": "a", "sentence_B": "b", "label": 1}, {"sentence_A": "c", "sentence_B": "d", "label": 0}],
            [Pair("a", "b")],
            "read as labelled pairs (sentence_A, sentence_B, label); rows left out that are no positive pair: 1",
        ),
        (
            [{"premise": "a", "hypothesis": t, "label": i} for i, t in enumerate("bcd")],
            [Pair("a", "b")],
            "read as NLI (premise, hypothesis, label); labels have no names: 0 is read as entailment; "
            "rows left out that are no positive pair: 2",
        ),
        (
            [{"sentence1": "a", "sentence2": t, "gold_label": t} for t in ("entailment", "neutral", "-")],
            [Pair("a", "entailment")],
            "read as NLI (sentence1, sentence2, gold_label); rows left out that are no positive pair: 2",
        ),
        ([{"set": ["a", "b", "c"]}], [Pair("a", "b"), Pair("a", "c")], "read as sets of equal texts (set)"),
        ([["a", "b", "x"], ["c", "d"]], [Pair("a", "b", ("x",)), Pair("c", "d")], None),
        (
            [{"query": "a", "pos": ["b"], "neg": ["x"], "prompt": "p", "pos_scores": [1]}],
            [Pair("a", "b", ("x",))],
            "columns not used: 'prompt', 'pos_scores'",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["jsonl", "json", "pretty.json", "parquet"])
def test_layouts(tmp_path: Path, kind: str, rows: list, pairs: list[Pair], notice: str | None) -> None:
    path = tmp_path / f"a.{'jsonl' if isinstance(rows[0], list) and kind == 'parquet' else kind}"
    if kind == "parquet" and isinstance(rows[0], dict):
        pd.DataFrame(rows).to_parquet(path)
    elif kind in ("jsonl", "parquet"):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        path.write_text(json.dumps(rows, indent=1 if kind == "pretty.json" else None))
    with heard() as said:
        source = read_source(str(path), "pairs")
    assert list(source.records) == pairs
    assert said == ([] if notice is None else [f"{path}: {notice}"])
    assert source.name == ("a.pretty" if kind == "pretty.json" else "a")


TSV = 'anchor\tpositive\tnegative\n"rain\t"Rain" is water.\t\nsnow\t"Snow is frozen.\tMud\nhail\tHail is ice.\tMud"\n'
QUOTED = [
    Pair('"rain', '"Rain" is water.'),
    Pair("snow", '"Snow is frozen.', ("Mud",)),
    Pair("hail", "Hail is ice.", ('Mud"',)),
]


@pytest.mark.parametrize(
    ("name", "content", "pairs"),
    [
        ("a.tsv", TSV, QUOTED),
        ("a.tsv", "\ufeff" + TSV.replace("\n", "\r\n"), QUOTED),
        ("a.TSV", TSV.partition("\n")[2].partition("\n")[2], QUOTED[1:]),
        ("a.csv", 'Query,pos,neg\na,"b, ""b""\n\nc",x\n\nc,d,\n', [Pair("a", 'b, "b"\n\nc', ("x",)), Pair("c", "d")]),
        ("a.csv", "query;pos\na;b, c\n", [Pair("a", "b, c")]),
        ("a.csv", "question1,question2,is_duplicate\na,b,1\nc,d,0\n", [Pair("a", "b")]),
        ("a.csv", "a good film,positive\n", [Pair("a good film", "positive")]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("packed", [False, True])
def test_csv_and_tsv(tmp_path: Path, name: str, content: str, pairs: list[Pair], packed: bool) -> None:
    path = tmp_path / (f"{name}.gz" if packed else name)
    path.write_bytes(gzip.compress(content.encode()) if packed else content.encode())
    assert list(read_source(str(path), "pairs").records) == pairs


@pytest.mark.parametrize(("name", "mark"), [("a.csv", ","), ("a.tsv", "\t")])
def test_a_first_line_without_column_names_is_reported(tmp_path: Path, name: str, mark: str) -> None:
    path = tmp_path / name
    path.write_text(f"Frage{mark}Antwort\nWas ist Honig{mark}Bienen\n")
    with heard() as notices:
        assert len(read_source(str(path), "pairs").records) == 2
    assert notices == [f"{path}: no column names in the first line, which is read as a pair: 'Frage', 'Antwort'"]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.csv", 'anchor,positive\na,"b"c\n', ":2: is not CSV: ',' expected after '\"'"),
        ("a.csv", 'anchor,positive\n\na,"b\n', ":3: is not CSV: unexpected end of data"),
        ("a.tsv", "anchor\tpositive\na\tb\tc\n", ":2: expected 2 columns (anchor, positive), found 3"),
        ("a.tsv", "anchor\tanchor\na\tb\n", ":1: several columns are the anchor: 'anchor', 'anchor'"),
        (
            "a.tsv",
            "a\tb\t0.5\n",
            ":1: the first line names no column that is known: 'a', 'b', '0.5'; expected training",
        ),
        ("a.tsv", "a\tb\tc\td\n", ":1: the first line names no column that is known: 'a', 'b', 'c', 'd'; expected"),
        ("a.csv", "", ": is empty; expected training data"),
        ("a.csv", "anchor,positive\n", ": contains only a header; expected lines below it (anchor, positive)"),
        ("a.parquet", "anchor", ": is not a Parquet file: "),
        ("a.json", '[{"anchor": "a",', ": malformed JSON: "),
        ("a.json", "[1]", ":1: expected a JSON object, found a list"),
    ],
)
def test_damaged_tables(tmp_path: Path, name: str, content: str, problem: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError) as caught:
        read_source(str(tmp_path / name), "pairs")
    assert problem in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def written(folder: Path, kind: str, rows: list[dict[str, object]]) -> Path:
    """The rows as a file of that kind."""
    path = folder / f"rows.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif kind == "parquet":
        pd.DataFrame(rows).to_parquet(path)
    else:
        pd.DataFrame(rows).to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
    return path


@pytest.mark.parametrize("kind", ["jsonl", "tsv", "csv", "parquet"])
@pytest.mark.parametrize(
    "names",
    [
        *[("id", "text"), ("_id", "text"), ("docid", "text"), ("doc_id", "body"), ("docno", "text")],
        *[("pid", "contents"), ("id", "contents"), ("qid", "query"), ("query_id", "query"), ("_id", "passage")],
        *[("document_id", "document"), ("corpus-id", "content"), ("query-id", "question"), ("passage_id", "segment")],
    ],
)
def test_one_table_of_names_for_all_formats(tmp_path: Path, kind: str, names: tuple[str, str]) -> None:
    identifier, text = names
    path = written(tmp_path, kind, [{identifier: "a1", text: "x y"}, {identifier: "a2", text: "z"}])
    assert list(read_queries(path)) == [("a1", "x y"), ("a2", "z")]
    assert [(document.id, document.text) for document in read_corpus(path)] == [("a1", "x y"), ("a2", "z")]
    assert [(read.id, read.text) for read in Texts(path)] == [("a1", "x y"), ("a2", "z")]
    assert [record.text for record in read_source(str(path), "texts").records] == ["x y", "z"]
    path = written(tmp_path, kind, [{text: "x y", "label": "A"}, {text: "z", "label": "B"}])
    assert read_labelled(path).texts == ["x y", "z"]


@pytest.mark.parametrize("kind", ["jsonl", "tsv", "parquet"])
def test_two_texts_are_refused(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, kind, [{"id": "1", "query": "x", "passage": "y"}])
    with pytest.raises(DataError, match=r"the text could be in any of 'passage', 'query'; keep one$"):
        list(read_corpus(path))


def test_columns_of_parquet_that_are_not_read_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = "hf:pairs.parquet"  # no address
    rows = [{"anchor": "a", "positive": "b", "day": date(2026, 1, 2), "key": b"c"}]
    with Path(name).open("wb") as stream:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), stream)
    assert label_names(name) == {}
    with heard() as messages:
        (row,) = read_rows(name)
    assert row == (1, Row({"anchor": "a", "positive": "b"}, name, 1))
    assert list(messages) == [f"{name}: columns of bytes, dates or decimals are not read: 'day', 'key'"]
