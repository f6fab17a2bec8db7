"""Near-misses that turn choices, comparisons and pairs of clauses round (COMP D.1: argument order)."""

from __future__ import annotations

import re

from retrokit.augmentation.negatives.binding.fit import (
    Made,
    alike,
    exchange,
    exchangeable,
    interchangeable,
    kind_of,
    swapped,
)
from retrokit.augmentation.negatives.phrases import (
    Parse,
    Phrase,
    VerbGroup,
    active,
    agreeing,
    agrees,
    as_subject,
    copula,
    extended,
    lowered,
    passive,
    subjects,
)
from retrokit.augmentation.negatives.sentence import Change


def choices(parsed: Parse) -> Made:
    """Tea instead of coffee: coffee instead of tea; not cats but dogs; more men than women."""
    for one in parsed.phrases:
        link = parsed.lower(one.end), parsed.lower(one.end + 1)
        if link in (("instead", "of"), ("rather", "than")):
            other = parsed.starting.get(one.end + 2)
            name = "swap-choice"
            sound = parsed.code(one.start - 1) not in "f&,"
        elif link == ("but", "not"):
            other, name = _after_but_not(parsed, one), "swap-choice"
            sound = parsed.code(one.start - 1) not in "f&,"
        elif link[0] == "but" and parsed.lower(one.start - 1) == "not":
            other, name = parsed.starting.get(one.end + 1), "swap-choice"
            sound = other is not None and parsed.code(other.end) in ".,"
        elif link[0] == "than" and parsed.lower(one.start) in ("more", "fewer", "less"):
            other, name = parsed.starting.get(one.end + 1), "swap-comparison"
            one = one._replace(start=one.start + 1)
            sound = parsed.code(one.start) == "n" and parsed.code(one.start - 2) in "PfB.&"
        elif link[0] == "than" and parsed.lower(one.start - 1) in ("more", "fewer", "less"):
            other, name, sound = parsed.starting.get(one.end + 1), "swap-comparison", parsed.code(one.start) == "n"
            sound = sound and parsed.code(one.start - 2) in "PfB.&"
        else:
            continue
        if other is not None and parsed.code(other.end) == "f":
            continue
        if other is not None and sound and (name == "swap-comparison" or interchangeable(parsed, one, other)):
            yield name, swapped(parsed, one, other)


def _after_but_not(parsed: Parse, one: Phrase) -> Phrase | None:
    """The phrase of "A but not B", or of "in A but not in B"."""
    again = parsed.lower(one.end + 2) == parsed.lower(one.start - 1) and parsed.code(one.start - 1) == "P"
    other = parsed.starting.get(one.end + 2 + again)
    return other if other is not None and parsed.code(other.end) in ".,&s" else None


def comparisons(parsed: Parse) -> Made:
    """Cars are faster than trains: Trains are faster than cars; Men earn higher wages than women."""
    for subject in subjects(parsed):
        verb = active(parsed, subject.end) or copula(parsed, subject.end)
        link = -1 if verb is None else _compared(parsed, verb.end)
        if verb is None or link < 0 or (after := parsed.starting.get(link)) is None:
            continue
        other = extended(parsed, after)
        if "c" in parsed.shape[other.start : other.end] or "i" in (parsed.code(other.head), parsed.code(subject.head)):
            continue
        if "measure" in (kind_of(parsed, after), kind_of(parsed, subject)) or not alike(parsed, subject, after):
            continue
        if exchangeable(parsed, subject, other) and (changes := exchange(parsed, subject, verb, other)):
            yield "swap-comparison", changes


_OTHER_CLAUSE = frozenset("zbvBHDMswqh&,")


def _compared(parsed: Parse, at: int) -> int:
    """Where the second thing of a comparison starts whose comparative stands after a token of a clause; or −1."""
    comparative = False
    for i in range(at, len(parsed.shape)):
        word = parsed.lower(i)
        comparative = (
            comparative or parsed.sentence.tokens[i].tag == "AJC" or word in ("more", "less", "better", "fewer")
        )
        if word == "than":
            return i + 1 if comparative else -1
        if word == "compared" and parsed.lower(i + 1) in ("to", "with"):
            return i + 2 if comparative else -1
        if parsed.code(i) in _OTHER_CLAUSE:
            return -1
    return -1


def contrasts(parsed: Parse) -> Made:
    """Unlike dogs, cats purr: Unlike cats, dogs purr."""
    tokens = [parsed.lower(i) for i in range(3)]
    start = (
        1 if tokens[0] == "unlike" else 2 if tokens[0] == "compared" else 3 if tokens[1:] == ["contrast", "to"] else 0
    )
    one = parsed.starting.get(start)
    if not start or one is None:
        return
    one = extended(parsed, one)
    subject = parsed.starting.get(one.end + 1)
    if parsed.code(one.end) != "," or subject is None:
        return
    subject = extended(parsed, subject)
    verb = _any_verb(parsed, subject)
    fits = alike(parsed, one, subject) and interchangeable(parsed, one, subject)
    if verb and fits and (changes := exchange(parsed, subject, verb, one)):
        yield "swap-contrast", changes


