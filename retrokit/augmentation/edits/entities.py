"""Names and codes: the sentence is about something else of the same kind."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from retrokit.augmentation.edits.family import Rewriting, family
from retrokit.augmentation.edits.subject import LEXICON, Subject

# A name with two capitals or a digit, and the word after it, which is its kind: "HIV infection", "CIFAR images".
_NAME = re.compile(r"(?<![\w(/–.-])([A-Z][\w-]*[A-Z0-9][\w-]*)\s+([a-z]{4,})(?![\w/-])")
_NO_NAME = re.compile(r"[IVXLC]+(?:-.*)?$|.*\d[DdThst]{1,2}$")
_ENDING = re.compile(r"-[a-z]{3,}$")
_KINDS = LEXICON.words["kinds"]
_KIND_OF_PLACE = {name: f"place {number}" for number, names in enumerate(LEXICON.groups["places"]) for name in names}
_PLACE_NAME = re.compile(rf"\b(?:{'|'.join(sorted(_KIND_OF_PLACE))})\b")
_GOES_ON = re.compile(r"\s+(?:[A-Z]|hamster)|-")
_BEGAN = re.compile(r"[A-Z]\w*\s$")
_CODE = re.compile(r"(?<![\w/.–-])(?=[\w-]*\d)(?:[A-Z][\w-]{0,11}|[a-z]{1,3}-?[A-Z]?-?\d[\w-]{0,8})(?![\w/+*-]|\.\w)")
_NO_CODE = re.compile(r"^[a-z]+-|[a-z]{4}|^\d+(?:st|nd|rd|th|s|D)$|^(?:[xX]\d+)$|^[kcmnµ]?m[23]$")


def names_in(sentences: Iterable[str]) -> dict[str, list[str]]:
    """The names in the sentences by their kinds, sorted, where a kind has two or more."""
    kinds: dict[str, set[str]] = defaultdict(set)
    for sentence in sentences:
        for kind, name, _ in _names(sentence):
            kinds[kind].add(name)
    return {kind: sorted(names) for kind, names in kinds.items() if len(names) > 1}


def _names(sentence: str) -> Iterator[tuple[str, str, int]]:
    """Kind, name and first character of each name."""
    yield from _names_with_kind(sentence)
    yield from _names_of_places(sentence)


def _names_with_kind(sentence: str) -> Iterator[tuple[str, str, int]]:
    for match in _NAME.finditer(sentence):
        name, kind = match.groups()
        is_label = match.start() == 0 and name.isalpha() and len(name) > 4  # of a structured abstract
        if kind in _KINDS and not _NO_NAME.match(name) and not is_label:
            ending = _ENDING.search(name)  # "-deficient mice" are of one kind
            yield f"{ending[0] if ending else ''} {kind}", name, match.start()


def _names_of_places(sentence: str) -> Iterator[tuple[str, str, int]]:
    for match in _PLACE_NAME.finditer(sentence):
        before, after = sentence[: match.start()], sentence[match.end() :]
        if not _GOES_ON.match(after) and not _BEGAN.search(before):
            yield _KIND_OF_PLACE[match[0]], match[0], match.start()


@family("entities", mentioned=True, needs_corpus=True)
def entities(subject: Subject) -> Iterator[Rewriting]:
    """*HIV infection* → *HCV infection*, *in France* → *in Brazil*"""
    sentence = subject.passage.sentence
    for kind, name, start in _names(sentence):
        others = [
            other for other in subject.surroundings.names.get(kind, []) if other.casefold() not in sentence.casefold()
        ]
        others = [other for other in others if other[0] in name[0]] or others
        if others and sentence.count(name) == 1:
            other = others[subject.draw(len(others), kind, name)]
            text = sentence[:start] + other + sentence[start + len(name) :]
            yield Rewriting("place" if name in _KIND_OF_PLACE else "name", text)


@family("codes", mentioned=True)
def codes(subject: Subject) -> Iterator[Rewriting]:
    """*IL-6* → *IL-8*, *p53* → *p73*"""
    sentence = subject.passage.sentence
    for code in dict.fromkeys(match[0] for match in _CODE.finditer(sentence)):
        if _NO_CODE.search(code) or not any(letter.isalpha() for letter in code):
            continue
        other = _with_other_digit(code, subject)
        if other not in sentence:
            yield Rewriting("digit", re.sub(rf"(?<![\w-]){re.escape(code)}(?![\w-])", other, sentence))


def _with_other_digit(code: str, subject: Subject) -> str:
    indices = [index for index, letter in enumerate(code) if letter.isdigit()]
    index = indices[subject.draw(len(indices), "place", code)]
    digits = "23456789".replace(code[index], "")
    return code[:index] + digits[subject.draw(len(digits), "digit", code)] + code[index + 1 :]
