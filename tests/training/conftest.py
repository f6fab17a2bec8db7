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
