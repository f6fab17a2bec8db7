"""Near-misses of binding and order: arguments, attributes, numbers and names change places (COMP 3.1, D.1).

Every edit keeps the words (but for agreement, case and articles) and changes which of them belong together. What may
change places without changing the meaning does not: coordinates, symmetric relations, ranges, identical heads.
"""

from collections.abc import Iterator, Sequence

from retrokit.augmentation.near_misses.binding.arguments import ARGUMENTS
from retrokit.augmentation.near_misses.binding.attributes import ATTRIBUTES
from retrokit.augmentation.near_misses.binding.fit import BindingView
from retrokit.augmentation.near_misses.family import Edit, Family, written
from retrokit.augmentation.near_misses.patterns import text
from retrokit.augmentation.near_misses.sentence import Change, Sentence


def family() -> Family:
    """The family, as the registry makes it."""
    return Family("binding", edits, {"swap-attributes": 1}, text(__package__, "prompt.txt"))


def edits(sentence: Sentence) -> Iterator[Edit]:
    """All the near-misses of binding and order of a sentence, each text once, in a fixed order."""
    if not 3 <= len(sentence.tokens) <= 80:
        return
    view = BindingView(sentence)

    def crosses_quote(changes: Sequence[Change]) -> bool:
        first, last = min(change.start for change in changes), max(change.end for change in changes)
        return not set('()"?').isdisjoint(view.shape[first:last])

    candidates = (named for make in (*ARGUMENTS, *ATTRIBUTES) for named in make(view))
    yield from written(sentence, (named for named in candidates if not crosses_quote(named[1])))
