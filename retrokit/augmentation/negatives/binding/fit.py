"""What may change places in a near-miss of binding: whole and comparable phrases that nothing else hangs on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from retrokit.augmentation.negatives.binding.lexicon import WORDS
from retrokit.augmentation.negatives.rules import Named
from retrokit.augmentation.negatives.sentence import Change, lemma
from retrokit.augmentation.negatives.view import (
    PRONOUNS,
    Phrase,
    VerbGroup,
    View,
    agreeing,
    agrees,
    as_object,
    as_subject,
    extended,
)

# The characters of lexical verbs in a parse.
VERBS = "bzyvkg"


def kind_of(view: View, phrase: Phrase) -> str:
    """What a phrase names: ``animate``, ``concrete``, ``measure`` (or a light noun), ``name``, or another ``thing``."""
    if view.codes[phrase.head] == "i":
        return "animate"
    head = view.head(phrase)
    if head in WORDS["animate"]:
        return "animate"
    if head in WORDS["concrete"]:
        return "concrete"
    if head in WORDS["measures"]:
        return "measure"
    return "name" if view.codes[phrase.head] == "N" else "thing"


def interchangeable(view: View, one: Phrase, other: Phrase) -> bool:
    """Whether two phrases can stand in each other's place at all."""
    if view.head(one) == view.head(other):
        return False
    return all(_is_whole(view, phrase) for phrase in (one, other))


def _is_whole(view: View, phrase: Phrase) -> bool:
    """Whether a phrase is complete and bound to nothing else: no word of it outside, no pronoun that refers."""
    if view.codes[phrase.start - 1] in "anN'?c-" or view.codes[phrase.end] in "cnNaIx'?":
        return False
    if view.codes[phrase.end] == "g" and view.codes[phrase.end + 1] not in "dpt":
        return False
    if view.codes[phrase.head] == "i" and view.words[phrase.head] not in PRONOUNS:
        return False
    return not any(view.words[i] in WORDS["tied"] for i in range(phrase.start, phrase.end))


def verb_takes(view: View, verb: str, one: Phrase, other: Phrase) -> bool:
    """Whether both phrases may be either argument of the verb."""
    if verb in WORDS["symmetric"]:
        return False
    kinds = {kind_of(view, one), kind_of(view, other)}
    if "measure" in kinds and verb not in WORDS["of-measures"]:
        return False
    if kinds <= {"animate", "name"} and "animate" in kinds and verb in WORDS["personal"]:
        return True
    if kinds <= {"animate", "concrete"} and verb in WORDS["physical"]:
        return True
    pronoun = any(view.words[p.head] in PRONOUNS for p in (one, other))
    return verb in WORDS["relating"] and not pronoun


def takes_both(view: View, verb: str, subject: Phrase, other: Phrase) -> bool:
    """Whether a subject and a phrase after its verb may be either argument, and may change places."""
    return exchangeable(view, subject, other) and verb_takes(view, verb, subject, other)


def free_after(view: View, phrase: Phrase, same_number: bool) -> bool:
    """Whether the clause can go on after a phrase that another one replaces: no coordination, no relative clause, no
    second finite verb that would have to agree."""
    end = phrase.end
    code, after = view.codes[end], view.codes[end + 1]
    if not same_number and re.search(r"&[rm]*[zbBHD]", view.shape[end:]):
        return False
    if code == ",":
        return after in "sPTrmgk." and end + 1 not in view.starting
    if code == "&":
        return after in "zbvBHD"
    return code in ".PTsrm" and view.words[end] not in ("between", "among", "than", "as", "to")


def whole_after(view: View, phrase: Phrase) -> bool:
    """Whether a phrase that depends on a noun ends where it seems to: no coordination, no relative clause."""
    return view.codes[phrase.end] in "zbvBHDM" or free_after(view, phrase, True)


def exchange(view: View, subject: Phrase, verb: VerbGroup, other: Phrase) -> list[Change] | None:
    """A subject and a phrase after its verb change places, and the verb agrees; None if agreement is uncertain."""
    word = view.words[verb.finite]
    form = agreeing(word, view.tags[verb.finite], other.plural, view.words[other.head])
    if form is None or not agrees(view, verb.finite, subject):
        return None
    changes = [
        Change(subject.start, subject.end, as_subject(view, other)),
        Change(other.start, other.end, as_object(view, subject)),
    ]
    if form != word:
        changes.append(Change(verb.finite, verb.finite + 1, form))
    return changes


def exchanged(view: View, name: str, subject: Phrase, verb: VerbGroup, other: Phrase) -> Iterator[Named]:
    """The edit in which a subject and a phrase after its verb change places, if they may."""
    if exchangeable(view, subject, other) and (changes := exchange(view, subject, verb, other)):
        yield name, changes


def frames(
    view: View, group: Callable[[View, int], VerbGroup | None], relations: frozenset[str] | None = None
) -> Iterator[tuple[Phrase, VerbGroup, Phrase]]:
    """The subjects with their verb groups and the phrases that follow: at once, or with ``relations`` after a
    preposition that stands there behind the verb, or alone."""
    for subject in view.subjects:
        verb = group(view, subject.end)
        if verb is None or (after := view.starting.get(verb.end + (relations is not None))) is None:
            continue
        word = view.words[verb.end]
        if relations is None or word in relations or f"{verb_lemma(view, verb.main)} {word}" in relations:
            yield subject, verb, extended(view, after)


def swapped(view: View, one: Phrase, other: Phrase) -> list[Change]:
    """Two phrases, neither of them a subject, change places."""
    return [
        Change(one.start, one.end, as_object(view, other)),
        Change(other.start, other.end, as_object(view, one)),
    ]


def exchangeable(view: View, subject: Phrase, other: Phrase) -> bool:
    """Whether a subject and a phrase after its verb may change places as far as the clause around them goes."""
    if view.codes[subject.head] == "i" and view.words[other.end] in ("with", "without"):
        return False  # "cared for them with diseases"
    return interchangeable(view, subject, other) and free_after(view, other, subject.plural == other.plural)


def verb_lemma(view: View, index: int) -> str:
    """The dictionary form of the verb at a token."""
    return lemma(view.sentence.tokens[index].text, "VERB")


def alike(view: View, one: Phrase, other: Phrase) -> bool:
    """Whether two phrases name things of a comparable kind."""
    kinds = {kind_of(view, one), kind_of(view, other)}
    return len(kinds - {"name"}) < 2 or kinds <= {"thing", "measure"}


def both_things(view: View, one: Phrase, other: Phrase) -> bool:
    """Whether two phrases are of one kind, and of a kind that may stand on either side."""
    return kind_of(view, one) == kind_of(view, other) != "measure"
