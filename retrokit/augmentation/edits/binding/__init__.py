"""Near-misses of binding and order: arguments, attributes, numbers and names change places (COMP 3.1, D.1).

Every edit keeps the words (but for agreement, case and articles) and changes which of them belong together. What may
change places without changing the meaning does not: coordinates, symmetric relations, ranges, identical heads.
"""

from collections.abc import Iterator, Sequence

from retrokit.augmentation.edits.binding.arguments import ARGUMENTS
from retrokit.augmentation.edits.binding.attributes import ATTRIBUTES
from retrokit.augmentation.edits.binding.fit import BindingView
from retrokit.augmentation.edits.family import Family, Rewriting, written
from retrokit.augmentation.edits.patterns import text
from retrokit.augmentation.edits.sentence import Change
from retrokit.augmentation.edits.subject import Subject


def binding() -> Family:
    """The family, as the registry makes it."""
    return Family("binding", rewritings, lots={"swap-attributes": 1}, prompt=text(__package__, "prompt.txt"))


def rewritings(subject: Subject) -> Iterator[Rewriting]:
    """All the near-misses of binding and order of a sentence, each text once, in a fixed order."""
    sentence = subject.tagged
    if not 3 <= len(sentence.tokens) <= 80:
        return
    view = BindingView(sentence)

    def crosses_quote(changes: Sequence[Change]) -> bool:
        first, last = min(change.start for change in changes), max(change.end for change in changes)
        return not set('()"?').isdisjoint(view.shape[first:last])

    candidates = (named for rule in (*ARGUMENTS, *ATTRIBUTES) for named in rule(view))
    yield from written(sentence, (named for named in candidates if not crosses_quote(named[1])))
