"""Encoders with the embedding cache: what hits, what misses, and that results stay those of the model."""

import os
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers.base.modules import Dense, Router

import retrokit
from retrokit.encoders import cached as embeddings
from retrokit.encoders import engine, plain, store
from retrokit.encoders.base import Encoder
from retrokit.encoders.store import FILE
from retrokit.encoders.towers import with_modules
from retrokit.training.model import as_encoder, build
from tests.models import sentences

TEXTS = [*sentences(20, seed=5), "", "cat cat", "ünïcödé 猫 🐈"]


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """A cache of the test's own; the texts that are encoded are added to the list."""
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache"))
    asked: list[str] = []
    batches = engine.batches

    def counted(model: Any, texts: list[str], *rest: Any, **options: Any) -> Any:
        asked.extend(texts)
        return batches(model, texts, *rest, **options)

    monkeypatch.setattr(engine, "batches", counted)
    monkeypatch.setattr(plain, "plain_settings", lambda *_: None)  # which embeds a few texts
    return asked


def uncached(spec: str, monkeypatch: pytest.MonkeyPatch) -> Encoder:
    with monkeypatch.context() as patch:
        patch.setenv("RETROKIT_CACHE", "off")
        return retrokit.encoder(spec)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("options", ["{bert}", "{bert},pooling=cls", "static:dim=8,tokenizer={bert}"])
def test_the_second_time_nothing_is_encoded(tiny_bert, monkeypatch, encoded, options, precision):
    spec = options.format(bert=tiny_bert)
    expected = uncached(spec, monkeypatch).embed(TEXTS, "document", precision)
    del encoded[:]
    for count in (len(TEXTS), 0):
        made = retrokit.encoder(spec).embed(TEXTS, "document", precision)
        assert made.dtype == np.float32
        assert np.array_equal(made, expected)
        assert len(encoded) == count
        del encoded[:]


VARIANTS = [
    *("{bert}", "{bert},pooling=cls", "{bert},pooling=token1", '{bert},document_prompt="a "'),
    *('{bert},query_prompt="a "', "{bert},max_length=9", "{bert},query_max_length=9", "{bert},dtype=bf16"),
    *("scratch:{bert},seed=1", "scratch:{bert},seed=2", "static:dim=4,tokenizer={bert}"),
    *("static:dim=8,tokenizer={bert}", "static:dim=4,tokenizer={bert},seed=1"),
]


def test_whatever_decides_an_embedding_misses(tiny_bert, monkeypatch, encoded):
    asked = 0
    for variant in VARIANTS:
        encoder = retrokit.encoder(variant.format(bert=tiny_bert))
        plain = uncached(variant.format(bert=tiny_bert), monkeypatch)
        for role in ("query", "document"):
            for precision in ("fp32", "fp16"):
                made = encoder.embed(TEXTS, role, precision)
                is_shared = role == "document" and "query_prompt" in variant  # those of the first variant
                asked += 0 if is_shared else len(TEXTS)
                assert len(encoded) == asked, (variant, role, precision)
                assert np.array_equal(made, plain.embed(TEXTS, role, precision))
                asked += len(TEXTS)


def last_bit(weight: torch.Tensor) -> None:
    weight[-1, -1] = torch.nextafter(weight[-1, -1], torch.tensor(100.0))


def swapped_rows(weight: torch.Tensor) -> None:
    weight[[30, 31]] = weight[[31, 30]]  # the sum of the bits stays


