"""Labels of pairs: in every layout, a pair with a label or a score of 0 is no positive."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from retrokit.augmentation.mixing import mix
from retrokit.core.errors import DataError, UsageError
from retrokit.core.notices import heard
from retrokit.data.pairs import read_source
from retrokit.data.training_rows import Pair, ScoredPair


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def pairs_of(path: Path | str) -> list[Any]:
    return list(read_source(str(path), "pairs").records)


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def labelled(anchor: str, positive: str, label: str) -> list[dict[str, Any]]:
    return [
        {anchor: "what do owls eat", positive: "Owls eat mice.", label: 1},
        {anchor: "what do owls eat", positive: "Trains run late.", label: 0},
        {anchor: "why is the sea salt", positive: "Rivers carry salt.", label: 1},
    ]


PAIRS = [Pair("what do owls eat", "Owls eat mice."), Pair("why is the sea salt", "Rivers carry salt.")]


@pytest.mark.parametrize(
    ("anchor", "positive", "label"),
    [
        ("anchor", "positive", "label"),
        ("question", "answer", "label"),
        ("query", "passage", "labels"),
        ("query", "document", "relevance"),
        ("query", "positive", "score"),
        ("query", "response", "similarity"),
        ("sentence1", "sentence2", "score"),
        ("text1", "text2", "is_relevant"),
        ("question1", "question2", "is_duplicate"),
    ],
)
@pytest.mark.parametrize("kind", ["jsonl", "csv", "tsv", "parquet"])
def test_a_label_of_0_is_no_positive(tmp_path: Path, kind: str, anchor: str, positive: str, label: str) -> None:
    rows = labelled(anchor, positive, label)
    path = tmp_path / f"a.{kind}"
    if kind == "jsonl":
        write(path, rows)
    elif kind == "parquet":
        parquet.write_table(pa.Table.from_pylist(rows), path)
    else:
        mark = "," if kind == "csv" else "\t"
        lines = [mark.join(rows[0]), *(mark.join(map(str, row.values())) for row in rows)]
        path.write_text("\n".join(lines) + "\n")
    with heard() as notices:
        assert pairs_of(path) == PAIRS
    assert len(notices) == 1
    assert f"({anchor}, {positive}, {label}); rows left out that are no positive pair: 1" in notices[0]


LAYOUTS: dict[str, tuple[list[dict[str, Any]], list[Pair], int]] = {
    "list under positive": (
        [{"anchor": "a", "positive": ["b", "x", "y"], "labels": [1, 0, 0]}],
        [Pair("a", "b", ("x", "y"))],
        2,
    ),
    "two positives": (
        [{"query": "a", "docs": ["b", "x", "c"], "labels": [True, False, True]}],
        [Pair("a", "b", ("x",)), Pair("a", "c", ("x",))],
        1,
    ),
    "list and negatives": (
        [{"query": "a", "pos": ["b", "x"], "neg": ["y"], "labels": [1, 0]}],
        [Pair("a", "b", ("y", "x"))],
        1,
    ),
    "labels of all": (
        [{"query": "a", "positive": "x", "negative_1": "b", "negative_2": "y", "label": [0, 1, 0]}],
        [Pair("a", "b", ("x", "y"))],
        2,
    ),
    "names": (
        [{"query": "a", "documents": ["b", "x", "y"], "labels": ["relevant", "irrelevant", None]}],
        [Pair("a", "b", ("x",))],
        1,
    ),
    "labels within documents": (
        [{"query": "a", "passages": [{"text": "b", "label": 1}, {"title": "T", "text": "x", "label": 0}]}],
        [Pair("a", "b", ("T x",))],
        1,
    ),
    "ms-swift": (
        [
            {"messages": user("a"), "positive_messages": [user("b")], "label": 1.0},
            {"messages": user("a"), "positive_messages": [user("x")], "label": 0.0},
        ],
        [Pair("a", "b")],
        0,
    ),
    "a teacher's scores": (
        [{"query": "a", "positive": "b", "negative_1": "x", "negative_2": "y", "score": [0.9, 0.3, 0.0]}],
        [Pair("a", "b", ("x", "y"))],
        0,
    ),
    "a teacher's scores as a label": (
        [{"query": "a", "positive": "b", "negative": "x", "label": [0.9, 0.3]}],
        [Pair("a", "b", ("x",))],
        0,
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_labelled_layouts(tmp_path: Path, name: str) -> None:
    rows, pairs, negatives = LAYOUTS[name]
    with heard() as notices:
        assert pairs_of(write(tmp_path / "a.jsonl", rows)) == pairs
    counted = f"texts used as negatives by their label: {negatives}"
    assert (counted in notices[0]) == (negatives > 0)


@pytest.mark.parametrize(
    ("label", "is_positive"),
    [
        *((label, True) for label in (1, 1.0, "1", True, "true", "Relevant", "entailment", "duplicate", " yes ")),
        *((label, False) for label in (0, 0.0, "0", False, "False", "irrelevant", "not_entailment", "Non-relevant")),
        *((label, False) for label in (-1, None, "", "-", "neutral", "contradiction", "not_duplicate")),
    ],
)
def test_what_labels_mean(tmp_path: Path, label: object, is_positive: bool) -> None:
    rows = [{"anchor": "a", "positive": "b", "label": label}, {"anchor": "c", "positive": "d", "label": 1}]
    expected = [Pair("a", "b"), Pair("c", "d")] if is_positive else [Pair("c", "d")]
    assert pairs_of(write(tmp_path / "a.jsonl", rows)) == expected


SCORES = "; to train on the scores, add `loss=` mse; to train on pairs with a score of at least N, write FILE,level=N"


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"positive": "b", "score": 0.7}, f"field 'score' of a pair should be 0 or 1, found 0.7{SCORES}"),
        ({"document": "b", "relevance": 3}, f"field 'relevance' of a pair should be 0 or 1, found 3{SCORES}"),
        ({"docs": ["b", "x"], "scores": [0.9, 0.1]}, f"field 'scores' of a pair should be 0 or 1, found 0.9{SCORES}"),
        (
            {"positive": "b", "negative": "x", "score": 0.2},
            f"field 'score' of a pair should be 0 or 1, found 0.2{SCORES}",
        ),
        (
            {"positive": "b", "label": "maybe"},
            "field 'label' of a pair has the unknown label 'maybe'; expected 1 or 0, ",
        ),
        ({"positive": "b", "label": {}}, "field 'label' should be a label, found an object"),
        ({"docs": ["b", "x"], "labels": [1]}, "field 'labels' has 1 labels; expected 2, as texts in 'docs'"),
        ({"docs": ["b", "x"]}, "no field 'labels' for the texts in 'docs'; the fields are 'query', 'docs'"),
        (
            {"positive": "b", "label": 1, "gold_label": "x"},
            "the label could be any of 'label', 'gold_label'; keep one",
        ),
    ],
)
def test_what_cannot_be_decided(tmp_path: Path, row: dict[str, Any], problem: str) -> None:
    path = write(tmp_path / "a.jsonl", [{"query": "z", "positive": "y"}, {"query": "a", **row}])
    with pytest.raises(DataError) as caught:
        pairs_of(path)
    assert str(caught.value).startswith(f"{path}:2: {problem}")


def test_scores_by_a_level_or_as_they_are(tmp_path: Path) -> None:
    rows = [{"query": "a", "document": text, "score": score} for text, score in (("b", 3), ("c", 2), ("d", 0))]
    path = write(tmp_path / "a.jsonl", rows)
    assert pairs_of(f"{path},level=2") == [Pair("a", "b"), Pair("a", "c")]
    assert list(read_source(str(path), "scored").records) == [
        ScoredPair("a", "b", 3.0),
        ScoredPair("a", "c", 2.0),
        ScoredPair("a", "d", 0.0),
    ]
    with pytest.raises(UsageError, match=r"level= selects positive pairs, which are not needed here; leave it out$"):
        read_source(f"{path},level=2", "scored")
    lists = write(tmp_path / "b.jsonl", [{"query": "a", "docs": ["b", "c"], "scores": [0.9, 0.2]}])
    assert pairs_of(f"{lists},level=0.5") == [Pair("a", "b", ("c",))]
    assert list(read_source(str(lists), "scored").records) == [ScoredPair("a", "b", 0.9), ScoredPair("a", "c", 0.2)]
    plain = write(tmp_path / "c.jsonl", [{"query": "a", "document": "b"}])
    with pytest.raises(
        DataError, match=r"no field of scores, which level=1 needs; the fields are 'query', 'document'$"
    ):
        pairs_of(f"{plain},level=1")
    messages = [{"messages": user("a"), "positive_messages": [user("b")], "label": 0.8}]
    assert list(read_source(str(write(tmp_path / "d.jsonl", messages)), "scored").records) == [
        ScoredPair("a", "b", 0.8)
    ]


@pytest.fixture
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package, with its caches in the test's own folder."""
    import datasets

    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache" / "datasets"))
    monkeypatch.setattr(datasets.config, "HF_MODULES_CACHE", str(tmp_path / "cache" / "modules"))
    return datasets


