"""Words of direction that depend on the verb before them, or on a second word (*into*, *from … to*)."""

from __future__ import annotations

from retrokit.augmentation.negatives.sentence import Change, Named, inflected
from retrokit.augmentation.negatives.spatial.conditions import WORDS
from retrokit.augmentation.negatives.view import View


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
        abstract = WORDS["abstract-places"] & {view.words[index + 1], view.words[index + 2]}
        if abstract or view.words[verb].startswith("get"):
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
