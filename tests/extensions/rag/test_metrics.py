"""Exact match and token F1, by hand and against SQuAD's published evaluation, written out again."""

import collections
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrokit.extensions.rag.metrics import exact_match, normalized, token_f1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Cat", "cat"),
        ("an apple a day", "apple day"),
        ("theatre", "theatre"),
        ("well-known", "wellknown"),
        (" U.S.\tof  A ", "us of"),
        ("“quoted”", "“quoted”"),
        ("Ängström", "ängström"),
        ("the", ""),
    ],
)
def test_normalisation(text: str, expected: str) -> None:
    assert normalized(text) == expected


def test_exact_match_takes_the_best_answer() -> None:
    assert exact_match("The Beatles", ["queen", "beatles!"]) == 1.0
    assert exact_match("The Beatles band", ["queen", "beatles!"]) == 0.0
    assert exact_match("", ["the"]) == 1.0
    assert exact_match("anything", []) == 0.0


@pytest.mark.parametrize(
    ("prediction", "answers", "expected"),
    [
        ("red fish", ["red fish"], 1.0),
        ("red fish", ["blue fish"], 1 / 2),
        ("red fish", ["fish"], 2 / 3),
        ("red red fish", ["red fish red"], 1.0),
        ("red red", ["red"], 2 / 3),
        ("cat", ["dog"], 0.0),
        ("cat", ["dog", "a big cat"], 2 / 3),
        ("", ["cat"], 0.0),
        ("the", ["a"], 1.0),
        ("cat", [], 0.0),
    ],
)
def test_token_f1(prediction: str, answers: list[str], expected: float) -> None:
    assert token_f1(prediction, answers) == pytest.approx(expected)


def normalize_answer(s: str) -> str:
    def white_space_fix(text: str) -> str:
        return " ".join(text.split())

    return white_space_fix(
        re.sub(r"\b(a|an|the)\b", " ", "".join(c for c in s.lower() if c not in set(string.punctuation)))
    )


def f1(a_gold: str, a_pred: str) -> float:
    gold_toks, pred_toks = normalize_answer(a_gold).split(), normalize_answer(a_pred).split()
    num_same = sum((collections.Counter(gold_toks) & collections.Counter(pred_toks)).values())
    if len(gold_toks) == 0 or len(pred_toks) == 0:
        return int(gold_toks == pred_toks)
    if num_same == 0:
        return 0
    precision, recall = num_same / len(pred_toks), num_same / len(gold_toks)
    return 2 * precision * recall / (precision + recall)


WORDS = st.lists(st.sampled_from(["the", "a", "cat", "Cat.", "dog", "An", "b-c", "!"]), max_size=6).map(" ".join)


@given(WORDS | st.text(max_size=20), st.lists(WORDS | st.text(max_size=20), min_size=1, max_size=3))
def test_equals_squads_evaluation(prediction: str, answers: list[str]) -> None:
    assert token_f1(prediction, answers) == pytest.approx(max(f1(answer, prediction) for answer in answers), abs=1e-12)
    same = max(int(normalize_answer(answer) == normalize_answer(prediction)) for answer in answers)
    assert exact_match(prediction, answers) == same
