"""Near-misses that give the arguments of a verb or a relational noun to each other (COMP D.1: role reversals)."""

from __future__ import annotations

import re

from retrokit.augmentation.negatives.binding.fit import (
    VERBS,
    Made,
    alike,
    both_things,
    exchange,
    exchangeable,
    free_after,
    interchangeable,
    kind_of,
    swapped,
    verb_lemma,
    verb_takes,
    whole_after,
)
from retrokit.augmentation.negatives.binding.words import (
    CHANGING,
    COPULAR_NOUNS,
    NOUN_PLACES,
    VERB_OBJECT_PREPOSITION,
    VERB_PREPOSITION,
    VERBS_OF_PLACE,
    VIEWED_NOUNS,
)
from retrokit.augmentation.negatives.phrases import (
    Parse,
    Phrase,
    VerbGroup,
    active,
    agrees,
    as_object,
    copula,
    extended,
    passive,
    subjects,
)
from retrokit.augmentation.negatives.sentence import Change, inflected, lemma


def arguments(parsed: Parse) -> Made:
    """The dog bit the man: The man bit the dog; The dog was bitten by the man."""
    for subject in subjects(parsed):
        verb = active(parsed, subject.end)
        if verb is None or (after := parsed.starting.get(verb.end)) is None:
            continue
        other = extended(parsed, after)
        word = verb_lemma(parsed, verb.main)
        if not exchangeable(parsed, subject, other) or not verb_takes(parsed, word, subject, other):
            continue
        if word in ("include", "involve") and "," in parsed.shape[other.end :]:
            continue  # a list goes on
        if parsed.code(verb.finite) == "H" and parsed.code(other.start) not in "dptNi":
            continue  # "has limited visibility"
        if changes := exchange(parsed, subject, verb, other):
            yield "swap-arguments", changes
        if changes := _to_passive(parsed, subject, verb, other, word):
            yield "active-to-passive", changes


def participles(parsed: Parse) -> Made:
    """A man riding a horse: A horse riding a man."""
    one = parsed.starting.get(0)
    if one is None or parsed.code(one.end) != "g" or (other := parsed.starting.get(one.end + 1)) is None:
        return
    fits = verb_takes(parsed, verb_lemma(parsed, one.end), one, other) and not re.search("[zbvBHDM]", parsed.shape)
    even = (parsed.code(one.start) in "dc") == (parsed.code(other.start) in "dc")
    if fits and even and exchangeable(parsed, one, other):
        yield "swap-arguments", swapped(parsed, one, other)


def relatives(parsed: Parse) -> Made:
    """The dog that bit the man: the man that bit the dog."""
    for one in parsed.phrases:
        if (
            parsed.code(one.start - 1) == ","
            or parsed.code(one.end) not in "hw"
            or parsed.lower(one.end) not in ("that", "which", "who")
        ):
            continue
        verb = active(parsed, one.end + 1)
        if verb is None or (other := parsed.starting.get(verb.end)) is None:
            continue
        kinds = kind_of(parsed, one), kind_of(parsed, other)
        word = verb_lemma(parsed, verb.main)
        if kinds[0] != kinds[1] or not interchangeable(parsed, one, other) or not whole_after(parsed, other):
            continue
        if not verb_takes(parsed, word, one, other):
            continue
        nested = parsed.code(one.start - 1) in "fP" or one.plural == other.plural
        if nested and (changes := exchange(parsed, one, verb, other)):
            yield "swap-arguments", changes


