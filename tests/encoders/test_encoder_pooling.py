"""Poolings, decoders, prompts and lengths against the Hugging Face model's own hidden states, one text at a time."""

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer

import retrokit
from retrokit.core.errors import UsageError
from retrokit.encoders.modules import TokenPooling
from tests.close import assert_rounded

TEXTS = [
    "cat",
    "the red bird flies over a small house",
    "",
    "who sees the dog near the river at night and what hates it",
    "one two three",
]
POOLINGS = {
    "mean": lambda hidden: hidden.mean(axis=0),
    "cls": lambda hidden: hidden[0],
    "last": lambda hidden: hidden[-1],
    "sep": lambda hidden: hidden[-1],
    "token0": lambda hidden: hidden[0],
    "token2": lambda hidden: hidden[min(2, len(hidden) - 1)],
    "token7": lambda hidden: hidden[min(7, len(hidden) - 1)],
}


def hidden_states(folder, ids: list[int]) -> np.ndarray:
    """The last hidden state ``[t, d]`` of one unpadded sequence."""
    model = AutoModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        return model(input_ids=torch.tensor([ids])).last_hidden_state[0].numpy()


def token_ids(folder, text: str, **options) -> list[int]:
    return AutoTokenizer.from_pretrained(folder)(text, **options)["input_ids"]


def close(ours, reference):
    assert_rounded(ours, reference)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_pooling_is_that_of_the_hidden_states(tiny_bert, pooling):
    encoder = retrokit.encoder(f"{tiny_bert},pooling={pooling}")
    reference = [POOLINGS[pooling](hidden_states(tiny_bert, token_ids(tiny_bert, text))) for text in TEXTS]
    close(encoder.embed(TEXTS, "document", "fp32"), reference)


@pytest.mark.parametrize("pooling", ["mean", "cls", "token2"])
def test_a_decoder_without_a_padding_token_pads_all_the_same(tiny_llama, pooling):
    reference = [POOLINGS[pooling](hidden_states(tiny_llama, token_ids(tiny_llama, text))) for text in TEXTS]
    close(retrokit.encoder(f"{tiny_llama},pooling={pooling}").embed(TEXTS, "document", "fp32"), reference)


def test_sep_takes_the_last_separator(tiny_bert):
    text = "cat [SEP] dog bird"
    ids = token_ids(tiny_bert, text)
    sep = AutoTokenizer.from_pretrained(tiny_bert).sep_token_id
    assert [position for position, token in enumerate(ids) if token == sep] == [2, len(ids) - 1]
    close(
        retrokit.encoder(f"{tiny_bert},pooling=sep").embed([text], "query", "fp32")[0],
        hidden_states(tiny_bert, ids)[-1],
    )


@pytest.mark.parametrize("padding", ["left", "right"])
def test_token_pooling_reads_padded_rows(padding):
    tokens = torch.arange(12.0).reshape(2, 6, 1)
    real = torch.tensor([[1] * 6, [1, 1, 1, 0, 0, 0]])
    ids = torch.tensor([[5, 9, 5, 9, 5, 5], [5, 9, 5, 0, 0, 0]])
    if padding == "left":
        real, ids = real.flip(1), ids.flip(1)
    features = {"token_embeddings": tokens, "attention_mask": real, "input_ids": ids}

    def pooled(**options):
        return TokenPooling(1, **options)(dict(features))["sentence_embedding"].flatten().tolist()

    start = 6 if padding == "right" else 9
    assert pooled(position=0) == [0, start]
    assert pooled(position=2) == [2, start + 2]
    assert pooled(position=4) == [4, start + 2]  # the shorter text's last one
    last = {"right": [3, 7], "left": [4, 10]}[padding]
    assert pooled(token_id=9) == last
    assert pooled(token_id=7) == [5, start + 2]  # no such token: the last one


