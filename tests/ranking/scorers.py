"""Rerankers whose scores are given, or decided by the texts alone; they count what they are asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from retrokit.core.registry import Entry
from retrokit.ranking import reranking
from retrokit.ranking.reranking.base import PairwiseReranker

Score = Callable[[str, str], float]
MADE: list[FakeReranker] = []
_SCORES: dict[str, Score] = {}


class FakeReranker(PairwiseReranker):
    """Scores pairs by ``score``; remembers each call's pairs. At the call ``breaks_at`` it is interrupted."""

    def __init__(self, spec: str, score: Score) -> None:
        self.spec = spec
        self._score = score
        self.calls: list[list[tuple[str, str]]] = []
        self.breaks_at: int | None = BREAK.get("at")

    def score_pairs(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        if len(self.calls) == self.breaks_at:
            raise KeyboardInterrupt
        pairs = list(zip(queries, documents, strict=True))
        self.calls.append(pairs)
        return np.array([self._score(*pair) for pair in pairs], dtype=np.float32)

    def fingerprint(self) -> str:
        return f"print of {self.spec}"


BREAK: dict[str, int] = {}


def first_fake(device: str | None = None) -> FakeReranker:
    """An entry of the registry."""
    return _made("fake")


def second_fake(device: str | None = None) -> FakeReranker:
    """Another entry of the registry."""
    return _made("other")


def _made(name: str) -> FakeReranker:
    MADE.append(FakeReranker(name, _SCORES[name]))
    return MADE[-1]


def register(monkeypatch: pytest.MonkeyPatch, **scores: Score | Mapping[tuple[str, str], float]) -> list[FakeReranker]:
    """Put the rerankers ``fake`` and ``other`` into the registry for a test; returns where those made will be."""
    MADE.clear()
    monkeypatch.delitem(BREAK, "at", raising=False)
    targets = {"fake": "first_fake", "other": "second_fake"}
    for name, score in scores.items():
        by = score if callable(score) else (lambda query, document, table=score: table[query, document])
        monkeypatch.setitem(_SCORES, name, by)
        entry = Entry(name, "a fake", f"tests.ranking.scorers:{targets[name]}")
        monkeypatch.setitem(reranking.registry._entries, name, entry)
    return MADE


def hashed(query: str, document: str) -> float:
    """A score that the texts decide, one of eleven: so there are ties."""
    return hashlib.sha256(f"{query}|{document}".encode()).digest()[0] % 11 / 10
