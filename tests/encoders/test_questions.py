"""A question that is asked alone has the bits that the library's model gives it, without that model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import retrokit
from retrokit.core.errors import DataError
from retrokit.encoders import engine, onednn
from retrokit.encoders.base import Encoder
from retrokit.encoders.questions import QuestionModel

TEXTS = ["which bird sees a tree", "", " Two\nlines, [SEP] and\tÀ 数字 ", "the cat " * 300, "the dog?"]


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A cache of the test's own."""
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache"))


DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def remembered(spec: str, precision: str = "fp32") -> tuple[Encoder, Encoder]:
    """The encoder that the cache knows, and the one that was loaded for that."""
    first = retrokit.encoder(spec)
    first.embed(["a text"], "document", precision)
    return retrokit.encoder(spec), first.to_train()


def is_bert_plain(spec: str, loads: list[str], precision: str = "fp32") -> bool:
    """Whether questions take no model; their bits are the model's in any case."""
    again, loaded = remembered(spec, precision)
    del loads[:]
    for text in TEXTS:
        expected = loaded.embed([text], "query", precision)
        assert np.array_equal(again.embed([text], "query", precision), expected), text
    return not loads


@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize(
    "options",
    [
        "",
        ",pooling=cls",
        ",max_length=9,query_max_length=7",
        ',query_prompt="a ",document_prompt="the "',
        ",dtype=bf16",
    ],
)
def test_a_question_takes_no_model(tiny_bert, loads, options, precision):
    is_packed = onednn.works(DTYPES[precision])  # some processors have no bf16
    assert is_bert_plain(f"{tiny_bert}{options}", loads, precision) == is_packed


@pytest.mark.parametrize(
    ("options", "precision"), [(",pooling=token1", "bf16"), (",pooling=last", "fp32"), ("", "fp16")]
)
def test_what_computes_otherwise_is_loaded(tiny_bert, loads, options, precision):
    assert not is_bert_plain(f"{tiny_bert}{options}", loads, precision)


def test_a_precision_in_which_the_bits_differ_loads_the_model(tiny_bert, loads, monkeypatch):
    agrees = QuestionModel.agrees
    monkeypatch.setattr(QuestionModel, "agrees", lambda *given: given[-1] != "fp32" and agrees(*given))
    remembered(str(tiny_bert))
    del loads[:]
    retrokit.encoder(str(tiny_bert)).embed(["cat"], "query", "fp32")
    assert len(loads) == 1
    retrokit.encoder(str(tiny_bert)).embed(["cat"], "query", "bf16")
    assert len(loads) == (1 if onednn.works(torch.bfloat16) else 2)


def change_config(folder: Path, old: str, new: str) -> None:
    file = folder / "config.json"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture
def model(tiny_bert: Path, tmp_path: Path) -> Path:
    """A SentenceTransformer's folder, to change."""
    retrokit.encoder(str(tiny_bert)).to_train().model.save(str(tmp_path / "model"), create_model_card=False)
    return tmp_path / "model"


def test_another_activation_is_loaded(model, loads):
    change_config(model, '"hidden_act": "gelu"', '"hidden_act": "relu"')
    assert not is_bert_plain(str(model), loads)


def test_other_names_of_weights_are_loaded(model, loads):
    weights = load_file(model / "model.safetensors")
    stored = {name.replace("LayerNorm.weight", "LayerNorm.gamma"): tensor for name, tensor in weights.items()}
    stored = {name.replace("LayerNorm.bias", "LayerNorm.beta"): tensor for name, tensor in stored.items()}
    save_file(stored, model / "model.safetensors", metadata={"format": "pt"})
    assert not is_bert_plain(str(model), loads)


@pytest.mark.parametrize(("items", "role"), [(TEXTS, "query"), (TEXTS[:1], "document")])
def test_other_work_loads_the_model(tiny_bert, loads, items, role):
    again, loaded = remembered(str(tiny_bert))
    del loads[:]
    assert np.array_equal(again.embed(items, role, "fp32"), loaded.embed(items, role, "fp32"))
    assert len(loads) == 1


def test_what_is_made_comes_batch_by_batch(tiny_bert, monkeypatch):
    again, _ = remembered(str(tiny_bert))
    monkeypatch.setattr(engine, "CHUNK", 2)
    assert len(list(again._encoder.batches(TEXTS, "document", "fp32"))) == 3


def test_a_folder_that_has_changed_since_it_was_opened_is_an_error(model):
    again, _ = remembered(str(model))
    weights = load_file(model / "model.safetensors")
    weights["embeddings.word_embeddings.weight"] += 1
    save_file(weights, model / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DataError, match="has changed since it was opened"):
        again.embed(["a bird"], "query", "fp32")


def test_an_embedding_that_is_not_finite_is_an_error(model):
    weights = load_file(model / "model.safetensors")
    weights["embeddings.word_embeddings.weight"] += torch.inf
    save_file(weights, model / "model.safetensors", metadata={"format": "pt"})
    for encoder in (retrokit.encoder(str(model)), retrokit.encoder(str(model))):
        with pytest.raises(DataError, match="not finite"):
            encoder.embed(["cat"], "query", "fp32")
