"""Verbs of relation: change (*rise/fall*), action (*buy/sell*), time (*begin/end*), cause (*lead to/result from*)."""

from __future__ import annotations

from itertools import pairwise

from retrokit.augmentation.negatives.sentence import Change, inflected, lemma
from retrokit.augmentation.negatives.spatial.view import Rule, Swap, View
from retrokit.augmentation.negatives.spatial.words import (
    ALWAYS_VERBS,
    NO_PASSIVE,
    OPPOSITE_OF_CHANGE,
    RAISED,
    STATEMENTS,
    VERB_ENDS,
)


def verb_rule(name: str, lemma: str, opposite: str, ending: str, *, transitive: bool) -> Rule:
    """The rule for one form of a verb and its opposite, which may be a verb and a particle (*fall below*).

    ``ending`` is the form's Penn tag, ``VBD`` where past and participle look the same; ``transitive`` says whether an
    object (or the passive) must follow.
    """
    head, _, rest = opposite.partition(" ")

    def rule(view: View, index: int) -> Swap | None:
        penn = _verb_form(view, index, lemma, ending, sure=inflected(head, "VBD") == inflected(head, "VBN"))
        if penn is None or not _verb_frame(view, index, lemma, penn, bool(rest), transitive):
            return None
        text = f"{inflected(head, penn)} {rest}".strip()
        changes = [Change(index, index + 1, text)]
        if lemma in OPPOSITE_OF_CHANGE:
            numbers = from_to(view, index)
            if numbers is None:
                return None
            changes += numbers
        return Swap(name, tuple(changes))

    return rule


def _verb_form(view: View, index: int, lemma: str, ending: str, *, sure: bool) -> str | None:
    """The Penn tag of the verb form at ``index``; none for a noun, or where past and participle cannot be told."""
    tag = view.tag(index)
    if ending in {"VBD", "VBN"}:
        if tag in {"VVD", "VVN"}:
            auxiliary = view.tag(view.before_adverbs(index))
            if auxiliary.startswith(("VB", "VH")):
                return "VBN"
            return "VBD" if tag == "VVD" else ("VBN" if sure else None)
        return "VBN" if tag == "AJ0" and sure and lemma not in {"lack", "contain"} else None
    if ending == "VBG":
        return "VBG" if tag == "VVG" else None
    if ending == "VBZ":
        return "VBZ" if tag == "VVZ" or (lemma in ALWAYS_VERBS and tag == "NN2") else None
    infinitive = tag == "VVI" and view.word(index - 1) == "not" and view.tag(index - 2) == "CJC"
    return "VB" if tag in {"VVB", "VVI"} and not infinitive else None  # "and not lower specificity"


_AMOUNTS_CHANGE = frozenset("fall jump climb drop decline grow dip surge plunge rise tumble".split())
_AFTER_AMOUNTS = frozenset("by from sharply rapidly slightly steadily significantly dramatically $ .".split())
_AFTER_INTRANSITIVE = frozenset("by from with in as during significantly when after .".split()) | {""}


def _verb_frame(view: View, index: int, lemma: str, penn: str, phrasal: bool, transitive: bool) -> bool:
    following = view.word(index + 1)
    if index == 0 and penn in {"VBZ", "VBD"}:  # a heading's plural noun
        return False
    if view.tag(index + 1) == "AVP" or following in {"out", "up", "off", "and", "or", ",", "-", "into", "upon"}:
        return False
    if view.word(index - 1) in {"or", "and", "/"} and view.tag(index - 2).startswith("V"):
        return False
    if transitive:
        return _takes_object(view, index, lemma, penn, phrasal)
    if lemma == "fail" or lemma == "succeed":
        return following in {"in", ".", "at", "because", "when", ""} and following != "to"
    if lemma in {"agree", "disagree"}:
        return following in {"with", "that", "on", "about"}
    if penn == "VBN" and view.is_passive(index):
        return False
    if following in {"in", "on", "to", "into", "within", "under", "for"} and lemma in {"fall", "jump", "climb", "drop"}:
        return following == "to" and view.tag(index + 2) in {"CRD", "NN0"}
    if lemma in _AMOUNTS_CHANGE:
        amount = view.tag(index + 1) in {"CRD", "NN0"} or (following == "to" and view.tag(index + 2) == "CRD")
        return amount or following in _AFTER_AMOUNTS
    return following in _AFTER_INTRANSITIVE or (following.endswith("ly") and view.tag(index + 1) == "AV0")


