"""Near-misses and labelled pairs: by hand, and against scikit-learn."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

import retrokit
from retrokit.data.jsonl import restored
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.comparison.comparison import evaluation_of
from retrokit.evaluation.comparison.gates import check_gates, gates_of
from retrokit.evaluation.comparison.results_folder import plain
from retrokit.evaluation.result import Result
from retrokit.evaluation.settings import GateSettings
from retrokit.evaluation.task import Request
from retrokit.metrics import significance
from retrokit.report.evaluation import evaluation_sheets
from tests.evaluation.fakes import CountedRows, GivenEncoder, count_rows, hashed, write_lines

VECTORS = {
    "a": [2.0, 0.0],
    "not a": [1.6, 1.2],  # cosine 0.8, inner product 3.2
    "b": [0.0, 1.0],
    "b is": [3.0, 4.0],  # cosine 0.8, inner product 4
    "b was": [1.0, 0.0],  # cosine 0
    "as b": [0.0, 5.0],  # cosine 1, inner product 5
}
TRIPLETS = [
    {"anchor": "a", "positive": "a", "negatives": ["not a"], "family": "negation"},
    {"anchor": "b", "positive": "b", "negatives": ["b is", "b was"], "family": "spatial"},
]


def file(tmp_path: Path, rows: list[dict]) -> Path:
    return write_lines(tmp_path / "pairs.jsonl", rows)


@pytest.mark.parametrize(
    ("task", "row"),
    [
        ("pairs", {"anchor": "a {}", "positive": "b {}", "negatives": ["c {}"], "family": "negation"}),
        ("pairs", {"sentence1": "a {}", "sentence2": "b {}", "label": "{}"}),
        ("sts", {"sentence1": "a {}", "sentence2": "b {}", "score": "{}"}),
    ],
)
def test_embeddings_of_pairs_are_taken_a_batch_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str, row: dict[str, Any]
) -> None:
    rows = []
    for number in range(40):
        text = json.dumps(row).replace('"{}"', str(number % 2)).replace("{}", str(number))
        rows.append(json.loads(text))
    evaluated = tasks.create(f"{task}:{file(tmp_path, rows)}")
    count_rows(monkeypatch, batch=8)
    evaluated.evaluate(Request(hashed(8), [retrokit.similarity("dot")]))
    assert CountedRows.most == 8


def test_near_misses_by_hand(tmp_path: Path) -> None:
    task = tasks.create(f"pairs:{file(tmp_path, TRIPLETS)}")
    dot, cosine = task.evaluate(
        Request(GivenEncoder(VECTORS), [retrokit.similarity("dot"), retrokit.similarity("cosine")])
    )
    assert dot.per_query["near_miss"] == pytest.approx({"1": 3.2, "2.1": 4.0, "2.2": 0.0})
    assert dot.per_query["near_miss/spatial"] == pytest.approx({"2.1": 4.0, "2.2": 0.0})
    assert dot.metrics == pytest.approx(
        {
            **{"near_miss": 2.4, "near_miss/negation": 3.2, "near_miss/spatial": 2.0},
            "near_miss_std": np.std([3.2, 4, 0]),
            **{"near_miss_std/negation": 0, "near_miss_std/spatial": 2},
            # score(a, a) = 4, score(b, b) = 1
            **{"margin": (0.8 - 3 + 1) / 3, "margin/negation": 0.8, "margin/spatial": -1},
            **{"cosine_near_miss": 1.6 / 3, "cosine_near_miss/negation": 0.8, "cosine_near_miss/spatial": 0.4},
            **{"cosine_margin": 1.4 / 3, "cosine_margin/negation": 0.2, "cosine_margin/spatial": 0.6},
            # a with b and b with a: 0 both times; two of the three near-misses are above, one is equal
            **{"random": 0, "random_std": 0, "over_random": 2.5 / 3},
            **{"over_random/negation": 1, "over_random/spatial": 0.75},
        },
        abs=1e-6,
    )
    assert cosine.metrics["margin"] == pytest.approx(1 - 1.6 / 3)
    assert cosine.metrics["near_miss"] == pytest.approx(dot.metrics["cosine_near_miss"])
    assert (task.main_metric, dot.main_metric) == ("cosine_margin", "cosine_margin")
    assert task.shown_metrics == (
        "cosine_margin",
        "margin",
        "near_miss",
        "near_miss/negation",
        "near_miss/spatial",
        "random",
        "over_random",
    )
    assert task.describe().endswith(
        "pairs.jsonl: 3 near-misses (1 negation, 2 spatial); every positive is its anchor: no threshold, but 2 random "
        "pairs (COMP, Figure 1)"
    )


MANY = 60
KINDS = ("negation", "swap")
NEAR_ROWS = [{"text": f"t{i}", "positive": f"p{i}", "near_miss": f"n{i}", "kind": KINDS[i % 2]} for i in range(MANY)]
LABELLED_ROWS = [{"sentence1": f"t{i}", "sentence2": f"{'pn'[i % 2]}{i}", "label": i % 2} for i in range(MANY)]


def stretched(factor: float) -> GivenEncoder:
    """The same directions, and so the same areas; all scores under dot ``factor`` ** 2 times as large."""
    noise = np.random.default_rng(11)
    texts = [f"{kind}{i}" for kind in "tpn" for i in range(MANY)]
    vectors = {
        text: (factor * row).tolist() for text, row in zip(texts, noise.normal(1, 1, (len(texts), 8)), strict=True)
    }
    return GivenEncoder(vectors, spec=f"times {factor}")


@pytest.mark.parametrize(
    ("rows", "own_scale", "comparable"),
    [
        (
            NEAR_ROWS,
            *(["margin", "near_miss", "near_miss/swap", "positive", "random", "threshold", "near_miss_std"],),
            *(["roc_auc", "roc_auc/swap", "over_random", "over_random/negation", "cosine_margin/swap"],),
        ),
        (LABELLED_ROWS, ["positive", "negative", "threshold", "positive_std"], ["roc_auc", "cosine_roc_auc"]),
    ],
)
def test_what_is_on_the_scale_of_the_scores_is_not_compared(
    rows: list[dict], own_scale: list[str], comparable: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(significance, "RESAMPLES", 100)
    task = tasks.create(f"pairs:{file(tmp_path, rows)}" + (",family=kind" if "kind" in rows[0] else ""))
    dot = retrokit.similarity("dot")
    results = [task.evaluate(Request(stretched(factor), [dot]))[0] for factor in (1.0, 4.0)]
    asked = {task.spec: [*own_scale, *comparable]}
    assert set(own_scale) <= set(task.known_metrics or task.default_metrics)
    found = evaluation_of(results, asked, {})
    assert {c.metric: c.test.difference for c in found.comparisons} == dict.fromkeys(comparable, 0.0)
    assert task.main_metric in comparable
    check_gates(gates_of(found, GateSettings(fail_if_worse=True)))
    (sheet, *_) = evaluation_sheets(found)
    assert "scores are on scales of their own, so their means are not compared" in sheet.caption
    second = dict(zip(sheet.columns, sheet.rows[1], strict=True))
    assert {name for name in (*own_scale, *comparable) if len(second[name]) == 1} == set(own_scale)  # the value alone
    kept = json.loads(json.dumps(plain(results[0])))
    assert set(restored(Result, kept).own_scale) == set(results[0].own_scale)


RNG = np.random.default_rng(6)
COUNT = 80
SAME = RNG.random(COUNT) < 0.4
FIRST = RNG.normal(size=(COUNT, 5)).astype(np.float32)
SECOND = np.where(SAME[:, None], FIRST + RNG.normal(0, 1.2, (COUNT, 5)), RNG.normal(size=(COUNT, 5))).astype(np.float32)
SECOND *= RNG.uniform(0.2, 4, (COUNT, 1)).astype(np.float32)


def test_labelled_pairs_against_scikit_learn(tmp_path: Path) -> None:
    vectors = {f"{side}{i}": row.tolist() for side, rows in (("a", FIRST), ("b", SECOND)) for i, row in enumerate(rows)}
    rows = [{"sentence1": f"a{i}", "sentence2": f"b{i}", "label": int(same)} for i, same in enumerate(SAME)]
    task = tasks.create(f"pairs:{file(tmp_path, rows)}")
    (result,) = task.evaluate(Request(GivenEncoder(vectors), [retrokit.similarity("dot")]))
    dots = (FIRST.astype(np.float64) * SECOND).sum(1)
    cosines = dots / np.linalg.norm(FIRST, axis=1) / np.linalg.norm(SECOND, axis=1)
    expected = {
        "roc_auc": roc_auc_score(SAME, dots),
        "average_precision": average_precision_score(SAME, dots),
        "cosine_roc_auc": roc_auc_score(SAME, cosines),
        "accuracy": max(((dots >= t) == SAME).mean() for t in [*dots, math.inf]),
        **{"positive": dots[SAME].mean(), "positive_std": dots[SAME].std()},
        **{"negative": dots[~SAME].mean(), "negative_std": dots[~SAME].std()},
    }
    assert {name: result.metrics[name] for name in expected} == pytest.approx(expected, abs=1e-5)
    assert ((dots >= result.metrics["threshold"]) == SAME).mean() == pytest.approx(expected["accuracy"])
    assert expected["roc_auc"] != expected["cosine_roc_auc"]
    assert task.describe().endswith(f"pairs.jsonl: {COUNT} pairs, {SAME.sum()} of them positive")
    rows_drawn = RNG.integers(0, COUNT, COUNT)
    order = [*np.flatnonzero(SAME), *np.flatnonzero(~SAME)]
    drawn = [order[i] for i in rows_drawn]
    again = result.resampled["roc_auc"].value(rows_drawn)
    assert again == pytest.approx(roc_auc_score(SAME[drawn], dots[drawn]), abs=1e-6)
    assert json.loads(json.dumps(result.to_json(True), allow_nan=False)) == result.to_json(True)
