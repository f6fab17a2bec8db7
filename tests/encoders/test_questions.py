"""Texts have the bits that the library's model gives them, without that model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

import retrokit
from retrokit.core.errors import DataError
from retrokit.encoders.base import Encoder

TEXTS = ["which bird sees a tree", "", " Two\nlines, [SEP] and\tÀ 数字 ", "the cat " * 300, "the dog?"]


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A cache of the test's own."""
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache"))


def remembered(spec: str, precision: str = "fp32") -> tuple[Encoder, Encoder]:
    """The encoder that the cache knows, and the one that was loaded for that."""
    first = retrokit.encoder(spec)
    first.embed(["a text"], "document", precision)
    return retrokit.encoder(spec), first.to_train()


def loads_for_questions(spec: str, loads: list[str], precision: str = "fp32") -> bool:
    """Whether questions load the model; their bits are the model's in any case."""
    again, loaded = remembered(spec, precision)
    del loads[:]
    for text in TEXTS:
        expected = loaded.embed([text], "query", precision)
        assert np.array_equal(again.embed([text], "query", precision), expected), text
    return bool(loads)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize(
    "options",
    [
        "",
        ",pooling=cls",
        ",max_length=9,query_max_length=7",
        ',query_prompt="a ",document_prompt="the "',
        ",dtype=bf16",
        ",attention=eager",
    ],
)
def test_a_question_takes_no_model(tiny_bert, loads, options, precision):
    assert not loads_for_questions(f"{tiny_bert}{options}", loads, precision)


@pytest.mark.parametrize("options", [",pooling=token1", ",pooling=last"])
def test_what_computes_otherwise_is_loaded(tiny_bert, loads, options):
    assert loads_for_questions(f"{tiny_bert}{options}", loads)


@pytest.mark.parametrize(("items", "role"), [(TEXTS, "query"), (TEXTS[:1], "document")])
def test_other_texts_take_no_model_either(tiny_bert, loads, items, role):
    again, loaded = remembered(str(tiny_bert))
    del loads[:]
    assert np.array_equal(again.embed(items, role, "fp32"), loaded.embed(items, role, "fp32"))
    assert not loads


def test_tokens_load_the_model(tiny_bert, loads):
    again, loaded = remembered(str(tiny_bert))
    del loads[:]
    tokens = again.with_tokens().token_embeddings(TEXTS, "query", "fp32")
    for row, expected in zip(tokens, loaded.token_embeddings(TEXTS, "query", "fp32"), strict=True):
        assert np.array_equal(row, expected)
    assert len(loads) == 1


def test_a_folder_that_has_changed_since_it_was_opened_is_an_error(model):
    again, _ = remembered(str(model))
    weights = load_file(model / "model.safetensors")
    weights["embeddings.word_embeddings.weight"] += 1
    save_file(weights, model / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DataError, match="has changed since it was opened"):
        again.embed(["a bird"], "query", "fp32")
