"""Near-misses by negation and its scope: insert it, remove it, move it, swap quantifiers (COMP 3.1, D.1).

Every edit is a rule over C5 tags that gives up where the structure is not certain: an ungrammatical near-miss, or one
with the same meaning, teaches a model the wrong thing; a sentence without a near-miss costs nothing. So nothing is
negated twice, no yes-or-no question is negated (it asks the same), negation does not move across verbs that raise it
("do not think that it is" is "think that it is not"), and words of polarity ("any", "yet") are mended or there is no
edit.
"""

from collections.abc import Iterator, Mapping
from functools import cache

from retrokit.augmentation.edits import tags as c5
from retrokit.augmentation.edits.family import Family, Rewriting, written
from retrokit.augmentation.edits.negation.clauses import LEXICON, PAIRS, WORDS, ClauseView, Rule
from retrokit.augmentation.edits.negation.verbs import (
    affirmed,
    move_only,
    moved,
    negated_caption,
    negated_finite,
    negated_imperative,
    negated_otherwise,
    negated_question,
    remove_fail,
    without_polarity,
)
from retrokit.augmentation.edits.patterns import Mender, Swap, Test, read_swaps, text
from retrokit.augmentation.edits.sentence import Change, Named, inflected, lemma
from retrokit.augmentation.edits.subject import Subject


def swap_both(view: ClauseView, i: int) -> Iterator[Named]:
    """*both models are* → *neither model is*, *both A and B* → *neither A nor B*"""
    if view.has_negative(i) or view.question:
        return
    changes = _neither_of(view, i)
    if changes is None and _both_plural(view, i):
        changes = _neither_noun(view, i)
    elif changes is None:
        changes = _neither_nor(view, i)
    if changes is not None:
        yield "swap-both-neither", changes


def _neither_of(view: ClauseView, i: int) -> list[Change] | None:
    """*both of the models are*, *both the models are* → *neither of the models is*"""
    if view.words[i + 1] not in {"of", "the", "these", "those"}:
        return None
    end = i + 2 if view.words[i + 1] == "of" else i + 1
    agreed = _singular_subject(view, i, view.noun_end(end + 1))
    return None if agreed is None else [Change(i, end, "neither of"), *agreed]


def _both_plural(view: ClauseView, i: int) -> bool:
    """Whether a plural without *the* follows, and no coordination of two phrases."""
    head = view.noun_end(i + 1)
    begins = view.words[i + 1] not in {"of", "the", "these", "those"}
    return begins and head > 0 and view.tags[head] == "NN2" and view.words[head + 1] not in {"and", ","}


def _neither_noun(view: ClauseView, i: int) -> list[Change] | None:
    """*both models are* → *neither model is*"""
    head = view.noun_end(i + 1)
    singular = lemma(view.words[head], "NOUN")
    agreed = _singular_subject(view, i, head)
    if agreed is None or inflected(singular, "NNS") != view.words[head]:
        return None
    return [Change(i, i + 1, "neither"), Change(head, head + 1, singular), *agreed]


def _singular_subject(view: ClauseView, i: int, head: int) -> list[Change] | None:
    """The changes that make the verb of a plural subject singular; None if it is none, or they are unclear."""
    is_subject = head > 0 and view.tags[head] == "NN2" and view.is_subject(i, head)
    return view.in_number(head, plural=False) if is_subject else None


def _neither_nor(view: ClauseView, i: int) -> list[Change] | None:
    """*both A and B* → *neither A nor B*"""
    tags = view.tags
    inside = view.clause_rest(i)
    conjunctions = [index for index in inside if tags[index] == "CJC"]
    conjunction = next(iter(conjunctions), 0)
    is_near = conjunction - i <= 6 and c5.FINITE.isdisjoint(tags[i:conjunction])
    if view.words[conjunction] != "and" or not is_near:
        return None
    changes = [Change(i, i + 1, "neither"), Change(conjunction, conjunction + 1, "nor")]
    if tags[i - 1] in c5.LEXICAL | c5.BE | {"PRP"}:
        is_object = len(conjunctions) == 1 and c5.FINITE.isdisjoint(tags[i : inside.stop])
        return changes if is_object else None
    agreed = _agreed_with_last(view, i, conjunction)
    return None if agreed is None else [*changes, *agreed]


