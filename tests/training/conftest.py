"""What tests of training read."""

from pathlib import Path

import pytest

from retrokit.data.jsonl import write_jsonl
from tests.models import sentences


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """16 pairs of sentences."""
    texts = sentences(32)
    rows = [{"anchor": a, "positive": b} for a, b in zip(texts[:16], texts[16:], strict=True)]
    write_jsonl(tmp_path / "pairs.jsonl", rows)
    return tmp_path / "pairs.jsonl"


@pytest.fixture(scope="module")
def triplets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pairs of which some have hard negatives, and not equally many, with a teacher's scores; one anchor has two
    positives."""
    texts = sentences(120)
    rows = [
        {"anchor": texts[i], "positive": texts[32 + i], "negatives": texts[64 + i : 64 + i + i % 3]} for i in range(32)
    ]
    for place, row in enumerate(rows):
        row |= {"positive_score": place % 5, "negative_scores": [place % 7 - 3, place % 4][: place % 3]}
    rows[1]["anchor"] = rows[0]["anchor"]
    path = tmp_path_factory.mktemp("data") / "triplets.jsonl"
    write_jsonl(path, rows)
    return path