def _to_passive(parsed: Parse, subject: Phrase, verb: VerbGroup, other: Phrase, word: str) -> list[Change] | None:
    if not agrees(parsed, verb.finite, subject) or subject.plural is None or word == "involve":
        return None
    participle = inflected(word, "VBN")
    code = parsed.code(verb.main)
    if code in "zbv" and verb.start < verb.main:
        return None  # an adverb would stand before the auxiliary
    if code in "zbv":
        be = {"z": "is", "b": "are", "v": "were" if subject.plural else "was"}[code]
        if parsed.lower(subject.head) == "i":
            be = "was" if code == "v" else "am"
        return [
            Change(verb.main, verb.end, f"{be} {participle} by"),
            Change(other.start, other.end, as_object(parsed, other)),
        ]
    link = {"y": "be ", "g": "being ", "k": "been "}[code]
    if parsed.code(verb.finite) == "D" or "K" in parsed.shape[verb.start : verb.end]:
        return None
    return [
        Change(verb.main, verb.end, f"{link}{participle} by"),
        Change(other.start, other.end, as_object(parsed, other)),
    ]


def passives(parsed: Parse) -> Made:
    """The man was bitten by the dog: The dog was bitten by the man; The man bit the dog."""
    for subject in subjects(parsed):
        verb = passive(parsed, subject.end)
        if verb is None or parsed.lower(verb.end) != "by" or (after := parsed.starting.get(verb.end + 1)) is None:
            continue
        other = extended(parsed, after)
        word = verb_lemma(parsed, verb.main)
        if not exchangeable(parsed, subject, other) or not verb_takes(parsed, word, other, subject):
            continue
        if changes := exchange(parsed, subject, verb, other):
            yield "swap-agent", changes
        if changes := _to_active(parsed, subject, verb, other, word):
            yield "passive-to-active", changes


def _to_active(parsed: Parse, subject: Phrase, verb: VerbGroup, other: Phrase, word: str) -> list[Change] | None:
    if not agrees(parsed, verb.finite, subject) or subject.plural is None:
        return None
    codes = parsed.shape[verb.start : verb.end]
    auxiliaries = re.sub("[rm!]", "", codes[:-1])
    finite = parsed.lower(verb.finite)
    if auxiliaries == "B" and "!" not in codes:
        tag = "VBD" if finite in ("was", "were") else "VB" if finite in ("are", "am") else "VBZ"
        changes = [Change(verb.finite, verb.finite + 1, ""), Change(verb.main, verb.end + 1, inflected(word, tag))]
    elif auxiliaries in ("ME", "BG", "HK"):
        tag = {"ME": "VB", "BG": "VBG", "HK": "VBN"}[auxiliaries]
        link = max(i for i in range(verb.start, verb.main) if parsed.code(i) in "EGK")
        changes = [Change(link, link + 1, ""), Change(verb.main, verb.end + 1, inflected(word, tag))]
    else:
        return None
    return [*changes, Change(other.start, other.end, as_object(parsed, other))]


def questions(parsed: Parse) -> Made:
    """How does inflation affect wages? How do wages affect inflation?"""
    for match in re.finditer("D", parsed.shape):
        at = match.start()
        subject = parsed.starting.get(at + 1)
        if parsed.code(at - 1) not in ".qw" or subject is None:
            continue
        subject = extended(parsed, subject)
        verb = re.compile(r"!?[rm]*y").match(parsed.shape, subject.end)
        if verb is None or (after := parsed.starting.get(verb.end())) is None:
            continue
        other = extended(parsed, after)
        word = verb_lemma(parsed, verb.end() - 1)
        group = VerbGroup(at, verb.end(), at, verb.end() - 1)
        if not exchangeable(parsed, subject, other) or not verb_takes(parsed, word, subject, other):
            continue
        if changes := exchange(parsed, subject, group, other):
            yield "swap-arguments", changes


def prepositional_verbs(parsed: Parse) -> Made:
    """The price depends on the demand: The demand depends on the price."""
    for subject in subjects(parsed):
        verb = active(parsed, subject.end)
        if verb is None or f"{verb_lemma(parsed, verb.main)} {parsed.lower(verb.end)}" not in VERB_PREPOSITION:
            continue
        after = parsed.starting.get(verb.end + 1)
        if after is None or "measure" in (kind_of(parsed, subject), kind_of(parsed, after)):
            continue
        other = extended(parsed, after)
        if not exchangeable(parsed, subject, other) or not alike(parsed, subject, other):
            continue
        if changes := exchange(parsed, subject, verb, other):
            yield "swap-arguments", changes


