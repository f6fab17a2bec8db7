"""Prepositions and conjunctions of place, direction, time, cause and inclusion (*before/after*, *into/out of*)."""

from __future__ import annotations

import re

from retrokit.augmentation.negatives.sentence import Change, inflected
from retrokit.augmentation.negatives.spatial.view import Swap, View
from retrokit.augmentation.negatives.spatial.words import (
    CONTAINERS,
    CONVERTED,
    MOTION,
    POSTURE,
    TIME_UNITS,
    UNDERNEATH,
    pairs,
)

_AFTER_WHAT = frozenset("all long hand that which whom another".split())
_TAKES_AFTER = re.compile(
    "look|nam|model|pattern|chas|run|go(?:es|ing|ne)?$|went|seek|sought|tak|care|ask|inquir|pursu"
)
_BEFORE_WHAT = frozenset("ever never than as lies lie appear appeared stand stood bring brought years months".split())


def before_after(view: View, index: int) -> Swap | None:
    word, following, tag = view.word(index), view.word(index + 1), view.tag(index)
    previous = view.word(index - 1)
    if tag not in {"PRP", "CJS"} or following in _AFTER_WHAT:
        return None
    if tag == "CJS" and "will" in view.words[index : index + 10]:
        return None
    if not (view.starts_noun_phrase(index + 1) or view.tag(index + 1) in {"VVG", "VBG", "VHG"}):
        return None
    if word == "after":
        if _TAKES_AFTER.match(previous):
            return None
        if previous in {"soon", "one", "day", "time", "year", "week", "month"} or following == previous:
            return None
    elif previous in _BEFORE_WHAT:
        return None
    if view.tag(index + 1) in {"CRD", "DT0", "AT0", "AJ0"} and _is_duration(view, index + 1):
        return None
    if following in {"the"} and view.word(index + 2) == "fact":
        return None
    return Swap("swap-time", (Change(index, index + 1, "before" if word == "after" else "after"),))


def _is_duration(view: View, start: int) -> bool:
    """Whether a length of time starts here (*three years*, *a few days*, *24 h*)."""
    if view.tag(start) not in {"CRD", "DT0", "AT0"}:
        return False
    return any(view.word(k) in TIME_UNITS for k in range(start + 1, start + 4))


def prior_to(view: View, index: int) -> Swap | None:
    if view.word(index + 1) != "to" or not (view.starts_noun_phrase(index + 2) or view.tag(index + 2) == "VVG"):
        return None
    if view.word(index + 2) in {"this", "that", "these"}:
        return None
    return Swap("swap-time", (Change(index, index + 2, "after"),))


def following(view: View, index: int) -> Swap | None:
    """*following the talk* → *before the talk*."""
    if view.tag(index) != "PRP" or view.tag(index + 1) not in {"AT0", "DPS", "NN1", "NN2", "AJ0"}:
        return None
    if view.tag(view.before_adverbs(index)).startswith("VB"):
        return None
    return Swap("swap-time", (Change(index, index + 1, "before"),))


_NO_EVENT = TIME_UNITS | frozenset("last past next period course process night".split())


def during(view: View, index: int) -> Swap | None:
    if view.tag(index) != "PRP" or view.tag(index + 1) not in {"AT0", "NN1", "NN2", "AJ0", "DPS", "NP0"}:
        return None
    if any(view.word(k) in _NO_EVENT for k in range(index + 2, index + 5)):
        return None
    return Swap("swap-time", (Change(index, index + 1, "after"),))


_NO_BOUNDS = frozenset("framework context same last past next".split())


def within(view: View, index: int) -> Swap | None:
    if view.word(index + 1) == "reach":
        return None
    if view.tag(index + 1) == "CRD" and view.word(index + 2) in TIME_UNITS and not view.says(index + 3, "of"):
        return Swap("swap-time", (Change(index, index + 1, "after"),))
    company = {view.word(k) for k in range(index + 2, index + 5)}
    if view.tag(index + 1) in {"AT0", "DPS", "NP0"} and not company & (TIME_UNITS | _NO_BOUNDS):
        return Swap("swap-position", (Change(index, index + 1, "outside"),))
    return None


