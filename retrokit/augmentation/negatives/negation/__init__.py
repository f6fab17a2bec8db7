"""Near-misses by negation and its scope: insert it, remove it, move it, swap quantifiers (COMP 3.1, D.1).

Every edit is a rule over C5 tags that gives up where the structure is not certain: a near-miss that is ungrammatical
or says the same as its sentence teaches a model the wrong thing, a sentence without a near-miss costs nothing. So
nothing is negated twice, no question of yes or no is negated (it asks the same), negation does not move across verbs
that raise it ("do not think that it is" is "think that it is not"), and what a word of polarity ("any", "yet") needs
is mended or the edit is not made.
"""

from __future__ import annotations

from collections.abc import Iterator

from retrokit.augmentation.negatives.data import text
from retrokit.augmentation.negatives.family import Edit, Family
from retrokit.augmentation.negatives.negation.clauses import ClauseView, Rule, has_negative_complement
from retrokit.augmentation.negatives.negation.insert import (
    insert_no,
    negated_caption,
    negated_finite,
    negated_how_to,
    negated_imperative,
    negated_otherwise,
    negated_question,
)
from retrokit.augmentation.negatives.negation.lexicon import PAIRS
from retrokit.augmentation.negatives.negation.opposites import (
    insert_without,
    remove_without,
    swap_frequency,
    swap_paired,
    swap_presence,
)
from retrokit.augmentation.negatives.negation.quantifiers import (
    swap_a_few,
    swap_all,
    swap_both,
    swap_bound,
    swap_every,
    swap_majority,
    swap_many,
    swap_neither,
    swap_no_one,
    swap_none,
    swap_person,
    swap_some,
)
from retrokit.augmentation.negatives.negation.remove import affirmed, remove_fail, remove_lack, remove_never, remove_no
from retrokit.augmentation.negatives.negation.scope import move_only, moved
from retrokit.augmentation.negatives.rules import Named, written
from retrokit.augmentation.negatives.sentence import Change, Sentence
from retrokit.augmentation.negatives.view import view_of


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
    found = _changes(ClauseView(view_of(sentence)))
    yield from written(sentence, ((name, [_styled(sentence, change) for change in changes]) for name, changes in found))


def _styled(sentence: Sentence, change: Change) -> Change:
    """The change with the sentence's kind of apostrophe, and with the capital of a word of a title that it replaces."""
    text = change.text.replace("'", "’") if "’" in sentence.text else change.text
    titled = 0 < change.start < change.end and sentence.tokens[change.start].text.istitle()
    return change._replace(text=text[:1].upper() + text[1:] if titled else text)


def _changes(view: ClauseView) -> Iterator[Named]:
    inserted: dict[int, list[Change]] = {}  # by the place of the verb
    removed: dict[int, list[Change]] = {}  # by the place of the "not"
    if view.question:
        yield from negated_question(view)
    else:
        inserted = {i: changes for i in range(1, view.size) if (changes := negated_finite(view, i))}
        single = [i for i in inserted if not has_negative_complement(view, i)]
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
        for rule in _BY_WORD.get(view.words[i], ()):
            yield from rule(view, i)
    yield from moved(view, inserted, removed)


_BY_WORD: dict[str, tuple[Rule, ...]] = {
    "never": (remove_never,),
    "no": (swap_no_one, remove_no),
    **dict.fromkeys(("fail", "fails", "failed"), (remove_fail,)),
    **dict.fromkeys(("lack", "lacks", "lacked", "lacking"), (remove_lack,)),
    "always": (swap_frequency("never"),),
    **dict.fromkeys(("often", "usually", "frequently", "typically", "generally"), (swap_frequency("rarely"),)),
    "sometimes": (swap_frequency("never"),),
    **dict.fromkeys(("rarely", "seldom"), (swap_frequency("often"),)),
    **dict.fromkeys(PAIRS["paired"], (swap_paired,)),
    "presence": (swap_presence,),
    "absence": (swap_presence,),
    "with": (insert_without,),
    "without": (remove_without,),
    "all": (swap_all,),
    "every": (swap_every,),
    "each": (swap_every,),
    "some": (swap_some,),
    "several": (swap_some,),
    "many": (swap_many("few"),),
    "most": (swap_many("few"),),
    "few": (swap_many("many"), swap_a_few),
    "how": (negated_how_to,),
    "both": (swap_both,),
    "neither": (swap_neither,),
    "none": (swap_none,),
    "everyone": (swap_person("no one"),),
    "everybody": (swap_person("nobody"),),
    "everything": (swap_person("nothing"),),
    "nobody": (swap_person("everybody"),),
    "nothing": (swap_person("everything"),),
    "someone": (swap_person("no one"),),
    **dict.fromkeys(("more", "less", "fewer", "at", "up"), (swap_bound,)),
    "majority": (swap_majority,),
    "minority": (swap_majority,),
    "a": (insert_no,),
    "an": (insert_no,),
    "only": (move_only,),
}
