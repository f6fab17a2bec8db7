"""Crops and dropout: hand-made tables, properties, an independent implementation on real data, bad input, memory."""

import re
from collections import Counter
from itertools import combinations, pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from retrokit.augmentation.crops import (
    CropSettings,
    Multilingual,
    Period,
    crop_pairs,
    crops_of,
    twins_of,
)
from retrokit.augmentation.texts import Counts, Texts
from retrokit.core.errors import DataError, UsageError
from retrokit.data.jsonl import read_jsonl, write_jsonl
from tests.close import LEAST_P

SMALL = CropSettings(min_chars=3, max_chars=5)
TEXT = "one. two. 3. four. five. sixth. end"
CHUNKS = ("one. two", "two. four", "four. five", "five. end")  # " 3" is too short, " sixth" too long


def texts_of(tmp_path, *texts, ids=True):
    path = tmp_path / "corpus.jsonl"
    write_jsonl(path, [({"id": f"t{i}"} if ids else {}) | {"text": text} for i, text in enumerate(texts)])
    return Texts(path)


def pair(chunks, seed, epoch, index, draw=0):
    return list(crops_of(chunks, draw + 1, seed, epoch, index))[draw]


def chunk(chunks, seed, epoch, index, draw=0):
    return list(twins_of(chunks, draw + 1, seed, epoch, index))[draw][0]


# --- chunks


@pytest.mark.parametrize(
    ("settings", "chunks"),
    [
        (SMALL, CHUNKS),
        (CropSettings(1, 3, 5), ("one", "two", "four", "five", "end")),
        (CropSettings(3, 3, 5), ("one. two. four", "two. four. five", "four. five. end")),
        (CropSettings(5, 3, 5), ("one. two. four. five. end",)),
        (CropSettings(6, 3, 5), ()),
        (CropSettings(1, 6, 6), ("sixth",)),
        (CropSettings(1, 2, 2), ("3",)),
    ],
)
def test_chunks_are_consecutive_kept_sentences(settings, chunks):
    assert settings.chunks(TEXT) == chunks


PIECES = st.lists(st.text("ab \n", max_size=7), max_size=12)


@given(PIECES, st.integers(1, 4), st.integers(1, 3), st.integers(0, 4))
def test_every_chunk_joins_neighbours_among_the_kept(pieces, sentences, low, more):
    settings = CropSettings(sentences, low, low + more)
    kept = [piece.strip() for piece in pieces if low <= len(piece) <= low + more and piece.strip()]
    windows = [". ".join(window) for window in zip(*(kept[i:] for i in range(sentences)), strict=False)]
    chunks = settings.chunks(".".join(pieces))
    assert list(chunks) == sorted(set(windows), key=windows.index)


FEW = "too few chunks of 2 sentences of 3 to 5 characters"


@pytest.mark.parametrize(("text", "reason"), [(" \n", "empty text"), ("a. b. c.", FEW), ("one. one. one", FEW)])
def test_reasons(text, reason):
    assert len(SMALL.chunks(text)) < 2
    assert SMALL.why_too_few(text) == reason


def test_short_texts_are_kept_if_asked():
    """A text that the paper's rule keeps is cut as without the option; others into sentences from 30 characters."""
    long = ". ".join(f"{letter * 120}" for letter in "abc")
    short = "This sentence has over 30 characters. e.g. So has this one, which is the second"
    paper, keeping = CropSettings(), CropSettings(keep_short=True)
    assert keeping.chunks(long) == paper.chunks(long) != ()
    assert paper.chunks(short) == ()
    assert keeping.chunks(short) == (
        "This sentence has over 30 characters",
        "So has this one, which is the second",
    )
    assert keeping.chunks("Too short. For both") == ()
    assert keeping.why_too_few("Too short. For both") == "too few chunks of 1 sentence of 30 to 250 characters"
    assert CropSettings(min_chars=5, keep_short=True).chunks("Brief one. Other one") == ("Brief one", "Other one")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"sentences": 0}, "`sentences=` 0 is out of range"),
        ({"min_chars": 0}, "`min_chars=` 0 is out of range"),
        ({"min_chars": 300}, "no sentence has 300 or more and 250 or fewer characters"),
        ({"splitter": "word"}, "unknown splitter 'word'"),
    ],
)
def test_wrong_settings(changes, problem):
    with pytest.raises(UsageError, match=problem):
        CropSettings(**changes)


