"""Splitters: cutting into sentences, joining them, and their names."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrokit.augmentation.crops import Multilingual, Period, splitters
from retrokit.core.errors import UsageError


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


@given(st.text())
def test_multilingual_loses_white_space_at_most(text):
    assert "".join("".join(Multilingual("en").cut(text)).split()) == "".join(text.split())


@pytest.mark.parametrize("unit", ['He said "this is (a) it. ', '("«', "Dr. ", "x", "\n\n"])
def test_enormous_texts_lose_no_word(unit):  # any step that is not linear would take minutes
    text = unit * (1_000_000 // len(unit))
    sentences = Multilingual("en").cut(text)
    assert "".join("".join(sentences).split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("sentences", "joined"),
    [
        ([], ""),
        (["One."], "One."),
        (["One?", "Two"], "One? Two"),
        (["no end mark", "Two."], "no end mark Two."),
        (["你好。", "「是。」", "好！", "OK."], "你好。「是。」好！OK."),
        (["그래.", "네"], "그래. 네"),
    ],
)
def test_multilingual_joins_as_the_script_does(sentences, joined):
    assert Multilingual("en").join(sentences) == joined


@pytest.mark.parametrize(
    ("spec", "splitter"),
    [
        ("period", Period()),
        ("multilingual", Multilingual("en")),
        ("multilingual:de", Multilingual("de")),
        ("multilingual:language=zh-hans", Multilingual("zh-hans")),
    ],
)
def test_names(spec, splitter):
    made = splitters.create(spec)
    assert made == splitter
    assert pickle.loads(pickle.dumps(made)) == splitter
    assert splitters.parse(str(splitters.parse(spec))) == splitters.parse(spec)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("perod", r"unknown splitter 'perod' \(did you mean period\?\); known: period, multilingual"),
        ("period:de", "period takes no parameters"),
        ("multilingual:German", "language=German is not a language code such as en, de or zh"),
        ("multilingual:lang=de", "did you mean language"),
    ],
)
def test_wrong_names(spec, problem):
    with pytest.raises(UsageError, match=problem):
        splitters.create(spec)
