"""Anisotropy, effective rank and hubness, against SciPy and scikit-learn."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import entropy, skew
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.neighbors import NearestNeighbors

from retrokit import cli
from retrokit.core.errors import DataError, UsageError
from retrokit.core.notices import listening
from retrokit.extensions.representations.geometry import (
    anisotropy,
    effective_rank,
    k_occurrences,
    probe_geometry,
)
from tests.evaluation.fakes import Notices, write_folder, write_lines
from tests.probing.given import register

RNG = np.random.default_rng(4)
VECTORS = (RNG.normal(size=(60, 6)) * [5, 3, 1, 1, 1, 0.2] + [3, 0, 0, 0, 0, 0]).astype(np.float32)
TEXTS = [f"text {i}" for i in range(60)]


def test_anisotropy_is_the_mean_cosine_of_two_rows() -> None:
    cosines = cosine_similarity(VECTORS.astype(np.float64))
    assert anisotropy(VECTORS) == pytest.approx(cosines[np.triu_indices(60, 1)].mean(), abs=1e-12)
    assert anisotropy(np.ones((5, 3))) == pytest.approx(1.0)
    assert anisotropy(np.zeros((5, 3))) == 0.0


def test_effective_rank_is_the_exponential_of_the_entropy_of_singular_values() -> None:
    unit = VECTORS.astype(np.float64) / np.linalg.norm(VECTORS.astype(np.float64), axis=1, keepdims=True)
    values = np.sqrt(np.maximum(np.linalg.eigvalsh(np.cov(unit.T, bias=True)), 0))
    assert effective_rank(VECTORS) == pytest.approx(np.exp(entropy(values)), rel=1e-9)
    assert effective_rank(np.ones((5, 3))) == 1.0
    line = np.array([[1.0, 1.0, 0.0], [-1.0, -1.0, 0.0], [2.0, 2.0, 0.0]])
    assert effective_rank(line) == pytest.approx(1.0)


def test_geometry_widens_blocks_and_not_all_embeddings() -> None:
    embeddings = RNG.normal(size=(20_000, 64)).astype(np.float32)
    for measured in (anisotropy, effective_rank):
        tracemalloc.start()
        measured(embeddings)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1.5 * embeddings.nbytes


@pytest.mark.parametrize("k", [1, 5, 10])
def test_hubness_counts_scikit_learns_neighbours(k: int) -> None:
    nearest = NearestNeighbors(n_neighbors=k, metric="cosine").fit(VECTORS).kneighbors(return_distance=False)
    counts = k_occurrences(VECTORS, k)
    assert counts.tolist() == np.bincount(nearest.ravel(), minlength=60).tolist()
    assert counts.sum() == 60 * k


def test_whole_and_fragments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (encoder,) = register(monkeypatch, {"a": dict(zip(TEXTS, VECTORS.tolist(), strict=True))})
    file = write_lines(tmp_path / "t.jsonl", [{"text": text} for text in [*TEXTS, TEXTS[0], ""]])
    with listening(notices := Notices()):
        found = probe_geometry([encoder], f"corpus:{file}", size=2, neighbours=5)
    assert "60 of 60 different texts; 2 empty or repeated ones left out" in notices.messages[0]
    assert [(part.fragment, part.dimensions) for part in found.parts] == [(0, 6), (1, 2), (2, 2), (3, 2)]
    for part, columns in zip(found.parts, (slice(None), slice(0, 2), slice(2, 4), slice(4, 6)), strict=True):
        assert part.anisotropy == pytest.approx(anisotropy(VECTORS[:, columns]))
        assert part.effective_rank == pytest.approx(effective_rank(VECTORS[:, columns]))
        counts = k_occurrences(VECTORS[:, columns], 5)
        assert part.hubness == pytest.approx(skew(counts))
        assert part.largest_hub == pytest.approx(counts.max() / 59)
    assert "mean cosine within fragments " in found.conclusion


def test_documents_of_a_benchmark_and_a_sample(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "data", dict(zip(TEXTS, TEXTS, strict=True)), {"q": "query"}, {"q": {"text 1": 1}})
    (encoder,) = register(monkeypatch, {"a": dict(zip(TEXTS, VECTORS.tolist(), strict=True))})
    whole = probe_geometry([encoder], f"beir:{folder}")
    assert whole.texts == 60
    assert whole.parts[0].anisotropy == pytest.approx(anisotropy(VECTORS))
    some = probe_geometry([encoder], f"beir:{folder},sample=20")
    assert some.texts == 20
    assert some == probe_geometry([encoder], f"beir:{folder},sample=20")


def test_bad_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (encoder,) = register(monkeypatch, {"a": dict(zip(TEXTS, VECTORS.tolist(), strict=True))})
    file = write_lines(tmp_path / "t.jsonl", [{"text": text} for text in TEXTS[:10]])
    with pytest.raises(DataError, match="10 different texts, but 10 neighbours of each; expected more"):
        probe_geometry([encoder], str(file))
    with pytest.raises(UsageError, match="size 4 does not divide 6; sizes that do: 1, 2, 3, 6"):
        probe_geometry([encoder], str(file), size=4, neighbours=3)
    with pytest.raises(DataError, match="is no BEIR folder"):
        probe_geometry([encoder], f"beir:{tmp_path}")
    with pytest.raises(UsageError, match="`neighbours=` 0 is out of range"):
        probe_geometry([encoder], str(file), neighbours=0)


def test_the_help_asks_for_a_corpus(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.run(["probe", "geometry", "--help"]) == 0
    assert "--on CORPUS " in capsys.readouterr().out
