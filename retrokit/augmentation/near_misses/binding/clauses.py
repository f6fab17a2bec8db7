"""Near-misses that turn choices, comparisons, places and pairs of clauses round (COMP D.1: argument order)."""

import re
from collections.abc import Iterator

from retrokit.augmentation.near_misses.binding.fit import VERBS, WORDS, BindingView
from retrokit.augmentation.near_misses.sentence import Change, Named
from retrokit.augmentation.near_misses.view import Phrase, VerbGroup

_MORE = ("more", "fewer", "less")


def choices(view: BindingView) -> Iterator[Named]:
    """Tea instead of coffee: coffee instead of tea; not cats but dogs; more men than women."""
    for phrase in view.phrases:
        link, after = view.words[phrase.end], view.words[phrase.end + 1]
        name, other, before = "swap-choice", view.starting.get(phrase.end + 1), view.words[phrase.start - 1]
        free = view.codes[phrase.start - 1] not in "f&,"
        if (link, after) in (("instead", "of"), ("rather", "than")):
            other = view.starting.get(phrase.end + 2)
        elif (link, after) == ("but", "not"):  # "A but not B", "in A but not in B"
            again = view.words[phrase.end + 2] == before and view.codes[phrase.start - 1] == "P"
            other = view.starting.get(phrase.end + 2 + again)
            free = free and other is not None and view.codes[other.end] in ".,&s"
        elif link == "but" and before == "not":
            free = other is not None and view.codes[other.end] in ".,"
        elif link == "than" and (view.words[phrase.start] in _MORE or before in _MORE):
            name = "swap-comparison"
            phrase = phrase._replace(start=phrase.start + (view.words[phrase.start] in _MORE))
            free = view.codes[phrase.start] == "n" and view.codes[phrase.start - 2] in "PfB.&"
        else:
            continue
        if other is None or not free or view.codes[other.end] == "f":
            continue
        if name == "swap-comparison" or view.interchangeable(phrase, other):
            yield name, view.swapped(phrase, other)


def comparisons(view: BindingView) -> Iterator[Named]:
    """Cars are faster than trains: Trains are faster than cars; Men earn higher wages than women."""
    for subject in view.subjects:
        verb = view.active(subject.end) or view.copula(subject.end)
        link = -1 if verb is None else _compared(view, verb.end)
        if verb is None or link < 0 or (after := view.starting.get(link)) is None:
            continue
        other = view.extended(after)
        plain = (
            "c" not in view.shape[other.start : other.end]
            and "i" not in view.codes[other.head] + view.codes[subject.head]
        )
        if plain and "measure" not in (view.kind_of(after), view.kind_of(subject)) and view.alike(subject, after):
            yield from view.exchanged("swap-comparison", subject, verb, other)


_OTHER_CLAUSE = frozenset("zbvBHDMswqh&,")


def _compared(view: BindingView, at: int) -> int:
    """Where the second thing of a comparison starts whose comparative stands after a token of a clause; or −1."""
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
        verb = _any_verb(view, subject)
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
        if verb and view.codes[verb.main] in VERBS and view.verb_lemma(verb.main) not in WORDS["verbs-of-place"]:
            continue
        going = view.codes[subject.end] == "g" and view.verb_lemma(subject.end) in WORDS["verbs-of-place"]
        at = verb.end if verb else subject.end + going
        other = view.starting.get(at + 1)
        if (
            other is None
            or view.words[at] not in WORDS["placing"]
            or view.codes[other.end] not in (".PsT" if verb else ".")
        ):
            continue
        bodies = {view.kind_of(subject), view.kind_of(other)} <= {"animate", "concrete"}
        if not bodies or not view.interchangeable(subject, other):
            continue
        if changes := view.exchange(subject, verb, other) if verb else view.swapped(subject, other):
            yield "swap-located", changes


