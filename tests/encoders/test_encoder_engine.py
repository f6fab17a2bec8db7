"""Batches of a token budget: input order, no dependence on the batch, precisions, and what is not finite."""

import copy
import math
import random
from unittest.mock import patch

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

import retrokit
from retrokit.core.errors import DataError, UsageError
from retrokit.core.notices import listening
from retrokit.encoders import engine
from retrokit.encoders.base import gathered
from retrokit.encoders.engine import batches, start_of, token_limit
from tests.close import BF16_UNIT, assert_rounded
from tests.evaluation.fakes import Notices
from tests.models import WORDS, sentences

TEXTS = [*sentences(8, seed=1), "", "cat", "cat", " ".join(sentences(8, seed=2)), "unknownword zzz", *sentences(3)]


def embedded(encoder, texts, dtype=torch.float32, max_tokens=None):
    at_once = engine.tokens_at_once if max_tokens is None else lambda device: max_tokens
    with patch.object(engine, "tokens_at_once", at_once):
        made = batches(encoder.to_train().model, texts, "document", None, dtype)
        return gathered(made, len(texts), encoder.dimension)


@pytest.fixture(params=["{bert}", "{bert},pooling=token3", "{llama},pooling=last", "static:dim=8,tokenizer={bert}"])
def encoder(request, tiny_bert, tiny_llama):
    return retrokit.encoder(request.param.format(bert=tiny_bert, llama=tiny_llama), device="cpu")


def test_embeddings_do_not_depend_on_the_batch(encoder):
    one_by_one = np.concatenate([embedded(encoder, [text]) for text in TEXTS])
    assert one_by_one.shape == (len(TEXTS), encoder.dimension)
    assert one_by_one.dtype == np.float32
    for max_tokens in (1, 40, 300, None, 10**6):
        assert_rounded(embedded(encoder, TEXTS, max_tokens=max_tokens), one_by_one)


def test_results_are_in_the_order_of_the_texts(encoder):
    forwards = embedded(encoder, TEXTS, max_tokens=50)
    order = np.random.default_rng(0).permutation(len(TEXTS))
    shuffled = embedded(encoder, [TEXTS[i] for i in order], max_tokens=50)
    assert_rounded(shuffled, forwards[order])
    distances = np.abs(forwards[:8, None] - forwards[None, :8]).max(axis=-1) + np.eye(8)
    assert distances.min() > 1e-3  # so a wrong order would show
    np.testing.assert_array_equal(forwards[TEXTS.index("cat")], forwards[TEXTS.index("cat") + 1])


@pytest.mark.parametrize("precision", ["auto", "fp32", "bf16"])
def test_no_texts(encoder, precision):
    made = encoder.embed([], "query", precision)
    assert made.shape == (0, encoder.dimension)
    assert made.dtype == np.float32


def test_batches_hold_the_token_budget_and_every_row_once():
    mask = torch.tensor([[1] * length + [0] * (9 - length) for length in (3, 9, 1, 4, 4)])
    cut = list(engine._batches({"input_ids": mask * 7, "attention_mask": mask}, 5, 8))
    assert [rows.tolist() for rows, _ in cut] == [[1], [3, 4], [0, 2]]
    assert [tuple(batch["input_ids"].shape) for _, batch in cut] == [(1, 9), (2, 4), (2, 3)]
    assert cut[2][1]["input_ids"].tolist() == [[7, 7, 7], [7, 0, 0]]


def test_bf16_is_close_to_fp32_and_leaves_the_model_alone(tiny_bert):
    encoder = retrokit.encoder(str(tiny_bert))
    exact, rough = (encoder.embed(TEXTS, "document", precision) for precision in ("fp32", "bf16"))
    assert rough.dtype == np.float32
    assert_rounded(rough, exact, units=4 * BF16_UNIT)  # over 20 seeds 1.1 units of bf16, with an SD of 0.4
    with pytest.raises(AssertionError):
        assert_rounded(rough, exact)
    assert {parameter.dtype for parameter in encoder.to_train().model.parameters()} == {torch.float32}
    np.testing.assert_array_equal(encoder.embed(TEXTS, "document", "fp32"), exact)