CHANGES: dict[str, Callable[[Encoder], Any]] = {
    "the last bit of a weight": lambda encoder: last_bit(next(encoder.to_train().model.parameters())),
    "behind PyTorch's back": lambda encoder: last_bit(next(encoder.to_train().model.parameters()).data),
    "two rows swapped": lambda encoder: swapped_rows(next(encoder.to_train().model.parameters())),
    "a prompt": lambda encoder: encoder.to_train().model.prompts.update(document="find "),
    "the length": lambda encoder: setattr(encoder.to_train().model, "max_seq_length", 5),
    "the pooling": lambda encoder: setattr(encoder.to_train().model[1], "pooling_mode", "cls"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_loaded_encoder_that_is_changed_misses(tiny_bert, encoded, change):
    encoder = retrokit.encoder(str(tiny_bert))
    encoder.embed(TEXTS, "document", "fp32")
    encoder.embed(TEXTS, "document", "fp32")
    assert len(encoded) == len(TEXTS)
    with torch.no_grad():
        CHANGES[change](encoder)
    encoder.embed(TEXTS, "document", "fp32")
    assert len(encoded) == 2 * len(TEXTS)


def test_a_model_under_training_is_not_cached(tiny_bert, encoded):
    trained, _ = build(retrokit.encoder(str(tiny_bert)), "cosine")
    view = as_encoder(trained, "in training")
    for _ in range(2):
        view.embed(["cat"], "document", "fp32")
    assert encoded == ["cat", "cat"]
    opened = store.open_cache()
    assert opened is not None
    assert opened.held() == []


def test_a_single_question_of_a_settled_encoder_is_not_kept(tiny_bert, encoded):
    encoder = retrokit.encoder(str(tiny_bert))
    expected = encoder.embed(["cat"], "query")
    encoder.settle()
    for texts in (["dog"], ["dog"], ["dog", "bird"]):
        del encoded[:]
        made = encoder.embed(texts, "query")
        assert encoded == texts  # nor is it looked for
    assert made.shape == (2, expected.shape[1])
    del encoded[:]
    assert np.array_equal(encoder.embed(texts, "query"), made)
    assert encoded == []


KILLED = """
import os, signal, sys
import retrokit
from retrokit.encoders import engine
from retrokit.encoders import cached as embeddings
from tests.models import sentences
embeddings.SECONDS_AT_RISK = 0.0
engine.CHUNK = 8
forward, calls = engine._forward, []
def counted(*arguments):
    calls.append(1)
    if len(calls) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return forward(*arguments)
engine._forward = counted
retrokit.encoder(sys.argv[1]).embed(sentences(60, seed=9), "document", sys.argv[3])
"""


def resumed_after(
    kills: list[int], bert: Path, folder: Path, python: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill the encoding at those batches, go on, and compare with one that was never killed, byte by byte."""
    monkeypatch.setattr(engine, "CHUNK", 8)
    monkeypatch.setattr(embeddings, "SECONDS_AT_RISK", 0.0)
    texts = sentences(60, seed=9)
    for kill in kills:
        environment = {**os.environ, "RETROKIT_CACHE": str(folder / "broken")}
        command = [python, "-c", KILLED, str(bert), str(kill), precision]
        done = subprocess.run(command, cwd=Path(__file__).parents[2], env=environment, timeout=300)
        assert done.returncode == -9
    found = {}
    for name in ("broken", "whole"):
        monkeypatch.setenv("RETROKIT_CACHE", str(folder / name))
        found[name] = retrokit.encoder(str(bert)).embed(texts, "document", precision)
        with closing(sqlite3.connect(folder / name / FILE)) as opened:
            found[f"{name} rows"] = opened.execute("SELECT item, content FROM embeddings ORDER BY item").fetchall()
    assert np.array_equal(found["broken"], found["whole"])
    assert found["broken rows"] == found["whole rows"]
    monkeypatch.setenv("RETROKIT_CACHE", "off")
    assert np.array_equal(found["whole"], retrokit.encoder(str(bert)).embed(texts, "document", precision))


def test_kill_9_and_go_on_to_the_same_bytes(tiny_bert, tmp_path, python, monkeypatch):
    resumed_after([4], tiny_bert, tmp_path, python, "fp32", monkeypatch)


def test_encoders_that_differ_in_queries_only_share_documents(tiny_bert, tmp_path, encoded):
    """Documents that the cache has of one are there for one with another query side, and queries are not."""
    plain = retrokit.encoder(str(tiny_bert))
    documents, queries = (plain.embed(TEXTS, role, "fp32") for role in ("document", "query"))
    start = plain.to_train().model
    turned = Dense(16, 16, bias=False, activation_function=None, init_weight=torch.eye(16).flip(0))
    with_modules(start, [*start, Router({"query": [turned], "document": []})]).save(str(tmp_path / "turned"))
    del encoded[:]
    other = retrokit.encoder(str(tmp_path / "turned"))
    assert np.array_equal(other.embed(TEXTS, "document", "fp32"), documents)
    assert encoded == []
    assert np.allclose(other.embed(TEXTS, "query", "fp32"), queries[:, ::-1], atol=1e-6)
    assert sorted(encoded) == sorted(TEXTS)
    assert other.fingerprint() != plain.fingerprint() == other.document_fingerprint()
