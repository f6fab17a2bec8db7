"""Thresholds by hand; a verifier's folder, the encoder it refuses, its calibration, and verdicts line by line."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from retrokit import encoders
from retrokit.core.errors import DataError, UsageError
from retrokit.data.jsonl import read_jsonl, write_jsonl
from retrokit.data.runs import Run, add_to_run, write_run
from retrokit.ranking.reranking import registry, verifiers
from retrokit.ranking.reranking.verifier import load_verifier, read_verifier, save_weights
from retrokit.ranking.reranking.verify import calibrate, share_of, threshold_for, verify
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
    write_jsonl(tmp_path / "bad.jsonl", [{"query": "a", "document": "b"}, {"query": "a"}])
    with pytest.raises(DataError, match=r"bad.jsonl:2: expected text and candidate"):
        verify(folder, str(tmp_path / "bad.jsonl"), str(tmp_path / "x"), 0.5, device="cpu")
    assert not (tmp_path / "x").exists()
    with pytest.raises(UsageError, match="was made for another encoder"):
        load_verifier(folder, encoder=str(tiny_llama), device="cpu")
    assert load_verifier(folder, device="cpu").spec == f"cnn:{folder}"
    with pytest.raises(UsageError, match="is not a transformer, but cnn: write cnn:"):
        registry.create(f"transformer:{folder}", device="cpu")
    with pytest.raises(UsageError, match="is not a verifier: it has no"):
        registry.create(f"cnn:{tmp_path}", device="cpu")
    add_to_run(folder, verifier="cnn:channels=3")
    with pytest.raises(DataError, match="holds no weights of this verifier"):
        registry.create(f"cnn:{folder}", device="cpu")
    add_to_run(folder, status="training", verifier="cnn")
    with pytest.raises(UsageError, match="not finished"):
        registry.create(f"cnn:{folder}", device="cpu")
    (Path(folder) / "retrokit.json").write_text("{")
    with pytest.raises(DataError, match="expected the description of a run"):
        registry.create(f"cnn:{folder}", device="cpu")
