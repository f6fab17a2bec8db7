"""``retrokit cache`` as typed, and that the second command over the same texts encodes nothing."""

import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from retrokit.data.jsonl import write_jsonl
from retrokit.encoders import engine, opening
from retrokit.encoders.store import OVERHEAD
from tests.evaluation.fakes import write_folder, write_lines
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
    monkeypatch.setattr(opening, "question_settings", lambda *_: None)  # which embeds a few texts
    return asked


@pytest.fixture
def benchmark(tmp_path: Path) -> str:
    return f"beir:{write_folder(tmp_path / 'set', DOCUMENTS, QUERIES, {f'q{i}': {f'd{i}': 1} for i in range(20)})}"


@pytest.fixture
def others(tmp_path: Path) -> dict[str, Path]:
    """A file for every command that reads one, of the texts of the benchmark's documents."""
    labelled = [{"text": text, "label": i % 2} for i, text in enumerate(TEXTS[:40])]
    near = [{"text": a, "near_miss": b, "family": "negation"} for a, b in zip(TEXTS[:20], TEXTS[20:40], strict=True)]
    pairs = [{"toxic": a, "neutral": b} for a, b in zip(TEXTS[:20], TEXTS[20:40], strict=True)]
    write_jsonl(str(tmp_path / "mine.jsonl"), ({"anchor": a, "positive": b} for a, b in pairwise(TEXTS)))
    return {
        "labelled": write_lines(tmp_path / "labelled.jsonl", labelled),
        "near": write_lines(tmp_path / "near.jsonl", near),
        "pairs": write_lines(tmp_path / "pairs.jsonl", pairs),
        "mine": tmp_path / "mine.jsonl",
    }


COMMANDS = {
    "eval": "eval {bert} --on {beir} --device cpu --json",
    "magnitude": "probe magnitude {bert} --on {beir} --device cpu --json",
    "fisher": "probe fisher {bert} --on {beir} --pairs 20 --device cpu --json",
    "fragments": "probe fragments {bert} --on classify:{labelled} --size 4 --device cpu --json",
    "contrast": "probe contrast {bert} --on pairs:{pairs},a=toxic,b=neutral --size 4 --device cpu --json",
    "near-miss": "probe near-miss {bert} --on pairs:{near} --device cpu --json",
    "layers": "probe layers {bert} --on knn:{labelled},k=3 --device cpu --json",
    "geometry": "probe geometry {bert} --on {labelled} --size 4 --neighbours 3 --device cpu --json",
    "map": "probe map {bert} --on knn:{labelled},k=3 --plot pictures --device cpu --json",
    "mine": "augment mine {mine} --encoder {bert} --negatives 2 --device cpu -o {out}",
}


def without_times(output: str) -> str:
    return re.sub(r'"encoding_seconds": [\d.]+', "", output)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_second_time_nothing_is_encoded(retrokit, encoded, benchmark, others, tiny_bert, tmp_path, name):
    words = COMMANDS[name].format(bert=tiny_bert, beir=benchmark, out=tmp_path / "mined.jsonl", **others).split()
    code, first, err = retrokit(*words)
    assert code == 0, err
    assert 0 < len(encoded) == len({*encoded}) or name in ("mine", "near-miss"), "no text twice"
    del encoded[:]
    code, second, err = retrokit(*words)
    assert code == 0, err
    assert encoded == []
    assert without_times(second) == without_times(first)


def test_what_one_command_has_encoded_serves_another(retrokit, encoded, benchmark, others, tiny_bert):
    for name in ("eval", "magnitude"):
        retrokit(*COMMANDS[name].format(bert=tiny_bert, beir=benchmark, out="x", **others).split())
    assert sorted(encoded) == sorted(TEXTS)
    retrokit(*COMMANDS["geometry"].format(bert=tiny_bert, beir=benchmark, out="x", **others).split())
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
        (["cache", "--clear", "--limit", "1GB"], "give one of --clear and --limit"),
        (["cache", "--limit", "much"], "--limit: 'much' is not a size; expected for example 500MB or 20GB"),
        (["--no-cache", "cache"], "the embedding cache is disabled (RETROKIT_CACHE=off, --no-cache)"),
    ],
)
def test_wrong_use(retrokit, words, message):
    assert retrokit(*words) == (2, "", f"retrokit: {message}\n")
