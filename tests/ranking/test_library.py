"""Cross-encoders and ``colbert``: scores are the library's, in the order asked for; what cannot rank is refused."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder, MultiVectorEncoder
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, LlamaConfig, LlamaForCausalLM

from retrokit.core.errors import DataError, ServiceError, UsageError
from retrokit.encoders import precision
from retrokit.ranking.reranking import registry
from tests.close import assert_rounded
from tests.models import make_bert, sentences


def make_cross_encoder(folder: Path, outputs: int = 1, seed: int = 0) -> Path:
    """A tiny BERT with a scoring head."""
    make_bert(folder)
    config = BertConfig.from_pretrained(folder)
    config.num_labels = outputs
    config.initializer_range = 0.3
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        BertForSequenceClassification(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_cross_encoder(tmp_path_factory.mktemp("models") / "cross")


def test_scores_are_the_librarys_in_the_order_asked_for(folder):
    reranker = registry.create(f"cross-encoder:{folder}", device="cpu")
    queries, documents = sentences(40, seed=1), sentences(40, seed=2)
    scores = reranker.score_pairs(queries, documents)
    assert scores.dtype == np.float32
    theirs = CrossEncoder(str(folder), device="cpu")
    one_by_one = [theirs.predict((q, d)) for q, d in zip(queries, documents, strict=True)]
    assert_rounded(scores, one_by_one)
    long = [" ".join(documents)] * 2
    assert_rounded(reranker.score_pairs(queries[:2], long), theirs.predict(list(zip(queries[:2], long, strict=True))))
    assert np.ptp(scores) > 0.05, "different pairs must get different scores"
    assert_rounded(reranker.rank(queries[3], documents[:5])[3], scores[3], 256)
    assert reranker.rank("a", []).shape == (0,)
    assert reranker.spec == f"cross-encoder:{folder}"
    with pytest.raises(UsageError, match="2 and 1"):
        reranker.score_pairs(["a", "b"], ["c"])


def test_the_fingerprint_follows_what_decides_a_score(folder, tmp_path):
    def of(path: Path, options: str = "") -> str:
        return registry.create(f"cross-encoder:{path}{options}", device="cpu").fingerprint()

    used = registry.create(f"cross-encoder:{folder}", device="cpu")
    used.rank("a", ["b"])
    copied = shutil.copytree(folder, tmp_path / "copy")
    assert of(folder) == of(copied) == used.fingerprint()
    others = {of(folder, ",max_length=16"), of(folder, ",dtype=bf16"), of(make_cross_encoder(tmp_path / "x", seed=1))}
    assert len(others | {of(folder)}) == 4


@pytest.mark.parametrize(("gains", "dtype"), [(True, torch.bfloat16), (False, torch.float32)])
def test_auto_is_the_type_in_which_the_processor_is_faster(folder, monkeypatch, gains, dtype):
    monkeypatch.setattr(precision, "_gains", lambda: gains)
    reranker = registry.create(f"cross-encoder:{folder},dtype=auto", device="cpu")
    assert next(reranker.model.parameters()).dtype == dtype
    exact = registry.create(f"cross-encoder:{folder}", device="cpu")
    queries, texts = ["a b", "c"], ["b", "a dog and a cat"]
    bound = 0 if dtype == torch.float32 else 0.02
    np.testing.assert_allclose(reranker.score_pairs(queries, texts), exact.score_pairs(queries, texts), atol=bound)


def yes_no_model(tiny_llama, path, template):
    """A decoder with the tokens yes and no, and a chat template."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_llama)
    tokenizer.add_tokens(["yes", "no"])
    config = LlamaConfig.from_pretrained(tiny_llama, vocab_size=len(tokenizer))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        LlamaForCausalLM(config).save_pretrained(path)
    tokenizer.pad_token = "</s>"
    tokenizer.chat_template = template
    tokenizer.save_pretrained(path)
    return path


