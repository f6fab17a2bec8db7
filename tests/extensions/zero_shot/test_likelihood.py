"""``query-likelihood``: its scores are those of transformers' own logits of the whole text, one pair at a time."""

import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
)

from retrokit.core.errors import UsageError
from retrokit.extensions.zero_shot import likelihood
from retrokit.ranking.reranking import registry
from retrokit.ranking.reranking.base import CUT
from tests.models import sentences

CHAT = "{% for m in messages %}<s>{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}model : {% endif %}"
QUERIES, DOCUMENTS = sentences(5, seed=1), sentences(3, seed=2)
PAIRS = [(query, document) for query in QUERIES for document in DOCUMENTS]


@pytest.fixture(scope="module", params=["llama", "gemma3", "gpt2"])
def folder(request: pytest.FixtureRequest, tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A llama; Gemma 3 as published but for its size, five layers of a sliding window and one without; a GPT-2."""
    if request.param == "llama":
        return tiny_llama
    folder = tmp_path_factory.mktemp("models") / request.param
    tokenizer = AutoTokenizer.from_pretrained(tiny_llama)
    tokenizer.model_max_length = 512
    tokenizer.save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        if request.param == "gpt2":
            ends = {"bos_token_id": None, "eos_token_id": None}
            small = GPT2Config(vocab_size=len(tokenizer), n_positions=512, n_embd=16, n_layer=2, n_head=2, **ends)
            GPT2LMHeadModel(small).save_pretrained(folder)
        else:
            size = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 6, "head_dim": 8}
            heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "sliding_window": 8, "initializer_range": 0.5}
            kinds = ["sliding_attention"] * 5 + ["full_attention"]
            ends = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
            config = {"vocab_size": len(tokenizer), "layer_types": kinds, "max_position_embeddings": 512, **ends}
            Gemma3ForCausalLM(Gemma3TextConfig(**config, **size, **heads)).save_pretrained(folder)
    return folder


def expected(folder: Path, context: str, answer: str, special: bool = True) -> float:
    """By the library alone: one text, no cache, no padding."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    before = tokenizer(context, add_special_tokens=special)["input_ids"]
    after = tokenizer(answer, add_special_tokens=False)["input_ids"]
    with torch.inference_mode():
        logits = model(torch.tensor([before + after])).logits[0, len(before) - 1 : -1]
    return float(logits.log_softmax(-1)[range(len(after)), after].mean())


def test_scores_are_of_the_librarys_logits(folder):
    reranker = registry.create(f'query-likelihood:{folder},template="A: {{document}} B {{query}}"', device="cpu")
    queries, documents = zip(*PAIRS, strict=True)
    scores = reranker.score_pairs(queries, documents)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, [expected(folder, f"A: {d} B", f" {q}") for q, d in PAIRS], atol=1e-5)
    assert np.ptp(scores[: len(DOCUMENTS)]) > 1e-4, "documents must differ"
    assert reranker.spec.startswith(f"query-likelihood:{folder},")


def test_batches_and_order_change_nothing(folder, monkeypatch):
    reranker = registry.create(f'query-likelihood:{folder},template="{{document}} {{query}}"', device="cpu")
    rows = np.random.default_rng(0).permutation(len(PAIRS))
    queries, documents = zip(*PAIRS, strict=True)
    together = reranker.score_pairs(queries, documents)
    calls, run = [], likelihood._run
    monkeypatch.setattr(
        likelihood, "_run", lambda model, ids, *a, **b: calls.append(len(ids)) or run(model, ids, *a, **b)
    )
    shuffled = reranker.score_pairs([queries[row] for row in rows], [documents[row] for row in rows])
    np.testing.assert_allclose(shuffled, together[rows], atol=1e-5)
    assert calls == [len(DOCUMENTS), len(PAIRS)], "a document is read once for all queries"
    monkeypatch.setattr(likelihood, "CPU_LOGITS", 1)
    np.testing.assert_allclose(reranker.score_pairs(queries, documents), together, atol=1e-5)
    assert calls[2:] == [1, 1] * len(PAIRS)


def test_a_document_is_cut_so_that_the_query_fits(tiny_llama):
    reranker = registry.create(
        f'query-likelihood:{tiny_llama},max_length=40,template="{{document}} {{query}}"', device="cpu"
    )
    tokenizer = AutoTokenizer.from_pretrained(tiny_llama)
    query, words = "the red fish", " ".join(sentences(9, seed=3))
    length = len(tokenizer(f" {query}", add_special_tokens=False)["input_ids"])
    room = 40 - len(tokenizer(" ")["input_ids"])
    step = room // 8  # so that a little longer query has the same document
    left = 40 - math.ceil(length / step) * step
    cut = words[: tokenizer(words, return_offsets_mapping=True)["offset_mapping"][left - 1][1]]
    np.testing.assert_allclose(reranker.rank(query, [words]), expected(tiny_llama, cut, f" {query}"), atol=1e-5)
    assert reranker.remarks([query] * 2, [words, "a cat"]) == [[CUT], []]
    long = f"{'cat ' * 25}{{document}} {{query}}"
    narrow = registry.create(f'query-likelihood:{tiny_llama},max_length=40,template="{long}"', device="cpu")
    assert narrow.rank(query, [words]) != narrow.rank(query, [""]), "some of the document is read"
    with pytest.raises(UsageError, match="reads 40 tokens, and a query has"):
        reranker.rank(words, ["a cat"])
    with pytest.raises(UsageError, match="max_length=65 is more than the model's 64 positions"):
        registry.create(f"query-likelihood:{tiny_llama},max_length=65")


def test_a_chat_template_puts_the_query_into_the_answer(tiny_llama, tmp_path):
    folder = shutil.copytree(tiny_llama, tmp_path / "chat")
    (folder / "chat_template.jinja").write_text(CHAT)
    reranker = registry.create(f'query-likelihood:{folder},template="{{document}} ? {{query}}"', device="cpu")
    exact = expected(tiny_llama, "<s>a cat ?model : ", "the dog", special=False)
    np.testing.assert_allclose(reranker.rank("the dog", ["a cat"]), exact, atol=1e-5)
    assert reranker.rank("", ["a cat"]) == 0


def test_the_fingerprint_follows_what_decides_a_score(tiny_llama):
    options = ("", ",dtype=bf16", ",max_length=30", ',template="{document} {query}"')
    prints = {
        registry.create(f"query-likelihood:{tiny_llama}{option}", device="cpu").fingerprint() for option in options
    }
    assert len(prints) == 4


@pytest.mark.parametrize("template", ["{query} {document}", "{document}", "{query}", "{document} {query} ?", "a"])
def test_a_template_without_places_is_refused(tiny_llama, template):
    with pytest.raises(UsageError, match=r"needs \{document\} once, then \{query\} at its end"):
        registry.create(f'query-likelihood:{tiny_llama},template="{template}"', device="cpu")


def test_a_registered_name_is_no_folder():
    with pytest.raises(UsageError, match=r"^'minilm' is a registered name; expected a folder or a hub id$"):
        registry.create("query-likelihood:minilm")
