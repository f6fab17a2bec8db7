"""What a verifier says of pairs that it cannot judge: verdicts that are certain, and notices of what it hardly sees."""

import pytest

from retrokit.data.jsonl import read_jsonl, write_jsonl
from retrokit.ranking.reranking import registry
from retrokit.ranking.reranking.verify import verify
from tests.models import sentences
from tests.ranking.test_calibrate import make_verifier

SEEN = sentences(2, seed=5)
LONG = " ".join(sentences(60, seed=6))
CASES = [
    ((SEEN[0], SEEN[1]), []),
    ((SEEN[0], f"  {SEEN[0]} "), ["identical"]),
    (("", SEEN[0]), ["empty"]),
    ((SEEN[0], " \n"), ["empty"]),
    (("", ""), ["empty"]),
    ((LONG, SEEN[0]), ["cut"]),
    ((LONG, LONG), ["identical"]),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_bert) -> str:
    place = tmp_path_factory.mktemp("made") / "verifier"
    calibration = {"threshold": 0.5}
    return str(make_verifier(place, tiny_bert, calibration=calibration))


@pytest.fixture(scope="module")
def reranker(folder):
    return registry.create(f"verifier:{folder}", device="cpu")


@pytest.mark.parametrize(("pair", "expected"), CASES)
def test_remarks_of_a_pair(reranker, pair, expected):
    found = reranker.remarks([pair[0]], [pair[1]])[0]
    assert found == expected
    (score,) = reranker.score_pairs([pair[0]], [pair[1]])
    if expected == ["identical"]:
        assert score == 1
    elif expected == ["empty"]:
        assert score == 0
    else:
        assert 0 < score < 1


def test_remarks_are_counted_and_told_once(folder):
    reranker = registry.create(f"verifier:{folder}", device="cpu")
    assert reranker.describe() == ""
    reranker.score_pairs(["", SEEN[0]], [SEEN[0], SEEN[0]])
    reranker.score_pairs([SEEN[0]], [SEEN[0]])
    assert reranker.counts == {"empty": 1, "identical": 2}
    assert "2 of 3 pairs have identical texts, and are accepted; 1 of 3 pairs have an empty text" in reranker.describe()


@pytest.mark.parametrize("threshold", [0.0, 2.0])
def test_verdicts_that_are_certain_ask_no_threshold(folder, tmp_path, threshold):
    rows = [{"text": first, "candidate": second} for (first, second), _ in CASES]
    write_jsonl(tmp_path / "pairs.jsonl", rows)
    verdicts = verify(folder, str(tmp_path / "pairs.jsonl"), str(tmp_path / "out.jsonl"), threshold)
    written = [row for _, row in read_jsonl(tmp_path / "out.jsonl")]
    for row, (_, expected) in zip(written, CASES, strict=True):
        certain = {"identical": True, "empty": False}.get(expected[0]) if expected else None
        assert row["accepted"] == (threshold == 0.0 if certain is None else certain)
        assert row.get("remarks", []) == expected
    assert verdicts.remarks["empty"] == 3
    assert verdicts.remarks["identical"] == 2
