"""Negating a verb, an object or a question, taking a negative away, and moving one: *not*, *never*, *fail to*, *no*."""

from collections.abc import Iterator
from itertools import pairwise

from retrokit.augmentation.edits import tags as c5
from retrokit.augmentation.edits.negation.clauses import DO_FOR, PAIRS, WORDS, ClauseView
from retrokit.augmentation.edits.patterns import Obstacle
from retrokit.augmentation.edits.sentence import Change, Named, inflected, lemma, uncapitalized


def _affirms(view: ClauseView, i: int) -> bool:
    return ("not", "only") in pairwise(view.words[:i])


def _names_the_source(view: ClauseView, i: int) -> bool:
    """Whether the clause only says whose words the sentence is."""
    ends = view.words[view.clause_start(i)] == "," and view.tags[i + 1] in {"", "PUN"}
    return ends and lemma(view.words[i], "VERB") in WORDS["reporting"]


def _excepts(view: ClauseView, i: int) -> bool:
    """Whether *but* and a negative follow."""
    end = view.clause_rest(i).stop
    end += view.words[end] == "," and view.words[end + 1] == "but"
    return view.words[end] == "but" and view.words[end + 1] in {"also", "no", "not", "never"}


OBSTACLES = [
    Obstacle(lambda view, i: view.has_negative(i), "No drug was effective."),
    Obstacle(lambda view, i: view.tags[:i].count("PUL") > view.tags[:i].count("PUR"), "Rain (it was heavy"),
    Obstacle(lambda view, i: view.words[i + 1] in WORDS["no-not-with"], "The drug is only a test."),
    Obstacle(
        lambda view, i: view.words[i - 1] in {"if", "as", "than", "so", "nor"}, "It was cheaper than was thought."
    ),
    Obstacle(lambda view, i: not WORDS["universal"].isdisjoint(view.clause_before(i)), "All patients were treated."),
    Obstacle(lambda view, i: view.clause_opening(i) in WORDS["no-not-under"], "Until the rain was heavy."),
    Obstacle(
        lambda view, i: not {"before", "until"}.isdisjoint(view.clause_before(i)),
        "It stops before a statement is sent.",
    ),
    Obstacle(lambda view, i: view.words[i] in WORDS["no-verbs"], "Peak stats rose."),
    Obstacle(_affirms, "Not only was it cheap; the shop was good."),
    Obstacle(_names_the_source, "Prices will rise, officials vow."),
    Obstacle(_excepts, "You may drink water, but no tea."),
]
"""Why a finite verb is not negated: that would not be English, would mean the same, or be read in two ways."""


def negated_finite(view: ClauseView, i: int) -> list[Change]:
    """The changes that negate the finite verb ``i`` with *not*; none if that is not certain to be right."""
    if view.tags[i] not in c5.FINITE or any(obstacle.holds(view, i) for obstacle in OBSTACLES):
        return []
    if view.is_auxiliary(i):
        return _negated_auxiliary(view, i)
    start, base = view.verb_group(i)
    if not base:
        return []
    auxiliary = DO_FOR[view.tags[i][-1]]
    auxiliary = PAIRS["contracted"][auxiliary] if view.contracts else auxiliary + " not"
    particular = _particular(view, i + 1)
    if start == i:
        return [Change(i, i + 1, f"{auxiliary} {base}"), *particular]
    return [Change(start, start, auxiliary), Change(i, i + 1, base), *particular]  # before the adverbs


def _negated_auxiliary(view: ClauseView, i: int) -> list[Change]:
    words, tags = view.words, view.tags
    after = view.after_focus(i + 1)
    if not _may_precede_auxiliary(view, i) or not c5.NO_VERB_PHRASE.isdisjoint({tags[i + 1], tags[after]}):
        return []
    if words[after] in WORDS["no-not-with"] or {"as", "if"}.issubset(words[max(0, i - 4) : i]):
        return []
    if words[i].startswith("'"):
        return _negated_clitic(view, i)
    if tags[i - 1] == "EX0" and (negated := _negated_existence(view, i, after)) is not None:
        return negated
    return [_with_not(view, i, after), *_particular(view, after)]


