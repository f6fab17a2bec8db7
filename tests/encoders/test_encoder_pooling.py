"""Poolings, decoders, prompts and lengths against the Hugging Face model's own hidden states, one text at a time."""

import shutil

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from tokenizers import processors
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


def test_the_poolings_differ(tiny_bert):
    made = [retrokit.encoder(f"{tiny_bert},pooling={p}").embed(TEXTS[1:2], "query", "fp32") for p in POOLINGS]
    values = dict(zip(POOLINGS, made, strict=True))
    assert np.array_equal(values.pop("token0"), values["cls"])
    assert np.array_equal(values.pop("sep"), values["last"])
    names = list(values)
    for i, name in enumerate(names):
        for other in names[i + 1 :]:
            assert np.abs(values[name] - values[other]).max() > 0.01, (name, other)


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


def test_a_tokenizer_that_adds_an_end_token_is_left_alone(tiny_llama, tiny_bert, tmp_path):
    ending = tmp_path / "ending"
    shutil.copytree(tiny_llama, ending)
    tokenizer = AutoTokenizer.from_pretrained(ending)
    special = [(token, tokenizer.convert_tokens_to_ids(token)) for token in ("<s>", "</s>")]
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=special
    )
    tokenizer.save_pretrained(ending)
    for folder in (ending, tiny_bert):
        encoder = retrokit.encoder(f"{folder},pooling=last")
        for text in TEXTS:
            assert encoder.to_train().model.preprocess([text])["input_ids"][0].tolist() == token_ids(folder, text)
    again = retrokit.encoder(f"{tiny_llama},pooling=last")
    close(retrokit.encoder(f"{ending},pooling=last").embed(TEXTS, "query", "fp32"), again.embed(TEXTS, "query", "fp32"))


@pytest.mark.parametrize("padding", ["left", "right"])
@pytest.mark.parametrize("start", ["", "<s> "])
def test_a_tokenizer_that_ends_texts_with_another_token_is_left_alone(tiny_llama, tmp_path, start, padding):
    """Qwen3-Embedding's layout: texts end with <|endoftext|>, the end-of-sequence token is <|im_end|>, padding left."""
    folder = tmp_path / "qwen"
    shutil.copytree(tiny_llama, folder)
    tokenizer = AutoTokenizer.from_pretrained(folder, pad_token="<unk>", padding_side=padding)
    special = [(token, tokenizer.convert_tokens_to_ids(token)) for token in ("<s>", "<unk>")]
    template = processors.TemplateProcessing(single=f"{start}$A <unk>", special_tokens=special)
    backend = tokenizer.backend_tokenizer
    backend.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    tokenizer.save_pretrained(folder)
    encoder = retrokit.encoder(f"{folder},pooling=last,max_length=9")
    texts = [text for text in TEXTS if text]
    sequences = [token_ids(folder, text, truncation=True, max_length=9) for text in texts]
    assert {ids[-1] for ids in sequences} == {tokenizer.convert_tokens_to_ids("<unk>")}
    features = encoder.to_train().model.preprocess(texts)
    assert [row[mask.bool()].tolist() for row, mask in zip(*features_of(features), strict=True)] == sequences
    assert encoder.to_train().model.tokenizer.padding_side == padding
    close(encoder.embed(texts, "query", "fp32"), [hidden_states(folder, ids)[-1] for ids in sequences])


def features_of(features) -> tuple[torch.Tensor, torch.Tensor]:
    return features["input_ids"], features["attention_mask"]


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


def test_maximum_lengths_are_those_of_their_role(tiny_bert, tmp_path):
    encoder = retrokit.encoder(f"{tiny_bert},max_length=6,query_max_length=4")
    encoder.to_train().model.save(str(tmp_path / "saved"), create_model_card=False)
    for made in (encoder, retrokit.encoder(str(tmp_path / "saved"))):
        assert (made.max_length("query"), made.max_length("document")) == (4, 6)
        for role, limit in (("query", 4), ("document", 6)):
            ids = [token_ids(tiny_bert, text, truncation=True, max_length=limit) for text in TEXTS]
            assert max(map(len, ids)) == limit
            reference = [hidden_states(tiny_bert, row).mean(axis=0) for row in ids]
            close(made.embed(TEXTS, role, "fp32"), reference)
    only_queries = retrokit.encoder(f"{tiny_bert},query_max_length=4")
    assert (only_queries.max_length("query"), only_queries.max_length("document")) == (4, 64)


@pytest.mark.parametrize("option", ["max_length", "query_max_length"])
def test_a_length_beyond_the_models_positions_is_refused(tiny_bert, option):
    assert retrokit.encoder(f"{tiny_bert},{option}=64").max_length("query") == 64
    with pytest.raises(UsageError, match=f"{option}=65 is more than the model's 64 positions"):
        retrokit.encoder(f"{tiny_bert},{option}=65")


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


def test_a_table_has_no_ends(tmp_path):
    retrokit.encoder("static:dim=4").to_train().model.save(str(tmp_path / "table"), create_model_card=False)
    with pytest.raises(UsageError, match="truncation= and end_token= are for transformers"):
        retrokit.encoder(f"{tmp_path / 'table'},truncation=left")
