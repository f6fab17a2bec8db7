"""Asymmetric models: a Router of sentence-transformers at every place, each role as the library embeds it."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Router, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding
from torch import nn

import retrokit
from retrokit.cli.entry import run
from tests.models import make_bert, sentences

TEXTS = [*sentences(6, seed=3), "cat " * 100, "cat", ""]
PLACES = ["first", "last", "middle", "shared", "mapped", "normalized", "static"]


def pooled(folder: Path, mode: str = "mean") -> list[nn.Module]:
    transformer = Transformer(str(folder))
    return [transformer, Pooling(16, mode)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    """Asymmetric models by the place of their Router, with prompts of both roles."""
    place = tmp_path_factory.mktemp("asymmetric")
    bert, other = make_bert(place / "bert"), make_bert(place / "other", layers=1)
    torch.manual_seed(1)
    query, document = pooled(bert), pooled(other, "cls")
    document[0].max_seq_length = 32
    table = StaticEmbedding(query[0].tokenizer, embedding_dim=16)
    both = Router.for_query_document
    modules: dict[str, list[nn.Module]] = {
        "first": [both(query, document), Normalize()],
        "last": [*query, both([Dense(16, 8)], [Dense(16, 8)])],
        "middle": [*query, both([Dense(16, 16)], [Dense(16, 16)]), Dense(16, 8), Normalize()],
        "shared": [both([*query, Dense(16, 8)], [*query, Dense(16, 8)])],
        "mapped": [Router({"a": document, "b": query}, route_mappings={("query", None): "b", ("document", None): "a"})],
        "normalized": [both([*query, Normalize()], [*document, Normalize()])],
        "static": [both([table], document)],
    }
    for name, parts in modules.items():
        model = SentenceTransformer(modules=parts, device="cpu", prompts={"query": "who sees ", "document": "the "})
        model.save(str(place / name), create_model_card=False)
    return {name: place / name for name in PLACES}


def by_library(folder: Path, texts: list[str]) -> dict[str, np.ndarray]:
    model = SentenceTransformer(str(folder), device="cpu")
    return {"query": model.encode_query(texts), "document": model.encode_document(texts)}


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("place", PLACES)
def test_each_role_is_embedded_as_by_the_library(folders, place):
    encoder = retrokit.encoder(str(folders[place]), device="cpu")
    expected = by_library(folders[place], TEXTS)
    for role in ("query", "document"):
        np.testing.assert_allclose(unit(encoder.embed(TEXTS, role, "fp32")), unit(expected[role]), atol=2e-6)
    assert np.abs(expected["query"] - expected["document"]).max() > 0.01  # so that a wrong tower would show


@pytest.mark.parametrize("place", PLACES)
def test_the_fingerprint_tells_swapped_towers_apart(folders, place, tmp_path):
    model = SentenceTransformer(str(folders[place]), device="cpu")
    (router,) = (module for module in model if isinstance(module, Router))
    if router.route_mappings:
        router.route_mappings = {key: {"a": "b", "b": "a"}[route] for key, route in router.route_mappings.items()}
    else:
        router.sub_modules["query"], router.sub_modules["document"] = (
            router.sub_modules["document"],
            router.sub_modules["query"],
        )
    model.save(str(tmp_path / "swapped"), create_model_card=False)
    swapped, whole = (retrokit.encoder(str(path), device="cpu") for path in (tmp_path / "swapped", folders[place]))
    assert swapped.fingerprint() != whole.fingerprint()


@pytest.mark.parametrize("place", ["first", "last", "static"])
def test_the_cache_keeps_the_roles_apart(folders, place, tmp_path, monkeypatch):
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache"))
    expected = by_library(folders[place], TEXTS)
    for _ in range(2):
        for role in ("query", "document"):
            encoder = retrokit.encoder(str(folders[place]), device="cpu")
            np.testing.assert_allclose(unit(encoder.embed(TEXTS, role, "fp32")), unit(expected[role]), atol=2e-6)


@pytest.mark.parametrize("place", PLACES)
def test_trained_and_saved(folders, place, tmp_path, capsys):
    rows = [{"anchor": text, "positive": other} for text, other in zip(sentences(8), sentences(8, seed=9), strict=True)]
    (tmp_path / "pairs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    out = tmp_path / "run"
    command = ["finetune", str(folders[place]), "--data", str(tmp_path / "pairs.jsonl"), "-o", str(out)]
    options = ["--batch-size", "4", "--epochs", "1", "--lr", "0.01", "--device", "cpu"]
    assert run([*command, *options]) == 0, capsys.readouterr().err
    expected, before = by_library(out, TEXTS), by_library(folders[place], TEXTS)
    encoder = retrokit.encoder(str(out), device="cpu")
    for role in ("query", "document"):
        np.testing.assert_allclose(unit(encoder.embed(TEXTS, role, "fp32")), unit(expected[role]), atol=2e-6)
        assert not np.allclose(unit(expected[role]), unit(before[role]), atol=2e-6)
