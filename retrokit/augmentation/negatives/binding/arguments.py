"""Near-misses that give the arguments of a verb or a relational noun to each other (COMP D.1: role reversals)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from retrokit.augmentation.negatives.binding.fit import (
    VERBS,
    alike,
    both_things,
    exchange,
    exchanged,
    frames,
    free_after,
    interchangeable,
    kind_of,
    swapped,
    takes_both,
    verb_lemma,
    verb_takes,
    whole_after,
)
from retrokit.augmentation.negatives.binding.lexicon import TABLES, WORDS
from retrokit.augmentation.negatives.rules import Named
from retrokit.augmentation.negatives.sentence import Change, inflected, lemma
from retrokit.augmentation.negatives.view import Phrase, VerbGroup, View, active, agrees, as_object, extended, passive


def arguments(view: View) -> Iterator[Named]:
    """The dog bit the man: The man bit the dog; The dog was bitten by the man."""
    for subject, verb, other in frames(view, active):
        word = verb_lemma(view, verb.main)
        if not takes_both(view, word, subject, other):
            continue
        if word in ("include", "involve") and "," in view.shape[other.end :]:
            continue  # a list goes on
        if view.codes[verb.finite] == "H" and view.codes[other.start] not in "dptNi":
            continue  # "has limited visibility"
        if changes := exchange(view, subject, verb, other):
            yield "swap-arguments", changes
        if changes := _to_passive(view, subject, verb, other, word):
            yield "active-to-passive", changes


def participles(view: View) -> Iterator[Named]:
    """A man riding a horse: A horse riding a man."""
    one = view.starting.get(0)
    if one is None or view.codes[one.end] != "g" or (other := view.starting.get(one.end + 1)) is None:
        return
    even = (view.codes[one.start] in "dc") == (view.codes[other.start] in "dc")
    finite = re.search("[zbvBHDM]", view.shape)
    if even and not finite and takes_both(view, verb_lemma(view, one.end), one, other):
        yield "swap-arguments", swapped(view, one, other)


def relatives(view: View) -> Iterator[Named]:
    """The dog that bit the man: the man that bit the dog."""
    for one in view.phrases:
        pronoun = view.codes[one.end] in "hw" and view.words[one.end] in ("that", "which", "who")
        if not pronoun or view.codes[one.start - 1] == "," or (verb := active(view, one.end + 1)) is None:
            continue
        other = view.starting.get(verb.end)
        if other is None or kind_of(view, one) != kind_of(view, other):
            continue
        if not interchangeable(view, one, other) or not whole_after(view, other):
            continue
        nested = view.codes[one.start - 1] in "fP" or one.plural == other.plural
        fits = nested and verb_takes(view, verb_lemma(view, verb.main), one, other)
        if fits and (changes := exchange(view, one, verb, other)):
            yield "swap-arguments", changes


def _to_passive(view: View, subject: Phrase, verb: VerbGroup, other: Phrase, word: str) -> list[Change] | None:
    if not agrees(view, verb.finite, subject) or subject.plural is None or word == "involve":
        return None
    code = view.codes[verb.main]
    if code in "zbv":
        if verb.start < verb.main:
            return None  # an adverb would stand before the auxiliary
        link = {"z": "is", "b": "are", "v": "were" if subject.plural else "was"}[code]
        if view.words[subject.head] == "i":
            link = "was" if code == "v" else "am"
    elif view.codes[verb.finite] == "D" or "K" in view.shape[verb.start : verb.end]:
        return None
    else:
        link = {"y": "be", "g": "being", "k": "been"}[code]
    by = Change(verb.main, verb.end, f"{link} {inflected(word, 'VBN')} by")
    return [by, Change(other.start, other.end, as_object(view, other))]


def passives(view: View) -> Iterator[Named]:
    """The man was bitten by the dog: The dog was bitten by the man; The man bit the dog."""
    for subject, verb, other in frames(view, passive, frozenset(("by",))):
        word = verb_lemma(view, verb.main)
        if not takes_both(view, word, subject, other):
            continue
        if changes := exchange(view, subject, verb, other):
            yield "swap-agent", changes
        if changes := _to_active(view, subject, verb, other, word):
            yield "passive-to-active", changes


def _to_active(view: View, subject: Phrase, verb: VerbGroup, other: Phrase, word: str) -> list[Change] | None:
    if not agrees(view, verb.finite, subject) or subject.plural is None:
        return None
    codes = view.shape[verb.start : verb.end]
    auxiliaries = re.sub("[rm!]", "", codes[:-1])
    finite = view.words[verb.finite]
    if auxiliaries == "B" and "!" not in codes:
        tag = "VBD" if finite in ("was", "were") else "VB" if finite in ("are", "am") else "VBZ"
        link = verb.finite
    elif auxiliaries in ("ME", "BG", "HK"):
        tag = {"ME": "VB", "BG": "VBG", "HK": "VBN"}[auxiliaries]
        link = max(i for i in range(verb.start, verb.main) if view.codes[i] in "EGK")
    else:
        return None
    return [
        Change(link, link + 1, ""),
        Change(verb.main, verb.end + 1, inflected(word, tag)),
        Change(other.start, other.end, as_object(view, other)),
    ]


def questions(view: View) -> Iterator[Named]:
    """How does inflation affect wages? How do wages affect inflation?"""
    for match in re.finditer("D", view.shape):
        at = match.start()
        subject = view.starting.get(at + 1)
        if view.codes[at - 1] not in ".qw" or subject is None:
            continue
        subject = extended(view, subject)
        verb = _INFINITIVE.match(view.shape, subject.end)
        if verb is None or (after := view.starting.get(verb.end())) is None:
            continue
        other, group = extended(view, after), VerbGroup(at, verb.end(), at, verb.end() - 1)
        if verb_takes(view, verb_lemma(view, group.main), subject, other):
            yield from exchanged(view, "swap-arguments", subject, group, other)


_INFINITIVE = re.compile(r"!?[rm]*y")


def prepositional_verbs(view: View) -> Iterator[Named]:
    """The price depends on the demand: The demand depends on the price."""
    for subject, verb, other in frames(view, active, WORDS["verb-preposition"]):
        if "measure" not in (kind_of(view, subject), kind_of(view, other)) and alike(view, subject, other):
            yield from exchanged(view, "swap-arguments", subject, verb, other)


def verb_object_preposition(view: View) -> Iterator[Named]:
    """Convert text into images: Convert images into text; A was added to B: B was added to A."""
    for one in view.phrases:
        main = one.start - 1
        if main < 0 or view.codes[main] not in VERBS:
            continue
        if view.words[main - 1] == "to" and view.words[main - 2] in ("which", "whom"):
            continue  # "on which to base it": the preposition stands before the verb
        yield from _places_after(view, verb_lemma(view, main), extended(view, one))
    for subject, verb, other in frames(view, passive, WORDS["verb-object-preposition"]):
        if alike(view, subject, other) and _may_be_put(view, verb_lemma(view, verb.main), subject, other):
            yield from exchanged(view, "swap-places", subject, verb, other)


def _places_after(view: View, verb: str, one: Phrase) -> Iterator[Named]:
    after = view.starting.get(one.end + 1)
    if after is None or f"{verb} {view.words[one.end]}" not in WORDS["verb-object-preposition"]:
        return
    if view.codes[after.end] == "P" and view.words[after.end + 1] == view.words[after.head]:
        return  # "from layer to layer"
    other = extended(view, after)
    fits = _may_be_put(view, verb, one, other) and alike(view, one, other)
    if fits and interchangeable(view, one, other) and free_after(view, other, True):
        yield "swap-places", swapped(view, one, other)


def _may_be_put(view: View, verb: str, one: Phrase, other: Phrase) -> bool:
    """Whether two things that one *puts* or *places* are bodies, and nothing is *put on hold*."""
    return verb not in ("place", "put") or {kind_of(view, one), kind_of(view, other)} <= {"animate", "concrete"}


def noun_places(view: View) -> Iterator[Named]:
    """The effect of wages on prices: The effect of prices on wages."""
    for noun in view.phrases:
        one = view.starting.get(noun.end + 1)
        if one is None or view.codes[one.end] != "P" or (after := view.starting.get(one.end + 1)) is None:
            continue
        other = extended(view, after)
        if not interchangeable(view, one, other) or not whole_after(view, other):
            continue
        head, first, second = view.head(noun), view.words[noun.end], view.words[one.end]
        viewed = first == "of" and second in ("in", "on", "for", "from", "by", "through", "via")
        placed = head in TABLES["noun-places"].get(f"{first} {second}", frozenset())
        if (placed and (second != "in" or alike(view, one, other))) or (
            viewed and head in WORDS["viewed-nouns"] and both_things(view, one, other)
        ):
            yield "swap-places", swapped(view, one, other)


def prepositions(view: View) -> Iterator[Named]:
    """Pain after surgery: surgery after pain; deaths due to floods: floods due to deaths."""
    for one in view.phrases:
        due = {"due": "to", "because": "of", "thanks": "to"}.get(view.words[one.end]) == view.words[one.end + 1]
        after, before = view.starting.get(one.end + 1 + due), view.codes[one.start - 1]
        if after is None or not (due or view.words[one.end] in WORDS["between"]) or before not in "fP":
            continue
        if before == "P" and not (due and view.codes[one.start - 2] in "nN"):
            continue  # "bound to the region after initiation": both belong to the verb
        other = extended(view, after)
        fits = both_things(view, one, other) and interchangeable(view, one, other)
        if fits and free_after(view, other, True):
            yield "swap-places", swapped(view, one, other)


def reduced_passives(view: View) -> Iterator[Named]:
    """The damage caused by the flood: the flood caused by the damage."""
    for one in view.phrases:
        after = view.starting.get(one.end + 2)
        if after is None or view.codes[one.end] != "k" or view.words[one.end + 1] != "by":
            continue
        if "measure" in (kind_of(view, one), kind_of(view, after)):
            continue
        other = extended(view, after)
        nested = one.plural == other.plural or view.codes[one.start - 1] in "fPyg"
        fits = nested and verb_takes(view, verb_lemma(view, one.end), one, other) and alike(view, one, other)
        if fits and interchangeable(view, one, other) and whole_after(view, other):
            yield "swap-agent", swapped(view, one, other)


def from_to(view: View) -> Iterator[Named]:
    """He flew from Paris to Rome: He flew from Rome to Paris."""
    for one in view.phrases:
        if view.words[one.start - 1] != "from" or view.words[one.end] not in ("to", "into", "onto"):
            continue
        other = view.starting.get(one.end + 1)
        if other is None or not changes_before(view, one.start - 1) or view.codes[other.end] in "'w":
            continue
        if interchangeable(view, one, other) and alike(view, one, other):
            yield "swap-from-to", swapped(view, one, other)


def changes_before(view: View, at: int) -> bool:
    """Whether a word of change is among the few before *from*."""
    if view.words[at - 1] in ("distance", "distances"):
        return False  # symmetric
    parts = ((i, "VERB" if view.codes[i] in VERBS else "NOUN") for i in range(max(0, at - 5), at))
    return any(view.codes[i] in VERBS + "n" and lemma(view.words[i], part) in WORDS["changing"] for i, part in parts)


ARGUMENTS = (
    *(arguments, participles, relatives, passives, questions, prepositional_verbs, verb_object_preposition),
    *(noun_places, prepositions, reduced_passives, from_to),
)
