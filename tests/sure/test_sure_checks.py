"""Checks without a model: each cause on the smallest text that shows it, and the published sets at large."""

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retrokit.data.sure import read_sure
from retrokit.llm.answers import Rejected, read_sentences, read_text, read_verdict, words_of
from retrokit.sure import checks
from retrokit.sure.checks import CAUSES
from retrokit.sure.statistics import sentences_of
from retrokit.sure.variants import read_paraphrase, read_two_sentences
from tests.sure.pretending import script

PASSAGE = (
    "Much has been written about otters. Otters rest under the old stone bridge by the mill. They do so at night, "
    "when it is quiet. In summer many visitors come and look for them with great patience."
)
KEY = "Otters rest under the old stone bridge by the mill."
TWENTY = " ".join(f"word{i}" for i in range(20))


def cause_of(check, *arguments) -> str | None:
    try:
        check(*arguments)
    except Rejected as rejected:
        assert rejected.reason  # noqa: PT017 - it may also pass
        return rejected.cause
    return None


@pytest.mark.parametrize(
    ("sentences", "cause"),
    [
        ([KEY], None),
        (["otters rest under the OLD stone bridge by the mill"], None),
        ([KEY, "They do so at night, when it is quiet."], None),
        (["They do so at night, when it is quiet.", KEY], None),
        (["Otters rest under the old wooden bridge by the mill."], None),  # 9 of 10 words
        (["Otters sleep under the old wooden bridge by the mill."], "not_verbatim"),  # "Otters" stands alone, too
        (["Otters sleep beneath a bridge."], "not_verbatim"),
        ([KEY, "Otters eat fish."], "not_verbatim"),
        ([PASSAGE, KEY], "too_long"),
        ([PASSAGE], None),
    ],
)
def test_key_sentences(sentences, cause):
    assert cause_of(checks.check_key_sentences, sentences, PASSAGE) == cause


@pytest.mark.parametrize(
    ("replaced", "cause"),
    [
        ("Kites rest at noon, while the mill is loud.", "content_changed"),
        ("Otters do so at night, when the mill is quiet.", None),
        ("They do so at night, when it is quiet.", None),
        ("They do so at night, when it is quiet. And " + TWENTY, "content_changed"),
        ("They do so at night, when it is quiet. " + PASSAGE, "too_long"),
    ],
)
def test_pronouns(replaced, cause):
    sentences = "They do so at night, when it is quiet."
    assert cause_of(checks.check_pronouns, replaced, sentences, PASSAGE, "Where do otters rest?") == cause


@pytest.mark.parametrize(
    ("noise", "cause"),
    [
        (["Kites are flown in autumn.", "The harbour is closed on Sundays."], None),
        (
            ["Kites are flown.", "As said, otters rest under the old stone bridge by the mill, too."],
            "holds_key_sentence",
        ),
        (["Kites are flown.", "Otters rest under the old stone bridge."], "holds_key_sentence"),
        (["Kites are flown in the autumn.", "Kites are flown in autumn."], "repeated"),
        (["Kites are flown.", "Dr."], "too_short"),
        (["Kites are flown.", TWENTY * 4], "too_long"),
    ],
)
def test_noise(noise, cause):
    noise = [sentence.replace("9word", "9 word") for sentence in noise]
    assert cause_of(checks.check_noise, noise, [KEY]) == cause


@pytest.mark.parametrize(
    ("summary", "cause"),
    [(KEY, None), (PASSAGE, "unchanged"), (PASSAGE.upper(), "unchanged"), (f"{PASSAGE} {TWENTY}", "too_long")],
)
def test_summary(summary, cause):
    assert cause_of(checks.check_summary, summary, PASSAGE) == cause


@pytest.mark.parametrize(
    ("expansion", "cause"),
    [
        (f"{PASSAGE} Nobody knows why. It is a quiet place.", None),
        (f"It is a quiet place. {PASSAGE} Nobody knows why.", None),
        (PASSAGE, "too_short"),
        (f"{PASSAGE} Indeed so.", "too_short"),
        (f"{KEY} Nobody knows why. It is a quiet place.", "content_missing"),
        (f"{PASSAGE} {' '.join([TWENTY] * 8)}", "too_long"),
    ],
)
def test_expansion(expansion, cause):
    assert cause_of(checks.check_expansion, expansion, PASSAGE) == cause


