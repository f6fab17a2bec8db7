"""Prepositions and conjunctions of place, direction, time, cause and inclusion (*before/after*, *into/out of*)."""

from __future__ import annotations

import re

from retrokit.augmentation.negatives.rules import Named
from retrokit.augmentation.negatives.sentence import Change, inflected
from retrokit.augmentation.negatives.spatial.lexicon import PAIRS, WORDS
from retrokit.augmentation.negatives.view import View

_TAKES_AFTER = re.compile(
    "look|nam|model|pattern|chas|run|go(?:es|ing|ne)?$|went|seek|sought|tak|care|ask|inquir|pursu"
)


def before_after(view: View, index: int) -> Named | None:
    word, following, tag = view.words[index], view.words[index + 1], view.tags[index]
    previous = view.words[index - 1]
    if tag not in {"PRP", "CJS"} or following in WORDS["after-what"]:
        return None
    if tag == "CJS" and "will" in view.words[index : index + 10]:
        return None
    if not (view.starts_noun_phrase(index + 1) or view.tags[index + 1] in {"VVG", "VBG", "VHG"}):
        return None
    if word == "after":
        if _TAKES_AFTER.match(previous):
            return None
        if previous in {"soon", "one", "day", "time", "year", "week", "month"} or following == previous:
            return None
    elif previous in WORDS["before-what"]:
        return None
    if view.tags[index + 1] in {"CRD", "DT0", "AT0", "AJ0"} and _is_duration(view, index + 1):
        return None
    if following in {"the"} and view.words[index + 2] == "fact":
        return None
    return ("swap-time", (Change(index, index + 1, "before" if word == "after" else "after"),))


def _is_duration(view: View, start: int) -> bool:
    """Whether a length of time starts here (*three years*, *a few days*, *24 h*)."""
    if view.tags[start] not in {"CRD", "DT0", "AT0"}:
        return False
    return any(view.words[k] in WORDS["time-units"] for k in range(start + 1, start + 4))


def prior_to(view: View, index: int) -> Named | None:
    if view.words[index + 1] != "to" or not (view.starts_noun_phrase(index + 2) or view.tags[index + 2] == "VVG"):
        return None
    if view.words[index + 2] in {"this", "that", "these"}:
        return None
    return ("swap-time", (Change(index, index + 2, "after"),))


def following(view: View, index: int) -> Named | None:
    """*following the talk* → *before the talk*."""
    if view.tags[index] != "PRP" or view.tags[index + 1] not in {"AT0", "DPS", "NN1", "NN2", "AJ0"}:
        return None
    if view.tags[view.before_adverbs(index)].startswith("VB"):
        return None
    return ("swap-time", (Change(index, index + 1, "before"),))


def during(view: View, index: int) -> Named | None:
    if view.tags[index] != "PRP" or view.tags[index + 1] not in {"AT0", "NN1", "NN2", "AJ0", "DPS", "NP0"}:
        return None
    if any(view.words[k] in WORDS["no-event"] for k in range(index + 2, index + 5)):
        return None
    return ("swap-time", (Change(index, index + 1, "after"),))


def within(view: View, index: int) -> Named | None:
    if view.words[index + 1] == "reach":
        return None
    if (
        view.tags[index + 1] == "CRD"
        and view.words[index + 2] in WORDS["time-units"]
        and not view.says(index + 3, "of")
    ):
        return ("swap-time", (Change(index, index + 1, "after"),))
    company = {view.words[k] for k in range(index + 2, index + 5)}
    if view.tags[index + 1] in {"AT0", "DPS", "NP0"} and not company & (WORDS["time-units"] | WORDS["no-bounds"]):
        return ("swap-position", (Change(index, index + 1, "outside"),))
    return None


def place(view: View, index: int) -> Named | None:
    """*inside/outside*, *above/below* before a noun phrase."""
    word = view.words[index]
    before_article = view.tags[index] == "AV0" and view.tags[index + 1] in {"AT0", "DPS"}
    if not (view.tags[index] == "PRP" or before_article):
        return None
    if not view.starts_noun_phrase(index + 1) or view.words[index + 1] in {"all", "and", "this"}:
        return None
    if view.says(index + 1, "the", "box") and word == "outside" and re.match("think|thought", view.words[index - 1]):
        return None
    if view.words[index + 1] in {"those", "that"}:
        return None  # "problems above those of others" are more problems
    if word == "below" and view.words[index - 1] in {"see", "described", "given", "listed"}:
        return None
    return ("swap-position", (Change(index, index + 1, PAIRS["places"][word]),))


def behind(view: View, index: int) -> Named | None:
    if view.tags[index] not in {"PRP", "AVP"} or view.tags[index + 1] not in {"AT0", "DPS", "NP0", "PNP", "CRD"}:
        return None
    if view.is_noun(index - 1) and view.words[index - 1].rstrip("s") in WORDS["abstract"]:
        return None
    if view.words[index + 2] in {"scenes", "curtain", "wheel", "bars", "times"}:
        return None
    if not WORDS["posture"] & set(view.words[max(0, index - 4) : index]):
        return None
    return ("swap-position", (Change(index, index + 1, "in front of"),))


