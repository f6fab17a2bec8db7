"""Near-misses: distributions and shares, by hand and against scikit-learn."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from retrokit.core.errors import DataError, UsageError
from retrokit.probing.near_miss import ALL, POSITIVES, RANDOM, NearMissProbe, probe_near_misses
from tests.evaluation.fakes import CountedRows, count_rows, write_lines
from tests.probing.given import register


def at(degrees: float) -> list[float]:
    return [float(np.cos(np.radians(degrees))), float(np.sin(np.radians(degrees)))]


def scores(found: NearMissProbe, group: str, encoder: str | None = None) -> np.ndarray:
    rows = [row for row in found.distributions if row.group == group and encoder in (None, row.encoder)]
    assert len(rows) == 1
    return rows[0].scores


def cosines(*degrees: float) -> np.ndarray:
    return np.cos(np.radians(degrees))


# anchor at 0°, paraphrase and near-miss at these angles
ANGLES = {"negation": [(30, 12), (20, 40)], "spatial": [(50, 5), (10, 22), (25, 15)]}


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch) -> str:
    vectors = {}
    for family, couples in ANGLES.items():
        for i, (positive, near) in enumerate(couples):
            name = f"{family}{i}"
            base = 60 * (len(vectors) // 3)  # anchors are far apart
            angles = {"": base, " same": base + positive, " near": base + near}
            vectors |= {f"{name}{ending}": at(angle) for ending, angle in angles.items()}
    return register(monkeypatch, {"a": vectors})[0]


def shares_of(probe: NearMissProbe) -> list[str]:
    """The columns of shares in the table, each of which has a value, with as many cells in each row."""
    (sheet,) = probe.sheets()
    assert {len(row) for row in sheet.rows} == {0, len(sheet.columns)}
    return list(sheet.columns[5:])


@pytest.fixture
def with_paraphrases(tmp_path: Path) -> Path:
    rows = [
        {"anchor": f"{f}{i}", "positive": f"{f}{i} same", "negatives": [f"{f}{i} near"], "family": f}
        for f, couples in ANGLES.items()
        for i in range(len(couples))
    ]
    return write_lines(tmp_path / "a.jsonl", rows)


def test_embeddings_are_taken_a_batch_at_a_time(
    encoder: str, with_paraphrases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count_rows(monkeypatch, batch=2)
    probe_near_misses([encoder], f"pairs:{with_paraphrases}", precision="fp32")
    assert CountedRows.most == 2


def test_families_against_paraphrases(encoder: str, with_paraphrases: Path) -> None:
    found = probe_near_misses([encoder], f"pairs:{with_paraphrases}", precision="fp32")
    rows = {row.family: row for row in found.families}
    assert list(rows) == [ALL, "negation", "spatial"]
    positives = cosines(*(positive for couples in ANGLES.values() for positive, _ in couples))
    near = {family: cosines(*(near for _, near in couples)) for family, couples in ANGLES.items()}
    near[ALL] = np.concatenate(list(near.values()))
    for family, expected in near.items():
        row = rows[family]
        assert row.near_misses == len(expected)
        assert row.mean == pytest.approx(expected.mean(), abs=1e-6)
        assert row.deviation == pytest.approx(expected.std(), abs=1e-6)
        truth = [1] * len(positives) + [0] * len(expected)
        assert row.auc == pytest.approx(roc_auc_score(truth, np.concatenate([positives, expected])))
    assert {family: row.above_paraphrase for family, row in rows.items()} == pytest.approx(
        {ALL: 3 / 5, "negation": 1 / 2, "spatial": 2 / 3}
    )
    assert np.sort(scores(found, POSITIVES)) == pytest.approx(np.sort(positives), abs=1e-6)
    assert np.sort(scores(found, "spatial")) == pytest.approx(np.sort(near["spatial"]), abs=1e-6)
    assert len(scores(found, RANDOM)) == 5
    assert "hardest near-misses spatial, mean score" in found.conclusion
    assert "above paraphrase 66.7%" in found.conclusion
    assert shares_of(found) == ["ROC-AUC", "above paraphrase", "above random"]


def test_without_paraphrases_there_are_random_pairs_alone(encoder: str, tmp_path: Path) -> None:
    rows = [
        {"text": f"{f}{i}", "near_miss": f"{f}{i} near", "family": f} for f, c in ANGLES.items() for i in range(len(c))
    ]
    file = write_lines(tmp_path / "b.jsonl", rows)
    found = probe_near_misses([encoder], f"pairs:{file}")
    overall = found.families[0]
    assert (overall.auc, overall.above_paraphrase, overall.over_random) == (None, None, 1.0)
    assert {row.group for row in found.distributions} == {"negation", "spatial", RANDOM}
    assert "above random 100.0%" in found.conclusion
    assert shares_of(found) == ["above random"]
    assert not found.sheets()[0].notes  # on ROC-AUC


def test_reference_pairs_take_the_place_of_positives(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    near = write_lines(
        tmp_path / "n.jsonl", [{"text": "x", "near_miss": "x near"}, {"text": "y", "near_miss": "y near"}]
    )
    pairs = [("q0", "d0"), ("q1", "d1"), ("q1", "d2"), ("q3", "d3")]
    rows = [{"anchor": anchor, "positive": positive} for anchor, positive in pairs]
    reference = write_lines(tmp_path / "r.jsonl", rows)
    vectors = {"x": at(0), "x near": at(15), "y": at(90), "y near": at(125)}
    vectors |= {"q0": at(0), "q1": at(0), "q3": at(0)} | {f"d{i}": at(10 + 10 * i) for i in range(4)}
    (encoder,) = register(monkeypatch, {"a": vectors})
    caplog.set_level("INFO", logger="retrokit")
    found = probe_near_misses([encoder], f"pairs:{near}", paraphrases=str(reference))
    assert "2 near-misses, against 4 paraphrases" in caplog.text
    (overall,) = found.families  # the file names no families
    assert np.sort(scores(found, POSITIVES)) == pytest.approx(cosines(40, 30, 20, 10), abs=1e-6)
    # of 8 couples: the near-miss at 15° is below a positive at 10° alone, that at 35° below 10°, 20° and 30°
    assert overall.auc == pytest.approx((1 + 3) / 8)
    own = set(pairs)
    every = {np.round(c, 5) for c in cosines(10, 20, 30, 40)}
    assert {np.round(score, 5) for score in scores(found, RANDOM)} <= every
    assert 2 <= len(scores(found, RANDOM)) <= len(own)
    assert found.reference == str(reference)
    assert shares_of(found) == ["ROC-AUC", "above random"]
    fewer = probe_near_misses([encoder], f"pairs:{near}", paraphrases=str(reference), max_paraphrases=2)
    assert len(scores(fewer, POSITIVES)) == 2


def test_the_test_of_a_gate_compares_with_its_own_positives(encoder: str, tmp_path: Path) -> None:
    rows = [{"text": f"spatial{i}", "near_miss": f"spatial{i} near"} for i in range(3)]
    found = probe_near_misses([encoder], f"pairs:{write_lines(tmp_path / 'g.jsonl', rows)},gate=true")
    assert scores(found, POSITIVES) == pytest.approx(np.ones(3))  # the anchors themselves
    assert found.families[0].auc == 1.0


def test_bad_input(encoder: str, tmp_path: Path, with_paraphrases: Path) -> None:
    labelled = write_lines(
        tmp_path / "l.jsonl", [{"sentence1": "x", "sentence2": "y", "label": label} for label in (0, 1)]
    )
    with pytest.raises(UsageError, match="contains no near-misses"):
        probe_near_misses([encoder], f"pairs:{labelled}")
    with pytest.raises(UsageError, match="contains no near-misses"):
        probe_near_misses([encoder], f"sts:{labelled}")
    one = write_lines(tmp_path / "one.jsonl", [{"anchor": "x", "positive": "y"}])
    with pytest.raises(DataError, match="1 pairs of an anchor and a positive; expected two or more"):
        probe_near_misses([encoder], f"pairs:{with_paraphrases}", paraphrases=str(one))
    with pytest.raises(UsageError, match="unknown similarity"):
        probe_near_misses([encoder], f"pairs:{with_paraphrases}", sim="cosin")