def _takes_object(view: View, index: int, lemma: str, penn: str, phrasal: bool) -> bool:
    if view.word(index + 1) in {"one", "ones"}:
        return False
    if penn == "VBN" and view.is_passive(index):
        return not phrasal and lemma not in NO_PASSIVE and view.ends_phrase(index + 1)
    participle = penn == "VBN" and not view.tag(view.before_adverbs(index)).startswith("VH")
    if participle and (phrasal or lemma in NO_PASSIVE or view.is_noun(index + 1) or view.tag(index + 1) == "AJ0"):
        return False  # an attributive participle, or a past form tagged wrongly
    if participle and view.ends_phrase(index + 1):
        return view.is_noun(index - 1) and view.word(index + 1) == "by"
    if lemma == "raise":
        return any(word in RAISED or word.rstrip("s") in RAISED for word in view.words[index + 1 : index + 5])
    if lemma == "lower" and view.tag(index) not in {"VVI", "VVZ", "VVG", "VVD", "VVN"}:
        return False
    if lemma in {"buy", "sell"} and any(word in {"from", "to", "back"} for word in view.words[index + 1 : index + 8]):
        return False
    if lemma in {"cause", "prevent"} and _has_complement(view, index):
        return False
    if lemma in {"push", "pull"} and not {"up", "down"}.isdisjoint(view.words[index + 1 : index + 6]):
        return False
    if lemma in {"win", "gain", "lose"} and view.word(index + 1) in {"access", "insight", "insights", "the"}:
        return view.word(index + 1) == "the"
    return view.starts_noun_phrase(index + 1)


def _has_complement(view: View, index: int) -> bool:
    """Whether an object of *cause* or *prevent* goes on with *to* or *from*."""
    for k in range(index + 1, min(index + 9, view.size)):
        if view.word(k) in {"from", "to"} or view.tag(k) == "VVG":
            return True
        if view.tag(k) in {"PUN", "CJS", "CJT"}:
            return False
    return False


def from_to(view: View, index: int) -> list[Change] | None:
    """The changes that turn *from 3 to 5* round after a verb of change; none of them without numbers; None where the
    numbers could not be turned."""
    window = range(index + 1, min(index + 16, view.size))
    origin = next((k for k in window if view.word(k) == "from"), None)
    goal = next((k for k in window if view.word(k) in {"to", "-", "–"}), None)
    if origin is None or goal is None:
        return []
    numbers = [k for k in window if view.tag(k) in {"CRD", "NN0"} and view.word(k)[:1].isdigit()]
    if not numbers:
        return []
    if view.word(goal) == "to" and origin < goal and set(range(origin + 1, goal)) & set(numbers):
        left, right = (origin + 1, goal), (goal + 1, goal + (goal - origin))
        shapes = [[view.tag(k) for k in range(*span)] for span in (left, right)]
        if shapes[0] == shapes[1] and view.tag(right[1] - 1):
            words = view.sentence.words
            return [Change(*left, words(*right)), Change(*right, words(*left))]
    return None


def allow(view: View, index: int) -> Swap | None:
    """*allows users to edit* → *prevents users from editing*."""
    penn = _regular_form(view, index)
    if penn is None or not view.starts_noun_phrase(index + 1):
        return None
    for k in range(index + 2, min(index + 9, view.size - 1)):
        if view.tag(k) == "TO0":
            verb = view.word(k + 1)
            if view.tag(k + 1) not in {"VVI", "VBI"} or not verb.isalpha() or _coordinated_infinitive(view, k + 2):
                return None
            gerund = inflected(verb, "VBG")
            return Swap(
                "swap-action",
                (Change(index, index + 1, inflected("prevent", penn)), Change(k, k + 2, f"from {gerund}")),
            )
        if (view.tag(k)[:1] in {"V", "P"} and view.tag(k) not in {"PRF", "PNP"}) or view.tag(k).startswith("CJ"):
            return None
    return None


def _coordinated_infinitive(view: View, start: int) -> bool:
    """Whether another infinitive without *to* may hang on the same verb."""
    return any(
        view.tag(k) == "CJC" and (view.tag(k + 1) in {"VVI", "VVB", "AV0", "TO0"} or view.tag(k + 2) == "VVI")
        for k in range(start, view.size)
    )


def prevent_from(view: View, index: int) -> Swap | None:
    """*prevents users from editing* → *allows users to edit*."""
    penn = _regular_form(view, index)
    if penn is None or not view.starts_noun_phrase(index + 1):
        return None
    for k in range(index + 2, min(index + 9, view.size - 1)):
        if view.word(k) == "from" and view.tag(k + 1) in {"VVG", "VBG"}:
            base = _base_of_gerund(view.word(k + 1))
            if base is None:
                return None
            return Swap(
                "swap-action", (Change(index, index + 1, inflected("allow", penn)), Change(k, k + 2, f"to {base}"))
            )
        if (view.tag(k)[:1] in {"V", "P"} and view.tag(k) not in {"PRF", "PNP"}) or view.tag(k).startswith("CJ"):
            return None
    return None