def clause_subjects(parsed: Parse) -> Made:
    """Sales rose while costs fell: Costs rose while sales fell."""
    if not parsed.phrases or parsed.phrases[0].start != 0:
        return
    first = extended(parsed, parsed.phrases[0])
    verb = _any_verb(parsed, first)
    if verb is None:
        return
    for link in re.finditer("[s&]", parsed.shape):
        at = link.start()
        second = parsed.starting.get(at + 1)
        if (
            at < verb.end
            or second is None
            or parsed.lower(at) not in ("while", "whereas", "but", "and", "because", "although")
        ):
            continue
        second = extended(parsed, second)
        other = _any_verb(parsed, second)
        if other is None or not _separate(parsed, first, verb, second, other, at):
            continue
        if changes := _exchanged_subjects(parsed, first, verb, second, other):
            yield "swap-subjects", changes
        return


def _any_verb(parsed: Parse, subject: Phrase) -> VerbGroup | None:
    at = subject.end
    verb = passive(parsed, at) or active(parsed, at) or copula(parsed, at)
    return verb if verb and agrees(parsed, verb.finite, subject) else None


def _separate(parsed: Parse, first: Phrase, verb: VerbGroup, second: Phrase, other: VerbGroup, at: int) -> bool:
    """Whether two clauses with comparable subjects say different things, and nothing else hangs on the subjects."""
    if parsed.code(first.head) == "i" or parsed.code(second.head) == "i" or parsed.shape[:at].count("&") > 0:
        return False
    between, after = parsed.shape[verb.end : at], parsed.shape[other.end :]
    if re.search("[sqwhzbvBHDM.]", between) or re.search("&[rm]*[zbBHDv]|h", after):
        return False
    words = [token.lower for token in parsed.sentence.tokens]
    if any(words.count(parsed.lower(phrase.head)) > 1 for phrase in (first, second)):
        return False
    if words[verb.start : at] == words[other.start : other.start + at - verb.start]:
        return False
    kinds = {kind_of(parsed, first), kind_of(parsed, second)}
    contrast = parsed.lower(at) in ("while", "whereas") and kinds == {"thing", "measure"}
    equal = len(kinds) == 1 and "measure" not in kinds
    return (equal or contrast) and interchangeable(parsed, first, second)


def _exchanged_subjects(
    parsed: Parse, first: Phrase, verb: VerbGroup, second: Phrase, other: VerbGroup
) -> list[Change] | None:
    changes = [
        Change(first.start, first.end, as_subject(parsed, second)),
        Change(second.start, second.end, as_subject(parsed, first)),
    ]
    for finite, subject in ((verb.finite, second), (other.finite, first)):
        form = agreeing(parsed.sentence.tokens[finite], subject.plural)
        if form is None:
            return None
        if form != parsed.lower(finite):
            changes.append(Change(finite, finite + 1, form))
    return changes


_SUBORDINATING = frozenset("if because when once unless after before until".split())

_TIMES = frozenset(
    "case cases situation situations example time times second seconds minute minutes hour hours day days week weeks "
    "month months year years moment period".split()
)


def clauses(parsed: Parse) -> Made:
    """If the field is wet, the match is off: If the match is off, the field is wet."""
    end = len(parsed.shape)
    while end and parsed.code(end - 1) == ".":
        end -= 1
    if parsed.lower(0) in _SUBORDINATING:
        comma = parsed.shape.find(",")
        spans = (1, comma, comma + 1, end)
        link = parsed.lower(0)
    else:
        links = [i for i in range(2, end) if parsed.lower(i) in _SUBORDINATING]
        if len(links) != 1:
            return
        spans = (0, links[0], links[0] + 1, end)
        link = parsed.lower(links[0])
        if parsed.code(links[0] - 1) in ",rm&sN!" or parsed.lower(links[0] - 1) in _TIMES:
            return
    if not _are_clauses(parsed, *spans) or not _order_tells(parsed, link, spans[0], end):
        return
    refers = [any(parsed.lower(i) in _REFERRING for i in range(*span)) for span in (spans[:2], spans[2:])]
    if refers == [False, True]:
        return  # the pronoun would come before what it stands for
    first, second = lowered(parsed, *spans[:2]), lowered(parsed, *spans[2:])
    yield "swap-clauses", [Change(spans[0], spans[1], second), Change(spans[2], spans[3], first)]


_REFERRING = frozenset("he she they him her them his their its hers theirs".split())


def _are_clauses(parsed: Parse, start: int, until: int, again: int, end: int) -> bool:
    """Whether both spans are one finite clause each, which start with their subject."""
    if until < 0 or "?" in parsed.sentence.text:
        return False
    for a, b in ((start, until), (again, end)):
        subject = parsed.starting.get(a)
        at = extended(parsed, subject, "fP").end if subject else a + 1 if parsed.code(a) in "iteI" else 0
        finite = at and (passive(parsed, at) or active(parsed, at) or copula(parsed, at))
        if not finite or finite.end > b or re.search(r"[,qswh(\"?]", parsed.shape[a:b]):
            return False
        if subject and parsed.code(subject.head) != "i" and not agrees(parsed, finite.finite, subject):
            return False
        if re.search("[zbvBHDM]|&k", parsed.shape[finite.end : b]):
            return False
    return True


def _order_tells(parsed: Parse, link: str, start: int, end: int) -> bool:
    """Whether the two clauses may stand the other way round, and then say something else."""
    words = {parsed.lower(i) for i in range(start, end)}
    if words & {"then", "also", "will", "would", "'ll", "'d", "so", "too", "again", "still", "it", "this"}:
        return False
    past = any(parsed.sentence.tokens[i].tag in ("VVD", "VBD", "VHD", "VDD") for i in range(start, end))
    return not (link == "when" and past)