@pytest.mark.parametrize(
    ("paraphrase", "keywords", "cause"),
    [
        (PASSAGE.replace("tters", "ther river mammals"), ["otters"], None),
        (PASSAGE.replace("otters", "river mammals"), ["otters"], "keyword_left"),
        (PASSAGE.replace("stone bridge", "crossing"), ["stone bridge", "arch"], None),
        (PASSAGE.replace("old ", ""), ["Stone-Bridge"], "keyword_left"),
        (PASSAGE.replace("otters", "ottering").replace("Otters", "Ottering"), ["otter"], None),
        (PASSAGE, [], "unchanged"),
        (KEY, [], "too_short"),
        (PASSAGE * 4, [], "too_long"),
    ],
)
def test_paraphrase(paraphrase, keywords, cause):
    assert cause_of(checks.check_paraphrase, paraphrase, PASSAGE, keywords) == cause


def test_keywords_are_words_of_the_query():
    assert checks.keywords_in_query(["otters", "Bridge", "mill"], "Where under the bridge are Otters?") == [
        "otters",
        "Bridge",
    ]
    with pytest.raises(Rejected) as rejected:
        checks.keywords_in_query(["mill"], "Where do otters rest?")
    assert rejected.value.cause == "no_keyword"


def test_scripts_without_spaces_are_checked_by_characters():
    passage = "水獭在老石桥下休息。它们喜欢安静的地方。"
    assert cause_of(checks.check_key_sentences, ["水獭在老石桥下休息。"], passage) is None
    assert cause_of(checks.check_key_sentences, ["狐狸住在山上的洞穴里。"], passage) == "not_verbatim"
    assert cause_of(checks.check_paraphrase, "水獭于古桥之下安歇。它们喜好宁静之处。", passage, ["石桥"]) is None
    assert (
        cause_of(checks.check_paraphrase, "水獭于石桥之下安歇。它们喜好宁静之处。", passage, ["石桥"]) == "keyword_left"
    )


def test_sentences():
    assert sentences_of("Dr. Smith took 3.5 mg. Why?\nNobody knows.", "en") == [
        "Dr. Smith took 3.5 mg.",
        "Why?",
        "Nobody knows.",
    ]


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("name", "least"),
    [
        # key sentences of FiQA: after the substitution of pronouns; paraphrases: with more keywords than a model names
        (
            "fiqa",
            {"key-sentences": 0.83, "key-sentences-with-noise": 1, "summary": 0.99, "expansion": 1, "paraphrase": 0.64},
        ),
        (
            "msmarco",
            {
                "key-sentences": 0.98,
                "key-sentences-with-noise": 0.99,
                "summary": 1,
                "expansion": 0.99,
                "paraphrase": 0.93,
            },
        ),
    ],
)
def test_the_published_variants_pass(shared_data, name, least):
    passed, total = Counter(), Counter()
    for kind, _, rejected in script("docs/reproduction/scripts/check_published_sure.py").check_all(
        read_sure(shared_data / "sure" / name)
    ):
        total[kind] += 1
        passed[kind] += rejected is None
        assert rejected is None or rejected.cause in CAUSES
    assert total == dict.fromkeys(least, 191 if name == "fiqa" else 2287) | {
        "paraphrase": 137 if name == "fiqa" else 1323
    }
    assert {kind: passed[kind] / total[kind] >= share for kind, share in least.items()} == dict.fromkeys(least, True)


SUMMARY = "Otters rest under the bridge."


