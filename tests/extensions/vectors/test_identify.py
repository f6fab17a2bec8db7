"""What gave the vectors of a table: planted mixtures are explained row by row, and nothing else is."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import parquet
from transformers import AutoTokenizer, BertConfig, BertModel

from retrokit import encoders
from retrokit.extensions.vectors.identify import NONE, Identification, identify
from tests.models import WORDS, make_bert

COUNT = 240
DIMENSION = 32


def texts_of(count: int, seed: int = 0) -> list[str]:
    """Texts of 5 to 150 words."""
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, random.integers(5, 150))) for _ in range(count)]


def make_model(folder: Path, seed: int) -> Path:
    """A tiny BERT that reads up to 192 tokens."""
    make_bert(folder, DIMENSION)
    config = BertConfig.from_pretrained(folder)
    config.max_position_embeddings = 192
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        BertModel(config).save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.model_max_length = 192
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("models")
    return str(make_model(folder / "one", seed=1)), str(make_model(folder / "other", seed=2))


TEXTS = texts_of(COUNT)
IDS = [f"d{number}" for number in range(COUNT)]


def embedded(spec: str, texts: list[str], role: Any = "document", precision: str = "fp32") -> np.ndarray:
    return normalised(encoders.registry.create(spec).embed(texts, role, precision))


def normalised(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def plain(models: tuple[str, str]) -> np.ndarray:
    return embedded(models[0], TEXTS)


def by_range(rows: np.ndarray) -> np.ndarray:
    """int8 in the range of each dimension, and back."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    step = (high - low) / 255
    return (np.clip(np.floor((rows - low) / step), 0, 255) * step + low).astype(np.float32)


def by_row(rows: np.ndarray) -> np.ndarray:
    """int8 by the largest number of each row, and back."""
    step = np.abs(rows).max(axis=1, keepdims=True) / 127
    return ((rows / step).round() * step).astype(np.float32)


def edited(text: str) -> str:
    words = text.split()
    return " ".join(["mountain", *words[: len(words) // 2]])


def written(folder: Path, vectors: np.ndarray, texts: list[str] = TEXTS, ids: list[str] = IDS) -> str:
    columns = {"id": ids, "text": texts, "vector": [*vectors]}
    parquet.write_table(pyarrow.table(columns), folder / "index.parquet")
    return str(folder / "index.parquet")


def explained(table: str, candidates: list[str], folder: Path, **more: Any) -> tuple[Identification, list[dict]]:
    report = identify(table, candidates, rows=str(folder / "rows.jsonl"), **more)
    return report, [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


def shifted(rows: np.ndarray) -> np.ndarray:
    return np.roll(rows, 1, axis=0)


def planted(kind: str, one: str, other: str, texts: list[str]) -> np.ndarray:
    """What a kind of damage leaves of the vectors of ``texts``."""
    make: Mapping[str, Callable[[], np.ndarray]] = {
        "prompt": lambda: embedded(f"{one},document_prompt=query: ", texts),
        "pooling": lambda: embedded(f"{one},pooling=cls", texts),
        "cut": lambda: embedded(f"{one},max_length=64", texts),
        "model": lambda: embedded(other, texts),
        "edited": lambda: embedded(one, [*map(edited, texts)]),
        "shuffled": lambda: shifted(embedded(one, texts)),
        "truncated": lambda: normalised(embedded(one, texts) * (np.arange(DIMENSION) < DIMENSION // 2)),
        "unnormalised": lambda: encoders.registry.create(one).embed(texts, "document", "fp32"),
        "int8": lambda: by_row(embedded(one, texts)),
        "float16": lambda: embedded(one, texts).astype(np.float16).astype(np.float32),
    }
    return make[kind]()


NAMES = {
    "prompt": ", prompt 'query: '",
    "pooling": ", pooling cls",
    "cut": ", cut at 64 tokens",
    "model": "",
    "edited": NONE,
    "shuffled": ", the text of another row",
    "truncated": ", first 16 dimensions",
    "unnormalised": ", not normalised",
    "int8": ", int8",
    "float16": ", float16",
}


@pytest.mark.parametrize("kind", NAMES)
def test_a_planted_kind_is_explained_by_row(models, plain, kind, tmp_path):
    one, other = models
    rows = np.sort(np.random.default_rng(7).choice(COUNT, 36, replace=False))
    vectors = plain.copy()
    vectors[rows] = planted(kind, one, other, [TEXTS[row] for row in rows])
    report, lines = explained(written(tmp_path, vectors), [one, other], tmp_path)
    if kind == "cut":  # others are the same
        rows = np.array([row for row in rows if len(TEXTS[row].split()) > 62])
    name = NONE if kind == "edited" else f"{other if kind == 'model' else one}{NAMES[kind]}"
    named = [row for row, line in enumerate(lines) if line["explanation"] == name]
    assert named == rows.tolist()
    rest = {line["explanation"] for row, line in enumerate(lines) if row not in named}
    assert rest == {one}
    differing = [row for row, line in enumerate(lines) if line["differs"]]
    assert differing == ([] if kind in ("int8", "float16") else rows.tolist())
    assert report.again == len(differing)
    assert report.shares[0].share == pytest.approx(1 - len(differing) / COUNT)
    assert (report.shares[0].low, report.shares[0].high) == (report.shares[0].share, report.shares[0].share)
    assert (report.overlap < 1) == bool(differing)


def test_rounding_is_no_difference(models, tmp_path):
    one, _ = models
    vectors = np.concatenate([embedded(one, TEXTS[:120]), embedded(one, TEXTS[120:], precision="bf16")])
    report, lines = explained(written(tmp_path, vectors), [one], tmp_path)
    assert {line["explanation"] for line in lines} == {one}
    assert report.again == 0
    assert report.groups == []
