"""Relations swapped for their converses: the exact texts, and the words that only look like relations."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from retrokit.augmentation.near_misses.sentence import tag
from retrokit.augmentation.near_misses.spatial import edits

pytest.importorskip("HanTa", reason="of the extra negatives")

SWAPS = [
    # position
    ("The cat sleeps inside the box.", "swap-position", "The cat sleeps outside the box."),
    ("The water is below the surface of the lake.", "swap-position", "The water is above the surface of the lake."),
    ("A man stands in front of a car.", "swap-position", "A man stands behind a car."),
    ("A man sits behind a desk.", "swap-position", "A man sits in front of a desk."),
    ("He placed the book on top of the table.", "swap-position", "He placed the book beneath the table."),
    ("The store is near the station.", "swap-position", "The store is far from the station."),
    (
        "The left ventricle is enlarged in these patients.",
        "swap-position",
        "The right ventricle is enlarged in these patients.",
    ),
    ("Turn left at the corner.", "swap-position", "Turn right at the corner."),
    ("The Western program was closed in May.", "swap-position", "The Eastern program was closed in May."),
    ("Two people die in attacks ahead of the summit.", "swap-time", "Two people die in attacks after the summit."),
    ("The upper part of the arm was hurt.", "swap-position", "The lower part of the arm was hurt."),
    ("She lives in the south of France.", "swap-position", "She lives in the north of France."),
    ("A woman from North Korea signed it.", "swap-position", "A woman from South Korea signed it."),
    ("A cat is hiding under the bed.", "swap-position", "A cat is hiding above the bed."),
    ("The dog jumped over the fence.", "swap-position", "The dog jumped under the fence."),
    # direction
    ("He walked into the room.", "swap-direction", "He walked out of the room."),
    ("The cup was inserted into the slot.", "swap-direction", "The cup was removed from the slot."),
    ("The flight from Paris to Rome was late.", "swap-direction", "The flight to Paris from Rome was late."),
    ("He walks down the stairs to the beach.", "swap-direction", "He walks up the stairs to the beach."),
    ("Stocks were down 3.1 percent on Friday.", "swap-direction", "Stocks were up 3.1 percent on Friday."),
    # time
    ("What happens after you die?", "swap-time", "What happens before you die?"),
    ("Prior to the meeting, we had lunch.", "swap-time", "After the meeting, we had lunch."),
    ("Following the meeting, they went home.", "swap-time", "Before the meeting, they went home."),
    ("Two years later he died.", "swap-time", "Two years earlier he died."),
    ("The first step is easy.", "swap-time", "The last step is easy."),
    ("He began to eat the apple.", "swap-time", "He stopped eating the apple."),
    ("The film begins with a song.", "swap-time", "The film ends with a song."),
    ("Rain was followed by snow.", "swap-time", "Rain was preceded by snow."),
    # comparison and degree
    ("The cost is higher than expected.", "swap-comparative", "The cost is lower than expected."),
    ("The dog runs faster than the cat.", "swap-comparative", "The dog runs slower than the cat."),
    ("We cite older work than they do.", "swap-comparative", "We cite newer work than they do."),
    ("Who bought the most expensive painting?", "swap-superlative", "Who bought the least expensive painting?"),
    ("What is the highest mountain in Europe?", "swap-superlative", "What is the lowest mountain in Europe?"),
    ("There are more cars in the city.", "swap-more-less", "There are fewer cars in the city."),
    ("It takes more time to cook.", "swap-more-less", "It takes less time to cook."),
    ("Fewer students passed the test this year.", "swap-more-less", "More students passed the test this year."),
    ("More than 20 people came to the meeting.", "swap-bound", "Fewer than 20 people came to the meeting."),
    ("She has more than 20% of the shares.", "swap-bound", "She has less than 20% of the shares."),
    ("It is at least 20 years old.", "swap-bound", "It is at most 20 years old."),
    ("It costs up to 30 dollars a month.", "swap-bound", "It costs at least 30 dollars a month."),
    ("Over 40 countries signed the treaty.", "swap-bound", "Under 40 countries signed the treaty."),
    ("Long-term exposure to noise is bad for you.", "swap-degree", "Short-term exposure to noise is bad for you."),
    # change, with the numbers turned and the article mended
    ("Gas prices fell 3 percent in May.", "swap-change", "Gas prices rose 3 percent in May."),
    ("Sales rose from 3 to 5 million.", "swap-change", "Sales fell from 5 to 3 million."),
    (
        "Revenue increased from $10 million to $20 million.",
        "swap-change",
        "Revenue decreased from $20 million to $10 million.",
    ),
    ("They saw an increase in sales.", "swap-change", "They saw a decrease in sales."),
    ("They saw a decrease in sales.", "swap-change", "They saw an increase in sales."),
    ("She had an increased risk of stroke.", "swap-change", "She had a decreased risk of stroke."),
    # action
    ("They outperformed the baseline by 3 points.", "swap-action", "They underperformed the baseline by 3 points."),
    ("It exceeded our expectations.", "swap-action", "It fell below our expectations."),
    ("This allows users to edit the files.", "swap-action", "This prevents users from editing the files."),
    ("It prevents the dog from leaving the yard.", "swap-action", "It allows the dog to leave the yard."),
    (
        "The results support the hypothesis that it is true.",
        "swap-action",
        "The results contradict the hypothesis that it is true.",
    ),
    ("They won the war.", "swap-action", "They lost the war."),
    ("Greater use should be made of it.", "swap-comparative", "Lesser use should be made of it."),
    # cause
    ("Despite the rain, they played on.", "swap-cause", "Because of the rain, they played on."),
    ("Although it rained, they went out.", "swap-cause", "Because it rained, they went out."),
    ("This leads to high costs.", "swap-cause", "This results from high costs."),
    ("Damage caused by the storm was seen.", "swap-cause", "Damage causing the storm was seen."),
    # polarity and roles
    ("The majority of people like it.", "swap-polarity", "A minority of people like it."),
    ("A negative correlation was found.", "swap-polarity", "A positive correlation was found."),
    ("Glucose was positively correlated with age.", "swap-polarity", "Glucose was negatively correlated with age."),
    ("The seller paid the bill.", "swap-role", "The buyer paid the bill."),
]
NOTHING = [
    "You have the right to remain silent.",
    "After all, it was his turn.",
    "The street was named after the king.",
    "The game is over and they look for more.",
    "The results hold under these assumptions.",
    "We schedule a follow-up visit.",
    "The model is based on attention.",
    "The above results are shown in the table.",
    "See below for the details of the plan.",
    "First, we describe the model.",
    "At first he was not sure.",
    "The first author wrote the code.",
    "It is more or less finished.",
    "We need further work on this.",
    "The more you read, the more you know.",
    "This helps us to better understand the data.",
    "They are busy right now.",
    "He is following the rules.",
    "The war lasted for years.",
    "The house is close to the river.",
    "We report the top-5 accuracy.",
    "He stayed rather than leave.",
    "Wash your hands before and after the meal.",
    "The line goes up and down.",
    "The dog sits next to the cat beside the chair between two trees.",
    "It works inside and outside the house.",
    "Take advantage of the offer.",
    "He turned into a frog.",
    "The list is divided into four parts.",
    "He fell in love with her.",
    "There is no longer any need for it.",
    "He had better go home.",
    "From Monday to Friday the shop is open.",
    "It is one of the best practices in industry.",
    "The baby is 3 years old.",
    "She sold the house to a friend.",
    'He said "the cat is inside the box" to us.',
    "This allows users to edit and delete files.",
    "Sales rose to 5 million from 3 million.",
    "There are many reasons behind the decision.",
    "A loved one may spend it.",
    "He ran into problems.",
    "It pushes the price up.",
    "This shows a host of problems.",
    "Family doctors of the region were asked.",
    "It depends on the size but not on the age.",
    "The claim needs closer examination.",
    "They pose problems above those of the others.",
    "The test has a good yield and not lower specificity.",
]


@pytest.mark.parametrize(("text", "name", "near_miss"), SWAPS)
def test_relation_is_swapped(text: str, name: str, near_miss: str) -> None:
    found = {edit.text: edit for edit in edits(tag(text))}
    assert near_miss in found
    assert found[near_miss].name == name


@pytest.mark.parametrize("text", NOTHING)
def test_what_only_looks_like_a_relation_is_left_alone(text: str) -> None:
    assert [edit.text for edit in edits(tag(text))] == []


def test_a_past_form_is_no_side() -> None:
    texts = [edit.text for edit in edits(tag("The police left the scene in the left lane."))]
    assert texts == ["The police left the scene in the right lane."]


def test_a_loosely_set_sentence_keeps_its_spaces() -> None:
    texts = [edit.text for edit in edits(tag("The cat sleeps inside the box , and the dog barks ."))]
    assert texts == ["The cat sleeps outside the box , and the dog barks ."]


@pytest.mark.shared_data
def test_on_real_sentences(shared_data: Path) -> None:
    """Every edit differs, keeps most words, is well spaced, and comes again; a useful share of sentences has one."""
    with (shared_data / "stsb" / "test.jsonl").open(encoding="utf-8") as lines:
        texts = [json.loads(line)["sentence1"] for line in itertools.islice(lines, 600)]
    with_edits = 0
    for text in texts:
        found = list(edits(tag(text)))
        assert found == list(edits(tag(text)))
        assert len({edit.text for edit in found}) == len(found)
        with_edits += bool(found)
        for edit in found:
            assert edit.text != text
            assert edit.name.startswith("swap-")
            assert "  " not in edit.text or "  " in text
            lost = set(text.lower().split()) - set(edit.text.lower().split())
            assert len(lost) <= 4, edit
    assert 0.12 < with_edits / len(texts) < 0.6
