"""``retrokit cache`` as typed, and that what one command has encoded serves another."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from retrokit.encoders import engine, plain
from retrokit.encoders.store import OVERHEAD
from tests.evaluation.fakes import write_folder
from tests.models import sentences

Command = Callable[..., tuple[int, str, str]]

TEXTS = sentences(60, seed=11)
DOCUMENTS = {f"d{i}": text for i, text in enumerate(TEXTS[:40])}
QUERIES = {f"q{i}": text for i, text in enumerate(TEXTS[40:])}


@pytest.fixture
def retrokit(typed: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Run ``retrokit …`` with a cache of the test's own."""
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache"))
    return typed


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were encoded."""
    asked: list[str] = []
    batches = engine.batches

    def counted(model: Any, texts: list[str], *rest: Any, **options: Any) -> Any:
        asked.extend(texts)
        return batches(model, texts, *rest, **options)

    monkeypatch.setattr(engine, "batches", counted)
    monkeypatch.setattr(plain, "plain_settings", lambda *_: None)  # which embeds a few texts
    return asked


@pytest.fixture
def benchmark(tmp_path: Path) -> str:
    return f"beir:{write_folder(tmp_path / 'set', DOCUMENTS, QUERIES, {f'q{i}': {f'd{i}': 1} for i in range(20)})}"


def test_what_one_command_has_encoded_serves_another(retrokit, encoded, benchmark, tiny_bert):
    evaluated = ("eval", tiny_bert, "--on", benchmark, "--device", "cpu", "--json")
    assert retrokit(*evaluated)[0] == 0
    assert sorted(encoded) == sorted(TEXTS), "no text twice"
    assert retrokit("probe", "magnitude", tiny_bert, "--on", benchmark, "--device", "cpu", "--json")[0] == 0
    assert retrokit(*evaluated)[0] == 0
    assert sorted(encoded) == sorted(TEXTS)


def test_what_is_there_and_making_it_smaller(retrokit, benchmark, tmp_path, tiny_bert):
    size = 60 * (8 * 4 + OVERHEAD)
    specs = ["static:dim=8,seed=1", "static:dim=8,seed=2", "static:dim=8,seed=3"]
    for spec in specs:
        assert retrokit("eval", f"{spec},tokenizer={tiny_bert}", "--on", benchmark, "--precision", "fp32")[0] == 0
    code, out, _ = retrokit("cache", "--json")
    assert code == 0
    found = json.loads(out)
    assert (found["folder"], found["limit"], found["size"]) == (str(tmp_path / "cache"), 20 * 10**9, 3 * size)
    assert [one["spec"].split(",")[1] for one in found["encoders"]] == ["seed=3", "seed=2", "seed=1"]
    for one in found["encoders"]:
        assert {key: one[key] for key in ("kind", "precision", "device", "dimension", "rows", "size")} == {
            **{"kind": "pooled", "precision": "float32", "device": "cpu", "dimension": 8, "rows": 60, "size": size}
        }
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", one["last_used"])
        assert len(one["fingerprint"]) == 64
    code, out, _ = retrokit("cache", "--limit", f"{2 * size}")
    assert code == 0
    assert f"{2 * size / 1000:.1f} kB of at most 20.0 GB" in out
    assert "seed=1" not in out
    assert "seed=3" in out
    code, out, _ = retrokit("cache", "--clear")
    assert code == 0
    assert out.strip() == f"0 bytes of at most 20.0 GB in {tmp_path / 'cache'}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cache", "--clear", "--limit", "1GB"], "--clear and --limit exclude each other"),
        (["cache", "--limit", "much"], "--limit: 'much' is not a size; expected for example 500MB or 20GB"),
        (["--no-cache", "cache"], "the embedding cache is disabled (RETROKIT_CACHE=off, --no-cache)"),
    ],
)
def test_wrong_use(retrokit, words, message):
    assert retrokit(*words) == (2, "", f"retrokit: {message}\n")