def _with_not(view: ClauseView, i: int, after: int) -> Change:
    """*can* → *cannot*, *is* → *isn't*; or *not* before ``after``, behind the adverbs of focus."""
    joined = {"can": "cannot"}
    if view.contracts:
        joined |= PAIRS["contracted"]
    word = view.words[i]
    if after == i + 1 and word in joined:
        return Change(i, after, joined[word])
    return Change(after, after, "not")


def _negated_clitic(view: ClauseView, i: int) -> list[Change]:
    """*they've seen* → *they haven't seen*; a noun's *'s* may be a genitive."""
    word = view.words[i]
    negated = PAIRS["clitic-negated"].get(word if word != "'d" else view.tags[i])
    if negated is None or view.words[i + 1] in WORDS["before-not"] or view.tags[i - 1] not in c5.SUBJECT_OF_CLITIC:
        return []
    return [Change(i, i + 1, negated), *_particular(view, i + 1)]


def _negated_existence(view: ClauseView, i: int, after: int) -> list[Change] | None:
    """*there is evidence* → *there is no evidence*, *there is something* → *there is nothing*; none before an amount.
    None: *not* negates it."""
    if view.tags[after] in c5.NOUN | c5.ADJECTIVE:
        return [Change(after, after, "no")]
    if view.words[i + 1] == "a" and view.words[i + 2] in WORDS["amount"]:
        return []
    return [Change(i + 1, i + 2, "nothing")] if view.words[i + 1] == "something" else None


def _may_precede_auxiliary(view: ClauseView, i: int) -> bool:
    """Whether a subject or its continuation precedes the auxiliary, so that it is not inverted."""
    words, tags = view.words, view.tags
    before = next((k for k in range(i - 1, -1, -1) if tags[k] != "AV0"), -1)
    tag, word = tags[before], words[before]
    if before < 0 or not WORDS["inverting"].isdisjoint({word, words[i - 1]}):
        return tag == "EX0"
    if _begins_with_place(view, i):
        return False
    if tag == "CJC":
        return word in {"and", "but"} and not c5.FINITE.isdisjoint(tags[:before])
    return tag in c5.NOUN | c5.NAME_LIKE | {"PNP", "PNQ", "DTQ", "DT0", "EX0", "PUR", "CRD"}


def _begins_with_place(view: ClauseView, i: int) -> bool:
    """Whether a place, and no subject, is before the auxiliary: "at the top of the hoof is the band"."""
    tags, start = view.tags, view.clause_start(i)
    if tags[start] == "PRF":
        return True
    if tags[start] != "PRP" or tags[i + 1] != "AT0":
        return False
    determined = [k for k in range(start, i) if tags[k] in {"AT0", "DPS", "DT0"}]
    return not determined or tags[determined[-1] - 1] in {"PRP", "PRF"}


def _particular(view: ClauseView, i: int) -> list[Change]:
    """*some* right after a negated verb becomes *any*."""
    general = PAIRS["particular"].get(view.words[i])
    return [Change(i, i + 1, general)] if general else []


def negated_otherwise(view: ClauseView, i: int) -> Iterator[Named]:
    """The verb ``i``, which *not* can negate, negated by another word."""
    if view.clause_opening(i) in WORDS["once"] or "yet" in view.words[i:]:
        return
    yield from _auxiliary_otherwise(view, i) if view.is_auxiliary(i) else _verb_otherwise(view, i)


def _auxiliary_otherwise(view: ClauseView, i: int) -> Iterator[Named]:
    """*may help* → *cannot help*, *can help* → *can never help*, *is used* → *is no longer used*"""
    word, after = view.words[i], view.tags[i + 1]
    apart = WORDS["before-not"] | WORDS["no-never-with"] | PAIRS["particular"].keys()
    if word.startswith("'") or view.words[i + 1] in apart:
        return
    if word in {"may", "might"}:
        yield "insert-cannot", [Change(i, i + 1, "cannot" if word == "may" else "could not")]
    elif view.tags[i] in c5.HAVE or word in {"can", "could", "will", "would"} or after in {"VVN", "AJ0"}:
        yield "insert-never", [Change(i + 1, i + 1, "never")]
    if view.tags[i] in {"VBZ", "VBB"} and after in {"VVN", "AJ0", "VVG"}:
        yield "insert-no-longer", [Change(i + 1, i + 1, "no longer")]


