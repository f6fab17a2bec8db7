"""What a family of near-misses is: its edits, how often each kind is drawn, and its prompt for a language model."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from retrokit.augmentation.near_misses import registry
from retrokit.augmentation.near_misses.sentence import Named, Sentence, rewrite
from retrokit.core.errors import UsageError
from retrokit.core.registry import parse_all

MOST_LOTS = 6


class Edit(NamedTuple):
    """A near-miss of a sentence: a short name of the edit, such as ``insert-not``, and the new text."""

    name: str
    text: str


@dataclass(frozen=True)
class Family:
    """A family of near-misses; the target of a registry entry returns one.

    Attributes:
        name: that of the entry.
        edits: the near-misses of a tagged sentence in a fixed order; one of them is drawn.
        lots: lots of a kind of edit in the draw of a kind. Default: ``MOST_LOTS``; fewer for kinds that are common.
        prompt: for a language model, with ``{sentence}``; without it the family has only rules.
        least_overlap: least share of words that a sentence and a model's edit have in common.
    """

    name: str
    edits: Callable[[Sentence], Iterable[Edit]]
    lots: Mapping[str, int] = field(default_factory=dict)
    prompt: str = ""
    least_overlap: float = 0.7


def load_families(names: Sequence[str] | None = None) -> tuple[Family, ...]:
    """The named families in the order of the names; without names all that are registered.

    Raises:
        UsageError: an unknown name, or one that is given twice; all of them at once.
    """
    names = registry.names() if names is None else names
    specs = parse_all([(registry, name) for name in names])
    if len({spec.name for spec in specs}) < len(specs):
        raise UsageError(f"a family is named twice: {', '.join(names)}")
    return tuple(registry.create(spec) for spec in specs)


def written(sentence: Sentence, edits: Iterable[Named]) -> Iterator[Edit]:
    """The near-misses that the changes make of ``sentence``; none that differs from it, or from one before, in its
    capitals only."""
    seen = {sentence.text.lower()}
    for name, changes in edits:
        text = rewrite(sentence, changes)
        if (key := text.lower()) not in seen:
            seen.add(key)
            yield Edit(name, text)
