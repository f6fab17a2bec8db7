"""Tokens made once give the features that the library makes for each batch, and the same trained table."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import retrokit
from retrokit.encoders import engine
from retrokit.training import table_tokens, table_trainer
from retrokit.training.config import FinetuneConfig
from retrokit.training.finetune import finetune
from tests.models import sentences

TEXTS = ["", "   ", "é😀 of two", "one", *sentences(40)]


@pytest.fixture(params=["off", "on"])
def cache(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether there is a cache, in the test's own folder."""
    state: str = request.param
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache") if state == "on" else "off")
    return state


@pytest.mark.parametrize("prompt", [None, "query: "])
def test_the_features_are_the_librarys(cache: str, prompt: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_tokens, "TEXTS_AT_ONCE", 7)
    model = retrokit.encoder("static:8").to_train().model
    known = table_tokens.prompted(TEXTS[:30], prompt)
    tokens = table_tokens.tokens_of(model.tokenizer, known, partial(engine.preprocess, model))
    for texts in (TEXTS[:30], TEXTS[29::-1], [TEXTS[5]] * 3, [""], TEXTS, TEXTS[30:]):
        expected = model.preprocess(texts, prompt=prompt, task="query")
        features = tokens(texts, prompt, "query")
        assert features.keys() == expected.keys()
        for name, values in expected.items():
            assert features[name].dtype == values.dtype
            assert torch.equal(features[name], values)


def trained(pairs: Path, folder: Path, **options: Any) -> tuple[bytes, list[float]]:
    """The file of a table trained for three epochs, and its losses on what was held out."""
    settings: dict[str, Any] = {"epochs": 3, "batch_size": 4, "lr": 0.1} | options
    outcome = finetune(FinetuneConfig("static:8", [str(pairs)], str(folder), **settings))
    losses = [row["evaluation"]["holdout:loss"] for row in outcome.evaluations if "holdout" in options]
    return (folder / "model.safetensors").read_bytes(), losses


@pytest.mark.parametrize("options", [{}, {"holdout": 4}], ids=["all", "held-out"])
def test_the_trained_table_is_the_same(
    cache: str, options: dict[str, Any], pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = trained(pairs, tmp_path / "once", **options)
    assert len(table[1]) >= bool(options)
    with monkeypatch.context() as patch:
        patch.setattr(table_trainer, "tokens_of", lambda tokenizer, texts, preprocess: preprocess)
        assert trained(pairs, tmp_path / "each-time", **options) == table
    with monkeypatch.context() as patch:
        if cache == "on":  # another run on the same texts makes none
            patch.setattr(table_tokens, "_tokenised", None)
        assert trained(pairs, tmp_path / "again", **options) == table


def test_a_run_that_leaves_texts_out_makes_the_tokens_of_its_batches_alone(
    pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_trainer, "tokens_of", None)
    assert trained(pairs, tmp_path / "run", epochs=None, steps=3)
    with pytest.raises(TypeError):
        trained(pairs, tmp_path / "epoch", epochs=None, steps=4)


def test_another_tokenizer_has_other_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache"))
    long_texts = [f"{text} {text}" for text in TEXTS]
    for length in (None, 4):
        options = "" if length is None else f",max_length={length}"
        tokenizer = retrokit.encoder(f"static:8{options}").to_train().model.tokenizer
        features = table_tokens.tokens_of(tokenizer, long_texts, pytest.fail)(long_texts, None, "document")
        longest = torch.diff(features["offsets"]).max()
        assert (longest == length) if length else (longest > 4)