@pytest.mark.parametrize(
    "answer",
    [
        "summary: Otters rest under the bridge.",
        "Summary: Otters rest under the bridge.",
        "SUMMARY:Otters rest under the bridge.",
        "summary : Otters rest under the bridge.",
        "summary：Otters rest under the bridge.",
        "**Summary:** Otters rest under the bridge.",
        "**Summary**: Otters rest under the bridge.",
        "*summary:* Otters rest under the bridge.",
        "### Summary:\nOtters rest under the bridge.",
        "## Summary\n\nOtters rest under the bridge.",
        "`summary:` Otters rest under the bridge.",
        "'summary:' Otters rest under the bridge.",
        '"summary:" Otters rest under the bridge.',
        "> summary: Otters rest under the bridge.",
        "1. summary: Otters rest under the bridge.",
        'summary: "Otters rest under the bridge."',
        "summary: “Otters rest under the bridge.”",
        "summary: «Otters rest under the bridge.»",
        "summary: **Otters rest under the bridge.**",
        "summary:\n```\nOtters rest under the bridge.\n```",
        "summary:\n```text\nOtters rest under the bridge.\n```\nLet me know!",
        "Sure! Here is what you asked for.\n\nsummary: Otters rest under the bridge.",
        "I output it after 'summary:' as asked.\nsummary: Otters rest under the bridge.",
        "Here it is, summary: Otters rest under the bridge.",
        "summary: Otters rest under the bridge.\n\nNote: I kept it short.",
        "summary: Otters rest under the bridge.\n\n---\n\nI hope this helps!",
        "summary: Otters rest under the bridge.\n\nThis summary answers the query directly.",
        "summary: <summary-0a1b2c3d>\nOtters rest under the bridge.\n</summary-0a1b2c3d>",
        "\n\n  summary:   Otters rest under the bridge.  \n",
    ],
)
def test_a_summary_is_read(answer):
    assert read_text(answer, "summary:") == SUMMARY


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ('summary: "Yes" is the answer, not "no"', '"Yes" is the answer, not "no"'),
        ("summary: 'Tis the season of the Joneses'", "'Tis the season of the Joneses'"[1:-1]),
        ("summary: *One* is not *two*", "*One* is not *two*"),
        ("summary: First paragraph.\n\nSecond paragraph.", "First paragraph.\n\nSecond paragraph."),
        ("summary: In 1990 the summary: of it all came.", "In 1990 the summary: of it all came."),
        ("summary: 1. Boil. 2. Serve.", "1. Boil. 2. Serve."),
        ("summary: Notes are taken.\n\nNotes: are kept.", "Notes are taken.\n\nNotes: are kept."),
    ],
)
def test_what_belongs_to_the_text_stays(answer, text):
    assert read_text(answer, "summary:") == text


SENTENCES = ["Otters rest under the bridge.", "They do so at night."]


@pytest.mark.parametrize(
    "answer",
    [
        "key sentences: Otters rest under the bridge.\nThey do so at night.",
        "key sentences:\n- Otters rest under the bridge.\n- They do so at night.",
        "Key Sentences:\n\n* Otters rest under the bridge.\n\n* They do so at night.",
        "key sentences:\n1. Otters rest under the bridge.\n2. They do so at night.",
        "key sentences:\n1) Otters rest under the bridge.\n2) They do so at night.",
        "key sentences:\n(1) Otters rest under the bridge.\n(2) They do so at night.",
        "key sentences:\n[1] Otters rest under the bridge.\n[2] They do so at night.",
        'key sentences:\n1. "Otters rest under the bridge."\n2. "They do so at night."',
        "**Key sentences:**\n• **Otters rest under the bridge.**\n• They do so at night.",
        "key sentences:\nSentence 1: Otters rest under the bridge.\nSentence 2: They do so at night.",
        "The key  sentences:\nOtters rest under the bridge.\nThey do so at night.\n\nThese sentences answer the query.",
    ],
)
def test_key_sentences_are_read(answer):
    assert read_sentences(answer, "key sentences:") == SENTENCES


@pytest.mark.parametrize(
    "answer",
    [
        "sentences: Otters rest under the bridge. They do so at night.",
        "sentences:\nOtters rest under the bridge.\nThey do so at night.",
        "sentences: 1. Otters rest under the bridge. 2. They do so at night.",
        "sentences:\n1. Otters rest under the bridge.\n2. They do so at night.",
        "Sentences:\n\n“Otters rest under the bridge.”\n\n“They do so at night.”",
        '**Sentences:** "Otters rest under the bridge. They do so at night."',
        "s1 and s2 follow.\nsentences:\nS1: Otters rest under the bridge.\nS2: They do so at night.",
    ],
)
def test_two_sentences_are_read(answer):
    assert read_two_sentences(answer, "sentences:", "en") == SENTENCES


