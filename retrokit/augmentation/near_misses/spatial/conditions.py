"""What the lines of ``relations.txt`` ask of a word with ``@``."""

import re

from retrokit.augmentation.near_misses.data import lexicon
from retrokit.augmentation.near_misses.patterns import Test
from retrokit.augmentation.near_misses.view import View

LEXICON = lexicon(__package__)
WORDS, PAIRS, TABLES = LEXICON.words, LEXICON.pairs, LEXICON.tables

_CORRELATIVE = re.compile(r"\bthe (?:more|less|higher|lower|larger|smaller|better|worse|faster|longer|greater|older)\b")


def _gradable(view: View, index: int) -> bool:
    """Whether *more* before this adjective or adverb means its degree, and not a number of things."""
    word = view.words[index]
    if view.tags[index] == "AV0":
        return word.endswith("ly") or word == "often"
    return not _short(word) and "-" not in word and word not in {"such", "other", "same", "due", "new", "different"}


def _short(word: str) -> bool:
    """One syllable by its look: such adjectives take -er, never *more*."""
    return len(re.findall(r"[aeiouy]+", word.removesuffix("e"))) < 2


CONDITIONS: dict[str, Test[View]] = {
    "np": View.starts_noun_phrase,
    "attributive": View.before_noun,
    "passive": View.is_passive,
    "predicate": lambda view, at: view.is_passive(at) and view.ends_phrase(at + 1),
    "predicative": lambda view, at: (
        view.is_passive(at) and (view.tags[at + 1] in {"PUN", ""} or view.words[at + 1] in {"in", "for", "at"})
    ),
    "banned": lambda view, at: view.words[at + 1] in TABLES["banned-nouns"].get(view.words[at], frozenset()),
    "correlative": lambda view, at: len(_CORRELATIVE.findall(view.sentence.text.lower())) > 1,
    # "higher and higher"
    "twin": lambda view, at: view.says(at + 1, "and", view.words[at]) or view.says(at - 2, view.words[at], "and"),
    "gradable": _gradable,
    "short": lambda view, at: _short(view.words[at]),
    "capital": lambda view, at: view.sentence.tokens[at].text[0].isupper(),
    "year": lambda view, at: view.words[at].isdigit() and len(view.words[at]) == 4,
    "will": lambda view, at: view.tags[at] == "CJS" and "will" in view.words[at : at + 10],
    "repeated": lambda view, at: view.words[at - 1] == view.words[at + 1],
    "duration": lambda view, at: (
        view.tags[at] in {"CRD", "DT0", "AT0"} and not WORDS["time-units"].isdisjoint(view.words[at + 1 : at + 4])
    ),
}
