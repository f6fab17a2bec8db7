"""Quantifiers that give way to others, and bring the number of noun and verb with them: *all*, *many*, *both*."""

from collections.abc import Iterator

from retrokit.augmentation.near_misses import tags as c5
from retrokit.augmentation.near_misses.negation.clauses import WORDS, ClauseView
from retrokit.augmentation.near_misses.negation.remove import without_polarity
from retrokit.augmentation.near_misses.sentence import Change, Named, inflected, lemma


def _quantified(view: ClauseView, i: int) -> tuple[int, bool]:
    """The noun that the quantifier ``i`` counts, and whether through "of the"; 0 if that is not plain."""
    of = view.words[i + 1] == "of" and view.words[i + 2] in {"the", "these", "those", "our", "their", "its"}
    return view.noun_end(i + 3 if of else i + 1), of


def swap_all(view: ClauseView, i: int) -> Iterator[Named]:
    """*all models are* → *not all models are*, *no models are*, *some models are*; *not all* → *all*, *no*"""
    words, tags = view.words, view.tags
    head, of = _quantified(view, i)
    the = words[i + 1] in {"the", "these", "those"}
    if the:
        head = view.noun_end(i + 2)
    fixed = words[head] in WORDS["fixed-after"] or words[i - 1] in WORDS["not-before-all"]
    if not head or tags[head] != "NN2" or fixed:
        return
    inner = f" of {words[i + 1]}" if the else " of" if of else ""
    end = i + 2 if inner else i + 1
    no = ("none" if inner else "no") + inner
    if words[i - 1] == "not":
        if i == 1 or tags[i - 2] in c5.OPENS_CLAUSE:
            yield "swap-not-all-all", [Change(i - 1, i, "")]
            yield "swap-not-all-no", [Change(i - 1, end, no)]
        return
    if words[i - 1] == "n't" or tags[i - 1] in {"PNP", "NN2"}:
        return
    if view.clause[i] not in view.negative:
        if view.is_subject(i, head):
            yield "swap-all-not-all", [Change(i, i + 1, "not all")]
        yield "swap-all-no", [Change(i, end, no)]
    yield "swap-all-some", [Change(i, end, "some" + inner)]


def swap_every(view: ClauseView, i: int) -> Iterator[Named]:
    """*every patient was* → *no patient was*, *each of the patients* → *none of the patients*"""
    words, tags = view.words, view.tags
    head, of = _quantified(view, i)
    fixed = not WORDS["fixed-after"].isdisjoint({words[i + 1], words[head]})
    if not head or tags[i] not in {"AT0", "DT0"} or tags[i + 1] == "CRD" or fixed:
        return
    if view.clause[i] in view.negative or not view.is_subject(i, head):
        return
    yield f"swap-{words[i]}-no", [Change(i, i + 1, "none" if of else "no")]
    if words[i] == "every":
        yield "swap-every-not-every", [Change(i, i + 1, "not every")]


def swap_some(view: ClauseView, i: int) -> Iterator[Named]:
    """*some models are* → *no models are*, *all models are*"""
    head, of = _quantified(view, i)
    if not head or view.tags[head] != "NN2" or view.clause[i] in view.negative or not view.is_subject(i, head):
        return
    yield f"swap-{view.words[i]}-no", [Change(i, i + 1, "none" if of else "no")]
    if view.words[i] == "some":
        yield "swap-some-all", [Change(i, i + 1, "all")]


def swap_many(view: ClauseView, i: int) -> Iterator[Named]:
    """*many* ↔ *few*, *most* → *few*"""
    words, tags = view.words, view.tags
    head, of = _quantified(view, i)
    if not head or tags[head] != "NN2" or tags[i] not in {"DT0", "AJ0"} or words[i - 1] in WORDS["not-before-many"]:
        return
    superlative = words[i] == "most" and not of and head != i + 1
    keeps = without_polarity(view, i) == [] if words[i] == "few" else not view.has_negative(i)
    if keeps and not superlative and words[i + 1] not in {"other", "more", "as"}:
        other = "many" if words[i] == "few" else "few"
        yield f"swap-{words[i]}-{other}", [Change(i, i + 1, other)]


def swap_both(view: ClauseView, i: int) -> Iterator[Named]:
    """*both models are* → *neither model is*, *both A and B* → *neither A nor B*"""
    words, tags = view.words, view.tags
    if view.has_negative(i) or view.question:
        return
    name, agreed = "swap-both-neither", None
    if words[i + 1] in {"of", "the", "these", "those"}:
        end = i + 2 if words[i + 1] == "of" else i + 1
        head = view.noun_end(end + 1)
        if head and tags[head] == "NN2" and view.is_subject(i, head):
            agreed = view.in_number(head, plural=False)
        if agreed is not None:
            yield name, [Change(i, end, "neither of"), *agreed]
            return
    elif (head := view.noun_end(i + 1)) and tags[head] == "NN2" and words[head + 1] not in {"and", ","}:
        singular = lemma(words[head], "NOUN")
        agreed = view.in_number(head, plural=False) if view.is_subject(i, head) else None
        if agreed is not None and inflected(singular, "NNS") == words[head]:
            yield name, [Change(i, i + 1, "neither"), Change(head, head + 1, singular), *agreed]
        return
    inside = view.clause_rest(i)
    joints = [k for k in inside if tags[k] == "CJC"]
    joint = next(iter(joints), 0)
    if words[joint] != "and" or joint - i > 6 or not c5.FINITE.isdisjoint(tags[i:joint]):
        return
    changes = [Change(i, i + 1, "neither"), Change(joint, joint + 1, "nor")]
    if tags[i - 1] in c5.LEXICAL | c5.BE | {"PRP"}:
        if len(joints) == 1 and c5.FINITE.isdisjoint(tags[i : inside.stop]):
            yield name, changes
        return
    head = view.noun_end(joint + 1)
    if tags[i - 1] in c5.OPENS_CLAUSE | {""} and head and view.is_subject(i, head):
        agreed = view.in_number(head, plural=False) if tags[head] != "NN2" else []
        if agreed is not None:
            yield name, [*changes, *agreed]


def swap_neither(view: ClauseView, i: int) -> Iterator[Named]:
    """*neither model is* → *both models are*, *neither A nor B* → *both A and B*"""
    words = view.words
    if not {"any", "ever", "yet", "either"}.isdisjoint(words[i:]):
        return
    joint = next((k for k in range(i + 1, min(i + 8, view.size)) if words[k] == "nor"), 0)
    of = not joint and words[i + 1] == "of"
    head = view.noun_end(i + 3 if of else (joint or i) + 1)
    subject = bool(head) and view.is_subject(i, head)
    agreed = view.in_number(head, plural=True) if subject else [] if joint else None
    if agreed is None or (joint and words.count("nor") > 1) or not (joint or of or view.tags[head] == "NN1"):
        return
    changes = [Change(i, i + 1, "both")]
    if joint:
        changes.append(Change(joint, joint + 1, "and"))
    elif not of:
        changes.append(Change(head, head + 1, inflected(words[head], "NNS")))
    yield "swap-neither-both", [*changes, *agreed]


def swap_none(view: ClauseView, i: int) -> Iterator[Named]:
    """*none of the patients was* → *all of the patients were*"""
    head, of = _quantified(view, i)
    if not of or not head or view.tags[head] != "NN2" or without_polarity(view, i) != []:
        return
    agreed = view.in_number(head, plural=True) if view.is_subject(i, head) else None
    if agreed is not None:
        yield "swap-none-all", [Change(i, i + 1, "all"), *agreed]
        yield "swap-none-some", [Change(i, i + 1, "some"), *agreed]
