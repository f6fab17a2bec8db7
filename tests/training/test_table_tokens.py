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
    tokens = table_tokens.tokens_of(model.tokenizer, lambda: known, partial(engine.preprocess, model))
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
        features = table_tokens.tokens_of(tokenizer, lambda: long_texts, pytest.fail)(long_texts, None, "document")
        longest = torch.diff(features["offsets"]).max()
        assert (longest == length) if length else (longest > 4)


class Recorded:
    """A tokenizer that notes what it is given."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.encoded: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tokenizer, name)

    def encode_batch_fast(self, texts: list[str], **options: Any) -> Any:
        """The tokenizer's."""
        self.encoded += texts
        return self.tokenizer.encode_batch_fast(texts, **options)


ODD = [
    "a  b",
    " a\tb\u00a0c ",
    "a\x1cb \x00 c\u200bd",
    "e \u0301e",
    "中文 字",
    "[MASK] [MASK",
    "x" * 101 + " y",
    "İ ß.",
]


def test_a_word_is_tokenised_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(table_tokens, "TEXTS_AT_ONCE", 5)
    model = retrokit.encoder("static:8").to_train().model
    tokenizer = Recorded(model.tokenizer)
    texts = [*ODD, *TEXTS, *ODD]
    features = table_tokens.tokens_of(tokenizer, lambda: texts, pytest.fail)(texts, None, "query")
    expected = model.preprocess(texts, prompt=None, task="query")
    assert torch.equal(features["input_ids"], expected["input_ids"])
    assert torch.equal(features["offsets"], expected["offsets"])
    assert len(tokenizer.encoded) == len({word for text in texts for word in text.split(" ")})


def test_texts_stay_whole_where_a_token_has_a_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache"))
    model = retrokit.encoder("static:8").to_train().model
    model.tokenizer.add_tokens(["new york"])
    tokenizer = Recorded(model.tokenizer)
    texts = ["in new york", "a new one"]
    features = table_tokens.tokens_of(tokenizer, lambda: texts, pytest.fail)(texts, None, "query")
    expected = [model.tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    assert features["input_ids"].tolist() == [*expected[0], *expected[1]]
    assert tokenizer.encoded == texts


def test_texts_are_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more texts at once than a batch, and none where the tokens are cached."""
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(table_tokens, "TEXTS_AT_ONCE", 5)

    class Text(str):
        alive = 0
        most = 0

        def __init__(self, text: str) -> None:
            Text.alive += 1
            Text.most = max(Text.most, Text.alive)

        def __del__(self) -> None:
            Text.alive -= 1

    tokenizer = retrokit.encoder("static:8").to_train().model.tokenizer
    for most in (7, 3):
        Text.most = 0
        table_tokens.tokens_of(tokenizer, lambda: (Text(f"text {number}") for number in range(60)), pytest.fail)
        assert Text.most <= most


def test_threads_are_as_many_as_before_afterwards() -> None:
    before = torch.get_num_threads()

    def compute() -> None:
        with table_trainer.threads(before + 1):
            assert torch.get_num_threads() == before + 1
            raise KeyError

    with pytest.raises(KeyError):
        compute()
    assert torch.get_num_threads() == before