@pytest.mark.parametrize("options", ["", ",max_length=5"])
def test_a_decoder_pools_the_end_token_that_it_did_not_have(tiny_llama, options, tmp_path):
    plain = AutoTokenizer.from_pretrained(tiny_llama)
    eos = plain.convert_tokens_to_ids("</s>")
    assert plain.pad_token is None
    assert plain("cat")["input_ids"][-1] != eos
    encoder = retrokit.encoder(f"{tiny_llama},pooling=last{options}")
    limit = 5 if options else 64
    texts = [*TEXTS, "cat dog bird " * 40]
    sequences = [[*token_ids(tiny_llama, text)[: limit - 1], eos] for text in texts]
    assert len(sequences[-1]) == limit
    reference = [hidden_states(tiny_llama, ids)[-1] for ids in sequences]
    encoder.to_train().model.save(str(tmp_path / "saved"), create_model_card=False)
    models = {
        "made": encoder.to_train().model,
        "reloaded": SentenceTransformer(str(tmp_path / "saved"), device="cpu"),
        "loaded by retrokit": retrokit.encoder(str(tmp_path / "saved")).to_train().model,
    }
    for name, model in models.items():
        assert model.tokenizer.pad_token is not None, name
        features = model.preprocess(texts)
        real = [
            row[mask.bool()].tolist()
            for row, mask in zip(features["input_ids"], features["attention_mask"], strict=True)
        ]
        assert real == sequences, name
        close(model.encode(texts), reference)
    close(encoder.embed(texts, "document", "fp32"), reference)
    close(retrokit.encoder(str(tmp_path / "saved")).embed(texts, "document", "fp32"), reference)


def test_prompts_are_put_before_the_texts_of_their_role(tiny_bert, tmp_path):
    plain = retrokit.encoder(str(tiny_bert))
    assert plain.prompts == {"query": None, "document": None}
    encoder = retrokit.encoder(f'{tiny_bert},query_prompt="find, who: ",document_prompt="small "')
    assert encoder.prompts == {"query": "find, who: ", "document": "small "}
    queries = plain.embed([f"find, who: {text}" for text in TEXTS], "query", "fp32")
    documents = plain.embed([f"small {text}" for text in TEXTS], "document", "fp32")
    close(encoder.embed(TEXTS, "query", "fp32"), queries)
    close(encoder.embed(TEXTS, "document", "fp32"), documents)
    assert np.abs(queries - documents).max() > 0.1
    encoder.to_train().model.save(str(tmp_path / "saved"), create_model_card=False)
    close(retrokit.encoder(str(tmp_path / "saved")).embed(TEXTS, "query", "fp32"), queries)
    library = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    close(library.encode_query(TEXTS), queries)
    close(library.encode_document(TEXTS), documents)
    overridden = retrokit.encoder(f"{tmp_path / 'saved'},query_prompt=")
    assert overridden.prompts == {"query": None, "document": "small "}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{bert},pooling=max", "pooling=max is not mean, cls, last, sep or tokenK"),
        ("{bert},pooling=token", "pooling=token is not mean"),
        ("{llama},pooling=sep", "pooling=sep needs a tokenizer with a separator token"),
        ("static:dim=4,tokenizer={bert},query_max_length=3", "a static encoder has one max_length"),
        ("static:dim=4,pooling=cls", "static has no parameter 'pooling'"),
    ],
)
def test_what_does_not_fit_is_one_clear_line(tiny_bert, tiny_llama, spec, message):
    with pytest.raises(UsageError) as caught:
        retrokit.encoder(spec.format(bert=tiny_bert, llama=tiny_llama))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_text_is_cut_where_it_is_to_be_and_ends_as_it_is_to(tiny_bert, tiny_llama, side, end):
    text, limit = "a red bird flies over the house at night", 5
    for folder, last in ((tiny_bert, "[SEP]"), (tiny_llama, "</s>")):
        tokenizer = AutoTokenizer.from_pretrained(folder)
        ends = [tokenizer.convert_tokens_to_ids(last)] * end
        words = token_ids(folder, text, add_special_tokens=False)
        start = token_ids(folder, text)[: token_ids(folder, text).index(words[0])]
        room = limit - len(start) - len(ends)
        sequence = [*start, *(words[-room:] if side == "left" else words[:room]), *ends]
        spec = f"{folder},pooling=mean,max_length={limit},truncation={side},end_token={str(end).lower()}"
        assert token_ids(folder, text)[: len(start) + 1] == [*start, words[0]]
        features = retrokit.encoder(spec).to_train().model.preprocess([text])
        assert features["input_ids"].tolist() == [sequence], spec
        close(retrokit.encoder(spec).embed([text], "query", "fp32")[0], hidden_states(folder, sequence).mean(axis=0))
