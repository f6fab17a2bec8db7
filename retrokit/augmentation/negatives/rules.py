"""What rules give, and how the near-misses are written out from it: the same for every family."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from retrokit.augmentation.negatives.family import Edit
from retrokit.augmentation.negatives.sentence import Change, Sentence, rewrite

Named = tuple[str, Sequence[Change]]
"""A name of an edit and the changes that make it."""


def written(sentence: Sentence, found: Iterable[Named]) -> Iterator[Edit]:
    """The near-misses that the changes make of ``sentence``; none that differs from it, or from one before, in its
    capitals alone."""
    seen = {sentence.text.lower()}
    for name, changes in found:
        text = rewrite(sentence, changes)
        if (key := text.lower()) not in seen:
            seen.add(key)
            yield Edit(name, text)