_PLACES = pairs("inside/outside above/below beneath>above underneath>on_top_of")


def place(view: View, index: int) -> Swap | None:
    """*inside/outside*, *above/below* before a noun phrase."""
    word = view.word(index)
    before_article = view.tag(index) == "AV0" and view.tag(index + 1) in {"AT0", "DPS"}
    if not (view.tag(index) == "PRP" or before_article):
        return None
    if not view.starts_noun_phrase(index + 1) or view.word(index + 1) in {"all", "and", "this"}:
        return None
    if view.says(index + 1, "the", "box") and word == "outside" and re.match("think|thought", view.word(index - 1)):
        return None
    if view.word(index + 1) in {"those", "that"}:
        return None  # "problems above those of others" are more problems
    if word == "below" and view.word(index - 1) in {"see", "described", "given", "listed"}:
        return None
    return Swap("swap-position", (Change(index, index + 1, _PLACES[word]),))


def behind(view: View, index: int) -> Swap | None:
    if view.tag(index) not in {"PRP", "AVP"} or view.tag(index + 1) not in {"AT0", "DPS", "NP0", "PNP", "CRD"}:
        return None
    if view.is_noun(index - 1) and view.word(index - 1).rstrip("s") in _ABSTRACT:
        return None
    if view.word(index + 2) in {"scenes", "curtain", "wheel", "bars", "times"}:
        return None
    if not POSTURE & set(view.words[max(0, index - 4) : index]):
        return None
    return Swap("swap-position", (Change(index, index + 1, "in front of"),))


_ABSTRACT = frozenset(
    "reason idea motivation intuition rationale logic theory thinking force team company science story mechanism "
    "principle technology driver person concept philosophy man woman mind".split()
)


def front(view: View, index: int) -> Swap | None:
    if view.word(index - 1) != "in" or view.word(index + 1) != "of" or not view.starts_noun_phrase(index + 2):
        return None
    return Swap("swap-position", (Change(index - 1, index + 2, "behind"),))


def near(view: View, index: int) -> Swap | None:
    """*near the door* → *far from the door*."""
    if (
        view.tag(index) != "PRP"
        or view.tag(index + 1) not in {"AT0", "DPS", "NP0"}
        or view.word(index + 2) in {"future", "end"}
    ):
        return None
    return Swap("swap-position", (Change(index, index + 1, "far from"),))


_ABSTRACT_PLACES = frozenset(
    "detail details effect trouble force debt labour labor remission hiding scam "
    "problem problems issue issues difficulties".split()
)


def into(view: View, index: int) -> Swap | None:
    """*walks into the room* → *walks out of the room*, *inserted into the slot* → *removed from the slot*."""
    if not view.starts_noun_phrase(index + 1) or view.word(index + 1) in {"account", "two", "three", "several"}:
        return None
    previous = view.word(index - 1)
    if previous in CONVERTED:
        return Swap("swap-direction", (Change(index, index + 1, "from"),))
    verb = next((k for k in range(index - 1, max(-1, index - 6), -1) if view.tag(k).startswith("VV")), None)
    if verb is None:
        return None
    if view.word(verb) in MOTION and (verb >= index - 2 or view.tag(verb) == "VVG"):
        if {view.word(index + 1), view.word(index + 2)} & _ABSTRACT_PLACES or view.word(verb).startswith("get"):
            return None
        if view.tag(index + 1) not in {"AT0", "DPS", "NP0", "AJ0", "NN1", "NN2"} or view.tag(index + 2) == "VVG":
            return None
        return Swap("swap-direction", (Change(index, index + 1, "out of"),))
    base = _CONTAINER_FORMS.get(view.word(verb))
    if base is None or any(view.tag(k) in {"PUN", "CJC", "PRP"} for k in range(verb + 1, index)):
        return None
    return Swap("swap-direction", (Change(verb, verb + 1, inflected("remove", base)), Change(index, index + 1, "from")))