@pytest.mark.parametrize("spec", ["{bert}", "static:dim=8,tokenizer={bert}"])
def test_progress_goes_by_the_length_of_texts(tiny_bert, monkeypatch, spec):
    monkeypatch.setattr(engine, "CHUNK", 8)
    encoder = retrokit.encoder(f"{spec.format(bert=tiny_bert)},max_length=40", device="cpu")
    texts = ["cat"] * 24 + ["cat " * 30] * 8 + ["cat " * 1000] * 8
    notices = Notices()
    with listening(notices):
        embedded(encoder, texts, max_tokens=40 * 8)
    (display,) = notices.displays
    cut = 1 + 40 * 5
    total = 8 * cut + 8 * (1 + 120) + 24 * (1 + 3)
    assert display[0] == ("encoding document texts", total, "characters")
    assert sum(count for count, _ in display[1:]) == total
    assert display[1][0] == 8 * cut  # a fifth of the texts, more than half of the time


def test_dropout_is_off_while_encoding(tiny_bert):
    encoder = retrokit.encoder(str(tiny_bert))
    before = embedded(encoder, TEXTS)
    encoder.to_train().model.train()
    np.testing.assert_array_equal(embedded(encoder, TEXTS), before)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_finite_is_an_error_that_names_encoder_and_text(tiny_bert, value):
    encoder = retrokit.encoder(str(tiny_bert))
    broken = copy.deepcopy(encoder)
    token = broken.to_train().model.tokenizer.convert_tokens_to_ids("mountain")
    with torch.no_grad():
        broken.to_train().model[0].auto_model.embeddings.word_embeddings.weight[token] = value
    with pytest.raises(DataError) as caught:
        broken.embed(["cat", "dog", "a mountain", "bird", "mountain"], "query", "fp32")
    assert str(caught.value) == f"{encoder.spec}: 2 of 5 embeddings are not finite, the first of text 3"
    assert np.isfinite(broken.embed(["cat"], "query", "fp32")).all()


class SmallDevice:
    """Stands in for a GPU whose memory holds so many tokens."""

    def __init__(self, tokens: int) -> None:
        self.tokens, self.tried = tokens, []
        self.forward = engine._forward

    def __call__(self, transformer, batch, device):
        size = batch["input_ids"].numel()
        self.tried.append(size)
        if size > self.tokens:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory.")
        return self.forward(transformer, batch, device)


def test_batches_are_halved_where_memory_runs_out(tiny_bert, monkeypatch):
    encoder = retrokit.encoder(str(tiny_bert), device="cpu")
    texts = sentences(200)
    whole = embedded(encoder, texts)
    monkeypatch.setattr(engine, "CHUNK", 50)
    device = SmallDevice(160)
    monkeypatch.setattr(engine, "_forward", device)
    assert_rounded(embedded(encoder, texts, max_tokens=1200), whole)
    failed = [size for size in device.tried if size > device.tokens]
    assert 0 < len(failed) < 10, "what ran out once is not tried with every chunk"
    device.tokens = 3
    with pytest.raises(UsageError, match="memory of cpu is too small for one batch"):
        embedded(encoder, texts)


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
def short(request, tiny_bert, tiny_llama):
    return retrokit.encoder(request.param.format(bert=tiny_bert, llama=tiny_llama), device="cpu")


@pytest.mark.parametrize("name", LONG)
def test_the_start_decides_the_same_tokens(short, name):
    tokenizer, limit = short.to_train().model.tokenizer, token_limit(short.to_train().model, "document")
    assert limit == 16
    backend: Tokenizer = getattr(tokenizer, "backend_tokenizer", tokenizer)
    start = start_of(LONG[name], tokenizer, limit)
    assert LONG[name].startswith(start)
    found, expected = (backend.encode(text, add_special_tokens=False).ids for text in (start, LONG[name]))
    assert found[:limit] == expected[:limit]
    embedded = short.embed([LONG[name], "cat"], "document", "fp32")
    assert np.isfinite(embedded).all()


@pytest.mark.parametrize("limit", [None, 10**30])
def test_where_all_tokens_count_the_text_stays_whole(tiny_bert, limit):
    encoder = retrokit.encoder(f"static:dim=8,tokenizer={tiny_bert}", device="cpu")
    if limit is not None:
        encoder = retrokit.encoder(str(tiny_bert), device="cpu")
        encoder.to_train().model.max_seq_length = limit
    assert token_limit(encoder.to_train().model, "document") is None
    assert start_of(SHUFFLED, encoder.to_train().model.tokenizer, None) == SHUFFLED


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
