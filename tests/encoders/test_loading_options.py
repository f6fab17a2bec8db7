"""What an encoder's spec says of how a model is loaded, and what published models say of their prompts."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel

import retrokit
from retrokit.core.errors import ServiceError, UsageError
from tests.models import make_bert, sentences

TEXTS = sentences(12)
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
        prompted = plain.embed([f"{prompt or ''}{text}" for text in TEXTS], role, "fp32")  # type: ignore[arg-type]
        np.testing.assert_allclose(made.embed(TEXTS, role, "fp32"), prompted, rtol=0, atol=1e-5)  # type: ignore[arg-type]
    own = retrokit.encoder(f'{tmp_path / "model"},query_prompt="ask: "')
    assert own.prompts["query"] == "ask: "


def test_a_prompt_that_the_pooling_leaves_out(bert: Path, tmp_path: Path) -> None:
    """As Instructor's: an instruction that is read and not pooled."""
    library = SentenceTransformer(str(bert), device="cpu", prompts={"query": "who sees the cat ", "document": "a day "})
    library[1].include_prompt = False
    library.save(str(tmp_path / "model"))
    made = retrokit.encoder(str(tmp_path / "model"))
    for role, encode in (("query", library.encode_query), ("document", library.encode_document)):
        np.testing.assert_allclose(made.embed(TEXTS, role, "fp32"), encode(TEXTS), rtol=0, atol=1e-5)  # type: ignore[arg-type]


@pytest.mark.parametrize("stored", ["bf16", "fp16"])
def test_a_checkpoint_stays_in_its_own_type_and_computes_as_if_it_did_not(stored: str, bert: Path) -> None:
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[stored]
    AutoModel.from_pretrained(bert).to(dtype).save_pretrained(bert)
    own, exact = retrokit.encoder(str(bert)), retrokit.encoder(f"{bert},dtype=fp32")
    assert {parameter.dtype for parameter in own.to_train().model.parameters()} == {dtype}
    assert {parameter.dtype for parameter in exact.to_train().model.parameters()} == {torch.float32}
    for precision in ("fp32", "bf16"):
        np.testing.assert_array_equal(own.embed(TEXTS, "query", precision), exact.embed(TEXTS, "query", precision))


def test_attention_may_be_computed_otherwise(bert: Path) -> None:
    usual, eager = retrokit.encoder(str(bert)), retrokit.encoder(f"{bert},attention=eager")
    assert eager.to_train().model[0].model.config._attn_implementation == "eager"
    a, b = usual.embed(TEXTS, "query", "fp32"), eager.embed(TEXTS, "query", "fp32")
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
    expected = 2 * retrokit.encoder(str(bert)).embed(TEXTS, "query", "fp32")
    (bert / "modeling_doubled.py").write_text(CODE)
    config = json.loads((bert / "config.json").read_text())
    config["model_type"] = "bert"
    config["auto_map"] = {"AutoModel": "modeling_doubled.Doubled"}
    (bert / "config.json").write_text(json.dumps(config))
    caplog.clear()
    made = retrokit.encoder(f"{bert},trust_remote_code=true")
    np.testing.assert_allclose(made.embed(TEXTS, "query", "fp32"), expected, rtol=1e-5, atol=1e-6)
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
