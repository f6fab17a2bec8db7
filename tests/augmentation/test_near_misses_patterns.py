"""Swaps from lines of a data file: what each part of a line means."""

import pytest

from retrokit.augmentation.near_misses.patterns import Lexicon, read_swaps
from retrokit.augmentation.near_misses.sentence import Sentence, Token, View, rewrite

LEXICON = Lexicon({"rooms": frozenset({"kitchen", "hall*"})}, {"sides": {"left": "right", "right": "left"}}, {}, {})
KNOWN = {"long": lambda view, at: len(view.words[at]) > 5}


def swapped(lines: str, tagged: str) -> list[tuple[str, str]]:
    """The edits that lines make of ``word/TAG word/TAG``."""
    tokens, start = [], 0
    for entry in tagged.split():
        word, _, tag = entry.partition("/")
        tokens.append(Token(word, tag, start, start + len(word)))
        start += len(word) + 1
    sentence = Sentence(" ".join(token.text for token in tokens), tuple(tokens))
    view, found = View(sentence), []
    for at, word in enumerate(view.words):
        for key, swap in read_swaps(lines, LEXICON, KNOWN):
            if key == word and (edit := swap(view, at)) is not None:
                found.append((edit[0], rewrite(sentence, edit[1])))
    return found


CAT = "The/AT0 cat/NN1 sleeps/VVZ in/PRP the/AT0 kitchen/NN1"


@pytest.mark.parametrize(
    ("line", "tagged", "text"),
    [
        ("x: in>near", CAT, "The cat sleeps near the kitchen"),
        ("x: near/in", CAT, "The cat sleeps near the kitchen"),
        ("x: near>in", CAT, None),
        ("x: sleeps_in>leaves", CAT, "The cat leaves the kitchen"),
        ("x: sleeps_*in>leaves where 0:PRP -1:cat 1:the", CAT, "The cat leaves the kitchen"),
        ("x: sleeps_on>leaves", CAT, None),
        ("x: sleeps>~sing", CAT, "The cat sings in the kitchen"),
        ("x: cat>~sing", CAT, None),  # no verb, so no form
        ("x: sleeps_in>~go_to", CAT, "The cat goes to the kitchen"),
        ("x: $sides", "Turn/VVB left/AV0", "Turn right"),
        ("x: in>near where 2:$rooms", CAT, "The cat sleeps near the kitchen"),
        ("x: in>near where 2:$rooms", CAT.replace("kitchen", "hallway"), "The cat sleeps near the hallway"),
        ("x: in>near where 2:$rooms", CAT.replace("kitchen", "house"), None),
        ("x: in>near where 2!$rooms", CAT, None),
        ("x: in>near where -1:VV* 1:AT0|DPS", CAT, "The cat sleeps near the kitchen"),
        ("x: in>near where -1:NN*", CAT, None),
        ("x: in>near where 1..2:kitchen -3..-2:cat", CAT, "The cat sleeps near the kitchen"),
        ("x: in>near where 1..2!kitchen", CAT, None),
        ("x: in>near where *:the *!dog", CAT, "The cat sleeps near the kitchen"),
        ("x: in>near where 3:^ -4:^ 9..12!^", CAT, "The cat sleeps near the kitchen"),
        ("x: in>near where 2:^", CAT, None),
        ("x: in>near where 2:@long 1!@long", CAT, "The cat sleeps near the kitchen"),
        ("x: in>near where 1:the&AT0", CAT, "The cat sleeps near the kitchen"),
        ("x: in>near where 1:the&NN1", CAT, None),
        ("x: in>near where 1!the_kitchen", CAT, None),
        ("x: in>near where -2:cat_?_in -1:sl*", CAT, "The cat sleeps near the kitchen"),
        ("# Rooms.\n%room = 2:$rooms 1:the\n\nx: in>near where %room", CAT, "The cat sleeps near the kitchen"),
        ("x: western>eastern", "The/AT0 Western/AJ0 wall/NN1", "The Eastern wall"),
    ],
)
def test_what_a_line_means(line: str, tagged: str, text: str | None) -> None:
    assert swapped(line, tagged) == ([("x", text)] if text else [])


def test_a_name_that_goes_on_with_the_words() -> None:
    assert swapped("swap-: sleeps_in>goes_out_of", CAT) == [
        ("swap-sleeps-in-goes-out-of", "The cat goes out of the kitchen")
    ]
