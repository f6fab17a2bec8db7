"""Encoders of the registry whose embeddings are given, for probes."""

from collections.abc import Mapping, Sequence

import pytest

from retrokit import encoders
from retrokit.core.registry import Entry
from tests.evaluation.fakes import GivenEncoder

_VECTORS: dict[str, Mapping[str, Sequence[float]]] = {}


def make(name: str, device: str | None = None) -> GivenEncoder:
    """The encoder that a test registered as ``given:NAME``."""
    return GivenEncoder(_VECTORS[name], f"given:{name}")


def register(monkeypatch: pytest.MonkeyPatch, vectors: Mapping[str, Mapping[str, Sequence[float]]]) -> list[str]:
    """Put encoders into the registry for a test: ``{name: {text: vector}}``; returns their specs."""
    from retrokit.core.registry import Param

    entry = Entry("given", "a test's", "tests.probing.given:make", (Param("name", required=True),), positional="name")
    encoders.registry.names()
    monkeypatch.setitem(encoders.registry._entries, "given", entry)
    for name, own in vectors.items():
        monkeypatch.setitem(_VECTORS, name, own)
    return [f"given:{name}" for name in vectors]