def verb_object_preposition(parsed: Parse) -> Made:
    """Convert text into images: Convert images into text; A was added to B: B was added to A."""
    for one in parsed.phrases:
        main = one.start - 1
        if parsed.code(main) not in VERBS or not main >= 0:
            continue
        if parsed.lower(main - 1) == "to" and parsed.lower(main - 2) in ("which", "whom"):
            continue  # "on which to base it": the preposition stands before the verb
        yield from _places_after(parsed, verb_lemma(parsed, main), extended(parsed, one))
    for subject in subjects(parsed):
        verb = passive(parsed, subject.end)
        if verb is None or f"{verb_lemma(parsed, verb.main)} {parsed.lower(verb.end)}" not in VERB_OBJECT_PREPOSITION:
            continue
        after = parsed.starting.get(verb.end + 1)
        if after is None or not alike(parsed, subject, after):
            continue
        if not _may_be_put(parsed, verb_lemma(parsed, verb.main), subject, after):
            continue
        other = extended(parsed, after)
        if exchangeable(parsed, subject, other) and (changes := exchange(parsed, subject, verb, other)):
            yield "swap-places", changes


def _places_after(parsed: Parse, verb: str, one: Phrase) -> Made:
    after = parsed.starting.get(one.end + 1)
    if after is None or f"{verb} {parsed.lower(one.end)}" not in VERB_OBJECT_PREPOSITION:
        return
    if parsed.code(after.end) == "P" and parsed.lower(after.end + 1) == parsed.lower(after.head):
        return  # "from layer to layer"
    other = extended(parsed, after)
    if not _may_be_put(parsed, verb, one, other):
        return
    if alike(parsed, one, other) and interchangeable(parsed, one, other) and free_after(parsed, other, True):
        yield "swap-places", swapped(parsed, one, other)


def _may_be_put(parsed: Parse, verb: str, one: Phrase, other: Phrase) -> bool:
    """Whether two things that one *puts* or *places* are bodies, and nothing is *put on hold*."""
    return verb not in ("place", "put") or {kind_of(parsed, one), kind_of(parsed, other)} <= {"animate", "concrete"}


def noun_places(parsed: Parse) -> Made:
    """The effect of wages on prices: The effect of prices on wages."""
    for noun in parsed.phrases:
        one = parsed.starting.get(noun.end + 1)
        if one is None or parsed.code(one.end) != "P" or (after := parsed.starting.get(one.end + 1)) is None:
            continue
        other = extended(parsed, after)
        if not interchangeable(parsed, one, other) or not whole_after(parsed, other):
            continue
        head, link = parsed.head(noun), (parsed.lower(noun.end), parsed.lower(one.end))
        viewed = (
            head in VIEWED_NOUNS and link[0] == "of" and link[1] in ("in", "on", "for", "from", "by", "through", "via")
        )
        placed = head in NOUN_PLACES.get(link, ()) and (link[1] != "in" or alike(parsed, one, other))
        if placed or (viewed and both_things(parsed, one, other)):
            yield "swap-places", swapped(parsed, one, other)


_BETWEEN = frozenset("after before without despite via".split())


def prepositions(parsed: Parse) -> Made:
    """Pain after surgery: surgery after pain; deaths due to floods: floods due to deaths."""
    for one in parsed.phrases:
        due = (parsed.lower(one.end), parsed.lower(one.end + 1)) in (("due", "to"), ("because", "of"), ("thanks", "to"))
        at = one.end + 1 + due
        other = parsed.starting.get(at)
        if other is None or not (due or parsed.lower(one.end) in _BETWEEN) or parsed.code(one.start - 1) not in "fP":
            continue
        if parsed.code(one.start - 1) == "P" and not (due and parsed.code(one.start - 2) in "nN"):
            continue  # "bound to the region after initiation": both belong to the verb
        other = extended(parsed, other)
        fits = both_things(parsed, one, other) and interchangeable(parsed, one, other)
        if fits and free_after(parsed, other, True):
            yield "swap-places", swapped(parsed, one, other)


