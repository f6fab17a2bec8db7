"""The examples that make glyphs and two fresh towers, and the table of what was trained on them."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

import retrokit
from retrokit.data.beir import read_beir
from retrokit.data.images import Image
from retrokit.data.pairs import read_source

EXAMPLES = Path(__file__).parents[1] / "examples"


def example(name: str) -> dict:
    return runpy.run_path(str(EXAMPLES / name))


@pytest.fixture(scope="module")
def glyphs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("glyphs")
    example("glyphs.py")["main"](folder)
    return folder


def test_glyphs_are_pairs_and_benchmarks_both_ways_round(glyphs: Path):
    pairs = {way: read_source(str(glyphs / f"{way}.jsonl"), "pairs", images=True) for way in WAYS}
    tests = {way: read_beir(glyphs / way, images=True) for way in WAYS}
    trained = {(one.anchor, one.positive) for one in pairs[WAYS[0]].records}
    assert trained == {(one.positive, one.anchor) for one in pairs[WAYS[1]].records}
    assert len(trained) + len(tests[WAYS[0]].documents) >= 1500
    assert {type(text) for text, _ in trained} == {str}
    assert {type(image) for _, image in trained} == {Image}
    tested = tests[WAYS[0]]
    assert (tested.documents, tested.queries) == (tests[WAYS[1]].queries, tests[WAYS[1]].documents)
    for side, known in ((tested.queries, {text for text, _ in trained}), (tested.documents, {i for _, i in trained})):
        assert len(set(side)) == len(side) > 300
        assert not known & set(side)


WAYS = ("text-to-image", "image-to-text")


def test_fresh_towers_read_the_texts_and_the_images(glyphs: Path, tmp_path: Path):
    example("small_clip.py")["main"](glyphs / "text-to-image.jsonl", tmp_path / "clip")
    encoder = retrokit.encoder(f"clip:{tmp_path / 'clip'}")
    tested = read_beir(glyphs / "text-to-image", images=True)
    made = encoder.embed([*tested.queries[:20], *tested.documents[:20]], "query", "fp32")
    assert made.shape == (40, 64)
    assert len(np.unique(made.round(6), axis=0)) == 40
    tokenizer = encoder.to_train().model.tokenizer
    assert tokenizer.tokenize("latin small letter a with zyx 12") == [
        *("latin", "small", "letter", "a", "with", "z", "##y", "##x", "1", "2")
    ]
    others = [retrokit.encoder(f"scratch:{tmp_path / 'clip'},seed={seed}") for seed in (0, 1, 1)]
    prints = [one.fingerprint() for one in others]
    assert prints[0] != prints[1] == prints[2]


def test_the_table_has_means_and_deviations(tmp_path: Path, capsys):
    table = example("clip_table.py")
    runs = [(name, seed) for name in table["CONFIGURATIONS"] for seed in (0, 1)]
    rows = [{"encoder": f"out/{name}-{seed}", "task": f"beir:x/{way}"} for name, seed in runs for way in WAYS]
    scored = [
        {**row, "similarity": sim, "metrics": {"accuracy@1": share}, "norms": {"document_norm_cv": 0.5}}
        for row, share in zip(rows, [0.1, 0.2, 0.3, 0.6] * 6, strict=True)
        for sim in ("cosine", "dot")
    ]
    (tmp_path / "eval.json").write_text(json.dumps({"results": scored}))
    probed = [{**row, "effect": {"value": number}} for row, number in zip(rows, [1, 2, 3, 6] * 6, strict=True)]
    (tmp_path / "probe.json").write_text(json.dumps({"results": probed}))
    table["main"](tmp_path)
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 8
    both = "40.0 ± 28.3 | 20.0 ± 14.1"
    assert rows[2] == f"| norm-sym | 2 | 2.00 ± 1.41 | 4.00 ± 2.83 | 0.50 ± 0.00 | 0.50 ± 0.00 | {both} | {both} |"
