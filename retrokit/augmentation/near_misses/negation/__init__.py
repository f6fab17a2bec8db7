"""Near-misses by negation and its scope: insert it, remove it, move it, swap quantifiers (COMP 3.1, D.1).

Every edit is a rule over C5 tags that gives up where the structure is not certain: an ungrammatical near-miss, or one
with the same meaning, teaches a model the wrong thing; a sentence without a near-miss costs nothing. So nothing is
negated twice, no yes-or-no question is negated (it asks the same), negation does not move across verbs that raise it
("do not think that it is" is "think that it is not"), and words of polarity ("any", "yet") are mended or there is no
edit.
"""

from collections.abc import Iterator
from functools import cache

from retrokit.augmentation.near_misses import tags as c5
from retrokit.augmentation.near_misses.family import Edit, Family, written
from retrokit.augmentation.near_misses.negation.clauses import LEXICON, PAIRS, WORDS, ClauseView, Rule
from retrokit.augmentation.near_misses.negation.verbs import (
    affirmed,
    insert_no,
    move_only,
    moved,
    negated_caption,
    negated_finite,
    negated_how_to,
    negated_imperative,
    negated_otherwise,
    negated_question,
    remove_fail,
    remove_lack,
    remove_never,
    remove_no,
    without_polarity,
)
from retrokit.augmentation.near_misses.patterns import Swap, Test, read_swaps, text
from retrokit.augmentation.near_misses.sentence import Change, Named, Sentence, inflected, lemma


def swap_paired(view: ClauseView, i: int) -> Iterator[Named]:
    """*is able to* ↔ *is unable to*, *it is possible that* ↔ *it is impossible that*"""
    words, tags, word = view.words, view.tags, view.words[i]
    verb = i - 2 if words[i - 1] in {"also", "still", "often", "very", "highly", "therefore", "thus"} else i - 1
    if words[i + 1] not in {"to", "that"} or tags[verb] not in c5.BE | {"VBI"}:
        return
    if view.question or view.clause_opening(i) == "whether":
        return
    if word not in WORDS["negative"]:
        if not view.has_negative(i):
            yield f"insert-{PAIRS['paired'][word]}", [Change(i, i + 1, PAIRS["paired"][word])]
    elif without_polarity(view, i) == []:
        yield f"remove-{word}", [Change(i, i + 1, PAIRS["paired"][word])]


def remove_without(view: ClauseView, i: int) -> Iterator[Named]:
    """*without training* → *with training*"""
    words, tags = view.words, view.tags
    if tags[i] != "PRP" or words[i - 1] in {"or", "and", "not", "with", "but"} or words[i + 1] in {"or", "and"}:
        return
    first = i + 2 if words[i + 1] == "any" else i + 1
    if words[first] in WORDS["no-idiom"] or words[first] == "further" or words[first].endswith("ing"):
        return
    if (first == i + 2 or tags[first] in c5.NOUN | c5.ADJECTIVE | {"AT0", "DPS"}) and view.noun_end(first):
        yield "remove-without", [Change(i, first, "with")]


def insert_without(view: ClauseView, i: int) -> Iterator[Named]:
    """*patients with diabetes* → *patients without diabetes*, where "with" belongs to the noun before it."""
    words, tags = view.words, view.tags
    if tags[i] != "PRP" or tags[i - 1] not in {"NN1", "NN2", ""} or view.has_negative(i):
        return
    if any(word.startswith(stem) for word in view.clause_before(i)[-6:] for stem in _WITH_STEMS.get(word[:2], ())):
        return
    first = i + 2 if words[i + 1] in {"a", "an"} else i + 1
    if tags[first] not in c5.NOUN | c5.ADJECTIVE or not view.noun_end(i + 1):
        return
    if words[first] in WORDS["universal"] | WORDS["amount"] | _AFTER_WITH:
        return
    yield "insert-without", [Change(i, i + 1, "without")]


_AFTER_WITH = frozenset(("respect", "regard", "reference", "view", "various", "certain", "different"))
_WITH_STEMS: dict[str, tuple[str, ...]] = {}
for _stem in WORDS["takes-with"]:
    _WITH_STEMS[_stem[:2]] = (*_WITH_STEMS.get(_stem[:2], ()), _stem)


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


def family() -> Family:
    """The family, as the registry makes it."""
    return Family(
        "negation",
        edits,
        {"insert-not": 1, "insert-never": 2, "insert-no-longer": 2, "insert-fail-to": 2},
        text(__package__, "prompt.txt"),
        least_overlap=0.6,  # a negation may change a quantifier and a verb
    )


