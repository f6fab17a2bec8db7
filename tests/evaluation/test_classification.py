"""Logistic regression and neighbours against scikit-learn called directly."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

import retrokit
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.result import Result
from retrokit.evaluation.task import Request
from tests.evaluation.fakes import GivenEncoder, write_lines

RNG = np.random.default_rng(11)
COUNT = 200
LABELS = RNG.integers(0, 3, COUNT)
EMBEDDINGS = (RNG.normal(size=(3, 8))[LABELS] + RNG.normal(0, 1.5, (COUNT, 8))).astype(np.float32)
EMBEDDINGS *= RNG.uniform(0.3, 4, (COUNT, 1)).astype(np.float32)
UNIT = EMBEDDINGS / np.linalg.norm(EMBEDDINGS, axis=1, keepdims=True)
TEXTS = [f"text {i}" for i in range(COUNT)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    names = np.array(["b", "c", "a"])[LABELS]
    return write_lines(tmp_path / "x.jsonl", [{"text": t, "label": n} for t, n in zip(TEXTS, names, strict=True)])


def evaluate(spec: str, similarities: list[str], **options) -> list[Result]:
    encoder = GivenEncoder(dict(zip(TEXTS, EMBEDDINGS.tolist(), strict=True)))
    return tasks.create(spec).evaluate(Request(encoder, [retrokit.similarity(s) for s in similarities], **options))


def scikit_learn(embeddings: np.ndarray, k: int, metric: str) -> dict[str, float]:
    names = np.array(["b", "c", "a"])[LABELS]
    train, test, known, expected = train_test_split(embeddings, names, test_size=0.1, random_state=42)
    by_regression = LogisticRegression(max_iter=100).fit(train, known).predict(test)
    by_neighbours = KNeighborsClassifier(k, metric=metric).fit(train, known).predict(test)
    return {
        "accuracy": float((by_regression == expected).mean()),
        "f1": f1_score(expected, by_regression, average="macro"),
        "knn_accuracy": float((by_neighbours == expected).mean()),
        "knn_f1": f1_score(expected, by_neighbours, average="macro"),
    }


@pytest.mark.parametrize(("options", "k"), [("", 3), (",k=8", 8)])
def test_values_are_scikit_learns(file: Path, options: str, k: int) -> None:
    cosine, l2 = evaluate(f"classify:{file}{options}", ["cosine", "l2"])
    # cosine learns from unit vectors, l2 from raw ones
    assert cosine.metrics == pytest.approx(scikit_learn(UNIT, k, "cosine"), abs=1e-6)
    assert l2.metrics == pytest.approx(scikit_learn(EMBEDDINGS, k, "euclidean"), abs=1e-6)
    assert cosine.metrics != l2.metrics
    assert len(set(cosine.metrics.values())) > 1
    assert cosine.configuration["logistic_regression_converged"] is True
    assert json.loads(json.dumps(cosine.to_json(), allow_nan=False)) == cosine.to_json()


def test_per_text_values_have_the_means(file: Path) -> None:
    (result,) = evaluate(f"classify:{file}", ["dot"])
    assert set(result.per_query) == {"accuracy", "knn_accuracy"}
    for name, values in result.per_query.items():
        assert len(values) == 20
        assert np.mean(list(values.values())) == pytest.approx(result.metrics[name])
    _, test = train_test_split(range(COUNT), test_size=0.1, random_state=42)
    assert list(result.per_query["accuracy"]) == [str(i + 1) for i in test]
