"""Reading answers: the usual deviations from each format, and what must never crash."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retrokit.llm.answers import Rejected, read_sentences, read_text, read_verdict, words_of
from retrokit.sure.variants import read_paraphrase, read_two_sentences

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


@pytest.mark.parametrize(
    "answer", ["", "Otters rest.", "summary:", "summary: **", 'summary: ""', "A summary of it.", "…"]
)
def test_no_summary_is_rejected(answer):
    with pytest.raises(Rejected) as rejected:
        read_text(answer, "summary:")
    assert rejected.value.cause == "off_format"


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


@pytest.mark.parametrize("answer", ["sentences: One alone.", "sentences: One.\nTwo.\nThree.", "sentences: A. B. C."])
def test_other_numbers_of_sentences_are_rejected(answer):
    with pytest.raises(Rejected, match="two sentences were asked for"):
        read_two_sentences(answer, "sentences:", "en")


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
    ("answer", "message"),
    [
        ("paraphrased passage: River mammals sleep.", "'keywords in the query:'"),
        ("keywords in the query: otters", "'paraphrased passage:'"),
        ("keywords in the query:\nparaphrased passage: River mammals sleep.", "no keyword"),
        ("keywords in the query: otters\nparaphrased passage:", "nothing stands after 'paraphrased passage:'"),
        ("paraphrased passage: River mammals sleep.\nkeywords in the query: otters", "'keywords in the query:'"),
    ],
)
def test_half_a_paraphrase_is_rejected(answer, message):
    with pytest.raises(Rejected, match=message):
        paraphrase_of(answer)


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


@pytest.mark.parametrize(
    ("answer", "yes", "no", "expected"),
    [
        ("Ja.", "ja", "nein", True),
        ("Nein, denn …", "ja", "nein", False),
        ("是的。", "是", "否", True),
        ("否", "是", "否", False),
    ],
)
def test_verdicts_of_other_languages(answer, yes, no, expected):
    assert read_verdict(answer, yes, no) is expected


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


PLAIN = st.lists(st.text(alphabet="abcdefgh", min_size=1), min_size=2, max_size=8).map(
    lambda words: " ".join(words) + "."
)
BEFORE = st.sampled_from(["", "Sure!\n\n", "Here you go:\n", "**Result**\n"])
MARKER = st.sampled_from(["summary:", "Summary:", "**SUMMARY:**", "### Summary:", "summary :"])
AROUND = st.sampled_from([("", ""), ('"', '"'), ("**", "**"), ("“", "”"), ("```\n", "\n```"), (" ", "\n\n")])
AFTER = st.sampled_from(["", "\n\nNote: as asked.", "\n\nI hope this helps!"])


@given(PLAIN, BEFORE, MARKER, AROUND, AFTER)
def test_any_combination_of_deviations_is_read(text, before, marker, around, after):
    assert read_text(f"{before}{marker} {around[0]}{text}{around[1]}{after}", "summary:") == text
