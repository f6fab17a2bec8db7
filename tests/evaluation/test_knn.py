"""The neighbour task against scikit-learn called directly."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

import retrokit
from retrokit.core.errors import DataError
from retrokit.core.notices import listening
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.task import Request
from retrokit.evaluation.tasks.labelled import TRANSFORMS, transformed
from tests.evaluation.fakes import GivenEncoder, Notices, write_lines

RNG = np.random.default_rng(5)
COUNT, CLASSES = 120, 4
# Labels in text order 10, 2, 3, 4 and in order of value 2, 3, 4, 10: the two decide ties otherwise.
LABELS = np.array([2, 3, 4, 10])[RNG.integers(0, CLASSES, COUNT)]
CENTRES = {label: RNG.normal(size=6) + 1 for label in (2, 3, 4, 10)}
EMBEDDINGS = np.array([CENTRES[label] for label in LABELS]) + RNG.normal(0, 1.2, (COUNT, 6))
EMBEDDINGS = (EMBEDDINGS * RNG.uniform(0.3, 3, (COUNT, 1)) * [1, 1, 1, 1, 4, 9]).astype(np.float32)
TEXTS = [f"text {i}" for i in range(COUNT)]


def encoder(similarity: str = "cosine") -> GivenEncoder:
    return GivenEncoder(dict(zip(TEXTS, EMBEDDINGS.tolist(), strict=True)), similarity=similarity)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rows = [{"text": text, "label": int(label)} for text, label in zip(TEXTS, LABELS, strict=True)]
    return write_lines(tmp_path / "labels.jsonl", rows)


def scikit_learn(embeddings: np.ndarray, k: int, metric: str | Callable) -> float:
    train, test, labels, expected = train_test_split(embeddings, LABELS, test_size=0.1, random_state=42)
    return float(KNeighborsClassifier(n_neighbors=k, metric=metric).fit(train, labels).score(test, expected))


POST = {
    "raw": lambda x: x,
    "centered": lambda x: x - x.mean(axis=0),
    "whitened": lambda x: PCA(whiten=True).fit_transform(x),
}


@pytest.mark.parametrize("k", [1, 4, 10])
def test_table_s3_is_scikit_learns(file: Path, k: int) -> None:
    task = tasks.create(f"knn:{file},k={k}")
    columns = [f"{transform}_{metric}" for transform in TRANSFORMS for metric in ("euclidean", "cosine")]
    (result,) = task.evaluate(Request(encoder(), [retrokit.similarity("cosine")], columns))
    assert list(result.metrics) == ["accuracy", *columns]
    expected = {
        f"{transform}_{metric}": scikit_learn(POST[transform](EMBEDDINGS), k, metric)
        for transform in TRANSFORMS
        for metric in ("euclidean", "cosine")
    }
    assert {name: result.metrics[name] for name in columns} == pytest.approx(expected, abs=1e-6)
    assert result.metrics["accuracy"] == result.metrics["raw_euclidean"]
    assert len(set(expected.values())) > 2  # they can be told apart


def test_an_asymmetric_similarity_takes_test_texts_as_queries(file: Path) -> None:
    task = tasks.create(f"knn:{file},metric=similarity,k=3")
    dot, dnorm = (retrokit.similarity(name) for name in ("dot", "dnorm"))
    with listening(heard := Notices()):
        results = task.evaluate(Request(encoder(), [dot, dnorm]))
        task.evaluate(Request(encoder(), [dnorm]))
    distances = [
        lambda q, d: 1e4 - float(q @ d),
        lambda q, d: 1e4 - float(q @ d / np.linalg.norm(d)),  # scikit-learn calls with (test, train)
    ]
    expected = [scikit_learn(EMBEDDINGS.astype(np.float64), 3, distance) for distance in distances]
    assert [result.metrics["accuracy"] for result in results] == pytest.approx(expected, abs=1e-6)
    assert results[0].per_query != results[1].per_query
    (line,) = heard.messages  # once, and not of dot
    assert "dnorm is asymmetric" in line


def test_each_test_text_counts(file: Path) -> None:
    (result,) = tasks.create(f"knn:{file}").evaluate(Request(encoder(), [retrokit.similarity("cosine")]))
    train, test = train_test_split(range(COUNT), test_size=0.1, random_state=42)
    classifier = KNeighborsClassifier(10).fit(EMBEDDINGS[train], LABELS[train])
    right = classifier.predict(EMBEDDINGS[test]) == LABELS[test]
    assert result.per_query["accuracy"] == {str(i + 1): float(hit) for i, hit in zip(test, right, strict=True)}
    assert result.counts["test_texts"] == 12
    assert result.norms["text_norm_mean"] == pytest.approx(np.linalg.norm(EMBEDDINGS, axis=1).mean(), rel=1e-6)


def test_a_test_file_of_its_own(tmp_path: Path) -> None:
    rows = [{"text": text, "label": str(label)} for text, label in zip(TEXTS, LABELS, strict=True)]
    train, test = write_lines(tmp_path / "a.jsonl", rows[:90]), write_lines(tmp_path / "b.jsonl", rows[90:])
    task = tasks.create(f"knn:{train},test={test},k=5")
    (result,) = task.evaluate(Request(encoder(), [retrokit.similarity("cosine")]))
    classifier = KNeighborsClassifier(5).fit(EMBEDDINGS[:90], LABELS[:90].astype(str))
    assert result.metrics["accuracy"] == pytest.approx(classifier.score(EMBEDDINGS[90:], LABELS[90:].astype(str)))
    guess = (LABELS[90:] == np.bincount(LABELS[:90]).argmax()).mean()
    told = f"30 test texts, 90 texts to learn from, 4 labels; always the most frequent one is right of {guess:.1%}"
    assert task.describe().endswith(f"b.jsonl: {told}")


@pytest.mark.parametrize(("origin", "size"), [(0, 1e-6), (0, 1e6), (1, 1e-6)])
def test_whitening_knows_neither_unit_nor_origin(origin: float, size: float) -> None:
    flat = RNG.normal(size=(40, 3)) @ RNG.normal(size=(3, 8))
    white, again = (transformed(rows, "whitened") for rows in (flat, origin + size * flat))
    assert white.shape == again.shape == (40, 3)
    assert np.abs(again) == pytest.approx(np.abs(white), abs=1e-6)  # the sign of a direction is none of its own


@pytest.mark.parametrize("task", ["knn", "classify", "cluster"])
def test_too_few_neighbours_or_labels(task: str, tmp_path: Path) -> None:
    few = write_lines(tmp_path / "few.jsonl", [{"text": str(i), "label": i % 2} for i in range(10)])
    one = write_lines(tmp_path / "one.jsonl", [{"text": str(i), "label": 1} for i in range(20)])
    with pytest.raises(DataError, match="every text has the label '1'; expected at least two labels"):
        tasks.create(f"{task}:{one}")
    if task != "cluster":
        with pytest.raises(DataError, match=r"few\.jsonl: 9 texts to find neighbours among, but k=10; expected 10 or"):
            tasks.create(f"{task}:{few},k=10")
        tasks.create(f"{task}:{few},k=9")