def test_a_decoder_that_answers_yes_or_no_scores_as_in_the_library(tmp_path, tiny_llama):
    path = yes_no_model(tiny_llama, tmp_path / "llm", "{% for m in messages %}{{ m['content'] }} {% endfor %}")
    texts = sentences(6, seed=4)
    scores = registry.create(f"cross-encoder:{path}", device="cpu").score_pairs(["cat"] * len(texts), texts)
    expected = CrossEncoder(str(path), device="cpu").predict([("cat", text) for text in texts])
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-6)
    assert np.ptp(scores) > 0


def test_what_cannot_rank_is_refused(folder, tiny_bert, tmp_path, monkeypatch):
    with pytest.raises(DataError, match=r"it has no scoring head .*BertModel"):
        registry.create(f"cross-encoder:{tiny_bert}")
    with pytest.raises(UsageError, match=r"has 3 outputs \(LABEL_0, LABEL_1, LABEL_2\)"):
        registry.create(f"cross-encoder:{make_cross_encoder(tmp_path / 'three', outputs=3)}")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="is not a cross-encoder that can be loaded"):
        registry.create(f"cross-encoder:{tmp_path / 'empty'}")
    with pytest.raises(UsageError, match="is a file"):
        registry.create(f"cross-encoder:{folder / 'config.json'}")
    with pytest.raises(UsageError, match="neither a folder nor a hub id"):
        registry.create(f"cross-encoder:{tmp_path / 'not' / 'there'}")
    for kind in ("cross-encoder", "colbert"):
        with pytest.raises(UsageError, match=r"^'minilm' is a registered name; expected a folder or a hub id$"):
            registry.create(f"{kind}:minilm")
    with pytest.raises(UsageError, match="cross-encoder needs path"):
        registry.create("cross-encoder")
    with pytest.raises(UsageError, match=r"unknown reranker 'crossencoder' \(did you mean cross-encoder"):
        registry.parse("crossencoder:x")

    def unreachable(*args: object, **kwargs: object) -> None:
        raise ConnectionError("no network")

    monkeypatch.setattr("huggingface_hub.model_info", unreachable)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with pytest.raises(ServiceError, match="'org/none' is not a folder, and was not found on the model hub"):
        registry.create("cross-encoder:org/none")


def test_scores_that_are_not_finite_are_refused(folder):
    broken = registry.create(f"cross-encoder:{folder}", device="cpu")
    broken.model.transformers_model.classifier.bias.data.fill_(float("nan"))
    with pytest.raises(DataError, match="2 of 2 scores are not finite, the first of the query"):
        broken.rank("a", ["b", "c"])


QUERIES, DOCUMENTS = sentences(4, seed=1), sentences(6, seed=2)


@pytest.fixture(scope="module")
def colbert_folder(tiny_bert, tmp_path_factory) -> Path:
    """A multi-vector encoder on the tiny BERT, with a projection of random weights."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = MultiVectorEncoder(str(tiny_bert), device="cpu")
    path = tmp_path_factory.mktemp("models") / "colbert"
    made.save_pretrained(str(path), create_model_card=False)
    return path


@pytest.fixture(scope="module")
def reranker(colbert_folder):
    return registry.create(f"colbert:{colbert_folder}", device="cpu")


def test_scores_of_colbert_are_the_librarys(reranker, colbert_folder):
    library = MultiVectorEncoder(str(colbert_folder), device="cpu")
    queries = library.encode_query(QUERIES)
    documents = library.encode_document(DOCUMENTS)
    expected = library.similarity(queries, documents).numpy()
    pairs = [(i, j) for i in range(4) for j in range(6)]
    shuffled = [pairs[k] for k in np.random.default_rng(0).permutation(len(pairs))]
    scores = reranker.score_pairs([QUERIES[i] for i, _ in shuffled], [DOCUMENTS[j] for _, j in shuffled])
    assert scores.dtype == np.float32
    assert_rounded(scores, [expected[i, j] for i, j in shuffled])
    assert np.ptp(scores) > 0.1
    assert_rounded(reranker.rank(QUERIES[1], DOCUMENTS), expected[1])
    assert reranker.rank(QUERIES[0], []).shape == (0,)
