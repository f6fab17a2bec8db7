"""What the library saves beside weights: similarity, truncated dimensions, lengths; and folders of other kinds."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import LayerNorm, Pooling
from transformers import XLMRobertaConfig, XLMRobertaForSequenceClassification, XLMRobertaModel

import retrokit
from retrokit.cli.entry import run as cli
from retrokit.core.errors import DataError, ServiceError, UsageError
from retrokit.core.notices import listening
from retrokit.ranking.reranking import registry as rerankers
from retrokit.ranking.retrieval.embeddings import SharedEmbeddings
from tests.evaluation.fakes import Notices
from tests.models import make_bert, sentences

TEXTS = [*sentences(6, seed=3), "cat " * 100]


def saved(folder: Path, bert: Path, *behind: torch.nn.Module, include_prompt: bool = True, **options: object) -> Path:
    transformer = Transformer(str(bert))
    pooling = Pooling(16, "mean", include_prompt=include_prompt)
    model = SentenceTransformer(modules=[transformer, pooling, *behind], device="cpu", **options)
    model.save(str(folder), create_model_card=False)
    return folder


@pytest.mark.parametrize(
    ("behind", "options", "similarity"),
    [
        ((Normalize(),), {"similarity_fn_name": "dot"}, "cosine"),
        ((Normalize(),), {"similarity_fn_name": "euclidean"}, "l2"),
        ((Normalize(),), {"similarity_fn_name": "dot", "truncate_dim": 8}, "dot"),
        ((), {"similarity_fn_name": "manhattan", "truncate_dim": 8}, "l1"),
        ((Normalize(),), {"truncate_dim": 4}, "cosine"),
        ((LayerNorm(16), Dense(16, 8)), {"similarity_fn_name": "dot"}, "dot"),
        ((), {"prompts": {"query": "who sees "}, "include_prompt": False}, "cosine"),
        ((), {"prompts": {"sts": "one "}, "default_prompt_name": "sts"}, "cosine"),
    ],
)
def test_scores_are_those_of_the_library(tiny_bert, tmp_path, behind, options, similarity):
    folder = saved(tmp_path / "model", tiny_bert, *behind, **options)
    library = SentenceTransformer(str(folder), device="cpu")
    queries, documents = library.encode_query(TEXTS), library.encode_document(TEXTS)
    encoder = retrokit.encoder(str(folder), device="cpu")
    assert encoder.similarity.spec == similarity
    rows = [torch.from_numpy(encoder.embed(TEXTS, role, "fp32")) for role in ("query", "document")]
    assert rows[0].shape == queries.shape
    torch.testing.assert_close(
        encoder.similarity.score(*rows), library.similarity(queries, documents), atol=2e-5, rtol=1e-5
    )


def test_a_truncated_model_is_trained_and_saved_truncated(tiny_bert, tmp_path):
    folder = saved(tmp_path / "model", tiny_bert, truncate_dim=8)
    rows = [{"anchor": a, "positive": b} for a, b in zip(sentences(8), sentences(8, seed=9), strict=True)]
    (tmp_path / "pairs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    run = tmp_path / "run"
    command = ["finetune", str(folder), "--data", str(tmp_path / "pairs.jsonl"), "-o", str(run)]
    assert cli([*command, "--batch-size", "4", "--epochs", "1", "--lr", "0.01", "--device", "cpu"]) == 0
    expected = SentenceTransformer(str(run), device="cpu").encode_query(TEXTS, normalize_embeddings=True)
    made = retrokit.encoder(str(run), device="cpu").embed(TEXTS, "query", "fp32")
    assert made.shape == expected.shape == (len(TEXTS), 8)
    np.testing.assert_allclose(made / np.linalg.norm(made, axis=1, keepdims=True), expected, atol=2e-6)


@pytest.fixture
def roberta(tiny_bert, tmp_path) -> XLMRobertaConfig:
    """Settings of 66 positions, of which a text may use 64: the padding has the first two."""
    shutil.copytree(tiny_bert, tmp_path / "xlmr", ignore=shutil.ignore_patterns("*.safetensors", "config.json"))
    settings = tmp_path / "xlmr" / "tokenizer_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "model_max_length": 66}))
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    return XLMRobertaConfig(vocab_size=200, max_position_embeddings=66, pad_token_id=1, num_labels=1, **sizes)


def test_positions_behind_the_padding(roberta, tmp_path):
    folder = tmp_path / "xlmr"
    XLMRobertaModel(roberta).save_pretrained(folder)
    with listening(notices := Notices()):
        encoder = retrokit.encoder(str(folder), device="cpu")
    assert encoder.max_length("document") == 64
    assert any("reads 64 tokens: its max_seq_length of 66" in message for message in notices.messages)
    long, longer = encoder.embed(["cat " * 62, "cat " * 900], "document", "fp32")
    np.testing.assert_allclose(long, longer, atol=1e-6)
    XLMRobertaForSequenceClassification(roberta).save_pretrained(folder)
    scores = rerankers.create(f"cross-encoder:{folder}", device="cpu").score_pairs(["cat"] * 2, ["cat " * 900, "cat"])
    assert np.isfinite(scores).all()


def test_other_kinds_are_refused(tiny_bert, tmp_path):
    folder = saved(tmp_path / "model", tiny_bert)
    settings = folder / "config_sentence_transformers.json"
    own = json.loads(settings.read_text())
    for changed, problem in (
        ({"model_type": "SparseEncoder"}, "is a sparse encoder"),
        ({"model_type": "MultiVectorEncoder"}, "is a multi-vector encoder"),
        ({"similarity_fn_name": "MaxSim"}, "is a multi-vector encoder"),
        ({"query_prefix": "[Q] ", "attend_to_expansion_tokens": False}, "is a multi-vector encoder"),
        ({"document_prefix": "[D] ", "skiplist_words": []}, "is a multi-vector encoder"),
        ({"do_query_expansion": True}, "is a multi-vector encoder"),
        ({"model_type": "CrossEncoder"}, "is a cross-encoder"),
    ):
        settings.write_text(json.dumps({**own, **changed}))
        with pytest.raises(DataError, match=problem):
            retrokit.encoder(str(folder))


def test_a_checkpoint_of_stanfords_colbert_is_refused(tiny_bert, tmp_path):
    folder = tmp_path / "colbert"
    shutil.copytree(tiny_bert, folder)
    weights = {f"bert.{name}": weight for name, weight in load_file(folder / "model.safetensors").items()}
    save_file({**weights, "linear.weight": torch.ones(8, 16)}, folder / "model.safetensors", {"format": "pt"})
    (folder / "artifact.metadata").write_text(json.dumps({"query_token_id": "[unused0]", "dim": 8}))
    with pytest.raises(DataError, match="is a multi-vector encoder"):
        retrokit.encoder(str(folder))


def test_what_a_bare_checkpoint_assumes_is_reported_each_time(tiny_bert, tmp_path, monkeypatch):
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache"))
    assumed = f"{tiny_bert}: is a bare checkpoint; assuming mean pooling (`pooling=`) and no prompts"
    for _ in range(2):
        with listening(notices := Notices()):
            retrokit.encoder(str(tiny_bert), device="cpu")
        assert any(message.startswith(assumed) for message in notices.messages)
    folder = saved(tmp_path / "model", tiny_bert)
    with listening(notices := Notices()):
        retrokit.encoder(str(folder), device="cpu")
        retrokit.encoder(f"{tiny_bert},pooling=cls,query_prompt=q", device="cpu")
    assert notices.messages == []


def test_a_bug_is_no_failed_gate():
    code = "from retrokit.cli import entry, main\ndef bug(argv): raise KeyError('x')\nentry.run = bug\nmain()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 70
    assert "KeyError: 'x'" in done.stderr


def test_embeddings_that_are_all_equal_are_reported(tiny_bert, tmp_path):
    encoder = retrokit.encoder(str(saved(tmp_path / "model", tiny_bert)), device="cpu")
    model = encoder.to_train().model
    for equal in (False, True):
        with listening(notices := Notices()), torch.no_grad():
            for weight in model.parameters() if equal else ():
                weight.zero_().add_(weight.ndim == 1)
            SharedEmbeddings(encoder, [encoder.similarity]).of(["a cat", "dog runs"], "document")
        problem = f"{encoder.spec}: all 2 embeddings of document texts are equal; their ranking is arbitrary"
        assert notices.messages == [problem] * equal


TWELVE = sentences(12)
CODE = '''
from transformers import BertModel


class Doubled(BertModel):
    """Twice what BERT makes."""

    def forward(self, *args, **kwargs):
        made = super().forward(*args, **kwargs)
        made.last_hidden_state = 2 * made.last_hidden_state
        return made
'''


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    return make_bert(tmp_path / "bert")


# Shapes in which published models give their prompts, in config_sentence_transformers.json.
PROMPTS = {
    "none": ({}, None, None),
    "empty": ({"query": "", "document": ""}, None, None),
    "query alone": ({"query": "ask for passages: "}, "ask for passages: ", None),
    "query, and an empty document": (
        {"query": "Instruct: retrieve\nQuery:", "document": ""},
        "Instruct: retrieve\nQuery:",
        None,
    ),
    "query and document": (
        {"query": "q | ", "document": "title: none | ", "STS": "alike | "},
        "q | ",
        "title: none | ",
    ),
    "query and passage": ({"query": "query: ", "passage": "passage: ", "clustering": "c: "}, "query: ", "passage: "),
    "search_": ({"search_query": "q: ", "search_document": "d: "}, "q: ", "d: "),
    "retrieval.": ({"retrieval.query": "for evidence: ", "retrieval.passage": "d: "}, "for evidence: ", "d: "),
    "s2p_": ({"s2p_query": "Query: ", "s2s_query": "Alike: "}, "Query: ", None),
}


@pytest.mark.parametrize("shape", PROMPTS)
def test_prompts_are_the_models_own(shape: str, bert: Path, tmp_path: Path) -> None:
    prompts, query, document = PROMPTS[shape]
    SentenceTransformer(str(bert), device="cpu").save(str(tmp_path / "model"))
    settings = tmp_path / "model" / "config_sentence_transformers.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "prompts": prompts}))
    made = retrokit.encoder(str(tmp_path / "model"))
    assert made.prompts == {"query": query, "document": document}
    plain = retrokit.encoder(str(bert))
    for role, prompt in (("query", query), ("document", document)):
        prompted = plain.embed([f"{prompt or ''}{text}" for text in TWELVE], role, "fp32")  # type: ignore[arg-type]
        np.testing.assert_allclose(made.embed(TWELVE, role, "fp32"), prompted, rtol=0, atol=1e-5)  # type: ignore[arg-type]
    own = retrokit.encoder(f'{tmp_path / "model"},query_prompt="ask: "')
    assert own.prompts["query"] == "ask: "


def test_attention_may_be_computed_otherwise(bert: Path) -> None:
    usual, eager = retrokit.encoder(str(bert)), retrokit.encoder(f"{bert},attention=eager")
    assert eager.to_train().model[0].model.config._attn_implementation == "eager"
    a, b = usual.embed(TWELVE, "query", "fp32"), eager.embed(TWELVE, "query", "fp32")
    np.testing.assert_allclose(a, b, rtol=0, atol=2**6 * np.finfo(np.float32).eps * np.abs(a).max())
    assert usual.fingerprint() != eager.fingerprint(), "their last digits differ"


def test_code_of_a_model_runs_only_where_it_is_trusted(
    bert: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    expected = 2 * retrokit.encoder(str(bert)).embed(TWELVE, "query", "fp32")
    (bert / "modeling_doubled.py").write_text(CODE)
    config = json.loads((bert / "config.json").read_text())
    config["model_type"] = "bert"
    config["auto_map"] = {"AutoModel": "modeling_doubled.Doubled"}
    (bert / "config.json").write_text(json.dumps(config))
    caplog.clear()
    made = retrokit.encoder(f"{bert},trust_remote_code=true")
    np.testing.assert_allclose(made.embed(TWELVE, "query", "fp32"), expected, rtol=1e-5, atol=1e-6)
    assert "runs the code that comes with the model" in caplog.text
    assert type(made.to_train().model[0].model).__name__ == "Doubled"
    plain = retrokit.encoder(str(bert))
    assert type(plain.to_train().model[0].model).__name__ == "BertModel"


def test_code_that_is_needed_and_not_trusted_is_an_error(bert: Path) -> None:
    config = json.loads((bert / "config.json").read_text())
    config["model_type"] = "nobody_knows"
    config["auto_map"] = {"AutoConfig": "configuration.Config", "AutoModel": "modeling.Model"}
    (bert / "config.json").write_text(json.dumps(config))
    with pytest.raises(UsageError, match="trust_remote_code=true"):
        retrokit.encoder(str(bert))


def test_a_revision_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)

    def info(name: str, **options: object) -> None:
        asked.append((name, options["revision"]))
        raise OSError("no such revision")

    monkeypatch.setattr("huggingface_hub.model_info", info)
    with pytest.raises(ServiceError, match="no such revision"):
        retrokit.encoder("somebody/model,revision=v2")
    assert asked == [("somebody/model", "v2")]
