"""Names in sentences, and their kinds."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from retrokit.augmentation.edits.subject import LEXICON

# A name with two capitals or a digit, and the word after it, which is its kind: "HIV infection", "CIFAR images".
_NAME = re.compile(r"(?<![\w(/–.-])([A-Z][\w-]*[A-Z0-9][\w-]*)\s+([a-z]{4,})(?![\w/-])")
_NO_NAME = re.compile(r"[IVXLC]+(?:-.*)?$|.*\d[DdThst]{1,2}$")
_ENDING = re.compile(r"-[a-z]{3,}$")
_KINDS = LEXICON.words["kinds"]
KIND_OF_PLACE = {name: f"place {number}" for number, names in enumerate(LEXICON.groups["places"]) for name in names}
_PLACE_NAME = re.compile(rf"\b(?:{'|'.join(sorted(KIND_OF_PLACE))})\b")
_GOES_ON = re.compile(r"\s+(?:[A-Z]|hamster)|-")
_BEGAN = re.compile(r"[A-Z]\w*\s$")


def names_in(sentences: Iterable[str]) -> dict[str, list[str]]:
    """The names in the sentences by their kinds, sorted, where a kind has two or more."""
    kinds: dict[str, set[str]] = defaultdict(set)
    for sentence in sentences:
        for kind, name, _ in names_of(sentence):
            kinds[kind].add(name)
    return {kind: sorted(names) for kind, names in kinds.items() if len(names) > 1}


def names_of(sentence: str) -> Iterator[tuple[str, str, int]]:
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
            yield KIND_OF_PLACE[match[0]], match[0], match.start()