@pytest.mark.parametrize("empty", [None, "", " \n", [], [""], [None], {"title": "", "text": None}])
def test_empty_positives_are_left_out(tmp_path: Path, empty: object) -> None:
    rows = [{"query": "a", "pos": empty, "neg": ["x"]}, {"query": "c", "pos": ["d"], "neg": []}]
    with heard() as notices:
        assert pairs_of(write(tmp_path / "a.jsonl", rows)) == [Pair("c", "d")]
    assert notices == [f"{tmp_path}/a.jsonl: rows left out that are no positive pair: 1"]
    taught = [{**row, "pos_scores": [1.0] if row["query"] == "c" else [], "neg_scores": []} for row in rows]
    source = read_source(str(write(tmp_path / "b.jsonl", taught)), "taught")
    assert list(source.records) == [Pair("c", "d", (), (1.0,))]
    with pytest.raises(DataError, match="gives no training records"):
        pairs_of(write(tmp_path / "c.jsonl", rows[:1]))


def test_a_mixture_has_pairs_with_and_without_labels(tmp_path: Path) -> None:
    first = write(tmp_path / "a.jsonl", labelled("query", "document", "label"))
    second = write(tmp_path / "b.jsonl", [{"anchor": "a", "positive": "b"}])
    mixture = mix(parts=[str(first), str(second)], output=str(tmp_path / "mixed.jsonl"))
    assert (mixture.kind, mixture.rows) == ("pairs", 4)
    assert sorted(pairs_of(tmp_path / "mixed.jsonl"), key=lambda pair: pair.anchor) == [Pair("a", "b"), *PAIRS]
    scored = write(tmp_path / "c.jsonl", [{"query": "a", "document": "b", "score": 3}])
    assert mix(parts=[str(scored)], output=str(tmp_path / "scored.jsonl")).kind == "scored"
