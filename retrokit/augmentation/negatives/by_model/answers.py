"""Near-misses that a language model writes, one family a prompt (COMP 3.1), checked by rules that need no model.

A family's prompt is the file ``prompt.txt`` in its folder. What the model answers is judged here as far as words show
it: an edit is small, changes something, and does not merely let coordinates change places. Whether the meaning changed
is the model's to say.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from retrokit.augmentation.negatives.data import text
from retrokit.augmentation.negatives.generator import why_not

CAUSES: dict[str, str] = {
    "none": "the model says that there is none",
    "empty": "no text at all",
    "refused": "the model does not take the prompt",
    "cut": "the answer was cut off",
    "unchanged": "the same sentence but for case and marks",
    "overlap": "too few words in common",
    "interchanged": "only coordinates have changed places",
    "text": "no running text",
}
"""Why an answer is no near-miss: what is counted as ``rejected:CAUSE``, and what it means."""


def rejections(counts: Mapping[str, int]) -> str:
    """How many answers were rejected for each cause, the most frequent first, of what is counted as
    ``rejected:CAUSE``."""
    rejected = sorted(((counts.get(f"rejected:{cause}", 0), cause) for cause in CAUSES), reverse=True)
    return "; ".join(f"{number:,}: {CAUSES[cause]}" for number, cause in rejected if number)


SYSTEM = text(__package__, "system.txt")
"""The system prompt of every family."""

_WORD = re.compile(r"\w+(?:['’-]\w+)*")
_SHARED = 2
_TAGS = re.compile(r"</?sentence>", re.IGNORECASE)
_LABEL = re.compile(
    r"^(?:(?:near-?miss|(?:edited |new )?sentence|answer|output|result|edit)\s*:|[-*•]|\d+[.)])\s*", re.I
)
_QUOTES = ('""', "''", "“”", "‘’", "«»", "**", "``", "__")


def answered(text: str) -> str:
    r"""The sentence in a model's answer: its first line of text, without labels, tags and marks around it.

    >>> answered('Edited sentence: **"The cat sleeps."**'), answered("Here it is:\nThe cat sleeps.")
    ('The cat sleeps.', 'The cat sleeps.')
    """
    for line in _TAGS.sub("", text).splitlines():
        line = _bare(_LABEL.sub("", _bare(line)))
        is_text = any(letter.isalpha() for letter in line)
        if is_text and not line.startswith("```") and not line.endswith(":"):
            return " ".join(line.split())
    return ""


def _bare(line: str) -> str:
    """``line`` without white space and pairs of marks around all of it; marks that belong to the text stay."""
    line = line.strip()
    while len(line) > 1 and line[0] + line[-1] in _QUOTES and not {line[0], line[-1]} & set(line[1:-1].strip("*_`")):
        line = line[1:-1].strip()
    return line


def why_rejected(anchor: str, answer: str, least_overlap: float) -> str | None:
    """The first cause (a key of :data:`CAUSES`) for which ``answer`` is no near-miss of ``anchor``, of which it
    must share ``least_overlap`` (:func:`overlap`); ``None``: it is one.

    >>> why_rejected("The cat sees a dog and a bird.", "The cat sees a bird and a dog.", 0.7)
    'interchanged'
    >>> why_rejected("The cat sees a dog and a bird.", "A dog sees the cat and a bird.", 0.7)
    """
    if not answer:
        return "empty"
    if answer.strip(" .").upper() == "NONE":
        return "none"
    old, new = _words(anchor), _words(answer)
    if old == new:
        return "unchanged"
    if overlap(anchor, answer) < least_overlap:
        return "overlap"
    if _coordinates_changed_places(anchor, answer):
        return "interchanged"
    return None if why_not(answer) is None else "text"


def overlap(text: str, other: str) -> float:
    """The words that two sentences share, repetitions counted, as a share of the longer one's."""
    old, new = Counter(_words(text)), Counter(_words(other))
    return (old & new).total() / max(old.total(), new.total(), 1)


def _words(text: str) -> list[str]:
    return [word.lower().replace("’", "'") for word in _WORD.findall(text)]


def _coordinates_changed_places(text: str, other: str) -> bool:
    """Whether what differs is "A and B" in one and "B and A" in the other."""
    old, new = _words(text), _words(other)
    if sorted(old) != sorted(new):
        return False
    first, last = _first_difference(old, new), len(old) - _first_difference(old[::-1], new[::-1])
    # an article that both coordinates have is outside of what differs
    for start in range(max(0, first - _SHARED), first + 1):
        for end in range(last, min(len(old), last + _SHARED) + 1):
            for place in range(start + 1, end - 1):
                turned = [*old[place + 1 : end], old[place], *old[start:place]]
                if old[place] in ("and", "or") and turned == new[start:end]:
                    return True
    return False


def _first_difference(old: Sequence[str], new: Sequence[str]) -> int:
    return next(place for place, (before, after) in enumerate(zip(old, new, strict=True)) if before != after)