def edits(sentence: Sentence) -> Iterator[Edit]:
    """The near-misses by negation of a sentence, in a fixed order, each text once.

    Negated verbs come first, then removals and swaps by their place in the sentence, then moves between clauses. Names
    begin with *insert*, *remove*, *swap* or *move*.
    """
    if len(sentence.tokens) < 3:
        return

    def styled(change: Change) -> Change:
        """With the sentence's kind of apostrophe, and the capital of a word of a title that it replaces."""
        text = change.text.replace("'", "’") if "’" in sentence.text else change.text
        titled = 0 < change.start < change.end and sentence.tokens[change.start].text.istitle()
        return change._replace(text=text[:1].upper() + text[1:] if titled else text)

    changes = _changes(ClauseView(sentence))
    yield from written(sentence, ((name, list(map(styled, of_edit))) for name, of_edit in changes))


def _changes(view: ClauseView) -> Iterator[Named]:
    swaps = _swaps()
    inserted: dict[int, list[Change]] = {}  # by the place of the verb
    removed: dict[int, list[Change]] = {}  # by the place of the "not"
    if view.question:
        yield from negated_question(view)
    else:
        inserted = {i: changes for i in range(1, view.size) if (changes := negated_finite(view, i))}
        single = [i for i in inserted if not view.has_negative_complement(i)]
        for i in single:
            yield "insert-not", inserted[i]
            if i == single[0]:
                yield from negated_otherwise(view, i)
        yield from negated_imperative(view)
        if not inserted:
            yield from negated_caption(view)
    for i in range(view.size):
        if view.tags[i] == "XX0" and (changes := affirmed(view, i)):
            removed[i] = changes
            yield "remove-not", changes
        word = view.words[i]
        if word in swaps:
            yield from (edit for swap in swaps[word] if (edit := swap(view, i)) is not None)
        if word in _BY_WORD:
            yield from _BY_WORD[word](view, i)
    yield from moved(view, inserted, removed)


_BY_WORD: dict[str, Rule] = {
    "never": remove_never,
    "no": remove_no,
    **dict.fromkeys(("fail", "fails", "failed"), remove_fail),
    **dict.fromkeys(("lack", "lacks", "lacked", "lacking"), remove_lack),
    **dict.fromkeys(PAIRS["paired"], swap_paired),
    "with": insert_without,
    "without": remove_without,
    "all": swap_all,
    **dict.fromkeys(("every", "each"), swap_every),
    **dict.fromkeys(("some", "several"), swap_some),
    **dict.fromkeys(("many", "most", "few"), swap_many),
    "how": negated_how_to,
    "both": swap_both,
    "neither": swap_neither,
    "none": swap_none,
    **dict.fromkeys(("a", "an"), insert_no),
    "only": move_only,
}


def _frequent(view: ClauseView, at: int) -> bool:
    """Whether an adverb is next to a verb, and would not invert verb and subject as a negative in front does."""
    near = c5.FINITE | c5.BASE | c5.PARTICIPLE | {"VVG", "AJ0"}
    is_near = view.tags[at + 1] in near or view.tags[at - 1] in c5.FINITE
    return is_near and (at > 0 or view.tags[1] in {"VVB", "VVI"})


def _countable(view: ClauseView, at: int) -> bool:
    """Whether a plural begins that counts things and does not measure."""
    head = view.noun_end(at)
    return head > 0 and view.tags[head] == "NN2" and lemma(view.words[head], "NOUN") not in WORDS["units"]


def _number(view: ClauseView, at: int) -> int:
    """The place of the number, a sign of currency before it or not; 0 if there is none."""
    at += view.words[at] in {"$", "£", "€"}
    word = view.words[at]
    return at if view.tags[at] == "CRD" or word in {"half", "twice"} or word.endswith("%") else 0


def _counting(view: ClauseView, at: int) -> bool:
    """Whether a number counts things (*fewer*) and does not measure (*less*)."""
    after = _number(view, at) + 1
    people = (head := view.noun_end(after)) > 0 and view.words[head] == "people"
    return (people or _countable(view, after)) and view.words[after] not in WORDS["units"]


_KNOWN: dict[str, Test[ClauseView]] = {
    "denied": ClauseView.has_negative,
    "plain": lambda view, at: without_polarity(view, at) == [],
    "question": lambda view, at: view.question,
    "phrase": lambda view, at: view.tags[at] in c5.PHRASE,
    "subject": lambda view, at: view.is_subject(at, at),
    "subject-of-two": lambda view, at: view.is_subject(at, at + 1),
    "frequent": _frequent,
    "countable": _countable,
    "number": lambda view, at: _number(view, at) > 0,
    "counting": _counting,
}
"""What the lines of ``relations.txt`` ask with ``@``."""


@cache
def _swaps() -> dict[str, list[Swap[ClauseView]]]:
    swaps: dict[str, list[Swap[ClauseView]]] = {}
    for word, swap in read_swaps(text(__package__, "relations.txt"), LEXICON, _KNOWN):
        swaps.setdefault(word, []).append(swap)
    return swaps