def _verb_otherwise(view: ClauseView, i: int) -> Iterator[Named]:
    """*improves it* → *fails to improve it*, *never improves it*, *no longer improves it*"""
    words, tag = view.words, view.tags[i]
    start, base = view.verb_group(i)
    if words[i + 1] in PAIRS["particular"] or words[start - 1] in WORDS["before-not"]:
        return
    is_of_authors = not WORDS["authors"].isdisjoint(words[max(0, start - 3) : start])
    can_fail = base in WORDS["authors-fail"] if is_of_authors else base not in WORDS["no-fail"]
    if start == i and tag in c5.LEXICAL and can_fail:
        yield "insert-fail-to", [Change(i, i + 1, f"{inflected('fail', c5.PENN.get(tag, 'VB'))} to {base}")]
    if is_of_authors or not WORDS["no-never-with"].isdisjoint(words[start - 1 : i]):
        return
    yield "insert-never", [Change(start, start, "never")]
    if tag in {"VVZ", "VVB", "VHZ", "VHB"}:
        yield "insert-no-longer", [Change(start, start, "no longer")]


def negated_imperative(view: ClauseView) -> Iterator[Named]:
    """*Use it.* → *Do not use it.*, *Never use it.*"""
    if not _is_imperative(view) or view.has_negative(0):
        return
    verb = uncapitalized(view.sentence, 0, 1)
    yield "insert-not", [Change(0, 1, ("don't " if view.contracts else "do not ") + verb)]
    yield "insert-never", [Change(0, 1, f"never {verb}")]


def _is_imperative(view: ClauseView) -> bool:
    """Whether the sentence begins with a verb and its object: "Use it."; not "Let he who …", "See the table."."""
    words, tags = view.words, view.tags
    if tags[0] != "VVB" or tags[1] not in {"AT0", "DPS", "PNP"} or words[view.size - 1] not in {".", "!"}:
        return False
    if words[1] in PAIRS["nominative"].keys() - {"it", "you"}:
        return False
    if words[0] in WORDS["no-do"] | {"see", "note", "make"}:
        return False
    return all(tags[k] not in c5.FINITE for k in view.clause_rest(0))


def negated_caption(view: ClauseView) -> Iterator[Named]:
    """*A man playing a guitar.* → *A man not playing a guitar.*, where no verb is finite."""
    tags = view.tags
    if any(tag in c5.FINITE for tag in tags) or view.negative or tags[0] not in {"AT0", "CRD", "NN2", "NN1"}:
        return
    for i in range(1, view.size):
        follows = tags[i + 1] in {"AT0", "DPS", "PRP", "AVP", "CRD", "PUN"}
        if follows and tags[i] == "VVG" and tags[i - 1] in {"NN1", "NN2"}:
            yield "insert-not", [Change(i, i, "not")]
            return


def negated_question(view: ClauseView) -> Iterator[Named]:
    """*Why does it work?* → *Why doesn't it work?*, *What can it do?* → *What can it not do?*"""
    words, tags = view.words, view.tags
    if view.negative or tags.count("CJC") > 1 or words[0] not in {"why", "when", "which", "what", "who"}:
        return
    auxiliary = view.find(PAIRS["contracted"], 1, 4)
    if auxiliary is None:
        yield from _negated_subject_question(view)
        return
    subject, verb = auxiliary + 1, auxiliary + 2
    if words[0] == "why" and auxiliary == 1:
        yield "insert-not", [Change(1, 2, PAIRS["contracted"][words[1]])]
    elif tags[subject] == "PNP" and tags[verb] in c5.BASE and words[verb] != "do":
        yield "insert-not", [Change(verb, verb, "not")]


def _negated_subject_question(view: ClauseView) -> Iterator[Named]:
    """*What causes it?* → *What does not cause it?*"""
    verb = 1
    if view.words[0] not in {"what", "who", "which"}:
        return
    while view.words[0] == "which" and view.tags[verb] in c5.NOUN | c5.ADJECTIVE:
        verb += 1
    tag = view.tags[verb]
    if tag in {"VVZ", "VVD"} and (base := view.base_form(verb)) and base not in WORDS["no-do"]:
        yield "insert-not", [Change(verb, verb + 1, f"{DO_FOR[tag[-1]]} not {base}")]


