"""``generative``: scores are of transformers' own logits behind the published prompts, one pair at a time."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GemmaConfig,
    GemmaForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from retrokit.core.errors import UsageError
from retrokit.encoders import prefixes
from retrokit.extensions.zero_shot.generative import _token
from retrokit.ranking.reranking import registry
from retrokit.ranking.reranking.base import CUT
from tests.models import sentences

QUERIES, DOCUMENTS = sentences(7, seed=1), sentences(7, seed=2)
QWEN3 = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
    "<Instruct>: {i}\n<Query>: {q}\n"
    "<Document>: {d}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
)
QWEN3_TASK = "Given a web search query, retrieve relevant passages that answer the query"
BGE = (
    "<s>A: {q}\nB: {d}\nGiven a query A and a passage B, determine whether the passage contains an answer to the query "
    "by providing a prediction of either 'Yes' or 'No'."
)
MXBAI = (
    "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n"
    "<|im_start|>user\n{i}query: {q}\ndocument: {d}\nYou are a search relevance expert who evaluates how well "
    "documents match search queries. For each query-document pair, carefully analyze the semantic relationship between "
    "them, then provide your binary relevance judgment (0 for not relevant, 1 for relevant).\nRelevance:<|im_end|>\n"
    "<|im_start|>assistant\n"
)
SIZE = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 3, "max_position_embeddings": 2048}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "initializer_range": 0.5}


def make(tiny_llama: Path, folder: Path, config: type, model: type, bos: bool = True) -> Path:
    """A model as published but for its size and its tokenizer, which knows the answers."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_llama)
    tokenizer.add_tokens(["yes", "no", "Yes", "1", "0"])
    tokenizer.model_max_length = 2048
    if not bos:
        tokenizer.backend_tokenizer.post_processor = None
    tokenizer.save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        ends = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
        model(config(vocab_size=len(tokenizer) + 8, **ends, **SIZE, **HEADS)).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A decoder of no published form."""
    return make(tiny_llama, tmp_path_factory.mktemp("models") / "plain", LlamaConfig, LlamaForCausalLM)


def expected(folder: Path, text: str, yes: str, no: str | None) -> float:
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    with torch.inference_mode():
        logits = model(torch.tensor([tokenizer(text, add_special_tokens=False)["input_ids"]])).logits[0, -1]
    of = [logits[tokenizer(word, add_special_tokens=False)["input_ids"]].item() for word in (yes, no) if word]
    return of[0] - sum(of[1:])


def check(folder: Path, options: str, template: str, yes: str, no: str | None, instruction: str = "") -> None:
    reranker = registry.create(f"generative:{folder}{options}", device="cpu")
    texts = [template.format(q=q, d=d, i=instruction) for q, d in zip(QUERIES, DOCUMENTS, strict=True)]
    exact = [expected(folder, text, yes, no) for text in texts]
    scores = reranker.score_pairs(QUERIES, DOCUMENTS)
    np.testing.assert_allclose(scores, exact, rtol=1e-5, atol=1e-5)
    assert np.ptp(scores) > 0.01
    one_by_one = [reranker.score_pairs([q], [d])[0] for q, d in zip(QUERIES, DOCUMENTS, strict=True)]
    np.testing.assert_allclose(one_by_one, exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "kinds", "template", "yes", "no", "instruction"),
    [
        ("Qwen3-Reranker-0.6B", (Qwen3Config, Qwen3ForCausalLM), QWEN3, "yes", "no", QWEN3_TASK),
        ("bge-reranker-v2-gemma", (GemmaConfig, GemmaForCausalLM), BGE, "Yes", None, ""),
        ("mxbai-rerank-base-v2", (Qwen2Config, Qwen2ForCausalLM), MXBAI, "1", "0", ""),
    ],
)
def test_a_published_form_is_known_by_its_name(tiny_llama, tmp_path, name, kinds, template, yes, no, instruction):
    check(make(tiny_llama, tmp_path / name, *kinds, "bge" in name), "", template, yes, no, instruction)


@pytest.fixture(scope="module")
def without_yes(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A decoder of a published form, whose tokenizer has neither yes, no, nor a token for unknown words."""
    folder = tmp_path_factory.mktemp("models") / "tiny-qwen3-reranker"
    make(tiny_llama, folder, Qwen3Config, Qwen3ForCausalLM, bos=False)
    saved = json.loads((folder / "tokenizer.json").read_text())
    saved["added_tokens"] = [token for token in saved["added_tokens"] if token["content"] not in ("yes", "no")]
    saved["model"]["unk_token"] = None
    (folder / "tokenizer.json").write_text(json.dumps(saved))
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["unk_token"] = None
    settings["added_tokens_decoder"] = {}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    assert AutoTokenizer.from_pretrained(folder).convert_tokens_to_ids("yes") is None
    return folder


def test_answers_by_option_need_no_yes_in_the_tokenizer(without_yes):
    check(without_yes, ",yes=1,no=0", QWEN3, "1", "0", QWEN3_TASK)
    with pytest.raises(UsageError, match=r"the answer 'yes' is not a single token .*; give yes= and no="):
        registry.create(f"generative:{without_yes}", device="cpu")


def test_a_layer_ends_the_model_early(folder, tmp_path):
    model = AutoModelForCausalLM.from_pretrained(folder)
    model.model.layers = model.model.layers[:2]
    model.config.num_hidden_layers = 2
    model.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path)
    options = ',template="{query} {document}"'
    cut, whole = (registry.create(f"generative:{folder}{options}{layer}", device="cpu") for layer in (",layer=2", ""))
    short = registry.create(f"generative:{tmp_path}{options}", device="cpu")
    np.testing.assert_allclose(cut.rank("cat", DOCUMENTS), short.rank("cat", DOCUMENTS), atol=1e-6)
    assert np.abs(cut.rank("cat", DOCUMENTS) - whole.rank("cat", DOCUMENTS)).max() > 0.01
    every = registry.create(f"generative:{folder}{options},layer=3", device="cpu")
    assert every.rank("cat", DOCUMENTS).tolist() == whole.rank("cat", DOCUMENTS).tolist()
    with pytest.raises(UsageError, match="layer=4 is more than the model's 3 layers"):
        registry.create(f"generative:{folder}{options},layer=4")


