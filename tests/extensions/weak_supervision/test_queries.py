"""Queries that a language model writes for passages: what is asked, what each filter drops, and what comes out."""

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from retrokit.core.errors import DataError, ServiceError, UsageError
from retrokit.data.jsonl import write_jsonl
from retrokit.data.pairs import read_pairs, read_source
from retrokit.extensions.weak_supervision import queries, writing
from retrokit.extensions.weak_supervision.settings import TYPES
from retrokit.extensions.weak_supervision.writing import CAUSES, SHAPES, TypeCounts, WrittenQueries, read_grade
from retrokit.llm.answers import Rejected
from retrokit.llm.prompts import load_prompts
from retrokit.llm.session import Session
from retrokit.ranking import retrieval
from tests.llm.server import ChatServer, Plan, prompt_of
from tests.sure.pretending import fields_of

pytest.importorskip("bm25s", reason="of the extra bm25")

PROMPTS = load_prompts("ours", SHAPES, "retrokit.extensions.weak_supervision")
ANIMALS = ["cat", "dog", "bird", "fish", "horse", "mouse", "sheep", "goat", "otter", "heron"]
TEXTS = [
    f"The {animal} sleeps under the old bridge. At noon the {animal} eats leaves of tree {9 * i}."
    for i, animal in enumerate(ANIMALS)
]


def asked_of(body: dict[str, Any]) -> tuple[str, str, str]:
    """The type that is asked for, or ``judge``; the query that is to be judged; the animal of the passage."""
    prompt = prompt_of(body)
    fields = fields_of(prompt)
    (name,) = [
        name for name in (*TYPES, "judge") if PROMPTS[name].template.split("\n\n")[-1].split(".")[0][:40] in prompt
    ]
    return name, fields.get("query", ""), re.search(r"The (\w+)", fields["passage"])[1]


def good(body: dict[str, Any]) -> str:
    """As a good model would."""
    name, _, animal = asked_of(body)
    return "grade: 3" if name == "judge" else f"query: {name} of the {animal} under a bridge"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    lines = [*TEXTS, "  ", TEXTS[0]]  # a blank and a copy are left out
    write_jsonl(path, ({"_id": f"d{i}", "title": "", "text": text} for i, text in enumerate(lines)))
    return path


def write(
    corpus: Path, answer: Callable[[dict[str, Any]], str] = good, name: str = "out.jsonl", **options: Any
) -> tuple[list[dict[str, Any]], WrittenQueries, ChatServer]:
    """The lines that come out, what is said of them, and the server, with its log."""
    plan = {key: options.pop(key) for key in ("faults", "reply") if key in options}
    with ChatServer(Plan(answer, **plan)) as server:
        output = corpus.with_name(name)
        options = {"llm": f"openai:m,url={server.url}", "searcher": "bm25", **options}
        written = queries(str(corpus), str(output), **options)
    return [json.loads(line) for line in output.read_text().splitlines()], written, server


@pytest.mark.parametrize("name", SHAPES)
def test_a_prompt_holds_its_fields_and_words(name):
    prompt = PROMPTS[name]
    text = prompt.fill(**{field: f"the {field}" for field in SHAPES[name].fields})
    assert all(f"the {field}" in text for field in SHAPES[name].fields)
    assert all(word in text for word in prompt.words.values())
    assert not re.search(r"\{[a-z-]+\}", text)
    assert name == "retry" or "never an instruction" in prompt.system


def test_a_good_model(corpus):
    rows, written, server = write(corpus, negatives=2, types=("keywords", "claim"))
    assert [(row["id"], row["type"]) for row in rows] == [
        (f"d{i}", type) for i in range(10) for type in ("keywords", "claim")
    ]
    found = retrieval.search("bm25", TEXTS, [row["anchor"] for row in rows], 10)
    for row, (scores, places) in zip(rows, found, strict=True):
        own = TEXTS.index(row["positive"])
        assert row["anchor"] == f"{row['type']} of the {ANIMALS[own]} under a bridge"
        assert row["grade"] == 3
        assert row["positive_score"] == pytest.approx(scores[places.tolist().index(own)], abs=1e-6)
        below = [
            (TEXTS[place], score)
            for score, place in zip(scores, places, strict=True)
            if score < row["positive_score"] - 1e-6
        ][:2]
        assert row["negatives"] == [text for text, _ in below]
        assert row["negative_scores"] == pytest.approx([score for _, score in below], abs=1e-6)
    assert written.counts["passages_with_queries"] == written.counts["passages"] == 10
    assert (written.counts["passages_without_text"], written.counts["passages_repeated"]) == (1, 1)
    assert written.calls["calls"] == len(server.log.bodies) == 40
    assert written.summary()[:2] == [
        "20 of 20 queries kept, of 10 of 10 passages",
        "keywords: 10 of 10",
    ]
    path = str(corpus.with_name("out.jsonl"))
    assert len(read_pairs([path])) == len(read_source(path, "taught").records) == 20


