"""Near-misses that a language model writes: what is asked, what is taken of the answers, and what is rejected."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from retrokit.augmentation.edits import NEAR_MISSES, by_model
from retrokit.augmentation.edits.by_model import CAUSES, SYSTEM, answered, why_rejected
from retrokit.augmentation.edits.family import load_families
from retrokit.augmentation.edits.files import write_near_misses
from retrokit.core.errors import ServiceError
from retrokit.llm.session import BudgetSpent
from tests.llm.server import ChatServer, Plan, error, message

pytest.importorskip("HanTa", reason="of the extra negatives")

FAMILIES = load_families(NEAR_MISSES)
ANIMALS = ["cat", "dog", "bird", "fish", "horse", "mouse", "sheep", "goat"]
TEXTS = [f"The {one} sees the {other} above the house." for one in ANIMALS for other in ANIMALS if one != other]


def sentence_of(body: dict[str, Any]) -> tuple[str, str]:
    """The family and the sentence that are asked for."""
    text = body["messages"][-1]["content"]
    family = next(family.name for family in FAMILIES if text.startswith(family.prompt[:60]))
    return family, re.search("<sentence>(.*)</sentence>", text)[1]


def edit(body: dict[str, Any]) -> str:
    """As a good model would."""
    family, sentence = sentence_of(body)
    one, other = re.search(r"The (\w+(?: number \d+)?) sees the (\w+)", sentence).groups()
    return {
        "negation": sentence.replace("sees", "does not see"),
        "binding": sentence.replace(f"The {one} sees the {other}", f"The {other} sees the {one}"),
        "spatial": sentence.replace("above", "below"),
    }[family]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    return path


def write(server: ChatServer, corpus: Path, name: str = "near.jsonl", **options: Any) -> tuple[list[dict], Any]:
    """The lines that come out, and what is said of them."""
    output = corpus.with_name(name)
    spec = f"openai:m,url={server.url}"
    written = write_near_misses(str(corpus), str(output), families=NEAR_MISSES, llm=spec, **options)
    return [json.loads(line) for line in output.read_text().splitlines()], written


def test_a_good_model(corpus: Path) -> None:
    with ChatServer(Plan(edit, delay=0.005)) as server:
        rows, written = write(server, corpus, concurrency=8)
        assert 4 <= server.log.most_at_once <= 8  # sentences are asked for ahead
        assert len(server.log.bodies) == 3 * len(TEXTS)
        assert {body["messages"][0]["content"] for body in server.log.bodies} == {SYSTEM}
    # where every pair has its mirror image, the second of the two repeats the first
    assert [row["anchor"] for row in rows if row["family"] == "spatial"] == TEXTS
    assert rows[:3] == [
        {"anchor": TEXTS[0], "positive": TEXTS[0], "negatives": [text], "family": family, "edit": "llm"}
        for family, text in (
            ("negation", "The cat does not see the dog above the house."),
            ("binding", "The dog sees the cat above the house."),
            ("spatial", "The cat sees the dog below the house."),
        )
    ]
    assert written.counts["binding/train"] == written.counts["repeated"] == len(TEXTS) // 2
    assert "168 calls, 0 answers from the answer cache; tokens: " in written.summary()[-1]


def test_rejected_answers_are_counted(corpus: Path) -> None:
    corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS[:7]))
    bad = ["NONE", TEXTS[1].upper(), "Something else altogether, which is long enough.", "See [x_y] " + TEXTS[4]]

    def answer(body: dict[str, Any]) -> str:
        family, sentence = sentence_of(body)
        place = TEXTS.index(sentence)
        return edit(body) if family != "negation" or place > 3 else bad[place]

    def reply(body: dict[str, Any]) -> bytes | None:
        family, sentence = sentence_of(body)
        if family == "binding" and sentence == TEXTS[0]:
            return message(400, error("too long"))
        return None

    with ChatServer(Plan(answer, reply)) as server:
        rows, written = write(server, corpus)
    rejected = {key: number for key, number in written.counts.items() if key.startswith("rejected:")}
    assert rejected == {f"rejected:{cause}": 1 for cause in ("none", "unchanged", "overlap", "text", "refused")}
    assert Counter(row["family"] for row in rows) == {"negation": 3, "binding": 6, "spatial": 7}
    assert (
        "5 answers of the model were rejected (1: unchanged apart from case and marks; 1: no running text; "
        "1: prompt refused by the model; 1: too few shared words; 1: the model reports none)"
    ) in written.summary()


def test_a_budget_that_is_used_up_leaves_no_file(corpus: Path) -> None:
    store = str(corpus.with_name("answers.db"))
    with ChatServer(Plan(edit)) as server:
        with pytest.raises(BudgetSpent, match=r"the budget of 9,000 tokens is used up: .* rerun with a larger budget"):
            write(server, corpus, store=store, max_tokens=9000)
        assert not corpus.with_name("near.jsonl").exists()
        before = len(server.log.bodies)
        assert 1 < before < 168
        rows, _ = write(server, corpus, store=store)
        assert len(server.log.bodies) == 168
        assert len(rows) == 140


def many(corpus: Path, count: int) -> None:
    """Sentences that each differ from the others."""
    rows = [
        {"text": f"The {ANIMALS[i % 8]} number {i} sees the {ANIMALS[i % 7]} above the house."} for i in range(count)
    ]
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("I am sorry, I cannot do that.", "too few shared words"),
        ("", "unchanged apart from case and marks"),
        ("---", "empty answer"),
    ],
)
def test_a_useless_model_is_given_up(corpus: Path, answer: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_model, "ENOUGH", 20)
    many(corpus, 240)
    with ChatServer(Plan(lambda body: answer or sentence_of(body)[1])) as server:
        with pytest.raises(ServiceError, match=f"^the model wrote no near-miss: rejected were 20: {reason}"):
            write(server, corpus)
        assert len(server.log.bodies) <= 60
    assert sorted(path.name for path in corpus.parent.iterdir()) == ["corpus.jsonl", "near.jsonl.answers.sqlite"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cat sleeps.", "The cat sleeps."),
        ('"The cat sleeps."', "The cat sleeps."),
        ("“The cat sleeps.”", "The cat sleeps."),
        ("`The cat sleeps.`", "The cat sleeps."),
        ("**The cat sleeps.**", "The cat sleeps."),
        ('**"The cat sleeps."**', "The cat sleeps."),
        ("- The cat sleeps.", "The cat sleeps."),
        ("1. The cat sleeps.", "The cat sleeps."),
        ("Edited sentence: The cat sleeps.", "The cat sleeps."),
        ("ANSWER: 'The cat sleeps.'", "The cat sleeps."),
        ("<sentence>The cat sleeps.</sentence>", "The cat sleeps."),
        ("```\nThe cat sleeps.\n```", "The cat sleeps."),
        ("```text\nThe cat sleeps.\n```", "The cat sleeps."),
        ("Here is the edited sentence:\n\nThe cat sleeps.\n\nI changed a word.", "The cat sleeps."),
        ("The  cat\tsleeps.", "The cat sleeps."),
        ('"Yes," said the cat, "I sleep."', '"Yes," said the cat, "I sleep."'),
        ("2 cats sleep.", "2 cats sleep."),
        ("NONE", "NONE"),
        ("", ""),
        ("---\n", ""),
    ],
)
def test_the_sentence_in_an_answer(text: str, expected: str) -> None:
    assert answered(text) == expected


@pytest.mark.parametrize(
    ("family", "anchor", "answer", "cause"),
    [
        ("negation", "The cat sleeps in the box.", "The cat does not sleep in the box.", None),
        ("negation", "None of the samples contained lead.", "All of the samples contained lead.", None),
        ("binding", "The dog chased the cat.", "The cat chased the dog.", None),
        ("spatial", "The lamp hangs above the table.", "The lamp hangs below the table.", None),
        ("spatial", "The lamp hangs above the table.", "", "empty"),
        ("spatial", "The lamp hangs above the table.", "none.", "none"),
        ("spatial", "The lamp hangs above the table.", "the lamp hangs above the table", "unchanged"),
        ("spatial", "The lamp hangs above the table.", "A chair stands beside the wall.", "overlap"),
        ("spatial", "The lamp hangs above the table.", "The lamp hangs above", "overlap"),
        ("spatial", "It is above the big box here.", "It is below the big box {here}.", "text"),
        ("binding", "Cats and dogs see the house.", "Dogs and cats see the house.", "interchanged"),
        ("binding", "It sees a cat or a dog there.", "It sees a dog or a cat there.", "interchanged"),
        ("binding", "The old cat and the dog sleep.", "The dog and the old cat sleep.", "interchanged"),
        ("binding", "The old cat and the young dog sleep.", "The young cat and the old dog sleep.", None),
        ("binding", "The cat and the dog see the bird.", "The bird and the dog see the cat.", None),
    ],
)
def test_why_an_answer_is_rejected(family: str, anchor: str, answer: str, cause: str | None) -> None:
    [chosen] = load_families([family])
    assert why_rejected(anchor, answer, chosen.least_overlap) == cause
    assert cause is None or cause in CAUSES
