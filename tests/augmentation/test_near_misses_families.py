"""Every family of near-misses: the texts that come out, what must not come out, and what holds for any text.

The sentences are in ``near_misses/FAMILY.txt``: ``= TEXT`` and all its edits in order, a line each, as ``NAME: TEXT``;
``+ NAME | TEXT | EDIT`` has the edit among others; ``0 TEXT`` has none; ``- NAME | TEXT`` none whose name begins so.
"""

import itertools
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrokit.augmentation.near_misses.family import load_families
from retrokit.augmentation.near_misses.sentence import tag

pytest.importorskip("HanTa", reason="of the extra negatives")

FAMILIES = {family.name: family for family in load_families()}


def made(family: str, text: str) -> list[tuple[str, str]]:
    return [(edit.name, edit.text) for edit in FAMILIES[family].edits(tag(text))]


def cases() -> list[tuple[str, list[str]]]:
    """The family and the lines of each case."""
    found: list[tuple[str, list[str]]] = []
    for family in FAMILIES:
        for line in (Path(__file__).parent / "near_misses" / f"{family}.txt").read_text(encoding="utf-8").splitlines():
            if line.startswith("  "):
                found[-1][1].append(line.strip())
            elif line and not line.startswith("#"):
                found.append((family, [line]))
    assert len(found) > 300
    return found


@pytest.mark.parametrize(("family", "lines"), cases(), ids=lambda part: part if isinstance(part, str) else part[0])
def test_a_sentence(family: str, lines: list[str]) -> None:
    sign, *fields = lines[0][0], *lines[0][2:].split(" | ")
    if sign == "=":
        assert [f"{name}: {text}" for name, text in made(family, fields[0])] == lines[1:]
    elif sign == "+":
        assert (fields[0], fields[2]) in made(family, fields[1])
    elif sign == "-":
        assert [name for name, _ in made(family, fields[1]) if name.startswith(fields[0])] == []
    else:
        assert (sign, made(family, fields[0])) == ("0", [])


def words_of(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text.lower()))


def check_edits(family: str, text: str) -> int:
    """What holds for the edits of any text; how many there are."""
    found = made(family, text)
    assert found == made(family, text)
    assert len({edit for _, edit in found}) == len(found)
    for name, edit in found:
        assert edit.lower() != text.lower()
        assert edit == edit.strip()
        assert edit.count("  ") <= text.count("  ")
        assert re.fullmatch(r"[a-z]+(-[a-z]+)+", name)
        assert len(words_of(text).keys() - words_of(edit).keys()) <= 6
    return len(found)


WORDS = (
    "the a patients model models is are was does did not no never all every both few many some only with without at "
    "least than more improve improves improved show shows found effective and but that which , . ? n't can it they "
    "10 results before inside from to rose 20% red instead of because John"
).split()


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=150, deadline=None)
@given(text=st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join))
def test_any_words_are_edited_without_fault(family: str, text: str) -> None:
    check_edits(family, text)


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=60))
def test_any_text_is_edited_without_fault(family: str, text: str) -> None:
    made(family, text)


@given(
    st.sampled_from(["bit", "chased", "followed", "is watching", "has attacked", "will protect"]),
    st.permutations(["dog", "cat", "farmer", "teacher", "lion", "girl"]),
    st.sampled_from(["the", "a"]),
)
@settings(max_examples=40, deadline=None)
def test_swapping_the_arguments_twice_gives_the_sentence_back(verb: str, nouns: list[str], article: str) -> None:
    text = f"The {nouns[0]} {verb} {article} {nouns[1]} near the house."
    [swapped] = [new for name, new in made("binding", text) if name == "swap-arguments"]
    assert swapped != text
    assert text in [new for _, new in made("binding", swapped)]


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("family", "file", "field", "least"),
    [
        ("negation", "scifact/corpus.jsonl", "text", 0.5),
        ("negation", "stsb/dev.jsonl", "sentence1", 0.4),
        ("binding", "stsb/dev.jsonl", "sentence1", 0.05),
        ("spatial", "stsb/test.jsonl", "sentence1", 0.12),
    ],
)
def test_real_sentences(shared_data: Path, family: str, file: str, field: str, least: float) -> None:
    with (shared_data / file).open(encoding="utf-8") as lines:
        texts = [json.loads(line)[field] for line in itertools.islice(lines, 400 if field == "sentence1" else 150)]
    sentences = [piece for text in texts for piece in re.split(r"(?<=[.?!]) (?=[A-Z])", " ".join(text.split()))][:400]
    assert sum(check_edits(family, sentence) > 0 for sentence in sentences) / len(sentences) > least
    if family == "binding":  # nearly all words stay
        for sentence in sentences:
            for _, edit in made(family, sentence):
                assert (words_of(edit) & words_of(sentence)).total() >= 0.5 * words_of(sentence).total()
                assert words_of(edit).total() - words_of(sentence).total() in range(-3, 4)