def paraphrase_of(answer: str) -> tuple[list[str], str]:
    return read_paraphrase(answer, "keywords in the query:", "paraphrased passage:")


@pytest.mark.parametrize(
    "answer",
    [
        "keywords in the query: otters, rest\nparaphrased passage: River mammals sleep.",
        "Keywords in the query: Otters; rest.\n\nParaphrased passage: River mammals sleep.",
        "**Keywords in the query:** otters, rest\n\n**Paraphrased passage:** River mammals sleep.",
        "keywords in the query:\n- otters\n- rest\nparaphrased passage:\nRiver mammals sleep.",
        "keywords in the query:\n1. otters (an animal)\n2. rest\n\nparaphrased passage:\n\nRiver mammals sleep.",
        'keywords in the query: "otters", "rest"\nparaphrased passage: "River mammals sleep."',
        "keywords in the query: ['otters', 'rest']\nparaphrased passage: River mammals sleep.",
        "keywords in the query:\n**otters** -> mammals\n**rest** → sleep\nparaphrased passage: River mammals sleep.",
        "### Keywords in the query\notters, rest\n### Paraphrased passage\nRiver mammals sleep.",
    ],
)
def test_a_paraphrase_is_read(answer):
    keywords, passage = paraphrase_of(answer)
    assert [keyword.lower() for keyword in keywords] == ["otters", "rest"]
    assert passage == "River mammals sleep."


@pytest.mark.parametrize(
    ("answer", "yes"),
    [
        ("yes", True),
        ("Yes", True),
        ("YES.", True),
        ("'yes'", True),
        ("**Yes**", True),
        ("`no`", False),
        ("no!", False),
        ("Yes, the sentences answer it.", True),
        ("No. There is no answer in them, yes or otherwise.", False),
        ("No - the passage says nothing about it.", False),
        ("Answer: yes", True),
        ("**Answer:** No", False),
        ("The answer is no.", False),
        ("Final answer: **yes**", True),
        ("<answer-0a1b2c3d>yes</answer-0a1b2c3d>", True),
        ("The sentences name the place.\n\nYes", True),
        ("Let me check: is there no mention? There is one.\nyes.", True),
        ("I would say yes", True),
        ("1. no", False),
        ("- yes", True),
        ("yes\n\nno further remarks", True),
        ("The correct output is 'no'.", False),
    ],
)
def test_a_verdict_is_read(answer, yes):
    assert read_verdict(answer, "yes", "no") is yes


@pytest.mark.parametrize(
    "answer",
    ["", "maybe", "yes or no", "yes/no", "'yes' or 'no'", "It depends: partly yes, partly no.", "nope", "Yesterday"],
)
def test_no_verdict_is_rejected(answer):
    with pytest.raises(Rejected) as rejected:
        read_verdict(answer, "yes", "no")
    assert rejected.value.cause == "off_format"


ANYTHING = st.one_of(
    st.text(),
    st.text(alphabet=st.sampled_from("summary keyontcsi:*_#`\"'“”-1.)\n ")),
    st.lists(st.sampled_from(["summary:", "key sentences:", "\n", "**", '"', "1. ", "yes", "no", "a b c.", "```"])).map(
        "".join
    ),
)


@given(ANYTHING)
@example("```\n```")
def test_whatever_comes_is_read_or_rejected(answer):
    for read in (
        lambda: read_text(answer, "summary:"),
        lambda: " ".join(read_sentences(answer, "key sentences:")),
        lambda: " ".join(read_two_sentences(answer, "sentences:", "en")),
        lambda: paraphrase_of(answer)[1],
    ):
        try:
            found = read()
        except Rejected as rejected:
            assert rejected.cause == "off_format"  # noqa: PT017 - it may also be read
        else:
            assert words_of(found)
            assert set(words_of(found)) <= set(words_of(answer))
    try:
        assert read_verdict(answer, "yes", "no") in (True, False)
    except Rejected as rejected:
        assert rejected.cause == "off_format"  # noqa: PT017
