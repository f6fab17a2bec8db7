"""Maps: clusters stay together, by either library."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from retrokit.core.errors import DataError, UsageError
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.task import Request
from retrokit.extensions.representations.map import MapProbe, layout, probe_map
from tests.evaluation.fakes import write_lines
from tests.probing.given import make, register

RNG = np.random.default_rng(1)
LABELS = np.repeat([0, 1, 2], 40)
VECTORS = RNG.normal(size=(120, 10)) + 8 * np.eye(10)[LABELS]
TEXTS = [f"text {i}" for i in range(120)]


@pytest.fixture
def without_opentsne(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "openTSNE" else find(name))


def check_layout(algorithm: str) -> None:
    used, positions = layout(VECTORS, seed=3)
    assert used == algorithm
    assert positions.shape == (120, 2)
    assert positions.dtype == np.float64
    true, shuffled = (
        KNeighborsClassifier(5).fit(positions, labels).score(positions, labels)
        for labels in (LABELS, np.random.default_rng(0).permutation(LABELS))
    )
    assert true > shuffled + 0.2  # over 20 seeds 0.44 more, with an SD of 0.04; random positions give no more
    assert np.array_equal(layout(VECTORS, seed=3)[1], positions)


def test_scikit_learn_keeps_clusters_together(without_opentsne: None) -> None:
    check_layout("scikit-learn t-SNE")


def test_opentsne_keeps_clusters_together() -> None:
    pytest.importorskip("openTSNE", reason="openTSNE is not installed (the extra map)")
    check_layout("openTSNE")


def test_a_probe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, without_opentsne: None) -> None:
    names = ["a b", "c", "d"]
    rows = [{"text": text, "label": names[label]} for text, label in zip(TEXTS, LABELS, strict=True)]
    file = write_lines(tmp_path / "t.jsonl", rows)
    (encoder,) = register(monkeypatch, {"a": dict(zip(TEXTS, VECTORS.tolist(), strict=True))})
    found = probe_map([encoder], f"knn:{file},k=4")
    (one,) = found.maps
    task = tasks.create(f"knn:{file},k=4")
    (expected,) = task.evaluate(Request(make("a"), [make("a").similarity]))
    assert one.accuracy == expected.metrics["accuracy"]
    labels, train, test = np.array(task.data.labels), task.data.train, task.data.test
    neighbours = KNeighborsClassifier(4, algorithm="brute").fit(one.positions[train], labels[train])
    assert one.map_accuracy == neighbours.score(one.positions[test], labels[test])
    assert found.neighbours == 4
    table = found.rows()["map"]
    assert [row["label"] for row in table] == [names[label] for label in LABELS]
    assert [(row["x"], row["y"]) for row in table] == [tuple(place) for place in one.positions.tolist()]
    assert [row["line"] for row in table[:3]] == ["1", "2", "3"]
    assert "majority class: 33.3%" in found.conclusion
    plain = found.to_json()
    assert MapProbe.from_json(plain).to_json() == plain
    assert plain["maps"][0]["positions"] == one.positions.round(3).tolist()


def test_bad_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (encoder,) = register(monkeypatch, {"a": dict(zip(TEXTS, VECTORS.tolist(), strict=True))})
    one = write_lines(tmp_path / "one.jsonl", [{"text": text, "label": 1} for text in TEXTS])
    with pytest.raises(DataError, match="every text has the label '1'; expected at least two labels"):
        probe_map([encoder], f"knn:{one}")
    few = write_lines(tmp_path / "few.jsonl", [{"text": text, "label": i % 2} for i, text in enumerate(TEXTS[:8])])
    with pytest.raises(DataError, match="7 texts to find neighbours among, but k=10; expected 10 or more"):
        probe_map([encoder], f"knn:{few}")
    fewer = write_lines(tmp_path / "f.jsonl", [{"text": text, "label": i % 2} for i, text in enumerate(TEXTS[:4])])
    with pytest.raises(DataError, match="4 texts; expected 5 or more to lay out"):
        probe_map([encoder], f"knn:{fewer},k=1")
    with pytest.raises(UsageError, match="a map needs labelled texts: knn:FILE"):
        probe_map([encoder], f"classify:{few}")
