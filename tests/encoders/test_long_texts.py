"""Absurdly long texts: the tokens that count are those of the whole text, and are all that is made."""

import random

import numpy as np
import pytest
from tokenizers import Tokenizer

import retrokit
from retrokit.encoders import engine
from retrokit.encoders.engine import start_of, token_limit
from tests.close import assert_rounded
from tests.models import WORDS

SHUFFLED = " ".join(random.Random(0).choices(WORDS, k=10_000))
LONG = {
    "words": SHUFFLED,
    "lines": SHUFFLED.replace(" ", "\n"),
    "spaces before": " " * 20_000 + SHUFFLED,
    "spaces alone": " " * 30_000,
    "one word": "x" * 30_000,
    "one word, then others": "x" * 10_000 + " " + SHUFFLED,
    "letters without spaces": SHUFFLED.replace(" ", ""),
    "characters without spaces": "猫犬鳥" * 10_000,
    "marks": "a\u0301" * 10_000,
    "unknown": "§ " * 10_000,
    "control characters": "\x00\x07" * 10_000 + SHUFFLED,
    "short": "cat dog",
    "none": "",
}
ENCODERS = ["{bert},max_length=16", "{llama},max_length=16,pooling=last", "static:dim=8,tokenizer={bert},max_length=16"]


@pytest.fixture(scope="module", params=ENCODERS)
def encoder(request, tiny_bert, tiny_llama):
    return retrokit.encoder(request.param.format(bert=tiny_bert, llama=tiny_llama), device="cpu")


@pytest.mark.parametrize("name", LONG)
def test_the_start_decides_the_same_tokens(encoder, name):
    tokenizer, limit = encoder.to_train().model.tokenizer, token_limit(encoder.to_train().model, "document")
    assert limit == 16
    backend: Tokenizer = getattr(tokenizer, "backend_tokenizer", tokenizer)
    start = start_of(LONG[name], tokenizer, limit)
    assert LONG[name].startswith(start)
    found, expected = (backend.encode(text, add_special_tokens=False).ids for text in (start, LONG[name]))
    assert found[:limit] == expected[:limit]
    embedded = encoder.embed([LONG[name], "cat"], "document", "fp32")
    assert np.isfinite(embedded).all()


@pytest.mark.parametrize("name", ["words", "lines", "unknown"])
def test_little_of_a_long_text_is_tokenised(encoder, name):
    start = start_of(LONG[name], encoder.to_train().model.tokenizer, 16)
    assert len(start) <= 4 * engine.CHARACTERS_A_TOKEN * 16


def test_embeddings_are_those_of_the_whole_text(encoder, monkeypatch):
    texts = [*LONG.values()]
    bounded = encoder.embed(texts, "document", "fp32")
    monkeypatch.setattr(engine, "start_of", lambda text, tokenizer, limit: text)
    np.testing.assert_array_equal(bounded, encoder.embed(texts, "document", "fp32"))


@pytest.mark.parametrize("limit", [None, 10**30])
def test_where_all_tokens_count_the_text_stays_whole(tiny_bert, limit):
    encoder = retrokit.encoder(f"static:dim=8,tokenizer={tiny_bert}", device="cpu")
    if limit is not None:
        encoder = retrokit.encoder(str(tiny_bert), device="cpu")
        encoder.to_train().model.max_seq_length = limit
    assert token_limit(encoder.to_train().model, "document") is None
    assert start_of(SHUFFLED, encoder.to_train().model.tokenizer, None) == SHUFFLED


def test_a_tokenizer_that_cuts_at_the_left_gets_the_whole_text(tiny_bert):
    encoder = retrokit.encoder(f"{tiny_bert},max_length=16", device="cpu")
    encoder.to_train().model.tokenizer.truncation_side = "left"
    assert start_of(SHUFFLED, encoder.to_train().model.tokenizer, 16) == SHUFFLED


@pytest.mark.parametrize(
    "spec", ["static:dim=8,tokenizer={bert}", "static:dim=8,tokenizer={bert},document_prompt='a '"]
)
def test_where_all_tokens_count_a_long_text_is_tokenised_in_pieces(tiny_bert, monkeypatch, spec):
    encoder = retrokit.encoder(spec.format(bert=tiny_bert), device="cpu")
    texts = [SHUFFLED, "cat", f"{'x' * 3000} {SHUFFLED}", "", "no space" + "y" * 9000]
    expected, tokens = encoder.embed(texts, "document"), encoder.with_tokens().token_embeddings(texts, "document")
    asked = []
    preprocess = type(encoder.to_train().model).preprocess
    monkeypatch.setattr(engine, "PIECE", 500)
    monkeypatch.setattr(
        type(encoder.to_train().model),
        "preprocess",
        lambda model, given, **options: asked.extend(given) or preprocess(model, given, **options),
    )
    assert_rounded(encoder.embed(texts, "document"), expected)
    assert len(asked) > 50
    assert max(len(text) for text in asked) < 9100
    for found, wanted in zip(encoder.with_tokens().token_embeddings(texts, "document"), tokens, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_word_without_end_is_unknown_from_its_start_on(tiny_bert, tiny_llama, monkeypatch):
    monkeypatch.setattr(engine, "ENDLESS", 200)
    text = f"cat {'x' * 5000} dog {'y' * 300}!{'z' * 300}"
    for folder, is_cut in ((tiny_bert, True), (tiny_llama, False)):
        tokenizer = retrokit.encoder(str(folder), device="cpu").to_train().model.tokenizer
        start = start_of(text, tokenizer, 10_000)
        assert (len(start) < 1000) == is_cut
        found, expected = (tokenizer.backend_tokenizer.encode(one).ids for one in (start, text))
        assert found == expected
