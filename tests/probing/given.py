"""Encoders of the registry whose embeddings are given, for probes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from retrokit import encoders
from retrokit.registry import Entry
from retrokit.similarities.base import Role
from tests.evaluation.fakes import GivenEncoder

_VECTORS: dict[str, Mapping[str, Sequence[float]]] = {}


class Given(GivenEncoder):
    """What each text's embedding is, is given; has all that a view of an encoder needs."""

    model = None
    had_normalize = False

    def max_length(self, role: Role) -> int | None:
        return None


def make(name: str, device: str | None = None) -> Given:
    """The encoder that a test registered as ``given:NAME``."""
    return Given(_VECTORS[name], f"given:{name}")


def register(monkeypatch: pytest.MonkeyPatch, vectors: Mapping[str, Mapping[str, Sequence[float]]]) -> list[str]:
    """Put encoders into the registry for a test: ``{name: {text: vector}}``; returns their specs."""
    from retrokit.registry import Param

    entry = Entry(
        "given", "a test's", "tests.probing.given:make", (Param("name", str, required=True),), positional="name"
    )
    encoders.registry.names()
    monkeypatch.setitem(encoders.registry._entries, "given", entry)
    for name, own in vectors.items():
        monkeypatch.setitem(_VECTORS, name, own)
    return [f"given:{name}" for name in vectors]
