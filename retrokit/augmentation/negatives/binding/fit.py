"""What may change places in a near-miss of binding: whole and comparable phrases that nothing else hangs on."""

from __future__ import annotations

import re
from collections.abc import Iterator

from retrokit.augmentation.negatives.binding.words import (
    ANIMATE,
    CONCRETE,
    MEASURES,
    OF_MEASURES,
    PERSONAL,
    PHYSICAL,
    RELATING,
    SYMMETRIC,
)
from retrokit.augmentation.negatives.phrases import (
    PRONOUNS,
    Parse,
    Phrase,
    VerbGroup,
    agreeing,
    agrees,
    as_object,
    as_subject,
)
from retrokit.augmentation.negatives.sentence import Change, lemma

# Words that tie a phrase to the other one or to its place, so that the swap would lose what they refer to.
TIED = frozenset(
    """his her its their own such same other another no any latter former respective it you this that these those there
    following above below previous next last first second final vs""".split()
)

# The characters of lexical verbs in a parse.
VERBS = "bzyvkg"

# Edits before they are written out: a name and the changes.
Made = Iterator[tuple[str, list[Change]]]


def kind_of(parsed: Parse, phrase: Phrase) -> str:
    """What a phrase names: ``animate``, ``concrete``, ``measure`` (or a light noun), ``name``, or another ``thing``."""
    if parsed.code(phrase.head) == "i":
        return "animate"
    head = parsed.head(phrase)
    if head in ANIMATE:
        return "animate"
    if head in CONCRETE:
        return "concrete"
    if head in MEASURES:
        return "measure"
    return "name" if parsed.code(phrase.head) == "N" else "thing"


def interchangeable(parsed: Parse, one: Phrase, other: Phrase) -> bool:
    """Whether two phrases can stand in each other's place at all."""
    if parsed.head(one) == parsed.head(other):
        return False
    return all(_is_whole(parsed, phrase) for phrase in (one, other))


def _is_whole(parsed: Parse, phrase: Phrase) -> bool:
    """Whether a phrase is complete and bound to nothing else: no word of it outside, no pronoun that refers."""
    if parsed.code(phrase.start - 1) in "anN'?c-" or parsed.code(phrase.end) in "cnNaIx'?":
        return False
    if parsed.code(phrase.end) == "g" and parsed.code(phrase.end + 1) not in "dpt":
        return False
    if parsed.code(phrase.head) == "i" and parsed.lower(phrase.head) not in PRONOUNS:
        return False
    return not any(parsed.lower(i) in TIED for i in range(phrase.start, phrase.end))


def verb_takes(parsed: Parse, verb: str, one: Phrase, other: Phrase) -> bool:
    """Whether both phrases may be either argument of the verb."""
    if verb in SYMMETRIC:
        return False
    kinds = {kind_of(parsed, one), kind_of(parsed, other)}
    if "measure" in kinds and verb not in OF_MEASURES:
        return False
    if kinds <= {"animate", "name"} and "animate" in kinds and verb in PERSONAL:
        return True
    if kinds <= {"animate", "concrete"} and verb in PHYSICAL:
        return True
    pronoun = any(parsed.lower(p.head) in PRONOUNS for p in (one, other))
    return verb in RELATING and not pronoun


def free_after(parsed: Parse, phrase: Phrase, same_number: bool) -> bool:
    """Whether the clause can go on after a phrase that another one replaces: no coordination, no relative clause, no
    second finite verb that would have to agree."""
    end = phrase.end
    code, after = parsed.code(end), parsed.code(end + 1)
    if not same_number and re.search(r"&[rm]*[zbBHD]", parsed.shape[end:]):
        return False
    if code == ",":
        return after in "sPTrmgk." and end + 1 not in parsed.starting
    if code == "&":
        return after in "zbvBHD"
    return code in ".PTsrm" and parsed.lower(end) not in ("between", "among", "than", "as", "to")


def whole_after(parsed: Parse, phrase: Phrase) -> bool:
    """Whether a phrase that depends on a noun ends where it seems to: no coordination, no relative clause."""
    return parsed.code(phrase.end) in "zbvBHDM" or free_after(parsed, phrase, True)


def exchange(parsed: Parse, subject: Phrase, verb: VerbGroup, other: Phrase) -> list[Change] | None:
    """A subject and a phrase after its verb change places, and the verb agrees; None if agreement is uncertain."""
    finite = parsed.sentence.tokens[verb.finite]
    form = agreeing(finite, other.plural, parsed.lower(other.head))
    if form is None or not agrees(parsed, verb.finite, subject):
        return None
    changes = [
        Change(subject.start, subject.end, as_subject(parsed, other)),
        Change(other.start, other.end, as_object(parsed, subject)),
    ]
    if form != finite.lower:
        changes.append(Change(verb.finite, verb.finite + 1, form))
    return changes


def swapped(parsed: Parse, one: Phrase, other: Phrase) -> list[Change]:
    """Two phrases, neither of them a subject, change places."""
    return [
        Change(one.start, one.end, as_object(parsed, other)),
        Change(other.start, other.end, as_object(parsed, one)),
    ]


def exchangeable(parsed: Parse, subject: Phrase, other: Phrase) -> bool:
    """Whether a subject and a phrase after its verb may change places as far as the clause around them goes."""
    if parsed.code(subject.head) == "i" and parsed.lower(other.end) in ("with", "without"):
        return False  # "cared for them with diseases"
    return interchangeable(parsed, subject, other) and free_after(parsed, other, subject.plural == other.plural)


def verb_lemma(parsed: Parse, index: int) -> str:
    """The dictionary form of the verb at a token."""
    return lemma(parsed.sentence.tokens[index].text, "VERB")


def alike(parsed: Parse, one: Phrase, other: Phrase) -> bool:
    """Whether two phrases name things of a comparable kind."""
    kinds = {kind_of(parsed, one), kind_of(parsed, other)}
    return len(kinds - {"name"}) < 2 or kinds <= {"thing", "measure"}


def both_things(parsed: Parse, one: Phrase, other: Phrase) -> bool:
    """Whether two phrases are of one kind, and of a kind that may stand on either side."""
    return kind_of(parsed, one) == kind_of(parsed, other) != "measure"