_CONTAINER_FORMS = {
    base + ending if not (base.endswith("e") and ending in {"ed", "ing"}) else base[:-1] + ending: penn
    for base in CONTAINERS - {"embed"}
    for ending, penn in {"": "VB", "s": "VBZ", "ed": "VBN", "ing": "VBG"}.items()
}


_COURSES = pairs("up/down forward/backward upstairs/downstairs")


def motion_adverb(view: View, index: int) -> Swap | None:
    """*up/down* after a verb of motion or in a market's report, *forward/backward(s)*."""
    word, previous = view.word(index), view.word(index - 1)
    opposite = _COURSES[word]
    if word in {"up", "down"}:
        market = view.tag(index + 1) in {"CRD", "NN0"} and (
            view.tag(index - 1).startswith("VB")
            or previous in {"closed", "ended", "close", "finished", "going", "gone"}
        )
        change = (
            view.says(index + 1, "from")
            and "CRD" not in view.tags[index + 2 : index + 6]
            and view.tag(index - 1) in {"PUN", "VBD", "VBZ", "VBB"}
        )
        if market or change:
            return Swap("swap-direction", (Change(index, index + 1, opposite),))
        if view.tag(index + 1) not in {"AT0", "DPS"} or view.tag(index) not in {"AVP", "PRP"}:
            return None
    if previous not in MOTION or re.match(r"(?:com|came|pass|get|pour|roll|mov.*|cross|pick)", previous):
        return None
    if view.word(index + 2) in {"fight", "way", "point", "topic"}:
        return None
    return Swap("swap-direction", (Change(index, index + 1, opposite),))


_PASSES_OVER = re.compile("jump|fly|flie|flew|leap|climb|hop|step")
_NO_BARRIER = TIME_UNITS | frozenset("course top past last next".split())


def over(view: View, index: int) -> Swap | None:
    """*over 40 countries* → *under 40 countries*, *jumps over the fence* → *jumps under the fence*."""
    word = view.word(index)
    opposite = "under" if word == "over" else "over"
    if view.tag(index) not in {"PRP", "AV0", "AVP"}:
        return None
    amount = view.tag(index + 1) in {"CRD", "NN0"} or view.word(index + 1) == "$"
    if amount:
        units = {view.word(index + 2), view.word(index + 3)}
        if (units & TIME_UNITS and word == "over") or view.word(index - 1) in {"from", "win", "won", "victory"}:
            return None
        if not _amount_follows(view, index):
            return None
        return Swap("swap-bound", (Change(index, index + 1, opposite),))
    if view.tag(index + 1) not in {"AT0", "DPS", "NN1"}:
        return None
    if word == "over" and _PASSES_OVER.match(view.word(index - 1)) and view.word(index + 2) not in _NO_BARRIER:
        return Swap("swap-position", (Change(index, index + 1, "under"),))
    beneath = {view.word(index + 1), view.word(index + 2), view.word(index + 3)} & UNDERNEATH
    if word == "under" and beneath and view.word(index + 2) != "table":
        return Swap("swap-position", (Change(index, index + 1, "above"),))
    return None


def _amount_follows(view: View, index: int) -> bool:
    """Whether *over* or *under* means *more than* or *less than* here: by the word before it."""
    previous, tag = view.word(index - 1), view.tag(index - 1)
    return (
        tag.startswith(("VV", "VB", "VH"))
        or previous in {"of", "with", "in", "to", "has", "for", "than", "at", "aged", ""}
        or (previous in {"children", "people", "adults", "those", "anyone", "women", "men", "patients", "kids", "all"})
    )


def onto(view: View, index: int) -> Swap | None:
    if view.word(index - 1) not in MOTION or not view.starts_noun_phrase(index + 1):
        return None
    return Swap("swap-direction", (Change(index, index + 1, "off"),))


def toward(view: View, index: int) -> Swap | None:
    if not MOTION & {view.word(index - 1), view.word(index - 2)} or not view.starts_noun_phrase(index + 1):
        return None
    return Swap("swap-direction", (Change(index, index + 1, "away from"),))