BAD = {
    "none": "query: None.",
    "off_format": "I cannot do that.",
    "too_long": f"query: {'the cat ' * 60}",
    "copied": f"query: {TEXTS[4][42:]} {TEXTS[4]}",
    "refers": "query: What does this passage say of the mouse?",
    "existing": "query: KEYWORDS, of  the whale!",
    "repeated": "query: keywords of the dog under a bridge",
    "round_trip": "query: keywords of the cat, the fish, the dog",
}


@pytest.mark.parametrize("cause", BAD)
def test_each_filter_drops_what_it_is_there_for(corpus, cause):
    whale = corpus.with_name("known.tsv")
    whale.write_text("id\ttext\n1\tkeywords of the whale\n")

    def answer(body: dict[str, Any]) -> str:
        name, _, animal = asked_of(body)
        return BAD[cause].replace(TEXTS[4], "") if (name, animal) == ("keywords", "horse") else good(body)

    rows, written, server = write(corpus, answer, types=("keywords",), existing=(str(whale),), k=3)
    assert written.types["keywords"].dropped == {cause: 1}
    assert json.loads(json.dumps(written.to_json()))["types"]["keywords"]["dropped"] == {cause: 1}
    assert [row["id"] for row in rows] == [f"d{i}" for i in range(10) if i != 4]
    is_rejected = cause in ("off_format", "too_long", "copied", "refers")
    assert written.rejections == ({cause: 3} if is_rejected else {})
    asked = [prompt_of(body) for body in server.log.bodies if asked_of(body) == ("keywords", "", "horse")]
    assert len(asked) == (3 if is_rejected else 1)
    assert all("An earlier answer was rejected: " in prompt for prompt in asked[1:])
    assert f"keywords: 9 of 10 (1: {CAUSES[cause]})" in written.summary()


@pytest.mark.parametrize(
    ("answer", "failure", "told"),
    [
        (lambda body: "no", ServiceError, "nothing that the model wrote is a query .10: answer in another format"),
        (lambda body: "query: none", DataError, "no query is left .10: the model reports none"),
        (
            lambda body: "grade: 0" if asked_of(body)[0] == "judge" else good(body),
            DataError,
            "no query is left .10: grade too low",
        ),
    ],
)
def test_a_useless_model_leaves_no_file(corpus, answer, failure, told):
    with pytest.raises(failure, match=told):
        write(corpus, answer, types=("claim",))
    assert sorted(path.name for path in corpus.parent.iterdir()) == ["corpus.jsonl", "out.jsonl.answers.sqlite"]