def front(view: View, index: int) -> Named | None:
    if view.words[index - 1] != "in" or view.words[index + 1] != "of" or not view.starts_noun_phrase(index + 2):
        return None
    return ("swap-position", (Change(index - 1, index + 2, "behind"),))


def near(view: View, index: int) -> Named | None:
    """*near the door* → *far from the door*."""
    if (
        view.tags[index] != "PRP"
        or view.tags[index + 1] not in {"AT0", "DPS", "NP0"}
        or view.words[index + 2] in {"future", "end"}
    ):
        return None
    return ("swap-position", (Change(index, index + 1, "far from"),))


def into(view: View, index: int) -> Named | None:
    """*walks into the room* → *walks out of the room*, *inserted into the slot* → *removed from the slot*."""
    if not view.starts_noun_phrase(index + 1) or view.words[index + 1] in {"account", "two", "three", "several"}:
        return None
    previous = view.words[index - 1]
    if previous in WORDS["converted"]:
        return ("swap-direction", (Change(index, index + 1, "from"),))
    verb = next((k for k in range(index - 1, max(-1, index - 6), -1) if view.tags[k].startswith("VV")), None)
    if verb is None:
        return None
    if view.words[verb] in WORDS["motion"] and (verb >= index - 2 or view.tags[verb] == "VVG"):
        if {view.words[index + 1], view.words[index + 2]} & WORDS["abstract-places"] or view.words[verb].startswith(
            "get"
        ):
            return None
        if view.tags[index + 1] not in {"AT0", "DPS", "NP0", "AJ0", "NN1", "NN2"} or view.tags[index + 2] == "VVG":
            return None
        return ("swap-direction", (Change(index, index + 1, "out of"),))
    base = _CONTAINER_FORMS.get(view.words[verb])
    if base is None or any(view.tags[k] in {"PUN", "CJC", "PRP"} for k in range(verb + 1, index)):
        return None
    return ("swap-direction", (Change(verb, verb + 1, inflected("remove", base)), Change(index, index + 1, "from")))


_CONTAINER_FORMS = {
    base + ending if not (base.endswith("e") and ending in {"ed", "ing"}) else base[:-1] + ending: penn
    for base in WORDS["containers"] - {"embed"}
    for ending, penn in {"": "VB", "s": "VBZ", "ed": "VBN", "ing": "VBG"}.items()
}


def motion_adverb(view: View, index: int) -> Named | None:
    """*up/down* after a verb of motion or in a market's report, *forward/backward(s)*."""
    word, previous = view.words[index], view.words[index - 1]
    opposite = PAIRS["courses"][word]
    if word in {"up", "down"}:
        market = view.tags[index + 1] in {"CRD", "NN0"} and (
            view.tags[index - 1].startswith("VB")
            or previous in {"closed", "ended", "close", "finished", "going", "gone"}
        )
        change = (
            view.says(index + 1, "from")
            and "CRD" not in view.tags[index + 2 : index + 6]
            and view.tags[index - 1] in {"PUN", "VBD", "VBZ", "VBB"}
        )
        if market or change:
            return ("swap-direction", (Change(index, index + 1, opposite),))
        if view.tags[index + 1] not in {"AT0", "DPS"} or view.tags[index] not in {"AVP", "PRP"}:
            return None
    if previous not in WORDS["motion"] or re.match(r"(?:com|came|pass|get|pour|roll|mov.*|cross|pick)", previous):
        return None
    if view.words[index + 2] in {"fight", "way", "point", "topic"}:
        return None
    return ("swap-direction", (Change(index, index + 1, opposite),))


_PASSES_OVER = re.compile("jump|fly|flie|flew|leap|climb|hop|step")


def over(view: View, index: int) -> Named | None:
    """*over 40 countries* → *under 40 countries*, *jumps over the fence* → *jumps under the fence*."""
    word = view.words[index]
    opposite = "under" if word == "over" else "over"
    if view.tags[index] not in {"PRP", "AV0", "AVP"}:
        return None
    amount = view.tags[index + 1] in {"CRD", "NN0"} or view.words[index + 1] == "$"
    if amount:
        units = {view.words[index + 2], view.words[index + 3]}
        if (units & WORDS["time-units"] and word == "over") or view.words[index - 1] in {
            "from",
            "win",
            "won",
            "victory",
        }:
            return None
        if not _amount_follows(view, index):
            return None
        return ("swap-bound", (Change(index, index + 1, opposite),))
    if view.tags[index + 1] not in {"AT0", "DPS", "NN1"}:
        return None
    if (
        word == "over"
        and _PASSES_OVER.match(view.words[index - 1])
        and view.words[index + 2] not in WORDS["no-barrier"]
    ):
        return ("swap-position", (Change(index, index + 1, "under"),))
    beneath = {view.words[index + 1], view.words[index + 2], view.words[index + 3]} & WORDS["underneath"]
    if word == "under" and beneath and view.words[index + 2] != "table":
        return ("swap-position", (Change(index, index + 1, "above"),))
    return None