# --- drawing


@given(st.integers(2, 9), st.integers(0, 2**64), st.integers(0, 5), st.integers(0, 2**40))
def test_draws_repeat_no_pair_before_all_have_come(size, seed, epoch, index):
    unordered = size * (size - 1) // 2
    drawn = [pair(range(size), seed, epoch, index, draw) for draw in range(3 * unordered)]
    assert {tuple(sorted(one)) for one in drawn[:unordered]} == set(combinations(range(size), 2))
    assert set(drawn[: 2 * unordered]) == set(permutations(range(size), 2))
    assert {tuple(sorted(one)) for one in drawn[2 * unordered :]} == set(combinations(range(size), 2))


@given(st.integers(1, 9), st.integers())
def test_draws_repeat_no_chunk_before_all_have_come(size, seed):
    drawn = [chunk(range(size), seed, 0, 0, draw) for draw in range(2 * size)]
    assert sorted(drawn[:size]) == sorted(drawn[size:]) == list(range(size))


# --- rows


def test_a_row_is_what_random_access_gives(tmp_path):
    texts = texts_of(tmp_path, TEXT, "", TEXT + ". more", "one")
    counts = Counts()
    rows = list(crop_pairs(texts, SMALL, per_text=3, epochs=2, seed=5, counts=counts))
    expected = []
    for epoch in range(2):
        for index, text in ((0, TEXT), (2, TEXT + ". more")):
            for draw in range(3):
                anchor, positive = pair(SMALL.chunks(text), 5, epoch, index, draw)
                expected.append({"anchor": anchor, "positive": positive, "id": f"t{index}"})
    assert rows == expected
    assert rows[:6] != rows[6:]
    assert counts == Counts(4, 12, Counter({"empty text": 1, FEW: 1}))
    assert counts.summary() == f"4 texts: 2 gave 12 pairs; 2 gave none (1: empty text; 1: {FEW})"


def test_rows_are_the_same_again_and_others_with_another_seed(tmp_path):
    texts = texts_of(tmp_path, *[TEXT] * 20)
    rows = list(crop_pairs(texts, SMALL, seed=1))
    assert rows == list(crop_pairs(texts, SMALL, seed=1))
    assert rows != list(crop_pairs(texts, SMALL, seed=2))
    assert len({row["anchor"] for row in rows}) == len(CHUNKS)  # equal texts do not give equal pairs


def test_dropout_is_one_chunk_twice(tmp_path):
    counts = Counts()
    texts = texts_of(tmp_path, TEXT, "one. two", "one", "")
    rows = list(crop_pairs(texts, SMALL, per_text=2, epochs=2, seed=3, counts=counts, twice=True))
    first = [chunk(CHUNKS, 3, epoch, 0, draw) for epoch in (0, 1) for draw in (0, 1)]
    assert [(row["anchor"], row["positive"]) for row in rows] == [(one, one) for one in first]
    assert [row["id"] for row in rows] == ["t0"] * 4
    assert counts == Counts(4, 4, Counter({FEW: 2, "empty text": 1})), "one chunk is too few, as for crops"


@given(st.lists(PIECES, min_size=1, max_size=6), st.integers(1, 5), st.integers(1, 3))
def test_counts_add_up(tmp_path_factory, corpus, per_text, epochs):
    texts = texts_of(tmp_path_factory.mktemp("corpus"), *(".".join(pieces) for pieces in corpus))
    settings, counts = CropSettings(2, 2, 4), Counts()
    usable = sum(len(settings.chunks(text.text)) > 1 for text in texts)
    try:
        rows = list(crop_pairs(texts, settings, per_text, epochs, counts=counts))
    except DataError:
        rows = []
    assert counts.texts == len(corpus) == usable + counts.dropped.total()
    assert counts.pairs == len(rows) == usable * per_text * epochs
    assert all(row["anchor"] != row["positive"] for row in rows)


