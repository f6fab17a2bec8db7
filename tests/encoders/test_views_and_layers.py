"""Parts of an encoder: dimensions, and layers against transformers' own hidden states."""

from pathlib import Path

import numpy as np
import pytest
import torch

import retrokit
from retrokit.core.errors import UsageError
from retrokit.encoders.base import Encoder
from retrokit.encoders.views import EncoderSlice, MemoizedEncoder, layers
from tests.close import assert_rounded
from tests.models import sentences

TEXTS = sentences(7, seed=3)


@pytest.fixture
def encoder(tiny_bert: Path) -> Encoder:
    return retrokit.encoder(str(tiny_bert))


def counted(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many texts each call of ``embed`` was given."""
    calls: list[int] = []
    embed = encoder.embed
    monkeypatch.setattr(encoder, "embed", lambda texts, *rest: calls.append(len(texts)) or embed(texts, *rest))
    return calls


def test_parts_are_columns_and_the_whole_is_encoded_once(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = encoder.embed(TEXTS, "document", "fp32")
    calls = counted(encoder, monkeypatch)
    kept = MemoizedEncoder(encoder)
    for start, stop in ((0, 4), (4, 8), (0, 16)):
        part = EncoderSlice(kept, start, stop, "part")
        assert part.dimension == stop - start
        assert np.array_equal(part.embed(TEXTS, "document", "fp32"), expected[:, start:stop])
    assert calls == [len(TEXTS)]
    again = kept.embed([TEXTS[3], "new", *TEXTS[:2], TEXTS[3]], "document", "fp32")
    assert np.array_equal(again[[0, 2, 3, 4]], expected[[3, 0, 1, 3]])
    kept.embed(TEXTS, "query", "fp32")
    kept.embed(TEXTS[:3], "document", "bf16")
    assert calls == [7, 1, 7, 3]  # a new text, another role, another precision
    kept.forget()
    assert np.array_equal(kept.embed(TEXTS, "document", "fp32"), expected)
    assert calls == [7, 1, 7, 3, 7]


def test_a_part_has_its_own_fingerprint_and_checks_its_own_dimensions(encoder: Encoder) -> None:
    kept = MemoizedEncoder(encoder)
    prints = {
        kept.fingerprint(),
        EncoderSlice(kept, 0, 4, "a").fingerprint(),
        EncoderSlice(kept, 4, 8, "b").fingerprint(),
    }
    assert len(prints) == 3
    assert kept.fingerprint() == encoder.fingerprint()
    with pytest.raises(UsageError, match="size 8 does not divide 4"):
        EncoderSlice(kept, 0, 4, "a").use_with(retrokit.similarity("sfs:8"))


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_layers_are_pooled_hidden_states(tiny_bert: Path, pooling: str) -> None:
    encoder = retrokit.encoder(f"{tiny_bert},pooling={pooling}")
    views = layers(encoder)
    assert len(views) == 3
    features = encoder.to_train().model.preprocess(TEXTS)
    network = encoder.to_train().model[0].model
    with torch.no_grad():
        inputs = {key: features[key] for key in ("input_ids", "attention_mask")}
        states = network(**inputs, output_hidden_states=True).hidden_states
    mask = features["attention_mask"].unsqueeze(-1)
    for view, state in zip(views, states, strict=True):
        expected = state[:, 0] if pooling == "cls" else (state * mask).sum(1) / mask.sum(1)
        assert_rounded(view.embed(TEXTS, "document", "fp32"), expected)
    assert not network.config.output_hidden_states  # the switch is back


def test_the_last_layer_is_the_encoder_itself(encoder: Encoder) -> None:
    assert np.array_equal(layers(encoder)[-1].embed(TEXTS, "query", "fp32"), encoder.embed(TEXTS, "query", "fp32"))


LINES = [*sentences(12, seed=1), "cat", " ".join(sentences(4, seed=2)), "", "zzz qqq", *sentences(5, seed=4)]


@pytest.fixture
def bert(tiny_bert):
    return retrokit.encoder(str(tiny_bert), device="cpu")


def hidden_states(encoder, text: str) -> tuple[np.ndarray, list[str]]:
    """Of one text by itself, special tokens included, and the tokens."""
    transformer = encoder.to_train().model[0]
    features = encoder.to_train().model.tokenizer(text, return_tensors="pt", truncation=True, max_length=64)
    with torch.inference_mode():
        states = transformer.auto_model(**features).last_hidden_state[0].numpy()
    return states, encoder.to_train().model.tokenizer.convert_ids_to_tokens(features["input_ids"][0])


def test_they_are_the_hidden_states_of_the_texts_own_tokens(bert):
    found = bert.token_embeddings(LINES, "document", "fp32")
    assert [part.dtype for part in found] == [np.float32] * len(LINES)
    for text, tokens in zip(LINES, found, strict=True):
        states, names = hidden_states(bert, text)
        assert (names[0], names[-1]) == ("[CLS]", "[SEP]")
        assert tokens.shape == (len(names) - 2, 16)
        assert_rounded(tokens, states[1:-1])
    assert found[LINES.index("")].shape == (0, 16)
    assert not np.allclose(found[0][:3], found[1][:3], atol=1e-2)


def test_a_static_encoder_gives_the_rows_that_it_averages(tiny_bert):
    encoder = retrokit.encoder(f"static:dim=8,tokenizer={tiny_bert}", device="cpu")
    texts = ["", "a cat runs", "", "cat", "☃ house", ""]
    found = encoder.token_embeddings(texts, "document")
    assert [len(tokens) for tokens in found] == [0, 3, 0, 1, 2, 0]
    means = np.stack([tokens.mean(axis=0) if len(tokens) else np.zeros(8) for tokens in found])
    assert_rounded(means, encoder.embed(texts, "document", "fp32"))