def _amount_follows(view: View, index: int) -> bool:
    """Whether *over* or *under* means *more than* or *less than* here: by the word before it."""
    previous, tag = view.words[index - 1], view.tags[index - 1]
    return (
        tag.startswith(("VV", "VB", "VH"))
        or previous in {"of", "with", "in", "to", "has", "for", "than", "at", "aged", ""}
        or (previous in {"children", "people", "adults", "those", "anyone", "women", "men", "patients", "kids", "all"})
    )


def onto(view: View, index: int) -> Named | None:
    if view.words[index - 1] not in WORDS["motion"] or not view.starts_noun_phrase(index + 1):
        return None
    return ("swap-direction", (Change(index, index + 1, "off"),))


def toward(view: View, index: int) -> Named | None:
    if not WORDS["motion"] & {view.words[index - 1], view.words[index - 2]} or not view.starts_noun_phrase(index + 1):
        return None
    return ("swap-direction", (Change(index, index + 1, "away from"),))


def from_name(view: View, index: int) -> Named | None:
    """*from Paris to Rome* → *to Paris from Rome*."""
    if view.tags[index + 1] != "NP0":
        return None
    goal = next((k for k in range(index + 2, min(index + 5, view.size)) if view.words[k] == "to"), None)
    if goal is None or view.tags[goal + 1] != "NP0" or any(view.tags[k] != "NP0" for k in range(index + 1, goal)):
        return None
    if {view.words[index + 1], view.words[goal + 1]} & WORDS["calendar"]:
        return None
    return ("swap-direction", (Change(index, index + 1, "to"), Change(goal, goal + 1, "from")))


def ahead_of(view: View, index: int) -> Named | None:
    if (
        view.words[index + 1] != "of"
        or not view.starts_noun_phrase(index + 2)
        or view.words[index + 2] in {"time", "its"}
    ):
        return None
    if view.words[index + 3] in {"time", "curve"}:
        return None
    near = view.words[index + 2 : index + 6]
    if not WORDS["events"].isdisjoint(word.rstrip("s") for word in near):
        return ("swap-time", (Change(index, index + 2, "after"),))
    return ("swap-position", (Change(index, index + 2, "behind"),))


def despite(view: View, index: int) -> Named | None:
    if not (view.starts_noun_phrase(index + 1) or view.tags[index + 1] in {"VVG", "VBG", "VHG"}):
        return None
    return ("swap-cause", (Change(index, index + 1, "because of"),))


def although(view: View, index: int) -> Named | None:
    """*Although it rained, …* → *Because it rained, …*."""
    if index != 0 or not (view.starts_noun_phrase(1) or view.words[1] in {"there", "it"}) or "," not in view.words:
        return None
    return ("swap-cause", (Change(0, 1, "Because"),))


def because(view: View, index: int) -> Named | None:
    """*because of the rain* → *despite the rain*, *because it rained* → *although it rained*."""
    said = view.is_passive(index) or view.words[index - 1] in {"just", "only", "simply", "not", "or"}
    if view.words[index + 1] == "of":
        if view.starts_noun_phrase(index + 2) and not said:
            return ("swap-cause", (Change(index, index + 2, "despite"),))
        return None
    if said:
        return None
    if not (view.starts_noun_phrase(index + 1) or view.words[index + 1] == "there") or view.words[index + 2] == ",":
        return None
    return ("swap-cause", (Change(index, index + 1, "although"),))


def due_to(view: View, index: int) -> Named | None:
    if view.words[index + 1] != "to" or not view.starts_noun_phrase(index + 2):
        return None
    if not (index == 0 or view.words[index - 1] == ","):
        return None
    return ("swap-cause", (Change(index, index + 2, "despite"),))


def unlike(view: View, index: int) -> Named | None:
    if index != 0 or not view.starts_noun_phrase(1) or "," not in view.words:
        return None
    return ("swap-polarity", (Change(0, 1, "like" if view.words[0] == "unlike" else "unlike"),))


def including(view: View, index: int) -> Named | None:
    if view.tags[index] not in {"PRP", "VVG"} or not view.starts_noun_phrase(index + 1):
        return None
    return (
        "swap-polarity",
        (Change(index, index + 1, "excluding" if view.words[index] == "including" else "including"),),
    )


def polar_adverb(view: View, index: int) -> Named | None:
    word = view.words[index]
    opposite = "negatively" if word == "positively" else "positively"
    if not (view.tags[index + 1].startswith("VV") or view.tags[index - 1].startswith("VV")):
        return None
    return ("swap-polarity", (Change(index, index + 1, opposite),))
