"""Near-misses that give the arguments of a verb or noun, the sides of a comparison or two clauses to each other.

Role reversals and argument order (COMP D.1).
"""

import re
from collections.abc import Iterator

from retrokit.augmentation.edits.binding.fit import VERBS, WORDS, BindingView
from retrokit.augmentation.edits.binding.links import around_links
from retrokit.augmentation.edits.sentence import Change, Named, Phrase, VerbGroup, inflected


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
        verb = _relative_verb(view, phrase)
        other = None if verb is None else view.starting.get(verb.end)
        if verb is None or other is None or not _may_turn_around(view, phrase, verb, other):
            continue
        if changes := view.exchange(phrase, verb, other):
            yield "swap-arguments", changes


def _relative_verb(view: BindingView, phrase: Phrase) -> VerbGroup | None:
    """The verb after a relative pronoun that follows a phrase and is its subject."""
    is_relative = view.codes[phrase.end] in "hw" and view.words[phrase.end] in ("that", "which", "who")
    return view.active(phrase.end + 1) if is_relative and view.codes[phrase.start - 1] != "," else None


def _may_turn_around(view: BindingView, phrase: Phrase, verb: VerbGroup, other: Phrase) -> bool:
    """Whether a phrase and the object in its relative clause may be either, and no other verb has to agree."""
    nested = view.codes[phrase.start - 1] in "fP" or phrase.plural == other.plural
    if not nested or view.kind_of(phrase) != view.kind_of(other):
        return False
    if not view.interchangeable(phrase, other) or not view.whole_after(other):
        return False
    return view.verb_takes(view.verb_lemma(verb.main), phrase, other)


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
        tag = {"was": "VBD", "were": "VBD", "are": "VB", "am": "VB"}.get(finite, "VBZ")
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
    """Convert text into images: Convert images into text."""
    for phrase in view.phrases:
        verb = _governing_verb(view, phrase)
        phrase = view.extended(phrase)
        after = view.starting.get(phrase.end + 1)
        if after is None or f"{verb} {view.words[phrase.end]}" not in WORDS["verb-object-preposition"]:
            continue
        other = view.extended(after)
        repeats = view.codes[after.end] == "P" and view.words[after.end + 1] == view.words[after.head]  # "to layer"
        fits = not repeats and _may_be_put(view, verb, phrase, other) and view.alike(phrase, other)
        if fits and view.interchangeable(phrase, other) and view.free_after(other, True):
            yield "swap-places", view.swapped(phrase, other)


def passive_verb_preposition(view: BindingView) -> Iterator[Named]:
    """A was added to B: B was added to A."""
    for subject, verb, other in view.frames(view.passive, WORDS["verb-object-preposition"]):
        if view.alike(subject, other) and _may_be_put(view, view.verb_lemma(verb.main), subject, other):
            yield from view.exchanged("swap-places", subject, verb, other)


def _governing_verb(view: BindingView, phrase: Phrase) -> str:
    """The dictionary form of the verb right before a phrase; nothing without one, or in "on which to base it", where
    its preposition is before it."""
    main = phrase.start - 1
    is_verb = main >= 0 and view.codes[main] in VERBS
    if not is_verb or (view.words[main - 1] == "to" and view.words[main - 2] in ("which", "whom")):
        return ""
    return view.verb_lemma(main)


def _may_be_put(view: BindingView, verb: str, phrase: Phrase, other: Phrase) -> bool:
    """Whether two things that one *puts* or *places* are bodies, and nothing is *put on hold*."""
    return verb not in ("place", "put") or {view.kind_of(phrase), view.kind_of(other)} <= {"animate", "concrete"}


def comparisons(view: BindingView) -> Iterator[Named]:
    """Cars are faster than trains: Trains are faster than cars; Men earn higher wages than women."""
    for subject in view.subjects:
        verb = view.active(subject.end) or view.copula(subject.end)
        link = -1 if verb is None else _compared(view, verb.end)
        if verb is None or link < 0 or (after := view.starting.get(link)) is None:
            continue
        if _may_be_compared(view, subject, after):
            yield from view.exchanged("swap-comparison", subject, verb, view.extended(after))


def _may_be_compared(view: BindingView, subject: Phrase, after: Phrase) -> bool:
    """Whether two things are compared, and no pronouns, numbers or measures."""
    other = view.extended(after)
    if "c" in view.shape[other.start : other.end] or "i" in view.codes[other.head] + view.codes[subject.head]:
        return False
    return "measure" not in (view.kind_of(after), view.kind_of(subject)) and view.alike(subject, after)


