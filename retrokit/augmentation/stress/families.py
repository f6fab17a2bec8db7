"""The capabilities that are families of near-misses: negation, binding, relations. Rules edit, and a language model."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from retrokit.augmentation import near_misses
from retrokit.augmentation.near_misses.by_model import Writer, prompts_of, rejections
from retrokit.augmentation.near_misses.family import Edit, Family, load_families
from retrokit.augmentation.stress.capability import EDIT, Capability, Subject, of_sentence
from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.llm import registry as llms
from retrokit.llm.prompts import wording_for
from retrokit.llm.store import ResponseStore

CALLS = 16
"""Concurrent calls of a language model."""


def _of_family(name: str) -> Capability:
    family = near_misses.registry.create(name)
    return Capability(name, EDIT, of_sentence(lambda subject: family.edits(subject.tagged)))


negation = partial(_of_family, "negation")
binding = partial(_of_family, "binding")
spatial = partial(_of_family, "spatial")


@contextmanager
def with_model(
    capabilities: Sequence[Capability], spec: str, store: str | None, max_tokens: int
) -> Iterator[tuple[list[Capability], Callable[[Any], Iterator[Any]]]]:
    """The capabilities, those of families of near-misses with a model's edits too, which rules check
    (:func:`~retrokit.augmentation.near_misses.by_model.why_rejected`); and what reads sentences ahead for it.

    Raises:
        UsageError: none of the capabilities is such a family.
        ServiceError: the model failed, or it wrote much and all of it is rejected.
    """
    families = load_families([of.name for of in capabilities if of.name in near_misses.registry.names()])
    if not families:
        raise UsageError(f"`llm=` edits by {', '.join(near_misses.registry.names())}; name one in `capabilities=`")
    model, counts = llms.create(spec), Counter[str]()
    with ExitStack() as stack:
        responses = None if store is None else stack.enter_context(ResponseStore(store))
        if responses is not None:
            stack.enter_context(responses.going_on())
        prompts = prompts_of(families, wording_for(model))
        writer = stack.enter_context(Writer(model, families, prompts, responses, max_tokens, CALLS, counts))
        both = {rules.name: _by_both(rules, written) for rules, written in zip(families, writer.families, strict=True)}
        yield [replace(of, trials=both.get(of.name, of.trials)) for of in capabilities], writer.ahead
        writer.session.check()
    rejected = rejections(counts)
    notice(f"{model.spec}: {writer.session.summary()}{f'; rejected: {rejected}' if rejected else ''}")


def _by_both(rules: Family, written: Family) -> Callable[[Subject], Iterator[Any]]:
    """The trials of rules; or of the model and of one kind of the rules, so that both edits of a text are drawn."""

    def edits(subject: Subject) -> list[Edit]:
        by_rules = list(rules.edits(subject.tagged))
        by_model = [edit for edit in written.edits(subject.tagged) if edit.text not in {own.text for own in by_rules}]
        if by_model and by_rules:
            chosen = by_rules[subject.draw(len(by_rules), rules.name, "kind")].name
            by_rules = [edit for edit in by_rules if edit.name == chosen]
        return [*by_rules, *by_model]

    return of_sentence(edits)
