"""Near-misses that give the arguments of a verb or a relational noun to each other (COMP D.1: role reversals)."""

import re
from collections.abc import Iterator

from retrokit.augmentation.near_misses.binding.fit import TABLES, VERBS, WORDS, BindingView
from retrokit.augmentation.near_misses.sentence import Change, Named, inflected, lemma
from retrokit.augmentation.near_misses.view import Phrase, VerbGroup


def arguments(view: BindingView) -> Iterator[Named]:
    """The dog bit the man: The man bit the dog; The dog was bitten by the man."""
    for subject, verb, other in view.frames(view.active):
        word = view.verb_lemma(verb.main)
        is_list = word in ("include", "involve") and "," in view.shape[other.end :]
        is_state = view.codes[verb.finite] == "H" and view.codes[other.start] not in "dptNi"  # "has limited visibility"
        if is_list or is_state or not view.takes_both(word, subject, other):
            continue
        if changes := view.exchange(subject, verb, other):
            yield "swap-arguments", changes
        if changes := _to_passive(view, subject, verb, other, word):
            yield "active-to-passive", changes


def participles(view: BindingView) -> Iterator[Named]:
    """A man riding a horse: A horse riding a man."""
    phrase = view.starting.get(0)
    if phrase is None or view.codes[phrase.end] != "g" or (other := view.starting.get(phrase.end + 1)) is None:
        return
    even = (view.codes[phrase.start] in "dc") == (view.codes[other.start] in "dc")
    finite = re.search("[zbvBHDM]", view.shape)
    if even and not finite and view.takes_both(view.verb_lemma(phrase.end), phrase, other):
        yield "swap-arguments", view.swapped(phrase, other)


def relatives(view: BindingView) -> Iterator[Named]:
    """The dog that bit the man: the man that bit the dog."""
    for phrase in view.phrases:
        pronoun = view.codes[phrase.end] in "hw" and view.words[phrase.end] in ("that", "which", "who")
        if not pronoun or view.codes[phrase.start - 1] == "," or (verb := view.active(phrase.end + 1)) is None:
            continue
        other = view.starting.get(verb.end)
        if other is None or view.kind_of(phrase) != view.kind_of(other):
            continue
        nested = view.codes[phrase.start - 1] in "fP" or phrase.plural == other.plural
        fits = nested and view.interchangeable(phrase, other) and view.whole_after(other)
        fits = fits and view.verb_takes(view.verb_lemma(verb.main), phrase, other)
        if fits and (changes := view.exchange(phrase, verb, other)):
            yield "swap-arguments", changes


def _to_passive(view: BindingView, subject: Phrase, verb: VerbGroup, other: Phrase, word: str) -> list[Change] | None:
    code, is_simple = view.codes[verb.main], view.codes[verb.main] in "zbv"
    # an adverb would stand before the auxiliary; "does bite" and "has been biting" have no plain passive
    hard = verb.start < verb.main if is_simple else "K" in view.shape[verb.start : verb.end]
    hard = hard or (not is_simple and view.codes[verb.finite] == "D")
    if hard or not view.agrees(verb.finite, subject) or subject.plural is None or word == "involve":
        return None
    links = {"z": "is", "b": "are", "v": "were" if subject.plural else "was", "y": "be", "g": "being", "k": "been"}
    if view.words[subject.head] == "i":
        links |= {"z": "am", "b": "am", "v": "was"}
    by = Change(verb.main, verb.end, f"{links[code]} {inflected(word, 'VBN')} by")
    return [by, Change(other.start, other.end, view.as_object(other))]


def passives(view: BindingView) -> Iterator[Named]:
    """The man was bitten by the dog: The dog was bitten by the man; The man bit the dog."""
    for subject, verb, other in view.frames(view.passive, frozenset(("by",))):
        word = view.verb_lemma(verb.main)
        if not view.takes_both(word, subject, other):
            continue
        if changes := view.exchange(subject, verb, other):
            yield "swap-agent", changes
        if changes := _to_active(view, subject, verb, other, word):
            yield "passive-to-active", changes


def _to_active(view: BindingView, subject: Phrase, verb: VerbGroup, other: Phrase, word: str) -> list[Change] | None:
    if not view.agrees(verb.finite, subject) or subject.plural is None:
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
    active = Change(verb.main, verb.end + 1, inflected(word, tag))
    return [Change(link, link + 1, ""), active, Change(other.start, other.end, view.as_object(other))]


def questions(view: BindingView) -> Iterator[Named]:
    """How does inflation affect wages? How do wages affect inflation?"""
    for match in re.finditer("D", view.shape):
        at = match.start()
        subject = view.starting.get(at + 1)
        if view.codes[at - 1] not in ".qw" or subject is None:
            continue
        subject = view.extended(subject)
        verb = re.compile("!?[rm]*y").match(view.shape, subject.end)
        if verb is None or (after := view.starting.get(verb.end())) is None:
            continue
        other, group = view.extended(after), VerbGroup(at, verb.end(), at, verb.end() - 1)
        if view.verb_takes(view.verb_lemma(group.main), subject, other):
            yield from view.exchanged("swap-arguments", subject, group, other)


def prepositional_verbs(view: BindingView) -> Iterator[Named]:
    """The price depends on the demand: The demand depends on the price."""
    for subject, verb, other in view.frames(view.active, WORDS["verb-preposition"]):
        if "measure" not in (view.kind_of(subject), view.kind_of(other)) and view.alike(subject, other):
            yield from view.exchanged("swap-arguments", subject, verb, other)


