"""Correlations against scipy called directly, and the leaderboard's figure on STS-B."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import retrokit
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.task import Request
from tests.evaluation.fakes import GivenEncoder, write_lines

RNG = np.random.default_rng(8)
COUNT = 60
FIRST = RNG.normal(size=(COUNT, 6)).astype(np.float32) * RNG.uniform(0.2, 5, (COUNT, 1)).astype(np.float32)
SECOND = (FIRST + RNG.normal(size=(COUNT, 6)) * 1.5).astype(np.float32)
GOLD = np.round(RNG.uniform(0, 5, COUNT) + 2 * (FIRST * SECOND).sum(1) / 20, 1)  # with ties
VECTORS = {f"a{i}": FIRST[i].tolist() for i in range(COUNT)} | {f"b{i}": SECOND[i].tolist() for i in range(COUNT)}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rows = [{"sentence1": f"a{i}", "sentence2": f"b{i}", "score": float(GOLD[i])} for i in range(COUNT)]
    return write_lines(tmp_path / "sts.jsonl", rows)


def formulas() -> dict[str, np.ndarray]:
    a, b = FIRST.astype(np.float64), SECOND.astype(np.float64)
    inner, length_a, length_b = (a * b).sum(1), np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1)
    return {
        "cosine": inner / length_a / length_b,
        "dot": inner,
        "qnorm": inner / length_a,
        "dnorm": inner / length_b,
        "l2": -np.linalg.norm(a - b, axis=1),
        "sfs:2": np.mean(
            [(a[:, i : i + 2] * b[:, i : i + 2]).sum(1)
             / np.linalg.norm(a[:, i : i + 2], axis=1) / np.linalg.norm(b[:, i : i + 2], axis=1) for i in (0, 2, 4)],
            axis=0,
        ),
    }  # fmt: skip


def test_correlations_are_scipys(file: Path) -> None:
    names = list(formulas())
    results = tasks.create(f"sts:{file}").evaluate(
        Request(GivenEncoder(VECTORS), [retrokit.similarity(s) for s in names])
    )
    found = {}
    for name, result in zip(names, results, strict=True):
        scores, cosines = formulas()[name], formulas()["cosine"]
        assert result.metrics == pytest.approx(
            {
                "spearman": stats.spearmanr(GOLD, scores).statistic,
                "pearson": stats.pearsonr(GOLD, scores).statistic,
                "cosine_spearman": stats.spearmanr(GOLD, cosines).statistic,
                "cosine_pearson": stats.pearsonr(GOLD, cosines).statistic,
            },
            abs=1e-6,
        )
        assert (result.similarity, result.main_metric, result.per_query) == (name, "spearman", {})
        found[name] = result.metrics["spearman"]
    assert len(set(found.values())) == len(names)
    assert len(set(GOLD)) < COUNT


def test_each_text_is_encoded_once_as_a_document(tmp_path: Path) -> None:
    rows = [{"sentence1": "a0", "sentence2": "b0", "score": 1}, {"sentence1": "b0", "sentence2": "a0", "score": 2}]
    file = write_lines(tmp_path / "x.jsonl", [*rows, {"sentence1": "a0", "sentence2": "a1", "score": 0}])
    encoder = GivenEncoder(VECTORS)
    task = tasks.create(f"sts:{file}")
    task.evaluate(Request(encoder, [retrokit.similarity("cosine")]))
    assert encoder.embedded == [("document", ["a0", "b0", "a1"], "auto")]
    assert task.describe().endswith("x.jsonl: 3 pairs of sentences, scores 0 to 2")


def test_a_difference_is_tested_by_bootstrap(file: Path) -> None:
    specs = ["cosine", "dot", "l2"]
    task = tasks.create(f"sts:{file}")
    results = task.evaluate(Request(GivenEncoder(VECTORS), [retrokit.similarity(s) for s in specs]))
    for result in results:
        again = result.resampled["spearman"]
        assert again.items == COUNT
        rows = RNG.integers(0, COUNT, COUNT)
        expected = stats.spearmanr(GOLD[rows], formulas()[result.similarity][rows]).statistic
        assert again.value(rows) == pytest.approx(expected, abs=1e-6)
        assert np.isnan(again.value(np.zeros(5, dtype=int)))