def _agreed_with_last(view: ClauseView, i: int, conjunction: int) -> list[Change] | None:
    """The changes that make the verb agree with the second of two subjects; None if they are none."""
    head = view.noun_end(conjunction + 1)
    opens = view.tags[i - 1] in c5.OPENS_CLAUSE | {""}
    if not opens or not head or not view.is_subject(i, head):
        return None
    return view.in_number(head, plural=False) if view.tags[head] != "NN2" else []


def swap_neither(view: ClauseView, i: int) -> Iterator[Named]:
    """*neither model is* → *both models are*, *neither A nor B* → *both A and B*"""
    words = view.words
    if not {"any", "ever", "yet", "either"}.isdisjoint(words[i:]):
        return
    changes = _both_and(view, i) if "nor" in words[i + 1 : i + 8] else _both_noun(view, i)
    if changes is not None:
        yield "swap-neither-both", changes


def _both_and(view: ClauseView, i: int) -> list[Change] | None:
    """*neither A nor B is* → *both A and B are*"""
    nor = view.words.index("nor", i)
    head = view.noun_end(nor + 1)
    agreed = view.in_number(head, plural=True) if head and view.is_subject(i, head) else []
    if agreed is None or view.words.count("nor") > 1:
        return None
    return [Change(i, i + 1, "both"), Change(nor, nor + 1, "and"), *agreed]


def _both_noun(view: ClauseView, i: int) -> list[Change] | None:
    """*neither model is* → *both models are*, *neither of the models is* → *both of the models are*"""
    is_of = view.words[i + 1] == "of"
    head = view.noun_end(i + 3 if is_of else i + 1)
    agreed = view.in_number(head, plural=True) if head and view.is_subject(i, head) else None
    if agreed is None or not (is_of or view.tags[head] == "NN1"):
        return None
    plural = [] if is_of else [Change(head, head + 1, inflected(view.words[head], "NNS"))]
    return [Change(i, i + 1, "both"), *plural, *agreed]


def negation() -> Family:
    """The family, as the registry makes it."""
    return Family(
        "negation",
        rewritings,
        lots={"insert-not": 1, "insert-never": 2, "insert-no-longer": 2, "insert-fail-to": 2},
        prompt=text(__package__, "prompt.txt"),
        least_overlap=0.6,  # a negation may change a quantifier and a verb
    )


def rewritings(subject: Subject) -> Iterator[Rewriting]:
    """The near-misses by negation of a sentence, in a fixed order, each text once.

    Negated verbs come first, then removals and swaps by their place in the sentence, then moves between clauses. Names
    begin with *insert*, *remove*, *swap* or *move*.
    """
    sentence = subject.tagged
    if len(sentence.tokens) < 3:
        return

    def styled(change: Change) -> Change:
        """With the sentence's kind of apostrophe, and the capital of a word of a title that it replaces."""
        text = change.text.replace("'", "’") if "’" in sentence.text else change.text
        titled = 0 < change.start < change.end and sentence.tokens[change.start].text.istitle()
        return change._replace(text=text[:1].upper() + text[1:] if titled else text)

    named = _changes(ClauseView(sentence))
    yield from written(sentence, ((name, [styled(change) for change in changes]) for name, changes in named))


def _changes(view: ClauseView) -> Iterator[Named]:
    inserted: dict[int, list[Change]] = {}  # by the verb
    removed: dict[int, list[Change]] = {}  # by the "not"
    if view.question:
        yield from negated_question(view)
    else:
        inserted = {i: changes for i in range(1, view.size) if (changes := negated_finite(view, i))}
        yield from _insertions(view, inserted)
    for i, word in enumerate(view.words[: view.size]):
        if view.tags[i] == "XX0" and (changes := affirmed(view, i)):
            removed[i] = changes
            yield "remove-not", changes
        yield from (edit for swap in _swaps().get(word, ()) if (edit := swap(view, i)) is not None)
        if word in _BY_WORD:
            yield from _BY_WORD[word](view, i)
    yield from moved(view, inserted, removed)