def _base_of_gerund(gerund: str) -> str | None:
    base = lemma(gerund, "VERB")
    return base if inflected(base, "VBG") == gerund else None


def _regular_form(view: View, index: int) -> str | None:
    """The form of an unambiguous regular verb, by its ending and its neighbours."""
    word, tag = view.word(index), view.tag(index)
    if word.endswith("ing"):
        return "VBG" if tag in {"VVG", "AJ0"} else None
    if word.endswith("ed"):
        return "VBD" if tag == "VVD" and not view.is_passive(index) else None
    if word.endswith("s"):
        return "VBZ"
    return "VB" if tag in {"VVB", "VVI", "NN1"} else None


def begin(view: View, index: int) -> Swap | None:
    """*began to eat* → *stopped eating*, *starts in May* → *ends in May*."""
    penn = VERB_ENDS.get(view.tag(index))
    if penn is None or view.is_passive(index):
        return None
    if view.tag(index + 1) == "TO0" and view.tag(index + 2) == "VVI" and view.word(index + 2).isalpha():
        gerund = inflected(view.word(index + 2), "VBG")
        if _coordinated_infinitive(view, index + 3):
            return None
        return Swap("swap-time", (Change(index, index + 3, f"{inflected('stop', penn)} {gerund}"),))
    if view.tag(index + 1) == "VVG":
        return Swap("swap-time", (Change(index, index + 1, inflected("stop", penn)),))
    if view.word(index + 1) in {"with", "in", "on", "at"} or not view.tag(index + 1) or view.word(index + 1) == ".":
        return Swap("swap-time", (Change(index, index + 1, inflected("end", penn)),))
    return None


def end(view: View, index: int) -> Swap | None:
    penn = VERB_ENDS.get(view.tag(index))
    if penn is None or view.is_passive(index) or view.word(index + 1) not in {"with", "in", "on", "at"}:
        return None
    return Swap("swap-time", (Change(index, index + 1, inflected("begin", penn)),))


def followed_by(view: View, index: int) -> Swap | None:
    if view.word(index + 1) != "by" or view.tag(index + 2) in {"VVG", "AV0", ""}:
        return None
    return Swap("swap-time", (Change(index, index + 1, "preceded" if view.word(index) == "followed" else "followed"),))


def lead_to(view: View, index: int) -> Swap | None:
    """*leads to* and *results in* → *results from*; *results from* → *leads to*."""
    penn = VERB_ENDS.get(view.tag(index))
    word, following = view.word(index), view.word(index + 1)
    if word in {"results", "result"} and penn is None and following in {"in", "from"} and view.is_noun(index - 1):
        penn = "VBZ" if word == "results" else "VB"
    if penn is None or view.is_passive(index) or not view.starts_noun_phrase(index + 2):
        return None
    if word.startswith("result"):
        if following == "from":
            return Swap("swap-cause", (Change(index, index + 2, f"{inflected('lead', penn)} to"),))
        return Swap("swap-cause", (Change(index + 1, index + 2, "from"),)) if following == "in" else None
    if following != "to":
        return None
    return Swap("swap-cause", (Change(index, index + 2, f"{inflected('result', penn)} from"),))


def caused_by(view: View, index: int) -> Swap | None:
    """*damage caused by the storm* → *damage causing the storm*."""
    if view.word(index + 1) != "by" or not view.is_noun(index - 1) or view.tag(index + 2) == "VVG":
        return None
    return Swap("swap-cause", (Change(index, index + 2, "causing"),))


def depend_on(view: View, index: int) -> Swap | None:
    penn = {"depends": "VBZ", "depend": "VB", "depended": "VBD"}[view.word(index)]
    if view.word(index + 1) not in {"on", "upon"} or not view.starts_noun_phrase(index + 2):
        return None
    if {"not on", "and on", "or on"} & {" ".join(pair) for pair in pairwise(view.words[index:])}:
        return None  # "depends on the first but not on the second"
    return Swap("swap-cause", (Change(index, index + 2, inflected("determine", penn)),))


def support(view: View, index: int) -> Swap | None:
    penn = VERB_ENDS.get(view.tag(index))
    if penn is None or not STATEMENTS & set(view.words[index + 1 : index + 5]):
        return None
    return Swap("swap-action", (Change(index, index + 1, inflected("contradict", penn)),))
