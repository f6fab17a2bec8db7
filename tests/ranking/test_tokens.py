"""The cache of token embeddings: it gives what the encoder gives, to half precision, whatever happened to it."""

import numpy as np
import pytest

from retrokit import encoders
from retrokit.encoders.store import cache_in
from retrokit.ranking.reranking import maps as module
from retrokit.ranking.reranking import registry
from retrokit.ranking.reranking.maps import TokenCache, unit_tokens
from tests.close import assert_rounded
from tests.models import sentences

TEXTS = [*sentences(12, seed=6), "", "cat"]


@pytest.fixture(scope="module")
def encoder(tiny_bert):
    return encoders.registry.create(f"{tiny_bert}", device="cpu")


def check(found, encoder, texts=TEXTS) -> None:
    for ours, theirs in zip(found, unit_tokens(encoder, texts, "document", "fp32"), strict=True):
        assert ours.shape == theirs.shape
        assert ours.dtype == np.float16
        assert_rounded(ours, theirs, 0.6, np.float16)  # half a unit, and the encoder's own rounding


def test_what_is_kept_is_what_the_encoder_gives(encoder, tmp_path, monkeypatch):
    check(TokenCache(cache_in(tmp_path), encoder, "fp32").tokens(TEXTS, "document"), encoder)
    calls = []
    monkeypatch.setattr(encoder, "token_embeddings", lambda *given: calls.append(given))
    again = TokenCache(cache_in(tmp_path), encoder, "fp32").tokens(TEXTS[::-1], "document")
    assert calls == [], "nothing is encoded twice"
    monkeypatch.undo()
    check(again[::-1], encoder)


def test_another_encoder_precision_or_prompt_shares_nothing(encoder, tiny_llama, tiny_bert, tmp_path):
    others = (str(tiny_llama), f"{tiny_bert},query_prompt=cat", f"{tiny_bert},max_length=4")
    TokenCache(cache_in(tmp_path), encoder, "fp32").tokens(TEXTS, "document")
    before = len(cache_in(tmp_path).held())
    for spec in others:
        other = encoders.registry.create(spec, device="cpu")
        for role in ("query", "document"):
            expected = unit_tokens(other, TEXTS, role, "fp32")
            for ours, theirs in zip(
                TokenCache(cache_in(tmp_path), other, "fp32").tokens(TEXTS, role), expected, strict=True
            ):
                assert_rounded(ours, theirs, 0.6, np.float16)  # half a unit, and the encoder's own rounding
    TokenCache(cache_in(tmp_path), encoder, "bf16").tokens(TEXTS, "document")
    held = cache_in(tmp_path).held()
    assert (before, len(held)) == (1, 5), "llama, a prompt, a length, a precision"
    rows = sorted(one.rows for one in held)
    assert rows == [len(TEXTS)] * 4 + [2 * len(TEXTS)], "two roles where a prompt tells them apart"


def test_all_are_made_and_then_read(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "AT_ONCE", 5)
    TokenCache(cache_in(tmp_path), encoder, "fp32").fill(TEXTS, "query")
    monkeypatch.setattr(encoder, "token_embeddings", lambda *given: pytest.fail("encoded twice"))
    again = TokenCache(cache_in(tmp_path), encoder, "fp32").tokens(TEXTS, "document")
    monkeypatch.undo()
    check(again, encoder)  # the roles are alike


def test_a_reranker_with_a_cache_scores_the_same_cold_and_warm(tiny_bert, tmp_path):
    spec = f"maxsim:{tiny_bert}"
    plain = registry.create(spec, device="cpu")
    scores = plain.score_pairs(TEXTS, TEXTS[::-1])
    cold = registry.create(f"{spec},cache={tmp_path}", device="cpu")
    first = cold.score_pairs(TEXTS, TEXTS[::-1])
    assert_rounded(first, scores, 1, np.float16)
    warm = registry.create(f"{spec},cache={tmp_path}", device="cpu")
    np.testing.assert_array_equal(warm.score_pairs(TEXTS, TEXTS[::-1]), first)
    assert cold.fingerprint() != plain.fingerprint()
