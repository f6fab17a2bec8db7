"""Moving a negative or *only* to another place, where it has another scope."""

from __future__ import annotations

from collections.abc import Iterator

from retrokit.augmentation.near_misses import tags as c5
from retrokit.augmentation.near_misses.negation.clauses import WORDS, ClauseView
from retrokit.augmentation.near_misses.sentence import Change, Named, lemma, uncapitalized


def move_only(view: ClauseView, i: int) -> Iterator[Named]:
    """*the model only uses text*, *the model uses only text* → *only the model uses text*, and back."""
    tags = view.tags
    if view.question or view.has_negative(i):
        return
    if i == 0:
        head = view.noun_end(1)
        verb = head + 1
        if head and tags[1] in {"AT0", "NN2", "DPS", "DT0"} and tags[verb] in c5.LEXICAL and view.base_form(verb):
            yield "move-only", [Change(0, 1, ""), Change(verb, verb, "only")]
        return
    start = view.clause_start(i)
    start += tags[start] in c5.OPENS_CLAUSE
    head = view.noun_end(start)
    if not 0 < head < i or view.words[head] == "others" or tags[start - 1] in {"PUR", "PUQ"}:
        return
    if tags[start] not in {"AT0", "DPS", "NN2", "AJ0"}:
        return
    finite = c5.FINITE.issuperset(tags[head + 1 : i])
    if finite and i - head <= 2 and tags[i + 1] not in {"CRD", "AV0", "CJS", "PUN"}:
        first = "only " + uncapitalized(view.sentence, start, start + 1)
        yield "move-only", [Change(start, start + 1, first), Change(i, i + 1, "")]


def moved(view: ClauseView, inserted: dict[int, list[Change]], removed: dict[int, list[Change]]) -> Iterator[Named]:
    """The negation of one clause in another: *A shows that B does not* ↔ *A does not show that B does*, and between
    two clauses that a conjunction joins."""
    for i, away in removed.items():
        for verb, there in inserted.items():
            if name := _joined(view, i, verb):
                yield name, [*away, *there]


def _joined(view: ClauseView, negative: int, verb: int) -> str:
    """How the clause of the *not* and that of the verb are joined: the name of the move, or nothing."""
    clause = view.clause
    first, second = min(negative, verb), max(negative, verb)
    if clause[second] == clause[first]:
        return ""
    starts = clause.index(clause[second])
    word = view.words[starts + 1] if view.words[starts] == "," else view.words[starts]
    apart = clause[second] - clause[first]
    if apart > 2 or (apart == 2 and view.words[starts - 1] != ","):
        return ""
    if word == "that":
        main = verb if verb < negative else view.after_adverbs(negative + 1)
        base = view.words[main] if view.tags[main] in {"VVI", "VVB"} else lemma(view.words[main], "VERB")
        if starts == main + 1 and base in WORDS["factive"]:
            return "move-not-up" if verb < negative else "move-not-down"
        return ""
    apart_by_comma = view.words[starts] == "," and view.words[view.clause_start(first)] in WORDS["contrasting"] - {
        "and"
    }
    return "move-not-across" if word in WORDS["contrasting"] or apart_by_comma else ""