def from_name(view: View, index: int) -> Swap | None:
    """*from Paris to Rome* → *to Paris from Rome*."""
    if view.tag(index + 1) != "NP0":
        return None
    goal = next((k for k in range(index + 2, min(index + 5, view.size)) if view.word(k) == "to"), None)
    if goal is None or view.tag(goal + 1) != "NP0" or any(view.tag(k) != "NP0" for k in range(index + 1, goal)):
        return None
    if {view.word(index + 1), view.word(goal + 1)} & _CALENDAR:
        return None
    return Swap("swap-direction", (Change(index, index + 1, "to"), Change(goal, goal + 1, "from")))


_CALENDAR = frozenset(
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june july august "
    "september october november december".split()
)


def ahead_of(view: View, index: int) -> Swap | None:
    if (
        view.word(index + 1) != "of"
        or not view.starts_noun_phrase(index + 2)
        or view.word(index + 2) in {"time", "its"}
    ):
        return None
    if view.word(index + 3) in {"time", "curve"}:
        return None
    near = view.words[index + 2 : index + 6]
    if not _EVENTS.isdisjoint(word.rstrip("s") for word in near):
        return Swap("swap-time", (Change(index, index + 2, "after"),))
    return Swap("swap-position", (Change(index, index + 2, "behind"),))


_EVENTS = frozenset(
    "visit talk summit election vote meeting trial match game race speech deadline holiday release launch hearing "
    "conference season debate protest rally strike referendum ceremony trip tour deal g8 g20 olympic".split()
)


def despite(view: View, index: int) -> Swap | None:
    if not (view.starts_noun_phrase(index + 1) or view.tag(index + 1) in {"VVG", "VBG", "VHG"}):
        return None
    return Swap("swap-cause", (Change(index, index + 1, "because of"),))


def although(view: View, index: int) -> Swap | None:
    """*Although it rained, …* → *Because it rained, …*."""
    if index != 0 or not (view.starts_noun_phrase(1) or view.word(1) in {"there", "it"}) or "," not in view.words:
        return None
    return Swap("swap-cause", (Change(0, 1, "Because"),))


def because(view: View, index: int) -> Swap | None:
    """*because of the rain* → *despite the rain*, *because it rained* → *although it rained*."""
    said = view.is_passive(index) or view.word(index - 1) in {"just", "only", "simply", "not", "or"}
    if view.word(index + 1) == "of":
        if view.starts_noun_phrase(index + 2) and not said:
            return Swap("swap-cause", (Change(index, index + 2, "despite"),))
        return None
    if said:
        return None
    if not (view.starts_noun_phrase(index + 1) or view.word(index + 1) == "there") or view.word(index + 2) == ",":
        return None
    return Swap("swap-cause", (Change(index, index + 1, "although"),))


def due_to(view: View, index: int) -> Swap | None:
    if view.word(index + 1) != "to" or not view.starts_noun_phrase(index + 2):
        return None
    if not (index == 0 or view.word(index - 1) == ","):
        return None
    return Swap("swap-cause", (Change(index, index + 2, "despite"),))


def unlike(view: View, index: int) -> Swap | None:
    if index != 0 or not view.starts_noun_phrase(1) or "," not in view.words:
        return None
    return Swap("swap-polarity", (Change(0, 1, "like" if view.word(0) == "unlike" else "unlike"),))


def including(view: View, index: int) -> Swap | None:
    if view.tag(index) not in {"PRP", "VVG"} or not view.starts_noun_phrase(index + 1):
        return None
    return Swap(
        "swap-polarity", (Change(index, index + 1, "excluding" if view.word(index) == "including" else "including"),)
    )


def polar_adverb(view: View, index: int) -> Swap | None:
    word = view.word(index)
    opposite = "negatively" if word == "positively" else "positively"
    if not (view.tag(index + 1).startswith("VV") or view.tag(index - 1).startswith("VV")):
        return None
    return Swap("swap-polarity", (Change(index, index + 1, opposite),))
