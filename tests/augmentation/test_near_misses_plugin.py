"""A family of near-misses from another package: one module and one entry point, and every option works with it."""

import json
from pathlib import Path

import pytest

from retrokit.augmentation.near_misses import registry
from retrokit.augmentation.near_misses.files import estimate_of, write_near_misses
from retrokit.core.errors import UsageError
from tests.plugins import install, look_in

pytest.importorskip("HanTa", reason="of the extra negatives")

MODULE = """
from retrokit.augmentation.near_misses.family import Edit, Family
from retrokit.core.registry import Entry

ENTRY = Entry("tense", "the present becomes the past", f"{__name__}:family")


def edits(sentence):
    for i, token in enumerate(sentence.tokens):
        if token.tag == "VVZ":
            yield Edit("past", f"{sentence.words(0, i)} {token.text[:-1]}ed{sentence.text[token.end:]}")


def family():
    return Family("tense", edits)
"""


@pytest.fixture
def tense(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a wheel of the third party leaves in site-packages, and a registry that has not looked there yet."""
    entry_points = "[retrokit.near_misses]\ntense = tense_of_verbs:ENTRY\n"
    install(tmp_path / "site", "tense", {"tense_of_verbs": MODULE}, entry_points)
    look_in(tmp_path / "site", registry, monkeypatch)


@pytest.mark.usefixtures("tense")
def test_a_family_from_elsewhere(tmp_path: Path) -> None:
    corpus, output = tmp_path / "corpus.jsonl", tmp_path / "near.jsonl"
    corpus.write_text(json.dumps({"text": "The model does not help. The cat jumps into the box."}))
    written = write_near_misses(str(corpus), str(output), families=["spatial", "tense"])
    made = [json.loads(line) for line in output.read_text().splitlines()]
    assert [(row["family"], row["edit"], row["negatives"]) for row in made] == [
        ("spatial", "swap-direction", ["The cat jumps out of the box."]),
        ("tense", "past", ["The cat jumped into the box."]),
    ]
    assert (written.counts["tense/train"], written.counts["no-edit"]) == (1, 1)
    assert registry.names() == ["negation", "binding", "spatial", "tense"]


@pytest.mark.usefixtures("tense")
def test_a_family_without_a_prompt_is_not_asked_for(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(json.dumps({"text": "The cat jumps into the box."}))
    told = "no prompt for a language model comes with the families tense"
    with pytest.raises(UsageError, match=told):
        estimate_of(str(corpus), families=["spatial", "tense"])
    with pytest.raises(UsageError, match=told):
        write_near_misses(str(corpus), str(tmp_path / "near.jsonl"), families=["tense"], llm="openai:m")
