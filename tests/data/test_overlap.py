"""Texts that stand in two places: the same, nearly the same, and neither."""

import json
import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from retrokit.data import overlap
from retrokit.data.images import Image
from retrokit.data.overlap import NEAR, JudgedTexts, Shingles, TextFinder, overlaps, similarity
from retrokit.data.pairs import read_source
from retrokit.data.training_rows import normal_form

WORDS = [f"w{i}" for i in range(3000)]


def shingles_by_hand(text: str) -> frozenset[object]:
    words = text.lower().replace(".", " ").split()
    return frozenset(pairwise(words)) if len(words) > 1 else frozenset(words)


def test_pairs_of_words_by_hand() -> None:
    texts = ["A b c.", "b  C a b", "x", "", "...", "a b c a b"]
    pairs, starts = Shingles().of(texts)
    sets = [frozenset(pairs[a:b].tolist()) - {0} for a, b in pairwise(starts)]
    for i, one in enumerate(texts):
        for j, other in enumerate(texts):
            expected = similarity(shingles_by_hand(one), shingles_by_hand(other))  # type: ignore[arg-type]
            assert similarity(sets[i], sets[j]) == expected, (one, other)


def test_images_have_no_words_and_do_not_shift_those_of_texts() -> None:
    images = [Image(f"{name}.png", name, ("images.jsonl", 1)) for name in "ab"]
    shingles = Shingles()
    pairs, starts = shingles.of([images[0], "a b c", images[1]])
    assert (pairs[starts[1] : starts[2]] == shingles.of(["a b c"])[0]).all()
    finder = TextFinder(images, Shingles())
    finder.look_in(images[1:])
    assert (finder.exact, finder.near) == ({1: images[1]}, {})


@pytest.mark.parametrize(
    ("text", "near", "apart"),
    [
        (
            "申请护照需要携带身份证到出入境管理局办理一般需要十个工作日。",
            "申请护照需要携带身份证到出入境管理局办理一般需要七个工作日",
            "护照",
        ),
        (
            "Ｔｈｅ cafe\u0301 is open on every day of the long week",
            "The caf\u00e9 is open on every day of the long weekend",
            "café",
        ),
        (
            "भारत की राजधानी नई दिल्ली है और यह एक बड़ा शहर है",
            "भारत की राजधानी नई दिल्ली है और यह एक बड़ा शहर हैं",
            "भारत को राजधाना नया दिल्ला हो",
        ),
    ],
)
def test_near_duplicates_of_any_script(text: str, near: str, apart: str) -> None:
    finder = TextFinder([text], Shingles())
    finder.look_in([apart])
    assert not finder.near
    finder.look_in([near])
    assert finder.near == {0: near}
    assert not finder.exact


@pytest.mark.parametrize("at_once", [7, 4096])
def test_it_finds_what_comparing_all_finds(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(overlap, "_AT_ONCE", at_once)
    draw = random.Random(1)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(1, 30))) for _ in range(60)]
    others = [" ".join(draw.choices(WORDS, k=draw.randint(1, 30))) for _ in range(60)]
    for text in texts[:40]:
        words = text.split()
        for place in draw.sample(range(len(words)), min(len(words), draw.randint(0, 3))):
            words[place] = draw.choice(WORDS)
        others.append("  ".join(words).upper() + ".")
    draw.shuffle(others)
    finder = TextFinder(texts, Shingles())
    finder.look_in(others)
    forms = {normal_form(other) for other in others}
    near = {
        place
        for place, text in enumerate(texts)
        if any(similarity(shingles_by_hand(text), shingles_by_hand(other.lower())) >= NEAR for other in others)  # type: ignore[arg-type]
    }
    assert len(near) > 10
    assert set(finder.exact) == {place for place, text in enumerate(texts) if normal_form(text) in forms}
    assert set(finder.near) == near - set(finder.exact)


def written(path: Path, rows: list[dict[str, object]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


CLAIM = "one two three four five six seven eight nine ten"
TEST = JudgedTexts.of([("Seen  query", "shared text"), (CLAIM, "text of its own"), ("new", "Shared text")])


@pytest.mark.parametrize(
    ("kind", "rows", "expected"),
    [
        (
            "pairs",
            [
                {"anchor": "seen query", "positive": "shared TEXT", "negatives": ["text of its  own"]},
                {"anchor": CLAIM.replace("ten", "eleven"), "positive": "text of its own"},
            ],
            {"queries_seen": 1, "queries_near": 1, "pairs_seen": 1, "documents_seen": 3, "documents_near": 0},
        ),
        (
            "pairs",
            [{"anchor": "shared text", "positive": "new"}],
            {"queries_seen": 0, "queries_near": 0, "pairs_seen": 0, "documents_seen": 0, "documents_near": 0},
        ),
        (
            "scored",
            [{"sentence1": "shared text", "sentence2": "new", "score": 1}],
            {"queries_seen": 1, "queries_near": 0, "pairs_seen": 0, "documents_seen": 2, "documents_near": 0},
        ),
        (
            "texts",
            [{"text": "new"}, {"text": "shared text"}],
            {"queries_seen": 1, "queries_near": 0, "pairs_seen": 0, "documents_seen": 2, "documents_near": 0},
        ),
    ],
)
def test_counts_and_examples(tmp_path, kind, rows, expected):
    source = read_source(written(tmp_path / "data.jsonl", rows), kind)  # type: ignore[arg-type]
    (found,) = overlaps({"t": TEST}, [source], examples=1)
    assert found.counts == {"queries": 3, "pairs": 3, "documents": 3, **expected}
    assert [one["what"] for one in found.examples] == [
        what for what in ("queries", "documents") if expected[f"{what}_seen"] + expected[f"{what}_near"]
    ]
    warns = any(expected[name] for name in ("queries_seen", "queries_near", "pairs_seen"))
    assert (found.warning() is not None) == warns


@pytest.mark.shared_data
def test_scifacts_test_in_its_training_data(shared_data: Path) -> None:
    from retrokit.data.beir import read_beir

    source = read_source(f"beir:{shared_data / 'scifact'},split=train", "pairs")
    (found,) = overlaps({"scifact": JudgedTexts.judged(read_beir(shared_data / "scifact"))}, [source])
    counts = np.array([found.counts[name] for name in ("queries", "queries_seen", "queries_near", "pairs_seen")])
    np.testing.assert_array_equal(counts, [300, 2, 45, 2])
    assert (found.counts["documents"], found.counts["documents_seen"]) == (283, 181)