def verb_object_preposition(view: BindingView) -> Iterator[Named]:
    """Convert text into images: Convert images into text; A was added to B: B was added to A."""
    for phrase in view.phrases:
        main = phrase.start - 1
        if main < 0 or view.codes[main] not in VERBS:
            continue
        if view.words[main - 1] == "to" and view.words[main - 2] in ("which", "whom"):
            continue  # "on which to base it": the preposition stands before the verb
        verb, phrase = view.verb_lemma(main), view.extended(phrase)
        after = view.starting.get(phrase.end + 1)
        if after is None or f"{verb} {view.words[phrase.end]}" not in WORDS["verb-object-preposition"]:
            continue
        other = view.extended(after)
        repeats = view.codes[after.end] == "P" and view.words[after.end + 1] == view.words[after.head]  # "to layer"
        fits = not repeats and _may_be_put(view, verb, phrase, other) and view.alike(phrase, other)
        if fits and view.interchangeable(phrase, other) and view.free_after(other, True):
            yield "swap-places", view.swapped(phrase, other)
    for subject, verb_group, other in view.frames(view.passive, WORDS["verb-object-preposition"]):
        if view.alike(subject, other) and _may_be_put(view, view.verb_lemma(verb_group.main), subject, other):
            yield from view.exchanged("swap-places", subject, verb_group, other)


def _may_be_put(view: BindingView, verb: str, phrase: Phrase, other: Phrase) -> bool:
    """Whether two things that one *puts* or *places* are bodies, and nothing is *put on hold*."""
    return verb not in ("place", "put") or {view.kind_of(phrase), view.kind_of(other)} <= {"animate", "concrete"}


def noun_places(view: BindingView) -> Iterator[Named]:
    """The effect of wages on prices: The effect of prices on wages."""
    for noun in view.phrases:
        phrase = view.starting.get(noun.end + 1)
        if phrase is None or view.codes[phrase.end] != "P" or (after := view.starting.get(phrase.end + 1)) is None:
            continue
        other, head = view.extended(after), view.head(noun)
        first, second = view.words[noun.end], view.words[phrase.end]
        viewed = first == "of" and second in ("in", "on", "for", "from", "by", "through", "via")
        viewed = viewed and head in WORDS["viewed-nouns"] and view.both_things(phrase, other)
        placed = head in TABLES["noun-places"].get(f"{first} {second}", frozenset())
        fits = viewed or (placed and (second != "in" or view.alike(phrase, other)))
        if fits and view.interchangeable(phrase, other) and view.whole_after(other):
            yield "swap-places", view.swapped(phrase, other)


def prepositions(view: BindingView) -> Iterator[Named]:
    """Pain after surgery: surgery after pain; deaths due to floods: floods due to deaths."""
    for phrase in view.phrases:
        due = {"due": "to", "because": "of", "thanks": "to"}.get(view.words[phrase.end]) == view.words[phrase.end + 1]
        after, before = view.starting.get(phrase.end + 1 + due), view.codes[phrase.start - 1]
        if after is None or not (due or view.words[phrase.end] in WORDS["between"]) or before not in "fP":
            continue
        if before == "P" and not (due and view.codes[phrase.start - 2] in "nN"):
            continue  # "bound to the region after initiation": both belong to the verb
        other = view.extended(after)
        fits = view.both_things(phrase, other) and view.interchangeable(phrase, other)
        if fits and view.free_after(other, True):
            yield "swap-places", view.swapped(phrase, other)


def reduced_passives(view: BindingView) -> Iterator[Named]:
    """The damage caused by the flood: the flood caused by the damage."""
    for phrase in view.phrases:
        after = view.starting.get(phrase.end + 2)
        if after is None or view.codes[phrase.end] != "k" or view.words[phrase.end + 1] != "by":
            continue
        other = view.extended(after)
        nested = phrase.plural == other.plural or view.codes[phrase.start - 1] in "fPyg"
        fits = nested and view.verb_takes(view.verb_lemma(phrase.end), phrase, other) and view.alike(phrase, other)
        fits = fits and "measure" not in (view.kind_of(phrase), view.kind_of(after))
        if fits and view.interchangeable(phrase, other) and view.whole_after(other):
            yield "swap-agent", view.swapped(phrase, other)


def from_to(view: BindingView) -> Iterator[Named]:
    """He flew from Paris to Rome: He flew from Rome to Paris."""
    for phrase in view.phrases:
        other = view.starting.get(phrase.end + 1)
        links = view.words[phrase.start - 1] == "from" and view.words[phrase.end] in ("to", "into", "onto")
        if other is None or not links or not changes_before(view, phrase.start - 1) or view.codes[other.end] in "'w":
            continue
        if view.interchangeable(phrase, other) and view.alike(phrase, other):
            yield "swap-from-to", view.swapped(phrase, other)


def changes_before(view: BindingView, at: int) -> bool:
    """Whether a word of change is among the few before *from*."""
    if view.words[at - 1] in ("distance", "distances"):
        return False  # symmetric
    parts = ((i, "VERB" if view.codes[i] in VERBS else "NOUN") for i in range(max(0, at - 5), at))
    return any(view.codes[i] in VERBS + "n" and lemma(view.words[i], part) in WORDS["changing"] for i, part in parts)


ARGUMENTS = (
    *(arguments, participles, relatives, passives, questions, prepositional_verbs, verb_object_preposition),
    *(noun_places, prepositions, reduced_passives, from_to),
)
