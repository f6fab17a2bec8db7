"""What the library saves beside weights: similarity, truncated dimensions, lengths; and folders of other kinds."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import LayerNorm, Pooling

import retrokit
from retrokit.core.errors import DataError, UsageError
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
