"""Contrast pairs, against NumPy and SciPy."""

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import cosine

from retrokit.core.errors import DataError, UsageError
from retrokit.extensions.representations.contrast import ContrastProbe, FragmentContrast, probe_contrast, shift
from tests.evaluation.fakes import write_lines
from tests.probing.given import register
from tests.report.test_probe_embedding_tables import text

PAIRS = 40


@pytest.fixture
def vectors() -> dict[str, np.ndarray]:
    """Six dimensions; the attribute shows in the fourth alone."""
    rng = np.random.default_rng(2)
    made = {f"bad {i}": rng.normal(size=6) for i in range(PAIRS)}
    made |= {f"good {i}": made[f"bad {i}"] + rng.normal(scale=0.01, size=6) for i in range(PAIRS)}
    for i in range(PAIRS):
        made[f"good {i}"][3] += rng.normal(3, 1)
    return made


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch, vectors: dict[str, np.ndarray]) -> str:
    return register(monkeypatch, {"a": {text: vector.tolist() for text, vector in vectors.items()}})[0]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rows = [{"toxic": f"bad {i}", "kind": f"good {i}"} for i in range(PAIRS)]
    return write_lines(tmp_path / "pairs.jsonl", [*rows, {"toxic": "same", "kind": "same"}])


def test_dimensions_and_fragments(encoder: str, file: Path, vectors: dict[str, np.ndarray]) -> None:
    found = probe_contrast([encoder], f"pairs:{file},a=toxic,b=kind", 2)
    bad, good = (np.float32([vectors[f"{name} {i}"] for i in range(PAIRS)]) for name in ("bad", "good"))
    difference = bad.astype(float) - good
    assert (found.pairs, found.a, found.b) == (PAIRS, "toxic", "kind")  # the pair of one text is left out
    assert [row.deviation for row in found.dimensions] == pytest.approx(difference.std(axis=0))
    assert [row.mean for row in found.dimensions] == pytest.approx(difference.mean(axis=0))
    assert [row.fragment for row in found.dimensions] == [1, 1, 2, 2, 3, 3]
    for row in found.fragments:
        part = slice(row.first - 1, row.last)
        cosines = [1 - cosine(a[part], b[part]) for a, b in zip(bad, good, strict=True)]
        assert row.mean_cosine == pytest.approx(np.mean(cosines), abs=1e-6)
        assert row.deviation == pytest.approx(np.median(difference.std(axis=0)[part]))
        assert row.largest_deviation == pytest.approx(difference.std(axis=0)[part].max())
        norms = np.sqrt((difference[:, part] ** 2).sum(axis=1).mean())
        assert row.shift == pytest.approx(np.linalg.norm(difference[:, part].mean(axis=0)) / norms)
    assert [row.outliers for row in found.fragments] == [0, 1, 0]
    assert "furthest apart in fragment 2 of 3" in found.conclusion


def test_shift_of_chance_is_one_over_the_root_of_the_pairs() -> None:
    rng = np.random.default_rng(0)
    values = [shift(rng.normal(size=(100, 50))) for _ in range(20)]
    assert np.mean(values) == pytest.approx(0.1, abs=0.015)  # over 20 seeds the SD is 0.002
    assert shift(np.zeros((3, 2))) == 0.0


def test_a_zero_fragment_has_cosine_0(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "p.jsonl", [{"a": "x", "b": "y"}, {"a": "y", "b": "x"}])
    (encoder,) = register(monkeypatch, {"a": {"x": [0, 0, 1, 0], "y": [1, 0, 1, 0]}})
    found = probe_contrast([encoder], f"pairs:{file},a=a,b=b", 2)
    assert [row.mean_cosine for row in found.fragments] == [0.0, 1.0]


@pytest.mark.parametrize(
    ("ending", "size", "error", "message"),
    [
        (",a=toxic,b=kind", 4, UsageError, "size 4 does not divide 6; sizes that do: 1, 2, 3, 6"),
        (",a=toxic,b=toxic", 2, UsageError, "a and b are the same field"),
        (",a=toxic,b=neutral", 2, DataError, "pairs.jsonl:1: no field 'neutral'; the fields are 'toxic', 'kind'"),
        (",a=toxic", 2, UsageError, "pairs needs b"),
    ],
)
def test_bad_input(encoder: str, file: Path, ending: str, size: int, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        probe_contrast([encoder], f"pairs:{file}{ending}", size)


def test_texts_that_do_not_differ(encoder: str, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "p.jsonl", [{"a": "x", "b": "x"}, {"a": "x", "b": "y"}])
    with pytest.raises(DataError, match="1 pairs whose texts differ; expected two or more"):
        probe_contrast([encoder], f"pairs:{file},a=a,b=b", 2)


def test_of_many_fragments_the_twelve_furthest_apart_are_shown() -> None:
    rows = [FragmentContrast("e", i, 2 * i - 1, 2 * i, 0.9 - i / 1000, 0.2, 0.3, 0, 0.1) for i in range(1, 25)]
    shown = text(*ContrastProbe("d", "a", "b", 50, 2, rows, []).sheets())
    assert " 47-48 " in shown
    assert shown.count("│ e ") == 12