def clause_subjects(view: BindingView) -> Iterator[Named]:
    """Sales rose while costs fell: Costs rose while sales fell."""
    if not view.phrases or view.phrases[0].start != 0:
        return
    first = view.extended(view.phrases[0])
    verb = _any_verb(view, first)
    if verb is None:
        return
    for link in re.finditer("[s&]", view.shape):
        at = link.start()
        second = view.starting.get(at + 1)
        joins = view.words[at] in ("while", "whereas", "but", "and", "because", "although")
        if at < verb.end or second is None or not joins:
            continue
        second = view.extended(second)
        other = _any_verb(view, second)
        if other is None or not _separate(view, first, verb, second, other, at):
            continue
        agreed = [view.in_agreement(verb.finite, second.plural), view.in_agreement(other.finite, first.plural)]
        if None not in agreed:
            exchanged = Change(first.start, first.end, view.as_subject(second))
            back = Change(second.start, second.end, view.as_subject(first))
            yield "swap-subjects", [exchanged, back, *(change for changes in agreed for change in changes or ())]
        return


def _any_verb(view: BindingView, subject: Phrase) -> VerbGroup | None:
    at = subject.end
    verb = view.passive(at) or view.active(at) or view.copula(at)
    return verb if verb and view.agrees(verb.finite, subject) else None


def _separate(view: BindingView, first: Phrase, verb: VerbGroup, second: Phrase, other: VerbGroup, at: int) -> bool:
    """Whether two clauses with comparable subjects say different things, and nothing else hangs on the subjects."""
    if "i" in view.codes[first.head] + view.codes[second.head] or "&" in view.shape[:at]:
        return False
    between, after = view.shape[verb.end : at], view.shape[other.end :]
    if re.search("[sqwhzbvBHDM.]", between) or re.search("&[rm]*[zbBHDv]|h", after):
        return False
    words = [token.text.lower() for token in view.sentence.tokens]
    repeats = words[verb.start : at] == words[other.start : other.start + at - verb.start]
    if repeats or any(words.count(view.words[phrase.head]) > 1 for phrase in (first, second)):
        return False
    kinds = {view.kind_of(first), view.kind_of(second)}
    contrast = view.words[at] in ("while", "whereas") and kinds == {"thing", "measure"}
    equal = len(kinds) == 1 and "measure" not in kinds
    return (equal or contrast) and view.interchangeable(first, second)


def clauses(view: BindingView) -> Iterator[Named]:
    """If the field is wet, the match is off: If the match is off, the field is wet."""
    end = len(view.shape)
    while end and view.codes[end - 1] == ".":
        end -= 1
    if view.words[0] in WORDS["subordinating"]:
        comma, link = view.shape.find(","), view.words[0]
        spans = (1, comma, comma + 1, end)
    else:
        links = [i for i in range(2, end) if view.words[i] in WORDS["subordinating"]]
        if len(links) != 1 or view.codes[links[0] - 1] in ",rm&sN!" or view.words[links[0] - 1] in WORDS["times"]:
            return
        spans, link = (0, links[0], links[0] + 1, end), view.words[links[0]]
    if not _are_clauses(view, *spans) or not _UNTURNED.isdisjoint(view.words[spans[0] : end]):
        return
    one_after_another = link == "when" and not {"VVD", "VBD", "VHD", "VDD"}.isdisjoint(view.tags[spans[0] : end])
    refers = [any(view.words[i] in WORDS["referring"] for i in range(*span)) for span in (spans[:2], spans[2:])]
    if one_after_another or refers == [False, True]:  # the pronoun would come before what it stands for
        return
    first, second = view.lowered(*spans[:2]), view.lowered(*spans[2:])
    yield "swap-clauses", [Change(spans[0], spans[1], second), Change(spans[2], spans[3], first)]


_UNTURNED = frozenset("then also will would 'll 'd so too again still it this".split())
"""Words of a sentence whose clauses do not stand the other way round."""


def _are_clauses(view: BindingView, start: int, until: int, again: int, end: int) -> bool:
    """Whether both spans are one finite clause each, which start with their subject."""
    if until < 0 or "?" in view.sentence.text:
        return False
    for a, b in ((start, until), (again, end)):
        subject = view.starting.get(a)
        at = view.extended(subject, "fP").end if subject else a + 1 if view.codes[a] in "iteI" else 0
        finite = at and (view.passive(at) or view.active(at) or view.copula(at))
        if not finite or finite.end > b or re.search(r"[,qswh(\"?]", view.shape[a:b]):
            return False
        disagrees = subject and view.codes[subject.head] != "i" and not view.agrees(finite.finite, subject)
        if disagrees or re.search("[zbvBHDM]|&k", view.shape[finite.end : b]):
            return False
    return True


CLAUSES = (choices, comparisons, contrasts, copular_nouns, located, clause_subjects, clauses)
