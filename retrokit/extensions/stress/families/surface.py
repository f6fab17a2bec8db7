"""Case, diacritics, white space and forms of Unicode, which do not change the meaning."""

import re
import unicodedata
from collections.abc import Iterator

from retrokit.augmentation.edits.family import Rewriting, family
from retrokit.augmentation.edits.subject import Subject

_LONG = re.compile(r"(?<!\w)[a-z]{7,}(?!\w)")
_LIGATURES = {"ffi": "ﬃ", "ffl": "ﬄ", "ff": "ﬀ", "fi": "ﬁ", "fl": "ﬂ"}
_BARE = str.maketrans({"ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "ß": "ss", "æ": "ae", "œ": "oe"})


@family("case", changes_meaning=False)
def case(subject: Subject) -> Iterator[Rewriting]:
    yield Rewriting("upper", subject.passage.sentence.upper())
    yield Rewriting("lower", subject.passage.sentence.lower())


def without_diacritics(text: str) -> str:
    """Latin letters without their marks.

    >>> without_diacritics("Ménière’s, Sjøgren, ά")
    'Meniere’s, Sjogren, ά'
    """
    letters = []
    for letter in text.translate(_BARE):
        bare = unicodedata.normalize("NFD", letter)
        letters.append(bare[0] if len(bare) > 1 and bare[0].isascii() else letter)
    return "".join(letters)


@family("diacritics", changes_meaning=False)
def diacritics(subject: Subject) -> Iterator[Rewriting]:
    yield Rewriting("dropped", without_diacritics(unicodedata.normalize("NFC", subject.passage.sentence)))


@family("spacing", changes_meaning=False)
def spacing(subject: Subject) -> Iterator[Rewriting]:
    sentence = subject.passage.sentence
    words = sentence.split(" ")
    yield Rewriting("double", "  ".join(words))
    middle = len(words) // 2
    yield Rewriting("line", f"{' '.join(words[:middle])}\n{' '.join(words[middle:])}\n")
    if long := list(_LONG.finditer(sentence)):
        match = long[subject.draw(len(long), "divided")]
        cut = match.start() + len(match[0]) // 2
        yield Rewriting("divided", f"{sentence[:cut]}-\n{sentence[cut:]}")


@family("unicode", changes_meaning=False)
def unicode(subject: Subject) -> Iterator[Rewriting]:
    sentence = subject.passage.sentence
    ligatures = sentence
    for letters, ligature in _LIGATURES.items():
        ligatures = ligatures.replace(letters, ligature)
    yield Rewriting("ligatures", ligatures)
    yield Rewriting("no-break", sentence.replace(" ", "\u00a0"))
    yield Rewriting("soft-hyphens", _LONG.sub(lambda match: f"{match[0][:4]}\u00ad{match[0][4:]}", sentence))
    yield Rewriting("decomposed", unicodedata.normalize("NFD", sentence))