_OTHER_CLAUSE = frozenset("zbvBHDMswqh&,")


def _compared(view: BindingView, at: int) -> int:
    """Where the second thing of a comparison starts whose comparative is after a token of a clause; or −1."""
    comparative = False
    for i in range(at, len(view.shape)):
        word = view.words[i]
        comparative = comparative or view.tags[i] == "AJC" or word in ("more", "less", "better", "fewer")
        if word == "than":
            return i + 1 if comparative else -1
        if word == "compared" and view.words[i + 1] in ("to", "with"):
            return i + 2 if comparative else -1
        if view.codes[i] in _OTHER_CLAUSE:
            return -1
    return -1


def contrasts(view: BindingView) -> Iterator[Named]:
    """Unlike dogs, cats purr: Unlike cats, dogs purr."""
    first, second, third = view.words[:3]
    start = {"unlike": 1, "compared": 2}.get(first, 3 if (second, third) == ("contrast", "to") else 0)
    phrase = view.starting.get(start)
    if not start or phrase is None:
        return
    phrase = view.extended(phrase)
    subject = view.starting.get(phrase.end + 1)
    if view.codes[phrase.end] == "," and subject is not None:
        subject = view.extended(subject)
        verb = _agreeing_verb(view, subject)
        fits = view.alike(phrase, subject) and view.interchangeable(phrase, subject)
        if verb and fits and (changes := view.exchange(subject, verb, phrase)):
            yield "swap-contrast", changes


def copular_nouns(view: BindingView) -> Iterator[Named]:
    """Smoking is a cause of cancer: Cancer is a cause of smoking."""
    for subject, verb, after in view.frames(view.copula):
        noun = view.starting[after.start]
        other = view.starting.get(noun.end + 1)
        if other is None or view.head(noun) not in WORDS["copular-nouns"] or view.words[noun.end] != "of":
            continue
        single = not subject.plural and other.plural is False and view.words[noun.start] != "the"
        if single and view.codes[subject.head] != "i":  # "a team was a member of him"
            yield from view.exchanged("swap-arguments", subject, verb, other)


def located(view: BindingView) -> Iterator[Named]:
    """A cat is sitting on a chair: A chair is sitting on a cat."""
    for subject in view.subjects:
        subject = view.starting[subject.start]
        verb = view.active(subject.end) or view.copula(subject.end)
        at = _link_of_place(view, subject, verb)
        other = None if at is None else view.starting.get(at + 1)
        if other is None or not _are_bodies(view, subject, other):
            continue
        ends = ".PsT" if verb else "."
        changes = view.exchange(subject, verb, other) if verb else view.swapped(subject, other)
        if changes and view.codes[other.end] in ends:
            yield "swap-located", changes


def _link_of_place(view: BindingView, subject: Phrase, verb: VerbGroup | None) -> int | None:
    """The preposition of place of a subject: "a cat *on*", "a cat sitting *on*", "a cat sat *on*"."""
    if verb is None:
        sits = view.codes[subject.end] == "g" and view.verb_lemma(subject.end) in WORDS["verbs-of-place"]
        at = subject.end + sits
    elif view.codes[verb.main] in VERBS and view.verb_lemma(verb.main) not in WORDS["verbs-of-place"]:
        return None
    else:
        at = verb.end
    return at if view.words[at] in WORDS["placing"] else None


def _are_bodies(view: BindingView, subject: Phrase, other: Phrase) -> bool:
    bodies = {view.kind_of(subject), view.kind_of(other)} <= {"animate", "concrete"}
    return bodies and view.interchangeable(subject, other)


def clause_subjects(view: BindingView) -> Iterator[Named]:
    """Sales rose while costs fell: Costs rose while sales fell."""
    phrase = view.starting.get(0)
    if phrase is None:
        return
    first = view.extended(phrase)
    verb = _agreeing_verb(view, first)
    if verb is None:
        return
    for link in re.finditer("[s&]", view.shape):
        at = link.start()
        clause = _second_clause(view, at)
        if at < verb.end or clause is None:
            continue
        second, other = clause
        if not _separate(view, first, verb, second, other, at):
            continue
        agreed_first = view.in_agreement(verb.finite, second.plural)
        agreed_second = view.in_agreement(other.finite, first.plural)
        if agreed_first is not None and agreed_second is not None:
            exchanged = Change(first.start, first.end, view.as_subject(second))
            back = Change(second.start, second.end, view.as_subject(first))
            yield "swap-subjects", [exchanged, back, *agreed_first, *agreed_second]
        return