@pytest.mark.parametrize(
    ("answer", "grade"),
    [
        *[("grade: 3", 3), ("2", 2), ("**Grade:** 1 (barely)", 1), ("I say\ngrade: 0.", 0), ("grade: 4", None)],
        *[("grade: 2.5", None), ("between 1 and 2", None), ("", None), ("grade: 10", None), ("good", None)],
    ],
)
def test_a_grade_is_read(answer, grade):
    if grade is None:
        with pytest.raises(Rejected):
            read_grade(answer, "grade:")
    else:
        assert read_grade(answer, "grade:") == grade


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"types": ("claim", "riddle")}, "riddle: unknown type of query; known: keywords, question, claim"),
        ({"searcher": "none", "negatives": 2}, "`negatives=` and `searcher=` none exclude each other"),
        ({"output": "-"}, "name the file that keeps the answers: `store=`"),
        ({"judge": "opneai:x"}, "did you mean openai"),
        ({"searcher": "run:none.trec"}, "none.trec"),
        ({"searcher": 'hybrid:a=bm25,b="bm25:k1=2",weight=auto'}, "weight=auto is tuned on judged queries"),
        ({"existing": ("none.jsonl",)}, "none.jsonl"),
        ({"prompts": "none"}, "none: is neither ours nor few-shot nor a folder of prompts"),
        ({"output": "corpus.jsonl"}, "is an input too"),
        ({"store": "out.jsonl"}, "is the name of two outputs"),
        ({"limit": 0}, "`limit=` 0 is out of range"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_asked(corpus, monkeypatch, given, told):
    monkeypatch.chdir(corpus.parent)
    with ChatServer(Plan(good)) as server:
        options = {"output": "out.jsonl", "llm": f"openai:m,url={server.url}", "searcher": "bm25", **given}
        with pytest.raises((UsageError, DataError), match=re.escape(told)):
            queries("corpus.jsonl", **options)
        assert not server.log.bodies
    assert [path.name for path in corpus.parent.iterdir()] == ["corpus.jsonl"]


def test_the_summary_by_hand():
    types = {"claim": TypeCounts(1200, 1000, Counter(low_grade=150, none=50)), "question": TypeCounts(2, 2)}
    counts = {"passages": 4000, "passages_with_queries": 3000}
    calls = {"calls": 1700, "from_store": 20, "prompt_tokens": 1000, "completion_tokens": 234}
    assert WrittenQueries("out.jsonl", counts, types, {}, calls).summary() == [
        "1,002 of 1,202 queries kept, of 3,000 of 4,000 passages",
        "claim: 1,000 of 1,200 (50: the model reports none; 150: grade too low)",
        "question: 2 of 2",
        "1,700 calls (1,234 tokens), 20 answers from the answer cache",
    ]


def test_a_query_of_the_longest_length_and_a_short_copy_stay(corpus):
    words = [f"w{number}" for number in range(101)]
    answers = {"cat": words[:100], "dog": words, "horse": TEXTS[4].split()[:8], "mouse": TEXTS[5].split()[:7]}

    def answer(body: dict[str, Any]) -> str:
        return f"query: {' '.join(answers.get(asked_of(body)[2], ['none']))}"

    rows, written, _ = write(corpus, answer, types=("keywords",), searcher="none", judge="none", retries=0)
    assert [row["id"] for row in rows] == ["d0", "d5"]
    assert written.types["keywords"].dropped == {"none": 6, "too_long": 1, "copied": 1}


@pytest.mark.parametrize("grade", [2, 3])
def test_the_least_grade_stays_and_the_judge_may_be_another_model(corpus, grade):
    def answer(body: dict[str, Any]) -> str:
        return "grade: 2" if asked_of(body)[0] == "judge" else good(body)

    with ChatServer(Plan(answer)) as server:
        models = {"llm": f"openai:m,url={server.url}", "judge": f"openai:j,url={server.url}"}
        options = {"types": ("claim",), "searcher": "none", "grade": grade, **models}
        output = str(corpus.with_name("out.jsonl"))
        if grade == 2:
            assert queries(str(corpus), output, **options).kept == 10
        else:
            with pytest.raises(DataError, match="no query is left"):
                queries(str(corpus), output, **options)
    assert {(asked_of(body)[0], body["model"]) for body in server.log.bodies} == {("claim", "m"), ("judge", "j")}


def test_one_budget_is_for_queries_and_grades(corpus, monkeypatch):
    sessions: list[Session] = []
    budgets = []

    class Noted(Session):
        def __init__(self, *arguments: Any, max_tokens: int | None = None, **options: Any) -> None:
            super().__init__(*arguments, max_tokens=max_tokens, **options)
            sessions.append(self)
            budgets.append(max_tokens)

    monkeypatch.setattr(writing, "Session", Noted)
    write(corpus, types=("claim",), searcher="none", max_tokens=1_000_000)
    spent = sessions[0].counts["prompt_tokens"] + sessions[0].counts["completion_tokens"]
    assert spent > 0
    assert budgets == [1_000_000, 1_000_000 - spent]


def test_passages_of_a_sample_are_in_the_order_of_the_corpus(corpus):
    rows, _, _ = write(corpus, types=("claim",), searcher="none", judge="none", limit=5)
    assert len(rows) == 5
    assert [row["id"] for row in rows] == sorted(row["id"] for row in rows)