# --- bad input


@pytest.mark.parametrize("twice", [False, True])
def test_nothing_usable_says_which_rule_dropped_what(tmp_path, twice):
    texts = texts_of(tmp_path, "", "a text without a period", "another text without one", "one")
    with pytest.raises(DataError) as caught:
        list(crop_pairs(texts, SMALL, twice=twice))
    assert str(caught.value) == (
        f"{texts.name}: no text gives a pair: 4 texts (3: {FEW}; 1: empty text); other sentence counts, lengths or "
        "another splitter may keep more"
    )
    assert caught.value.exit_code == 2


# --- real data, memory


def naive_chunks(text: str) -> list[str]:
    """The chunks as one would write them down without any of the code under test."""
    spans = [match.group() for match in re.finditer(r"[^.]+", text)]
    good = [span.strip() for span in spans if not len(span) < 100 and not len(span) > 250]
    found = []
    for first, second in pairwise(good):
        if f"{first}. {second}" not in found:
            found.append(f"{first}. {second}")
    return found


@pytest.mark.shared_data
def test_on_abstracts_against_an_independent_implementation(shared_data):
    path = shared_data / "ml-abstracts" / "abstracts.jsonl"
    found = [(row["id"], naive_chunks(row["text"])) for _, row in read_jsonl(path)]
    usable = [(key, chunks) for key, chunks in found if len(chunks) > 1]
    counts = Counts()
    rows = list(crop_pairs(Texts(path), CropSettings(), counts=counts))
    assert [row["id"] for row in rows] == [key for key, _ in usable]
    assert (counts.texts, counts.pairs) == (22_918, len(usable)) == (22_918, 21_639)
    places = [
        (chunks.index(row["anchor"]), chunks.index(row["positive"]))
        for row, (_, chunks) in zip(rows, usable, strict=True)
    ]
    assert all(anchor != positive for anchor, positive in places)
    # of four chunks, half of the pairs are neighbours, a third are two apart, a sixth three
    apart = Counter(abs(a - p) for (a, p), (_, chunks) in zip(places, usable, strict=True) if len(chunks) == 4)
    total = apart.total()
    assert total > 3_000
    assert chisquare([apart[1], apart[2], apart[3]], [total / 2, total / 3, total / 6]).pvalue > LEAST_P


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", [""]),
        ("no end mark", ["no end mark"]),
        ("One. Two.", ["One", " Two", ""]),
        ("It is 3.5, e.g. so… Really? Yes!", ["It is 3", "5, e", "g", " so… Really? Yes!"]),
        ("...", ["", "", "", ""]),
        ("a。b", ["a。b"]),
    ],
)
def test_period(text, sentences):
    assert Period().cut(text) == sentences


@pytest.mark.parametrize(
    ("language", "text", "sentences"),
    [
        ("en", "", []),
        ("en", "It is 3.5, e.g. so. Really? Yes!", ["It is 3.5, e.g. so.", "Really?", "Yes!"]),
        ("en", "Dr. Smith et al. found it.\n\nNew paragraph", ["Dr. Smith et al. found it.", "", "New paragraph"]),
        (
            "de",
            "Das ist z.B. ein Satz. Am 3. Mai kam Dr. Meier.",
            ["Das ist z.B. ein Satz.", "Am 3. Mai kam Dr. Meier."],
        ),
        ("zh", "你好。我是学生。", ["你好。", "我是学生。"]),
        ("hi", "यह एक है। वह दो है।", ["यह एक है।", "वह दो है।"]),
    ],
)
def test_multilingual(language, text, sentences):
    assert [sentence.strip() for sentence in Multilingual(language).cut(text)] == sentences
