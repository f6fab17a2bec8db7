"""Quality after each layer and how far each moved, against each layer measured by itself."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

import retrokit
from retrokit.core.errors import UsageError
from retrokit.encoders.views import layers
from retrokit.extensions.representations.layers import LayerProbe, LayerScore, probe_layers
from tests.evaluation.fakes import write_lines
from tests.models import sentences

TEXTS = sentences(120, seed=11)
LABELS = [len(text.split()) % 3 for text in TEXTS]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "t.jsonl", [{"text": t, "label": y} for t, y in zip(TEXTS, LABELS, strict=True)])


def test_neighbours_after_each_layer(tiny_bert: Path, file: Path) -> None:
    found = probe_layers([str(tiny_bert)], f"knn:{file},k=5", precision="fp32")
    views = layers(retrokit.encoder(str(tiny_bert)))
    labels = np.array(LABELS)
    train, test = train_test_split(range(len(TEXTS)), test_size=0.1, random_state=42)
    for row, view in zip(found.layers, views, strict=True):
        rows = view.embed(TEXTS, "document", "fp32")
        classifier = KNeighborsClassifier(5).fit(rows[train], labels[train])
        assert row.value == pytest.approx(classifier.score(rows[test], labels[test]))
        assert (row.moved, row.start) == (None, None)
    assert [row.layer for row in found.layers] == [0, 1, 2]
    assert found.metric == "accuracy"
    assert len({row.value for row in found.layers}) > 1


def test_how_far_each_layer_moved(tiny_bert: Path, file: Path, tmp_path: Path) -> None:
    moved = retrokit.encoder(str(tiny_bert))
    with torch.no_grad():
        for parameter in moved.model[0].model.encoder.layer[1].parameters():
            parameter.mul_(1.25)
    end = str(tmp_path / "end")
    moved.model.save(end)
    found = probe_layers([end], f"knn:{file},k=5", start=str(tiny_bert))
    assert [row.moved for row in found.layers] == pytest.approx([0.0, 0.0, 0.25])
    assert {row.start for row in found.layers} == {str(tiny_bert)}
    assert "training moved layer 2 most (25.00% of its weights' norm)" in found.conclusion


@pytest.mark.parametrize(("values", "best"), [((0.5, 0.9, 0.8), 1), ((0.9, 0.5, 0.9), 2), ((0.9, 0.5, 0.8), 0)])
def test_the_conclusion_names_the_best_layer(values: tuple[float, ...], best: int) -> None:
    probe = LayerProbe("t", "m", [LayerScore("e", "l2", k, value, None, None) for k, value in enumerate(values)])
    assert f"e is best after layer {best} of 2 (m {max(values):.4f}; last layer {values[-1]:.4f}" in probe.conclusion


def test_bad_input(tiny_bert: Path, tiny_llama: Path, file: Path) -> None:
    with pytest.raises(UsageError, match="static:8 has no layers"):
        probe_layers(["static:8"], f"knn:{file}")
    with pytest.raises(UsageError, match="not of one architecture"):
        probe_layers([str(tiny_bert)], f"knn:{file}", start=str(tiny_llama))
