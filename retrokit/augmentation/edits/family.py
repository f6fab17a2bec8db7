"""What an edit is, and what a family of edits is: its rule, whether it changes the meaning, and its prompt."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from retrokit.augmentation.edits import registry
from retrokit.augmentation.edits.sentence import Named, Sentence, rewrite
from retrokit.augmentation.edits.subject import Passage, Subject
from retrokit.core.errors import UsageError
from retrokit.core.registry import parse_all
from retrokit.data.words import units

MOST_LOTS = 6
EDIT, CONTROL = "edit", "control"


class Rewriting(NamedTuple):
    """What a rule makes of a text: a short name, such as ``insert-not``, and a text in place of the sentence. With a
    ``passage`` it is in place of that whole document; with a ``query`` the edit is that of the query."""

    name: str
    text: str
    passage: Passage | None = None
    query: str | None = None


class Edit(NamedTuple):
    """An edit of a text.

    Attributes:
        family, name: its family, and its kind among those of the family.
        passage: the document before, with the sentence in its place.
        after: the document after.
        query: the query after, where the edit is that of the query.
        changes_meaning: whether ``after`` means something else.
    """

    family: str
    name: str
    passage: Passage
    after: str
    query: str | None
    changes_meaning: bool

    @property
    def before(self) -> str:
        """The document before."""
        return self.passage.text

    @property
    def kind(self) -> str:
        """``edit``: it changes the meaning; or ``control``."""
        return EDIT if self.changes_meaning else CONTROL


Rule = Callable[[Subject], Iterable[Rewriting]]
"""The rewritings of a text in a fixed order, of which some are drawn."""


@dataclass(frozen=True)
class Family:
    """A family of edits; the target of a registry entry returns one.

    Attributes:
        name: that of the entry.
        rule: its rule.
        changes_meaning: whether they mean something else than the text; or are controls.
        mentioned: whether an edit counts only if the query has the words that it takes away.
        lots: lots of a kind in the draw of a near-miss. Default: ``MOST_LOTS``; fewer for kinds that are common.
        prompt: for a language model, with ``{sentence}``; without it the family has only rules.
        least_overlap: least share of words that a sentence and a model's edit have in common.
        needs_corpus: whether its rule takes something from the other texts, and makes nothing of a single one.
    """

    name: str
    rule: Rule
    changes_meaning: bool = True
    mentioned: bool = False
    lots: Mapping[str, int] = field(default_factory=dict)
    prompt: str = ""
    least_overlap: float = 0.7
    needs_corpus: bool = False

    def edits(self, subject: Subject) -> Iterator[Edit]:
        """The edits of a text, none of them the text itself."""
        for rewriting in self.rule(subject):
            passage, text = rewriting.passage, rewriting.text
            if passage is None:
                passage, text = subject.passage, subject.passage.with_sentence(text)
            is_other = text != passage.text or rewriting.query is not None
            if is_other and (not self.mentioned or _is_mentioned(passage.text, text, subject.query)):
                yield Edit(self.name, rewriting.name, passage, text, rewriting.query, self.changes_meaning)


def family(name: str, **options: Any) -> Callable[[Rule], Callable[[], Family]]:
    """Declare a rule as the family of that name, the target of a registry entry."""

    def declared(rule: Rule) -> Callable[[], Family]:
        return partial(Family, name, rule, **options)

    return declared


def _is_mentioned(before: str, after: str, query: str) -> bool:
    """Whether the query has the words that the edit takes away."""
    return set(units(before)) - set(units(after)) <= set(units(query))


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


def written(sentence: Sentence, edits: Iterable[Named]) -> Iterator[Rewriting]:
    """What the changes make of ``sentence``; none that differs from it, or from one before, in its capitals only."""
    seen = {sentence.text.lower()}
    for name, changes in edits:
        text = rewrite(sentence, changes)
        if (key := text.lower()) not in seen:
            seen.add(key)
            yield Rewriting(name, text)
