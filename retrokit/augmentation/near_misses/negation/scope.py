"""Moving a negative or *only* to another place, where it has another scope."""

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
    begins = tags[start] in {"AT0", "DPS", "NN2", "AJ0"} and tags[start - 1] not in {"PUR", "PUQ"}
    if not 0 < head < i or view.words[head] == "others" or not begins:
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
    words = view.words
    first, second = min(negative, verb), max(negative, verb)
    start, apart = view.clause_start(second), view.clause[second] - view.clause[first]
    if apart == 0 or apart > 2 or (apart == 2 and words[start - 1] != ","):
        return ""
    cut_off = words[start] == ","
    word = words[start + 1] if cut_off else words[start]
    if word == "that":
        main = verb if verb < negative else view.after_adverbs(negative + 1)
        base = words[main] if view.tags[main] in {"VVI", "VVB"} else lemma(words[main], "VERB")
        direction = "up" if verb < negative else "down"
        return f"move-not-{direction}" if start == main + 1 and base in WORDS["factive"] else ""
    contrasts = cut_off and words[view.clause_start(first)] in WORDS["contrasting"] - {"and"}
    return "move-not-across" if word in WORDS["contrasting"] or contrasts else ""