def _insertions(view: ClauseView, inserted: Mapping[int, list[Change]]) -> Iterator[Named]:
    """A negation of each verb that can be negated, and other negations of the first."""
    single = [i for i in inserted if not view.has_negative_complement(i)]
    for i in single:
        yield "insert-not", inserted[i]
        if i == single[0]:
            yield from negated_otherwise(view, i)
    yield from negated_imperative(view)
    if not inserted:
        yield from negated_caption(view)


_BY_WORD: dict[str, Rule] = {
    **dict.fromkeys(("fail", "fails", "failed"), remove_fail),
    "both": swap_both,
    "neither": swap_neither,
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


def _is(view: ClauseView, at: int) -> bool:
    """Whether a token is a form of *be*, or an adverb after one."""
    verb = at - 1 if view.words[at] in WORDS["before-paired"] else at
    return view.tags[verb] in c5.BE | {"VBI"}


def _is_taken_with(view: ClauseView, at: int) -> bool:
    """Whether a word before *with* takes it."""
    return any(word.startswith(tuple(WORDS["takes-with"])) for word in view.clause_before(at)[-6:])


def _bears_no(view: ClauseView, at: int) -> bool:
    """Whether the object of a verb may be *no* thing."""
    is_verb = view.tags[at] in c5.LEXICAL | c5.HAVE and view.base_form(at) in WORDS["bears-no"]
    return is_verb and bool(view.verb_group(at)[1])


def _is_subject_counted(view: ClauseView, at: int) -> bool:
    """Whether the phrase from a quantifier on is a subject."""
    head = view.counted_noun(at)
    return head > 0 and view.is_subject(at, head)


def _in_plural(view: ClauseView, at: int) -> list[Change] | None:
    """The changes that make the verb agree with the plural that a quantifier counts."""
    return view.in_number(view.counted_noun(at), plural=True) if _is_subject_counted(view, at) else None


_TESTS: dict[str, Test[ClauseView]] = {
    "denied": ClauseView.has_negative,
    "negative": lambda view, at: view.clause[at] in view.negative,
    "plain": lambda view, at: without_polarity(view, at) == [],
    "question": lambda view, at: view.question,
    "asked": lambda view, at: view.clause_opening(at) == "whether",
    "subject": lambda view, at: view.is_subject(at, at),
    "subject-of-two": lambda view, at: view.is_subject(at, at + 1),
    "subject-counted": _is_subject_counted,
    "before-counted": lambda view, at: view.counted_noun(at) == at + 1,
    "amount": lambda view, at: not WORDS["amount"].isdisjoint(view.words[at + 1 : view.counted_noun(at) + 1]),
    "noun": lambda view, at: view.noun_end(at) > 0,
    "ing": lambda view, at: view.words[at].endswith("ing"),
    "is": _is,
    "bears-no": _bears_no,
    "taken-with": _is_taken_with,
    "pronoun": lambda view, at: view.words[at] in PAIRS["nominative"],
    "frequent": _frequent,
    "countable": _countable,
    "number": lambda view, at: _number(view, at) > 0,
    "counting": _counting,
}
"""What the lines of ``relations.txt`` ask with ``@``."""
_MENDERS: dict[str, Mender[ClauseView]] = {"polarity": without_polarity, "plural": _in_plural}
"""What they add with ``+``."""


@cache
def _swaps() -> dict[str, list[Swap[ClauseView]]]:
    swaps: dict[str, list[Swap[ClauseView]]] = {}
    for word, swap in read_swaps(text(__package__, "relations.txt"), LEXICON, _TESTS, _MENDERS):
        swaps.setdefault(word, []).append(swap)
    return swaps
