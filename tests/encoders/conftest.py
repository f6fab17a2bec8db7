"""One thread, on which tiny models compute fastest, above all where other work keeps the cores busy; what is loaded."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import retrokit
from retrokit.encoders import loading
from retrokit.encoders.base import Encoder


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """One thread for the duration of a test."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the encoders that were loaded."""
    names: list[str] = []
    load = loading.load_model

    def counted(name: str, *rest: object, **options: object) -> Encoder:
        names.append(name)
        return load(name, *rest, **options)

    monkeypatch.setattr(loading, "load_model", counted)
    return names


@pytest.fixture
def model(tiny_bert: Path, tmp_path: Path) -> Path:
    """A SentenceTransformer's folder, to change."""
    retrokit.encoder(str(tiny_bert)).to_train().model.save(str(tmp_path / "model"), create_model_card=False)
    return tmp_path / "model"
