"""Token embeddings: the last hidden states of the text's own tokens, without padding and special tokens."""

import numpy as np
import pytest
import torch

import retrokit
from retrokit.core.errors import DataError
from tests.close import assert_rounded
from tests.models import sentences

TEXTS = [*sentences(12, seed=1), "cat", " ".join(sentences(4, seed=2)), "", "zzz qqq", *sentences(5, seed=4)]


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
    found = bert.token_embeddings(TEXTS, "document", "fp32")
    assert [part.dtype for part in found] == [np.float32] * len(TEXTS)
    for text, tokens in zip(TEXTS, found, strict=True):
        states, names = hidden_states(bert, text)
        assert (names[0], names[-1]) == ("[CLS]", "[SEP]")
        assert tokens.shape == (len(names) - 2, 16)
        assert_rounded(tokens, states[1:-1])
    assert found[TEXTS.index("")].shape == (0, 16)
    assert not np.allclose(found[0][:3], found[1][:3], atol=1e-2)


def test_an_unknown_word_has_a_token_and_a_special_one_in_the_text_has_none(bert):
    unknown, special = bert.token_embeddings(["cat ☃ dog", "cat [SEP] dog"], "query", "fp32")
    assert hidden_states(bert, "cat ☃ dog")[1][1:-1] == ["cat", "[UNK]", "dog"]
    assert (len(unknown), len(special)) == (3, 2)


def test_a_decoder_whose_padding_is_its_end_token(tiny_llama):
    encoder = retrokit.encoder(f"{tiny_llama},pooling=last", device="cpu")
    texts = ["a cat", " ".join(sentences(2))]
    found = encoder.token_embeddings(texts, "query", "fp32")
    for text, tokens in zip(texts, found, strict=True):
        states, names = hidden_states(encoder, text)
        assert (names[0], names[-1]) == ("<s>", "</s>")
        assert_rounded(tokens, states[1:-1])


def test_a_static_encoder_gives_the_rows_that_it_averages(tiny_bert):
    encoder = retrokit.encoder(f"static:dim=8,tokenizer={tiny_bert}", device="cpu")
    texts = ["", "a cat runs", "", "cat", "☃ house", ""]
    found = encoder.token_embeddings(texts, "document")
    assert [len(tokens) for tokens in found] == [0, 3, 0, 1, 2, 0]
    means = np.stack([tokens.mean(axis=0) if len(tokens) else np.zeros(8) for tokens in found])
    assert_rounded(means, encoder.embed(texts, "document", "fp32"))


def test_prompt_and_length_are_those_of_the_role(tiny_bert):
    encoder = retrokit.encoder(f'{tiny_bert},query_prompt="the dog ",max_length=6', device="cpu")
    query, document = (
        encoder.token_embeddings(["cat runs near one"], role, "fp32")[0] for role in ("query", "document")
    )
    assert len(query) == len(document) == 4  # of six with the two special ones
    assert_rounded(query, hidden_states(encoder, "the dog cat runs")[0][1:-1])
    encoder.to_train().model[1].include_prompt = False
    (query,) = encoder.token_embeddings(["cat runs near one"], "query", "fp32")
    assert_rounded(query, hidden_states(encoder, "the dog cat runs")[0][3:-1])


def test_precision_and_no_texts(bert):
    exact, rough = (bert.token_embeddings(TEXTS[:3], "document", precision) for precision in ("fp32", "bf16"))
    for a, b in zip(exact, rough, strict=True):
        assert b.dtype == np.float32
        assert 0 < np.abs(a - b).max() < 0.1
    assert bert.token_embeddings([], "query") == []


def test_what_is_not_finite_is_said(bert):
    bert.to_train().model[0].auto_model.embeddings.word_embeddings.weight.data[
        bert.to_train().model.tokenizer.convert_tokens_to_ids("cat")
    ] = torch.nan
    with pytest.raises(DataError, match=r"1 of 3 embeddings are not finite, the first of text 2"):
        bert.token_embeddings(["dog", "the cat", "bird"], "document", "fp32")
