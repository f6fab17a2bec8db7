"""Names and codes: the sentence is about something else of the same kind."""

import re
from collections.abc import Iterator

from retrokit.augmentation.edits.family import Rewriting, family
from retrokit.augmentation.edits.names import KIND_OF_PLACE, names_of
from retrokit.augmentation.edits.subject import Subject

_CODE = re.compile(r"(?<![\w/.–-])(?=[\w-]*\d)(?:[A-Z][\w-]{0,11}|[a-z]{1,3}-?[A-Z]?-?\d[\w-]{0,8})(?![\w/+*-]|\.\w)")
_NO_CODE = re.compile(r"^[a-z]+-|[a-z]{4}|^\d+(?:st|nd|rd|th|s|D)$|^(?:[xX]\d+)$|^[kcmnµ]?m[23]$")


@family("entities", mentioned=True, needs_corpus=True)
def entities(subject: Subject) -> Iterator[Rewriting]:
    """*HIV infection* → *HCV infection*, *in France* → *in Brazil*"""
    sentence = subject.passage.sentence
    for kind, name, start in names_of(sentence):
        others = [
            other for other in subject.surroundings.names.get(kind, []) if other.casefold() not in sentence.casefold()
        ]
        others = [other for other in others if other[0] in name[0]] or others
        if others and sentence.count(name) == 1:
            other = others[subject.draw(len(others), kind, name)]
            text = sentence[:start] + other + sentence[start + len(name) :]
            yield Rewriting("place" if name in KIND_OF_PLACE else "name", text)


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
