"""Near-misses by negation: the texts that come out, what must not come out, and what holds for any text."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrokit.augmentation.near_misses.negation import edits
from retrokit.augmentation.near_misses.sentence import tag


def near_misses(text: str) -> dict[str, list[str]]:
    """The near-misses of ``text`` by the names of their edits."""
    found: dict[str, list[str]] = {}
    for edit in edits(tag(text)):
        found.setdefault(edit.name, []).append(edit.text)
    return found


COMPLETE = {
    # A lexical verb takes "do" in its tense and number, an auxiliary takes "not" after it.
    "The method improves accuracy.": {
        "insert-not": ["The method does not improve accuracy."],
        "insert-fail-to": ["The method fails to improve accuracy."],
        "insert-never": ["The method never improves accuracy."],
        "insert-no-longer": ["The method no longer improves accuracy."],
    },
    "The experiments revealed several errors.": {
        "insert-not": ["The experiments did not reveal several errors."],
        "insert-fail-to": ["The experiments failed to reveal several errors."],
    },
    "There is a significant effect.": {
        "insert-not": ["There is not a significant effect."],
        "insert-no": ["There is no significant effect."],
    },
    "The drug may help.": {"insert-not": ["The drug may not help."], "insert-cannot": ["The drug cannot help."]},
    "Use the knife carefully.": {
        "insert-not": ["Do not use the knife carefully."],
        "insert-never": ["Never use the knife carefully."],
    },
    # Taking the negation away gives the verb its ending back.
    "The method does not improve accuracy.": {"remove-not": ["The method improves accuracy."]},
    "The study did not find any effect.": {"remove-not": ["The study found some effect."]},
    "He has never eaten meat.": {
        "swap-never-always": ["He has always eaten meat."],
        "remove-never": ["He has eaten meat."],
    },
    # Quantifiers bring the number of noun and verb with them.
    "All patients were treated.": {
        "swap-all-not-all": ["Not all patients were treated."],
        "swap-all-no": ["No patients were treated."],
        "swap-all-some": ["Some patients were treated."],
    },
    "All of the models are trained on images.": {
        "swap-all-not-all": ["Not all of the models are trained on images."],
        "swap-all-no": ["None of the models are trained on images."],
        "swap-all-some": ["Some of the models are trained on images."],
    },
    "Not all patients were treated.": {
        "swap-not-all-all": ["All patients were treated."],
        "swap-not-all-no": ["No patients were treated."],
    },
    "None of the patients was treated.": {
        "swap-none-all": ["All of the patients were treated."],
        "swap-none-some": ["Some of the patients were treated."],
    },
    "The study shows that the drug does not reduce pain.": {
        "remove-not": ["The study shows that the drug reduces pain."],
        "move-not-up": ["The study does not show that the drug reduces pain."],
    },
    "The study does not show that the drug reduces pain.": {
        "remove-not": ["The study shows that the drug reduces pain."],
        "move-not-down": ["The study shows that the drug does not reduce pain."],
    },
}


@pytest.mark.parametrize("text", COMPLETE)
def test_every_near_miss_of_a_sentence(text: str) -> None:
    assert near_misses(text) == COMPLETE[text]


CASES = [
    ("insert-not", "The model is fast.", "The model is not fast."),
    ("insert-not", "The methods improve accuracy.", "The methods do not improve accuracy."),
    (
        "insert-not",
        "The method significantly improves accuracy.",
        "The method does not significantly improve accuracy.",
    ),
    ("insert-not", "The diagram below shows the results.", "The diagram below does not show the results."),
    ("insert-not", "The drug can also help.", "The drug can also not help."),
    ("insert-not", "We also found a significant effect.", "We also did not find a significant effect."),
    ("insert-not", "The patient has diabetes.", "The patient does not have diabetes."),
    ("insert-not", "The patient has been treated.", "The patient has not been treated."),
    ("insert-not", "Patients can recover.", "Patients cannot recover."),
    ("insert-not", "There is evidence of fraud.", "There is no evidence of fraud."),
    ("insert-not", "They've seen the film.", "They haven't seen the film."),
    ("insert-not", "They’re late and the shop is open.", "They’re late and the shop isn’t open."),
    ("insert-not", "The firm has some money.", "The firm does not have any money."),
    ("insert-not", "A man playing a guitar.", "A man not playing a guitar."),
    ("insert-not", "Why does the engine stop?", "Why doesn't the engine stop?"),
    ("insert-not", "What causes high blood pressure?", "What does not cause high blood pressure?"),
    ("insert-not", "What can you recycle for money?", "What can you not recycle for money?"),
    ("insert-not", "how to boil eggs", "how not to boil eggs"),
    ("insert-no-longer", "The model is used in hospitals.", "The model is no longer used in hospitals."),
    ("insert-never", "Patients can recover.", "Patients can never recover."),
    ("insert-no", "A man is playing a guitar.", "No man is playing a guitar."),
    ("insert-no", "We found an interesting effect.", "We found no interesting effect."),
    ("insert-without", "Patients with diabetes were treated.", "Patients without diabetes were treated."),
    ("insert-without", "The Home of Children With Asthma in Leeds", "The Home of Children Without Asthma in Leeds"),
    ("insert-unable", "He is able to walk.", "He is unable to walk."),
    ("remove-not", "The methods do not improve accuracy.", "The methods improve accuracy."),
    ("remove-not", "The engine can't start.", "The engine can start."),
    ("remove-not", "The engine won't start.", "The engine will start."),
    ("remove-not", "The results cannot be trusted.", "The results can be trusted."),
    ("remove-not", "The company’s method doesn’t work.", "The company’s method works."),
    ("remove-not", "The model has not yet been tested.", "The model has already been tested."),
    ("remove-not", "The model does not work at all.", "The model works."),
    ("remove-not", "Do not use the knife.", "Use the knife."),
    ("remove-not", "Why doesn't the engine start?", "Why does the engine start?"),
    ("remove-no", "No significant difference was found.", "A significant difference was found."),
    ("remove-no", "It had no effect on sleep.", "It had an effect on sleep."),
    ("remove-no-longer", "The system no longer supports printing.", "The system still supports printing."),
    ("remove-fail-to", "The system failed to detect any errors.", "The system detected some errors."),
    ("remove-lack", "The cell lacks a nucleus.", "The cell has a nucleus."),
    ("remove-without", "Patients without any symptoms were treated.", "Patients with symptoms were treated."),
    ("remove-unlikely", "It is unlikely that prices will fall.", "It is likely that prices will fall."),
    ("swap-absence-presence", "It grows in the absence of light.", "It grows in the presence of light."),
    ("swap-no-some", "The trial found no evidence of harm.", "The trial found some evidence of harm."),
    ("swap-no-every", "No patient was treated.", "Every patient was treated."),
    ("swap-every-no", "Every patient was treated.", "No patient was treated."),
    ("swap-each-no", "Each of the children sings.", "None of the children sings."),
    ("swap-some-all", "Some patients died.", "All patients died."),
    ("swap-several-no", "Several patients died.", "No patients died."),
    ("swap-many-few", "Many patients died.", "Few patients died."),
    ("swap-most-few", "Most patients recovered.", "Few patients recovered."),
    ("swap-a-few-many", "I have a few friends.", "I have many friends."),
    ("swap-both-neither", "Both models are trained on images.", "Neither model is trained on images."),
    ("swap-both-neither", "Both the cat and the dog are black.", "Neither the cat nor the dog is black."),
    ("swap-both-neither", "It is effective in both mice and rats.", "It is effective in neither mice nor rats."),
    ("swap-neither-both", "Neither model is accurate.", "Both models are accurate."),
    ("swap-neither-both", "Neither aspirin nor ibuprofen was effective.", "Both aspirin and ibuprofen were effective."),
    ("swap-always-never", "The shop always opens at nine.", "The shop never opens at nine."),
    ("swap-often-rarely", "The shop often opens at nine.", "The shop rarely opens at nine."),
    ("swap-everyone-no-one", "Everyone knows the answer.", "No one knows the answer."),
    ("swap-no-one-everyone", "No one knows the answer.", "Everyone knows the answer."),
    ("swap-more-than-fewer-than", "The set has more than 10 items.", "The set has fewer than 10 items."),
    ("swap-more-than-less-than", "It costs more than 10 dollars.", "It costs less than 10 dollars."),
    ("swap-at-least-at-most", "The set has at least 10 items.", "The set has at most 10 items."),
    ("swap-majority-minority", "The majority of users complained.", "A minority of users complained."),
    ("move-only", "The model only uses text.", "Only the model uses text."),
    ("move-only", "Only the model uses text.", "The model only uses text."),
    (
        "move-not-across",
        "The first drug reduces pain, but the second does not reduce pain.",
        "The first drug does not reduce pain, but the second reduces pain.",
    ),
]


@pytest.mark.parametrize(("name", "text", "expected"), CASES)
def test_near_miss(name: str, text: str, expected: str) -> None:
    assert expected in near_misses(text).get(name, [])


def test_what_only_reports_or_asks_is_not_negated() -> None:
    assert near_misses("Prices will rise, officials vow.")["insert-not"] == ["Prices will not rise, officials vow."]
    told = near_misses("She told us how they treat you.")
    assert told["insert-not"] == ["She did not tell us how they treat you."]


def test_a_mark_at_the_start_opens_the_first_clause() -> None:
    assert near_misses(", the model is fast.")["insert-not"] == [", the model is not fast."]


def test_an_indirect_question_is_not_negated() -> None:
    asked = near_misses("She asked whether the method is fast.")
    assert asked["insert-not"] == ["She did not ask whether the method is fast."]


@pytest.mark.parametrize(
    "text",
    [
        "Is the method fast?",  # the negated question asks the same
        "Doesn't the method work?",
        "What is the capital of France?",
        "It is not only fast but also cheap.",
        "It is not a disease but a syndrome.",
        "I can't help but laugh.",
        "Supreme Court to Hear Voting Rights Act Case",
        "Dogs!",
        "",
    ],
)
def test_yields_nothing(text: str) -> None:
    assert near_misses(text) == {}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("move", "I think that the drug does not reduce pain."),  # "do not think that it reduces" says the same
        ("move", "He believes the drug does not reduce pain."),
        ("insert-not", "No cats, dogs or birds are allowed."),  # negative already
        ("insert-not", "Few patients were treated."),
        ("insert-not", "The protein binds and activates the receptor."),  # one "does" cannot serve both
        ("insert-not", "The genes identified regulate growth and were cloned."),
        ("insert-not", "All patients were treated."),  # "all were not" is read in two ways
        ("insert-without", "The cost is associated with diabetes."),
        ("insert-without", "We provide users with tools."),
        ("remove-not", "The war did not start on one day or end in one day."),
        ("insert", "You may drink water, but no tea."),
        ("insert-not", "Of particular concern are health problems."),
        ("remove-not", "It works, doesn't it?"),
        ("remove-not", "She wonders whether or not it works."),
        ("remove-without", "He left without saying a word."),
        ("swap-no", "There is no doubt that the result is known."),
        ("swap-every", "Every day the shop opens."),
        ("swap-most", "The most important factors are known."),
        ("swap-all", "It did not work at all levels of detail."),
        ("swap-all", "Nearly all patients were treated."),
        ("swap-few", "The fewer patients there are, the better."),
        ("swap-more", "More or less, the result is known."),
        ("swap-often", "How often does the shop open?"),
        ("insert-impossible", "We ask whether it is possible to win."),
        ("insert", "Not only does it save time, but it also comes with a manual."),  # goes on to affirm
        ("insert-not", "These two, I believe, were the first."),  # the source of the sentence
        ("insert-not", "The way a drug feels is different for each woman."),  # no verb of the sentence
        ("insert-not", "The counts are probably slightly high."),
        ("insert-not", "Such a question is quite different from the others."),
        ("insert-not", "On the north side of the town is the old mill."),  # the subject comes last
        ("insert-never", "When the first U.S. coins were made, they sold well."),
        ("insert-never", "The workout mainly uses light weights."),
        ("insert-never", "The agency again pioneered a new approach."),
        ("insert-never", "China sends the largest fleet yet to the island."),
        ("insert", "Main outcome measures Death from any cause and stroke."),  # a label and no verb
        ("insert-fail-to", "The name originated in the north."),
        ("insert-without", "The survey reached patients with various disorders."),
        ("swap-each", "The schedule and each of the sections are new."),
        ("swap-always", "There is an always tremendous gap."),
    ],
)
def test_does_not_yield(kind: str, text: str) -> None:
    assert [name for name in near_misses(text) if name.startswith(kind)] == []


def check_edits(text: str) -> int:
    """What holds for the edits of any text; how many there are."""
    found = list(edits(tag(text)))
    assert found == list(edits(tag(text)))
    assert len({edit.text for edit in found}) == len(found)
    words = set(re.findall(r"\w+", text.lower()))
    for edit in found:
        assert edit.text != text
        assert edit.text == edit.text.strip()
        assert edit.text.count("  ") <= text.count("  ")
        assert re.fullmatch(r"(insert|remove|move|swap)(-[a-z]+)+", edit.name)
        kept = words & set(re.findall(r"\w+", edit.text.lower()))
        assert len(words) - len(kept) <= 6
    return len(found)


WORDS = (
    "the a patients model models is are was does did not no never all every both few many some only with without at "
    "least than more improve improves improved show shows found effective and but that which , . ? n't can it they "
    "10 results"
).split()


def test_a_past_form_without_a_known_verb_harms_nothing() -> None:
    """Without a final mark a past form may be a headline's participle, so its verb is looked for: "dont" has none."""
    assert near_misses("voting for her if the examiner and the establishment dont like her") == {}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join))
def test_any_words_are_edited_without_fault(text: str) -> None:
    check_edits(text)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_edited_without_fault(text: str) -> None:
    list(edits(tag(text)))


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("file", "field", "least"),
    [("scifact/corpus.jsonl", "text", 0.5), ("stsb/dev.jsonl", "sentence1", 0.4)],
)
def test_real_sentences(shared_data, file: str, field: str, least: float) -> None:
    with (shared_data / file).open(encoding="utf-8") as lines:
        texts = [json.loads(line)[field] for line, _ in zip(lines, range(150), strict=False)]
    sentences = [piece for text in texts for piece in re.split(r"(?<=[.?!]) (?=[A-Z])", " ".join(text.split()))][:400]
    with_edits = sum(check_edits(sentence) > 0 for sentence in sentences)
    assert with_edits / len(sentences) > least
