"""Fragments alone and prefixes, against scikit-learn's neighbours over slices of the same embeddings."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from retrokit.core.errors import UsageError
from retrokit.probing.fragments import (
    FragmentProbe,
    FragmentScore,
    RandomSlice,
    WholeScore,
    probe_fragments,
)
from tests.evaluation.fakes import write_lines
from tests.probing.given import register

TEXTS = [f"text {i}" for i in range(300)]
LABELS = [i % 2 for i in range(300)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS, LABELS, strict=True)]
    return write_lines(tmp_path / "texts.jsonl", rows)


@pytest.fixture
def vectors() -> np.ndarray:
    """Eight dimensions, of which the third and fourth together know the label: whether they point the same way."""
    random = np.random.default_rng(5)
    made = random.normal(size=(300, 8)).astype(np.float32)
    way = np.where(random.random(300) < 0.5, 3.0, -3.0)
    made[:, 2] += way
    made[:, 3] += np.where(np.array(LABELS) == 1, way, -way)
    made[:, 4:] *= 30
    return made


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch, vectors: np.ndarray) -> str:
    return register(monkeypatch, {"a": dict(zip(TEXTS, vectors.tolist(), strict=True))})[0]


def neighbours(vectors: np.ndarray, metric: str = "cosine", labels: Sequence[int] = LABELS) -> np.ndarray:
    """Which test texts scikit-learn's three nearest neighbours get right."""
    train, test = train_test_split(range(300), test_size=0.1, random_state=42)
    labels = np.array(labels)
    classifier = KNeighborsClassifier(3, algorithm="brute", metric=metric).fit(vectors[train], labels[train])
    return (classifier.predict(vectors[test]) == labels[test]).astype(float)


def sliced(vectors: np.ndarray, size: int) -> np.ndarray:
    """Every fragment at unit length: Euclidean distance then orders as the mean of the fragments' cosines."""
    parts = vectors.reshape(len(vectors), -1, size)
    return (parts / np.linalg.norm(parts, axis=-1, keepdims=True)).reshape(len(vectors), -1)


def test_every_fragment_alone(encoder: str, file: Path, vectors: np.ndarray) -> None:
    found = probe_fragments([encoder], f"classify:{file}", [2, 4], seed=1)
    assert found.metric == "knn_accuracy"
    whole = neighbours(vectors)
    assert found.whole(encoder, "cosine") == pytest.approx(whole.mean())
    for size in (2, 4):
        expected_whole = neighbours(sliced(vectors, size), "euclidean").mean()
        assert found.whole(encoder, f"sfs:{size}") == pytest.approx(expected_whole)
        rows = [row for row in found.fragments if row.size == size]
        assert [(row.fragment, row.first, row.last) for row in rows] == [
            (i + 1, i * size + 1, (i + 1) * size) for i in range(8 // size)
        ]
        for row in rows:
            alone = neighbours(vectors[:, row.first - 1 : row.last])
            assert row.value == pytest.approx(alone.mean())
            assert row.difference == pytest.approx(alone.mean() - whole.mean())
            if np.ptp(alone - whole) > 0:
                p = stats.ttest_rel(alone, whole).pvalue
                assert row.p == pytest.approx(min(1.0, p * row.fragments), abs=1e-9)
    best = max(found.fragments, key=lambda row: row.value)
    assert (best.first, best.last) == (3, 4)
    assert best.p < 0.05
    assert "fragment 2 of 4" in found.conclusion


def test_beside_the_fragments_stand_a_guess_and_random_slices(encoder: str, file: Path, vectors: np.ndarray) -> None:
    """Nine of ten texts have one label here, so that a guess is right of most of them."""
    rows = [{"text": text, "label": "often" if i % 10 else "rare"} for i, text in enumerate(TEXTS)]
    write_lines(file, rows)
    found = probe_fragments([encoder], f"classify:{file}", [2, 4], seed=3)
    _, test = train_test_split(range(300), test_size=0.1, random_state=42)
    right = np.array([float(i % 10 > 0) for i in test])
    order = np.random.default_rng(3).permutation(8)
    labels = np.array([i % 10 > 0 for i in range(300)])
    assert [row.slice for row in found.random] == [1, 2, 3, 4, 1, 2]
    for row in found.random:
        dims = order[(row.slice - 1) * row.size : row.slice * row.size]
        assert row.value == pytest.approx(neighbours(vectors[:, dims], labels=labels).mean())
    for whole in found.wholes:
        assert whole.guess == pytest.approx(right.mean())
    hit = neighbours(vectors, labels=labels)
    assert found.wholes[0].p == pytest.approx(stats.ttest_rel(hit, right).pvalue)
    assert probe_fragments([encoder], f"classify:{file}", [2], metric="f1").wholes[0].guess is None


def test_prefixes(encoder: str, file: Path, vectors: np.ndarray) -> None:
    found = probe_fragments([encoder], f"classify:{file}", [2])
    assert [row.dims for row in found.prefixes] == [2, 4, 6, 8]
    for row in found.prefixes:
        prefix = vectors[:, : row.dims]
        assert row.as_one == pytest.approx(neighbours(prefix).mean())
        assert row.as_fragments == pytest.approx(neighbours(sliced(prefix, 2), "euclidean").mean())
    asked = probe_fragments([encoder], f"classify:{file}", [2], prefixes=[4])
    assert asked.prefixes == [row for row in found.prefixes if row.dims == 4]


def test_the_conclusion_compares_the_best_fragment() -> None:
    wholes = [WholeScore("e", "cosine", 0.5), WholeScore("e", "sfs:4", 0.52)]
    alone = FragmentScore("e", 4, 2, 1, 1, 4, 0.6, 0.1, 0.01)
    slices = [RandomSlice("e", 4, 1, 0.3), RandomSlice("e", 4, 2, 0.2)]
    conclusion = FragmentProbe("t", "m", wholes, [alone], [], slices).conclusion
    assert "fragment 1 of 2 alone is best (0.6000), the whole has 0.5000, the best random slice 0.3000" in conclusion
    assert conclusion.endswith("sfs:4 instead of cosine: +0.0200.")


@pytest.mark.parametrize(
    ("sizes", "prefixes", "message"),
    [
        ([3], [], "size 3 does not divide 8; sizes that do: 1, 2, 4, 8"),
        ([2], [3], "a prefix of 3 dimensions: it must be a multiple of the fragment size 2"),
        ([2], [10], "at most 8 for given:a"),
        ([], [], "no fragment size"),
    ],
)
def test_wrong_sizes(encoder: str, file: Path, sizes: list[int], prefixes: list[int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        probe_fragments([encoder], f"classify:{file}", sizes, prefixes)