_CORRECTING = frozenset(("also", "rather", "instead", "only", "not", "is", "are", "for", "as", "it", "at"))


def affirmed(view: ClauseView, i: int) -> list[Change]:
    """The changes that take away the *not* at ``i``; none if that is not certain to be right."""
    words = view.words
    repaired = without_polarity(view, i)
    correcting = words[i + 1] in WORDS["not-after-not"]
    if correcting or words[i - 1] in {"if", "or", "why", "and", "but", ",", "perhaps"} or repaired is None:
        return []
    changes = _affirmed_verb(view, i)
    if not changes:
        return []
    if words[i + 1] == "yet":
        changes.append(Change(i + 1, i + 2, "already"))
    return changes + repaired


def _affirmed_verb(view: ClauseView, i: int) -> list[Change]:
    """The changes of the verb that the *not* at ``i`` negates."""
    tags = view.tags
    host = i - 2 if tags[i - 1] == "AV0" else i - 1
    if tags[host] in c5.DO:
        return _without_do(view, host, i)
    if tags[host] in c5.BE | c5.HAVE | {"VM0"}:
        return _without_not(view, host, i)
    is_infinitive = tags[i + 1] == "TO0" or (tags[i - 1] == "TO0" and tags[i + 1] in c5.BASE)
    return [Change(i, i + 1, "")] if is_infinitive else []


def without_polarity(view: ClauseView, i: int) -> list[Change] | None:
    """The changes that what only a negative allows wants once the negative ``i`` has gone; None if they are unclear."""
    changes: list[Change] = []
    for k in range(i + 1, view.size):
        if view.words[k] in {";", ":"}:
            break
        mended = _without_polar_word(view, k)
        if mended is None or (not mended and _wants_negative(view, k, follows=k == i + 1)):
            return None
        changes += mended
    return changes


def _without_polar_word(view: ClauseView, k: int) -> list[Change] | None:
    """*any* → *some*, *at all* → nothing; no change of another word; None if the change is unclear."""
    word, after = view.words[k], view.words[k + 1]
    if word in PAIRS["polar"] and view.words[k - 1] not in {"than", "by", "if"}:
        if word == "any" and (after in WORDS["not-after-some"] or view.tags[k + 1] == "AJC"):
            return None
        return [Change(k, k + 1, PAIRS["polar"][word])]
    if (word, after) == ("at", "all") and view.tags[k + 2] not in c5.NOUN:
        return [Change(k, k + 2, "")]
    return []


def _wants_negative(view: ClauseView, k: int, *, follows: bool) -> bool:
    """Whether a word cannot stay without the negative before it, which it ``follows`` at once or not."""
    word, after = view.words[k], view.words[k + 1]
    if word == "but":  # one that does not begin a clause with its own finite verb corrects: "but rather"
        return after in _CORRECTING or c5.FINITE.isdisjoint(view.tags[n] for n in view.clause_rest(k))
    return word in WORDS["negative-only"] and after != "than" and not (word == "yet" and follows)


def _without_do(view: ClauseView, host: int, i: int) -> list[Change]:
    """*does not improve* → *improves*; in a question and where the subject follows, only the *not* goes."""
    words, tags = view.words, view.tags
    verb = view.after_adverbs(i + 1)
    if tags[verb] not in {"VVI", "VHI"} or words[verb] == "help":
        return [Change(i, i + 1, "")] if _asks_with_subject(view, i) else []
    if view.question and tags[host - 1] in {"", "PUN", "AVQ"}:
        return []
    if tags[host] == "VDB":
        return [Change(host, i + 1, "")]
    if _has_second_verb(view, verb):
        return []
    return [Change(host, i + 1, ""), Change(verb, verb + 1, inflected(words[verb], c5.PENN[tags[host]]))]


def _asks_with_subject(view: ClauseView, i: int) -> bool:
    """Whether *n't* is before the subject of a question: "Why doesn't the car start?"."""
    asks = view.question and view.words[0] in WORDS["wh"] and view.words[i] == "n't"
    return asks and view.tags[i + 1] in c5.NOUN | c5.BEGINS_PHRASE