def reduced_passives(parsed: Parse) -> Made:
    """The damage caused by the flood: the flood caused by the damage."""
    for one in parsed.phrases:
        if parsed.code(one.end) != "k" or parsed.lower(one.end + 1) != "by":
            continue
        other = parsed.starting.get(one.end + 2)
        if other is None or not (one.plural == other.plural or parsed.code(one.start - 1) in "fPyg"):
            continue
        if "measure" in (kind_of(parsed, one), kind_of(parsed, other)):
            continue
        other = extended(parsed, other)
        fits = verb_takes(parsed, verb_lemma(parsed, one.end), one, other) and alike(parsed, one, other)
        if fits and interchangeable(parsed, one, other) and whole_after(parsed, other):
            yield "swap-agent", swapped(parsed, one, other)


def from_to(parsed: Parse) -> Made:
    """He flew from Paris to Rome: He flew from Rome to Paris."""
    for one in parsed.phrases:
        if parsed.lower(one.start - 1) != "from" or parsed.lower(one.end) not in ("to", "into", "onto"):
            continue
        other = parsed.starting.get(one.end + 1)
        if other is None or not changes_before(parsed, one.start - 1) or parsed.code(other.end) in "'w":
            continue
        if interchangeable(parsed, one, other) and alike(parsed, one, other):
            yield "swap-from-to", swapped(parsed, one, other)


def changes_before(parsed: Parse, at: int) -> bool:
    """Whether a word of change is among the few before *from*."""
    if parsed.lower(at - 1) in ("distance", "distances"):
        return False  # symmetric
    for i in range(max(0, at - 5), at):
        if parsed.code(i) in VERBS and verb_lemma(parsed, i) in CHANGING:
            return True
        if parsed.code(i) == "n" and lemma(parsed.lower(i), "NOUN") in CHANGING:
            return True
    return False


def copular_nouns(parsed: Parse) -> Made:
    """Smoking is a cause of cancer: Cancer is a cause of smoking."""
    for subject in subjects(parsed):
        verb = copula(parsed, subject.end)
        noun = parsed.starting.get(verb.end) if verb else None
        if verb is None or noun is None or parsed.head(noun) not in COPULAR_NOUNS or parsed.lower(noun.end) != "of":
            continue
        other = parsed.starting.get(noun.end + 1)
        if other is None or subject.plural or other.plural is not False or parsed.lower(noun.start) == "the":
            continue
        if parsed.code(subject.head) == "i":
            continue  # "a team was a member of him"
        if exchangeable(parsed, subject, other) and (changes := exchange(parsed, subject, verb, other)):
            yield "swap-arguments", changes


_PLACING = frozenset(
    "on in inside under beneath behind over above below onto into through past toward towards after".split()
)


def located(parsed: Parse) -> Made:
    """A cat is sitting on a chair: A chair is sitting on a cat."""
    for subject in subjects(parsed):
        subject = parsed.starting[subject.start]
        verb = active(parsed, subject.end) or copula(parsed, subject.end)
        if verb and parsed.code(verb.main) in VERBS and verb_lemma(parsed, verb.main) not in VERBS_OF_PLACE:
            continue
        going = parsed.code(subject.end) == "g" and verb_lemma(parsed, subject.end) in VERBS_OF_PLACE
        at = verb.end if verb else subject.end + going
        other = parsed.starting.get(at + 1)
        if other is None or (verb is None and parsed.code(other.end) != "."):
            continue
        if parsed.lower(at) not in _PLACING or parsed.code(other.end) not in ".PsT":
            continue
        if {kind_of(parsed, subject), kind_of(parsed, other)} - {"animate", "concrete"}:
            continue
        if not interchangeable(parsed, subject, other):
            continue
        changes = exchange(parsed, subject, verb, other) if verb else swapped(parsed, subject, other)
        if changes:
            yield "swap-located", changes
