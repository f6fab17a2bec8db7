"""Tables show values, differences, stars and p; JSON is strict."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from scipy import stats

from retrokit.evaluation.comparison import Evaluation, compare
from retrokit.evaluation.result import Result
from retrokit.report.tables import evaluation_tables, to_json
from retrokit.report.terminal import console

RNG = np.random.default_rng(0)
BASE = RNG.uniform(0.3, 0.8, 40)
BETTER = BASE + 0.1 + RNG.normal(0, 0.05, 40)
NOISE = BASE - 0.004 + 0.2 * np.resize([1, -1], 40)


def result(encoder: str, values: np.ndarray, task: str = "beir:x") -> Result:
    return Result(
        encoder=encoder,
        similarity="sfs:16",
        task=task,
        main_metric="ndcg@10",
        metrics={"ndcg@10": float(values.mean()), "mrr@10": 0.25},
        per_query={
            "ndcg@10": {f"q{i}": float(value) for i, value in enumerate(values)},
            "mrr@10": {f"q{i}": 0.25 for i in range(len(values))},
        },
        counts={"queries": 1234, "documents": 5678},
        norms={},
        configuration={},
    )


def shown(results: list[Result], metrics: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    texts = []
    columns = {result.task: metrics for result in results}
    for table in evaluation_tables(Evaluation(results, compare(results, columns), columns)):
        console().print(table)
        texts.append(capsys.readouterr().out)
    return texts


def test_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = shown([result("minilm", BASE)], ["ndcg@10", "mrr@10"], capsys)
    assert text.startswith("beir:x")
    row = next(line for line in text.splitlines() if "minilm" in line)
    assert re.split(r"[│\s]+", row.strip("│ ")) == ["minilm", "sfs:16", f"{BASE.mean():.4f}", "0.2500"]
    assert text.rstrip().endswith("1,234 queries, 5,678 documents")
    assert not any(word in text for word in ("p=", "*", "difference"))


def test_differences_stars_and_p(capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = shown([result("one", BASE), result("two", BETTER), result("three", NOISE)], ["ndcg@10"], capsys)
    assert f"{BETTER.mean() - BASE.mean():+.4f}*" in text
    assert f"{NOISE.mean() - BASE.mean():+.4f} " in text
    for values in (BETTER, NOISE):
        assert f"{values.mean():.4f}" in text
        assert f"p={stats.ttest_rel(values, BASE).pvalue:.2g}" in text
    assert stats.ttest_rel(NOISE, BASE).pvalue > 0.05 > stats.ttest_rel(BETTER, BASE).pvalue
    assert text.count("p=") == 2
    assert "* where p < 0.05 (paired t-test)" in text


def test_equal_systems_have_no_star(capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = shown([result("one", BASE), result("two", BETTER)], ["mrr@10"], capsys)
    assert "+0.0000 " in text
    assert "+0.0000*" not in text
    assert "p=1 " in text


def test_a_table_for_each_task(capsys: pytest.CaptureFixture[str]) -> None:
    results = [result("one", BASE), result("one", BETTER, "beir:y"), result("two", BASE, "beir:y")]
    first, second = shown(results, ["ndcg@10"], capsys)
    assert first.startswith("beir:x")
    assert "p=" not in first
    assert second.startswith("beir:y")
    assert second.count("p=") == 1
    assert f"{BASE.mean() - BETTER.mean():+.4f}*" in second


def labels_result(encoder: str, accuracy: float, spread: float) -> Result:
    return Result(
        encoder=encoder,
        similarity="l2",
        task="knn:y",
        main_metric="accuracy",
        metrics={"accuracy": accuracy, "spread": spread},
        per_query={"accuracy": {str(i): float(i < 40 * accuracy) for i in range(40)}},
        counts={"test_texts": 40, "train_texts": 1360, "labels": 7, "texts_without_text": 1},
        norms={},
        configuration={},
    )


def test_each_task_has_its_own_columns(capsys: pytest.CaptureFixture[str]) -> None:
    results = [result("one", BASE), labels_result("one", 0.5, 0.25), labels_result("two", 0.75, 0.125)]
    columns = {"beir:x": ["mrr@10"], "knn:y": ["accuracy", "spread"]}
    evaluation = Evaluation(results, compare(results, columns), columns)
    for wanted, expected in (
        ((), ["accuracy", "spread"]),
        (("ndcg@10", "spread"), ["spread"]),
        (("ndcg@10",), ["accuracy", "spread"]),  # it measured none of those
    ):
        capsys.readouterr()
        console().print(evaluation_tables(evaluation, wanted)[1])
        text = capsys.readouterr().out
        header = next(line for line in text.splitlines() if "encoder" in line)
        assert [word for word in header.split() if word in ("accuracy", "spread", "mrr@10", "ndcg@10")] == expected
        assert "-0.1250 " in text  # a difference that nothing can be tested with
        assert text.count("p=") == ("accuracy" in expected)
        caption = " ".join(text.split("┘")[1].split())
        assert caption.startswith("40 test texts, 1,360 train texts, 7 labels; difference from the first row")
        assert ("(paired t-test)" in caption) == ("accuracy" in expected)


def test_names_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = shown([result("runs/[bold]/:cat:[/red]", BASE, "beir:[dim]x")], ["ndcg@10"], capsys)
    assert "runs/[bold]/:cat:[/red]" in text
    assert text.startswith("beir:[dim]x")


def test_json_is_strict() -> None:
    assert json.loads(to_json({"γ": [1, 0.5, None]})) == {"γ": [1, 0.5, None]}
    assert "γ" in to_json({"γ": 1})
    for value in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            to_json({"value": value})