def _has_second_verb(view: ClauseView, verb: int) -> bool:
    """Whether a second verb of the same "does", which would want its ending too, may follow."""
    for k in range(verb, view.clause_rest(verb).stop + 1):
        after = view.tags[k + 2 if view.tags[k + 1] == "AV0" else k + 1]
        if view.tags[k] in {"CJC", "PUN"} and after in c5.BASE | {"VVB"}:
            return True
        if view.words[k] == "or" and after == "NN1":
            return True
    return False


def _without_not(view: ClauseView, host: int, i: int) -> list[Change]:
    inverted = host == 0 or view.tags[i + 1] == "PNP" or view.tags[host - 1] in {"PUN", "AVQ"}
    asks = view.question and view.words[0] in WORDS["wh"]
    if view.tags[i + 1] in {"PUN", "CJC", ""} or view.words[host] in {"need", "dare"} or (inverted and not asks):
        return []
    if view.words[host] in PAIRS["whole"] and view.words[i] == "n't":
        return [Change(host, i + 1, PAIRS["whole"][view.words[host]])]
    return [Change(i, i + 1, "")]


def remove_fail(view: ClauseView, i: int) -> Iterator[Named]:
    """*fails to improve* → *improves*"""
    words, tags = view.words, view.tags
    repaired = without_polarity(view, i)
    if words[i + 1] != "to" or tags[i + 2] not in {"VVI", "VHI", "VDI"} or repaired is None:
        return
    if tags[i] not in c5.LEXICAL | {"VVI", "VVN"} or tags[i - 1] == "XX0" or words[i - 1] == "never":
        return
    if tags[i] == "VVN" and not {tags[i - 1], tags[i - 2]} & (c5.HAVE | {"VHI"}):
        return
    form = words[i + 2] if tags[i] in {"VVB", "VVI"} else inflected(words[i + 2], c5.PENN[tags[i]])
    yield "remove-fail-to", [Change(i, i + 3, form), *repaired]


def move_only(view: ClauseView, i: int) -> Iterator[Named]:
    """*the model only uses text*, *the model uses only text* → *only the model uses text*, and back."""
    if view.question or view.has_negative(i):
        return
    changes = _only_of_verb(view) if i == 0 else _only_of_subject(view, i)
    if changes:
        yield "move-only", changes


def _only_of_verb(view: ClauseView) -> list[Change]:
    head = view.noun_end(1)
    verb = head + 1
    begins = head > 0 and view.tags[1] in {"AT0", "NN2", "DPS", "DT0"}
    if not begins or view.tags[verb] not in c5.LEXICAL or not view.base_form(verb):
        return []
    return [Change(0, 1, ""), Change(verb, verb, "only")]


def _only_of_subject(view: ClauseView, i: int) -> list[Change]:
    tags = view.tags
    start = view.clause_start(i)
    start += tags[start] in c5.OPENS_CLAUSE
    head = view.noun_end(start)
    begins = tags[start] in {"AT0", "DPS", "NN2", "AJ0"} and tags[start - 1] not in {"PUR", "PUQ"}
    if not 0 < head < i or view.words[head] == "others" or not begins:
        return []
    if i - head > 2 or not c5.FINITE.issuperset(tags[head + 1 : i]) or tags[i + 1] in {"CRD", "AV0", "CJS", "PUN"}:
        return []
    first = "only " + uncapitalized(view.sentence, start, start + 1)
    return [Change(start, start + 1, first), Change(i, i + 1, "")]


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
        return _joined_by_that(view, negative, verb, start)
    contrasts = cut_off and words[view.clause_start(first)] in WORDS["contrasting"] - {"and"}
    return "move-not-across" if word in WORDS["contrasting"] or contrasts else ""


def _joined_by_that(view: ClauseView, negative: int, verb: int, start: int) -> str:
    """The name of the move across *that*, at ``start`` or behind it, if the verb before it says what is a fact."""
    main, name = verb, "move-not-up"
    if negative < verb:
        main, name = view.after_adverbs(negative + 1), "move-not-down"
    base = view.words[main] if view.tags[main] in {"VVI", "VVB"} else lemma(view.words[main], "VERB")
    return name if start == main + 1 and base in WORDS["factive"] else ""
