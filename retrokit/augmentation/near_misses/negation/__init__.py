"""Near-misses by negation and its scope: insert it, remove it, move it, swap quantifiers (COMP 3.1, D.1).

Every edit is a rule over C5 tags that gives up where the structure is not certain: a near-miss that is ungrammatical
or says the same as its sentence teaches a model the wrong thing, a sentence without a near-miss costs nothing. So
nothing is negated twice, no question of yes or no is negated (it asks the same), negation does not move across verbs
that raise it ("do not think that it is" is "think that it is not"), and what a word of polarity ("any", "yet") needs
is mended or the edit is not made.
"""

from collections.abc import Iterator
from functools import cache

from retrokit.augmentation.near_misses import tags as c5
from retrokit.augmentation.near_misses.data import text
from retrokit.augmentation.near_misses.family import Edit, Family, written
from retrokit.augmentation.near_misses.negation import insert, opposites, quantifiers, remove, scope
from retrokit.augmentation.near_misses.negation.clauses import LEXICON, PAIRS, WORDS, ClauseView, Rule
from retrokit.augmentation.near_misses.negation.remove import without_polarity
from retrokit.augmentation.near_misses.patterns import Swap, Test, read_swaps
from retrokit.augmentation.near_misses.sentence import Change, Named, Sentence, lemma


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
    """The near-misses by negation that can be made of a sentence, in a fixed order, each text once.

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
        yield from insert.negated_question(view)
    else:
        inserted = {i: changes for i in range(1, view.size) if (changes := insert.negated_finite(view, i))}
        single = [i for i in inserted if not view.has_negative_complement(i)]
        for i in single:
            yield "insert-not", inserted[i]
            if i == single[0]:
                yield from insert.negated_otherwise(view, i)
        yield from insert.negated_imperative(view)
        if not inserted:
            yield from insert.negated_caption(view)
    for i in range(view.size):
        if view.tags[i] == "XX0" and (changes := remove.affirmed(view, i)):
            removed[i] = changes
            yield "remove-not", changes
        word = view.words[i]
        if word in swaps:
            yield from (edit for swap in swaps[word] if (edit := swap(view, i)) is not None)
        if word in _BY_WORD:
            yield from _BY_WORD[word](view, i)
    yield from scope.moved(view, inserted, removed)


_BY_WORD: dict[str, Rule] = {
    "never": remove.remove_never,
    "no": remove.remove_no,
    **dict.fromkeys(("fail", "fails", "failed"), remove.remove_fail),
    **dict.fromkeys(("lack", "lacks", "lacked", "lacking"), remove.remove_lack),
    **dict.fromkeys(PAIRS["paired"], opposites.swap_paired),
    "with": opposites.insert_without,
    "without": opposites.remove_without,
    "all": quantifiers.swap_all,
    **dict.fromkeys(("every", "each"), quantifiers.swap_every),
    **dict.fromkeys(("some", "several"), quantifiers.swap_some),
    **dict.fromkeys(("many", "most", "few"), quantifiers.swap_many),
    "how": insert.negated_how_to,
    "both": quantifiers.swap_both,
    "neither": quantifiers.swap_neither,
    "none": quantifiers.swap_none,
    **dict.fromkeys(("a", "an"), insert.insert_no),
    "only": scope.move_only,
}


def _frequent(view: ClauseView, at: int) -> bool:
    """Whether an adverb stands next to a verb, and would not invert verb and subject as a negative in front does."""
    near = c5.FINITE | c5.BASE | c5.PARTICIPLE | {"VVG", "AJ0"}
    is_near = view.tags[at + 1] in near or view.tags[at - 1] in c5.FINITE
    return is_near and (at > 0 or view.tags[1] in {"VVB", "VVI"})


def _countable(view: ClauseView, at: int) -> bool:
    """Whether a plural begins that counts things and does not measure."""
    head = view.noun_end(at)
    return head > 0 and view.tags[head] == "NN2" and lemma(view.words[head], "NOUN") not in WORDS["units"]


def _number(view: ClauseView, at: int) -> int:
    """Where the number stands, a sign of currency before it or not; 0 if there is none."""
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