def test_a_long_document_is_cut_before_the_end_of_the_prompt(folder):
    reranker = registry.create(
        f'generative:{folder},max_length=24,template="{{query}} D {{document}} end"', device="cpu"
    )
    long = " ".join(DOCUMENTS)
    scores = reranker.rank("the cat", [long, f"{long} dog", "dog"])
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)
    assert reranker.remarks(["the cat"] * 2, [long, "dog"]) == [[CUT], []]
    ids = reranker.model.preprocess([("the cat", long)])["input_ids"][0].tolist()
    end = AutoTokenizer.from_pretrained(folder)(" end", add_special_tokens=False)["input_ids"]
    assert ids[-len(end) :] == end
    assert len(ids) == 24


START = "the cat sees the dog near the river and the bird flies over the tree to find a fish in the house"


@pytest.mark.parametrize(
    ("config", "model", "options", "is_shared"),
    [
        (LlamaConfig, LlamaForCausalLM, {}, True),
        (Qwen3Config, Qwen3ForCausalLM, {}, True),
        (GemmaConfig, GemmaForCausalLM, {}, True),
        (MistralConfig, MistralForCausalLM, {"sliding_window": 8}, False),
    ],
)
def test_the_start_of_a_query_is_computed_once(tiny_llama, tmp_path, monkeypatch, config, model, options, is_shared):
    folder = make(tiny_llama, tmp_path / "model", partial(config, **options), model)
    template = START + " {query} D {document} ?"
    reranker = registry.create(f'generative:{folder},template="{template}",yes=yes,no=no', device="cpu")
    embedded: list[int] = []
    embedding = reranker.model[0].model.get_input_embeddings()
    embedding.register_forward_pre_hook(lambda module, inputs: embedded.append(inputs[0].numel()))
    queries = [*QUERIES[:1] * 12, *QUERIES[1:2] * 9, *QUERIES[2:]]
    documents = sentences(len(queries), seed=3)
    scores = reranker.score_pairs(queries, documents)
    shared = sum(embedded)
    embedded.clear()
    monkeypatch.setattr(prefixes, "WORTH", 10_000)
    np.testing.assert_allclose(scores, reranker.score_pairs(queries, documents), rtol=1e-5, atol=1e-5)
    assert (shared < 0.6 * sum(embedded)) == is_shared
    begin = AutoTokenizer.from_pretrained(folder).bos_token
    texts = [begin + template.format(query=q, document=d) for q, d in zip(queries, documents, strict=True)]
    exact = np.array([expected(folder, text, "yes", "no") for text in texts])
    np.testing.assert_allclose(scores, exact, atol=1e-5 * np.abs(exact).max())


def test_a_folder_of_the_library_brings_its_own(folder, tmp_path):
    made = registry.create(f'generative:{folder},template="{{query}} D {{document}} ?",yes=1,no=0', device="cpu")
    made.model.save_pretrained(str(tmp_path / "saved"))
    own = registry.create(f"generative:{tmp_path / 'saved'}", device="cpu")
    assert own.fingerprint() == made.fingerprint()
    np.testing.assert_allclose(own.rank("cat", DOCUMENTS), made.rank("cat", DOCUMENTS), atol=1e-6)
    theirs = CrossEncoder(str(tmp_path / "saved"), device="cpu").predict([("cat", text) for text in DOCUMENTS])
    np.testing.assert_allclose(own.rank("cat", DOCUMENTS), theirs, atol=1e-5)


def test_the_fingerprint_follows_what_decides_a_score(folder):
    options = ("", ",yes=1", ",yes=1,no=0", ",layer=2", ",max_length=30", ",dtype=bf16", ",instruction=a")
    specs = [f'generative:{folder},template="{{instruction}} {{query}} {{document}}"{option}' for option in options]
    specs.append(f"generative:{folder},form=mxbai")
    assert len({registry.create(spec, device="cpu").fingerprint() for spec in specs}) == len(specs)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("", r"does not say how it is prompted; give form=qwen3\|bge\|mxbai, or template="),
        (',template="{query}"', "needs {query} and then {document}, each once"),
        (',template="{document} {query}"', "needs {query} and then {document}, each once"),
        (',template="{query} {document}",yes=certainly', "the answer 'certainly' is not a single token"),
        (",form=bge,no=certainly not", "the answer 'certainly not' is not a single token"),
    ],
)
def test_what_cannot_be_read_is_one_line(folder, options, problem):
    with pytest.raises(UsageError, match=problem) as caught:
        registry.create(f"generative:{folder}{options}", device="cpu")
    assert "\n" not in str(caught.value)


def test_a_registered_name_is_no_model():
    with pytest.raises(UsageError, match=r"^'minilm' is a registered name; expected a folder or a hub id$"):
        registry.create("generative:minilm")


def test_an_answer_that_the_tokenizer_does_not_know_is_none(tiny_bert):
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert)
    assert _token("model", "cat", tokenizer) == tokenizer.convert_tokens_to_ids("cat")
    for word in ("☃", "cats", ""):  # the unknown token, two pieces, none
        with pytest.raises(UsageError, match=f"model: the answer '{word}' is not a single token"):
            _token("model", word, tokenizer)
