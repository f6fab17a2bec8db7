"""Pairs as a folder of splits that share no text."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrokit.augmentation.splitting import _assigned, _groups, split_pairs
from retrokit.core.errors import DataError, UsageError
from retrokit.data.beir import read_beir
from retrokit.data.overlap import JudgedTexts, overlaps
from retrokit.data.pairs import read_source
from retrokit.data.training_rows import Pair, normal_form


def written(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


ROWS = [
    {
        "anchor": ("Question" if i % 2 else "question  ") + f" {i % 40}",
        "positive": f"answer {i // 2}",
        "negatives": [f"no {i}"],
    }
    for i in range(60)
]


def test_no_text_is_in_two_splits(tmp_path: Path) -> None:
    found = split_pairs([written(tmp_path / "pairs.jsonl", ROWS)], str(tmp_path / "folder"), (0.6, 0.2, 0.2))
    data = {name: read_beir(tmp_path / "folder", name) for name in ("train", "dev", "test")}
    assert found.queries == {name: len(one.queries) for name, one in data.items()}
    assert sum(found.queries.values()) == len({row["anchor"] for row in ROWS})
    assert found.judgements == {name: sum(map(len, one.qrels.values())) for name, one in data.items()}
    assert sum(found.judgements.values()) == 60
    assert (found.documents, found.unjudged) == (90, 60)
    assert min(found.queries.values()) >= 4
    tests = {name: JudgedTexts.judged(one) for name, one in data.items() if name != "train"}
    for one in overlaps(tests, [read_source(f"beir:{tmp_path / 'folder'},split=train", "pairs")]):
        seen = {name: count for name, count in one.counts.items() if name.endswith("_seen")}
        assert seen == {"queries_seen": 0, "pairs_seen": 0, "documents_seen": 0}
    pairs = {(row["anchor"], row["positive"]) for row in ROWS}
    for one in data.values():
        texts = dict(zip(one.document_ids, one.documents, strict=True))
        for id, query in zip(one.query_ids, one.queries, strict=True):
            pairs -= {(query, texts[document]) for document in one.qrels[id]}
    assert not pairs, "every pair is judged in a split"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=40), st.integers(0, 9))
def test_chains_of_shared_texts_stay_together(numbers: list[tuple[int, int]], seed: int) -> None:
    pairs = [Pair(f"Text {a}" if a % 2 else f"text {a}", f"text {b}") for a, b in numbers]
    groups = _groups(pairs)
    by_text: dict[str, set[int]] = {}
    for pair in pairs:
        for text in (pair.anchor, pair.positive):
            by_text.setdefault(normal_form(text), set()).add(groups[pair.anchor])
    assert all(len(found) == 1 for found in by_text.values())
    split = _assigned(groups, {"train": 1.0, "dev": 0.0, "test": 0.0}, seed, "")
    assert set(split.values()) == {"train"}


def test_nearly_the_same_texts_stay_together(tmp_path: Path) -> None:
    words = "what is the best way to keep a small red cat of the {} kind warm in the winter"
    rows = [{"anchor": f"{word} {i}", "positive": f"{word} " * 3 + str(i)} for i, word in enumerate("abcdefghij" * 6)]
    rows += [{"anchor": words.format(f"n{i}"), "positive": f"alone {i}"} for i in range(12)]
    rows += [{"anchor": f"by itself {i}", "positive": words.format(f"m{i}").upper()} for i in range(12)]
    groups = _groups([Pair(row["anchor"], row["positive"]) for row in rows])
    assert len({groups[row["anchor"]] for row in rows[60:]}) == 1, "anchors and positives alike"
    assert len({groups[row["anchor"]] for row in rows[:60]}) == 60
    split_pairs([written(tmp_path / "pairs.jsonl", rows)], str(tmp_path / "folder"), (0.6, 0.2, 0.2))
    tests = {name: JudgedTexts.judged(read_beir(tmp_path / "folder", name)) for name in ("dev", "test")}
    for one in overlaps(tests, [read_source(f"beir:{tmp_path / 'folder'},split=train", "pairs")]):
        assert not any(count for name, count in one.counts.items() if name.endswith(("_seen", "_near")))


def test_the_order_of_the_rows_and_the_seed(tmp_path: Path) -> None:
    rows = [{"anchor": f"q {i}", "positive": f"p {i}"} for i in range(50)]
    made = {}
    for name, lines, seed in (("a", rows, 0), ("b", rows[::-1], 0), ("c", rows, 1)):
        split_pairs([written(tmp_path / f"{name}.jsonl", lines)], str(tmp_path / name), seed=seed)
        made[name] = set(read_beir(tmp_path / name, "test").queries)
        assert len(made[name]) == 5
    assert made["a"] == made["b"] != made["c"]


@pytest.mark.parametrize(
    ("rows", "options", "error", "problem"),
    [
        (
            [{"anchor": f"q {i}", "positive": "p"} for i in range(9)],
            {},
            DataError,
            "nothing for dev: texts that are shared or nearly the same make 1 g",
        ),
        (ROWS, {"shares": (0.5, 0.5, 0.5)}, UsageError, "expected three that add up to 1"),
        (ROWS, {"shares": (0.0, 0.5, 0.5)}, UsageError, "expected three that add up to 1"),
        ([{"anchor": "q"}], {}, DataError, "pairs.jsonl:1: no field .positive"),
    ],
)
def test_what_cannot_be_split(
    tmp_path: Path, rows: list[dict[str, Any]], options: dict[str, Any], error: type[Exception], problem: str
) -> None:
    with pytest.raises(error, match=problem):
        split_pairs([written(tmp_path / "pairs.jsonl", rows)], str(tmp_path / "folder"), **options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pairs.jsonl"]