def _second_clause(view: BindingView, at: int) -> tuple[Phrase, VerbGroup] | None:
    """The subject and the verb of the clause that a conjunction joins to another."""
    phrase = view.starting.get(at + 1)
    if phrase is None or view.words[at] not in ("while", "whereas", "but", "and", "because", "although"):
        return None
    subject = view.extended(phrase)
    verb = _agreeing_verb(view, subject)
    return None if verb is None else (subject, verb)


def _agreeing_verb(view: BindingView, subject: Phrase) -> VerbGroup | None:
    verb = view.any_verb(subject.end)
    return verb if verb and view.agrees(verb.finite, subject) else None


def _separate(view: BindingView, first: Phrase, verb: VerbGroup, second: Phrase, other: VerbGroup, at: int) -> bool:
    """Whether two clauses with comparable subjects say different things, and nothing else hangs on the subjects."""
    if "i" in view.codes[first.head] + view.codes[second.head] or "&" in view.shape[:at]:
        return False
    between, after = view.shape[verb.end : at], view.shape[other.end :]
    if re.search("[sqwhzbvBHDM.]", between) or re.search("&[rm]*[zbBHDv]|h", after):
        return False
    heads = view.words[first.head], view.words[second.head]
    repeats = view.words[verb.start : at] == view.words[other.start : other.start + at - verb.start]
    if repeats or max(map(view.words.count, heads)) > 1:
        return False
    contrast = view.words[at] in ("while", "whereas") and {view.kind_of(first), view.kind_of(second)} == _IN_CONTRAST
    return (contrast or view.both_things(first, second)) and view.interchangeable(first, second)


_IN_CONTRAST = {"thing", "measure"}
"""The kinds of "the firm grew, while its sales fell"."""


def clauses(view: BindingView) -> Iterator[Named]:
    """If the field is wet, the match is off: If the match is off, the field is wet."""
    end = len(view.shape.rstrip("."))
    link = _subordinating(view, end)
    if link is None:
        return
    comma = view.shape.find(",")
    first = (1, comma) if link == 0 else (0, link)
    second = (comma + 1, end) if link == 0 else (link + 1, end)
    if not _are_clauses(view, *first, *second) or not _UNTURNED.isdisjoint(view.words[first[0] : end]):
        return
    is_past = not {"VVD", "VBD", "VHD", "VDD"}.isdisjoint(view.tags[first[0] : end])
    refers = [not WORDS["referring"].isdisjoint(view.words[slice(*span)]) for span in (first, second)]
    # one after another; or the pronoun would come before what it is for
    if (view.words[link] == "when" and is_past) or refers == [False, True]:
        return
    yield "swap-clauses", [Change(*first, view.lowered(*second)), Change(*second, view.lowered(*first))]


def _subordinating(view: BindingView, end: int) -> int | None:
    """The conjunction that joins two clauses: the first word, or the only one between them."""
    if view.words[0] in WORDS["subordinating"]:
        return 0
    links = [index for index in range(2, end) if view.words[index] in WORDS["subordinating"]]
    if len(links) != 1 or view.codes[links[0] - 1] in ",rm&sN!" or view.words[links[0] - 1] in WORDS["times"]:
        return None
    return links[0]


_UNTURNED = frozenset("then also will would 'll 'd so too again still it this".split())
"""Words of a sentence whose clauses do not stand the other way round."""


def _are_clauses(view: BindingView, start: int, until: int, again: int, end: int) -> bool:
    """Whether both spans are one finite clause each, which start with their subject."""
    if until < 0 or "?" in view.sentence.text:
        return False
    return _is_clause(view, start, until) and _is_clause(view, again, end)


def _is_clause(view: BindingView, start: int, end: int) -> bool:
    subject = view.starting.get(start)
    if subject is not None:
        verb = view.any_verb(view.extended(subject, "fP").end)
    elif view.codes[start] in "iteI":
        verb = view.any_verb(start + 1)
    else:
        return False
    if verb is None or verb.end > end or re.search(r"[,qswh(\"?]", view.shape[start:end]):
        return False
    if re.search("[zbvBHDMT]|&k", view.shape[verb.end : end]):
        return False
    return subject is None or view.codes[subject.head] == "i" or view.agrees(verb.finite, subject)


ARGUMENTS = (
    *(arguments, participles, relatives, passives, questions, prepositional_verbs),
    *(verb_object_preposition, passive_verb_preposition, around_links),
    *(comparisons, contrasts, copular_nouns, located, clause_subjects, clauses),
)
