"""Negating a verb, an object or a question that is not negative: do-support, contractions, *never*, *fail to*, *no*."""

from collections.abc import Iterator
from itertools import pairwise

from retrokit.augmentation.near_misses import tags as c5
from retrokit.augmentation.near_misses.negation.clauses import DO_FOR, PAIRS, WORDS, ClauseView
from retrokit.augmentation.near_misses.sentence import Change, Named, inflected, lemma, uncapitalized


def negated_finite(view: ClauseView, i: int) -> list[Change]:
    """The changes that negate the finite verb ``i`` with *not*; none if that is not certain to be right."""
    words, tags = view.words, view.tags
    bracketed = tags[:i].count("PUL") > tags[:i].count("PUR")
    if tags[i] not in c5.FINITE or view.has_negative(i) or bracketed:
        return []
    if words[i + 1] in WORDS["no-not-with"] or words[i - 1] in {"if", "as", "than", "so", "nor"}:
        return []
    if not WORDS["universal"].isdisjoint(view.clause_before(i)) or view.clause_opening(i) in WORDS["no-not-under"]:
        return []
    affirms = ("not", "only") in pairwise(words[:i])  # what follows goes on to affirm
    ends = words[view.clause_start(i)] == "," and tags[i + 1] in {"", "PUN"}
    if affirms or (ends and lemma(words[i], "VERB") in WORDS["reporting"]):
        return []  # the clause only says whose words the sentence is: "…, I believe, …", "…, he vows."
    end = view.clause_rest(i).stop
    end += words[end] == "," and words[end + 1] == "but"
    if words[end] == "but" and words[end + 1] in {"also", "no", "not", "never"}:
        return []  # "you may drink water, but no tea"
    if view.is_auxiliary(i):
        return _negated_auxiliary(view, i)
    place, base = view.verb_group(i)
    if not base:
        return []
    auxiliary = DO_FOR[tags[i][-1]]
    auxiliary = PAIRS["contracted"][auxiliary] if view.contracts else auxiliary + " not"
    # the auxiliary comes before the adverbs that begin at "place"
    apart = [Change(place, place, auxiliary), Change(i, i + 1, base)]
    return ([Change(i, i + 1, f"{auxiliary} {base}")] if place == i else apart) + _particular(view, i + 1)


def _negated_auxiliary(view: ClauseView, i: int) -> list[Change]:
    words, tags, word = view.words, view.tags, view.words[i]
    place = i + 1
    while words[place] in WORDS["before-not"]:
        place += 1
    if not _may_precede_auxiliary(view, i) or not c5.NO_VERB_PHRASE.isdisjoint({tags[i + 1], tags[place]}):
        return []
    if words[place] in WORDS["no-not-with"] or {"as", "if"}.issubset(words[max(0, i - 4) : i]):
        return []
    particular = _particular(view, place)
    if word.startswith("'"):  # "they've seen": "they haven't seen"; a noun's 's may be a genitive
        plain = place == i + 1 and tags[i - 1] in {"PNP", "EX0", "PNQ", "DT0"}
        negated = PAIRS["clitic-negated"].get(word if word != "'d" else tags[i])
        return [Change(i, i + 1, negated), *particular] if plain and negated else []
    if tags[i - 1] == "EX0":
        if tags[place] in c5.NOUN | c5.ADJECTIVE:
            return [Change(place, place, "no")]
        if words[i + 1] == "a" and words[i + 2] in WORDS["amount"]:
            return []
        if words[i + 1] == "something":
            return [Change(i + 1, i + 2, "nothing")]
    if place == i + 1 and view.contracts and word in PAIRS["contracted"]:
        return [Change(i, i + 1, PAIRS["contracted"][word]), *particular]
    if place == i + 1 and word == "can":
        return [Change(i, i + 1, "cannot"), *particular]
    return [Change(place, place, "not"), *particular]


def _may_precede_auxiliary(view: ClauseView, i: int) -> bool:
    """Whether a subject or what goes on with one stands before the auxiliary, so that it is not inverted."""
    words, tags = view.words, view.tags
    before = next((k for k in range(i - 1, -1, -1) if tags[k] != "AV0"), -1)
    tag, word, start = tags[before], words[before], view.clause_start(i)
    if before < 0 or not WORDS["inverting"].isdisjoint({word, words[i - 1]}):
        return tag == "EX0"
    if tags[start] == "PRF":
        return False
    if tags[start] == "PRP" and tags[i + 1] == "AT0":  # "at the top of the hoof is the band"
        determined = [k for k in range(start, i) if tags[k] in {"AT0", "DPS", "DT0"}]
        if not determined or tags[determined[-1] - 1] in {"PRP", "PRF"}:
            return False
    if tag == "CJC":
        return word in {"and", "but"} and not c5.FINITE.isdisjoint(tags[:before])
    return tag in c5.NOUN | c5.NAME_LIKE | {"PNP", "PNQ", "DTQ", "DT0", "EX0", "PUR", "CRD"}


def _particular(view: ClauseView, i: int) -> list[Change]:
    """*some* right after a negated verb becomes *any*."""
    general = PAIRS["particular"].get(view.words[i])
    return [Change(i, i + 1, general)] if general else []


def negated_otherwise(view: ClauseView, i: int) -> Iterator[Named]:
    """The verb ``i``, which *not* can negate, negated by another word."""
    words, tags = view.words, view.tags
    if view.clause_opening(i) in WORDS["once"] or "yet" in words[i:]:
        return
    if view.is_auxiliary(i):
        apart = WORDS["before-not"] | WORDS["no-never-with"] | PAIRS["particular"].keys()
        if words[i].startswith("'") or words[i + 1] in apart:
            return
        if words[i] in {"may", "might"}:
            yield "insert-cannot", [Change(i, i + 1, "cannot" if words[i] == "may" else "could not")]
        elif tags[i] in c5.HAVE or words[i] in {"can", "could", "will", "would"} or tags[i + 1] in {"VVN", "AJ0"}:
            yield "insert-never", [Change(i + 1, i + 1, "never")]
        if tags[i] in {"VBZ", "VBB"} and tags[i + 1] in {"VVN", "AJ0", "VVG"}:
            yield "insert-no-longer", [Change(i + 1, i + 1, "no longer")]
        return
    place, base = view.verb_group(i)
    if words[i + 1] in PAIRS["particular"] or words[place - 1] in WORDS["before-not"]:
        return
    authors = not WORDS["authors"].isdisjoint(words[max(0, place - 3) : place])
    fails = base in WORDS["authors-fail"] if authors else base not in WORDS["no-fail"]
    if place == i and tags[i] in c5.LEXICAL and fails:
        yield "insert-fail-to", [Change(i, i + 1, f"{inflected('fail', c5.PENN.get(tags[i], 'VB'))} to {base}")]
    if authors or not WORDS["no-never-with"].isdisjoint(words[place - 1 : i]):
        return
    yield "insert-never", [Change(place, place, "never")]
    if tags[i] in {"VVZ", "VVB", "VHZ", "VHB"}:
        yield "insert-no-longer", [Change(place, place, "no longer")]


def negated_imperative(view: ClauseView) -> Iterator[Named]:
    """*Use it.* → *Do not use it.*, *Never use it.*"""
    words, tags = view.words, view.tags
    names_subject = words[1] in PAIRS["nominative"].keys() - {"it", "you"}
    if tags[0] != "VVB" or tags[1] not in {"AT0", "DPS", "PNP"} or names_subject:
        return
    if view.words[view.size - 1] not in {".", "!"} or words[0] in WORDS["no-do"] or words[0] in {"see", "note", "make"}:
        return
    if any(view.tags[k] in c5.FINITE for k in view.clause_rest(0)) or view.has_negative(0):
        return
    verb = uncapitalized(view.sentence, 0, 1)
    yield "insert-not", [Change(0, 1, ("don't " if view.contracts else "do not ") + verb)]
    yield "insert-never", [Change(0, 1, f"never {verb}")]


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
    """*Why does it work?* → *Why doesn't it work?*, *What causes it?* → *What does not cause it?*"""
    words, tags = view.words, view.tags
    if view.negative or tags.count("CJC") > 1:
        return
    if words[0] not in {"why", "when", "which", "what", "who"}:
        return
    auxiliary = next((i for i in range(1, min(4, view.size)) if words[i] in PAIRS["contracted"]), 0)
    subject, verb = auxiliary + 1, auxiliary + 2
    if words[0] == "why" and auxiliary == 1:
        yield "insert-not", [Change(1, 2, PAIRS["contracted"][words[1]])]
    elif auxiliary and tags[subject] == "PNP" and tags[verb] in c5.BASE and words[verb] != "do":
        yield "insert-not", [Change(verb, verb, "not")]
    elif not auxiliary and words[0] in {"what", "who", "which"}:
        verb = 1
        while words[0] == "which" and tags[verb] in c5.NOUN | c5.ADJECTIVE:
            verb += 1
        if tags[verb] in {"VVZ", "VVD"} and (base := view.base_form(verb)) and base not in WORDS["no-do"]:
            yield "insert-not", [Change(verb, verb + 1, f"{DO_FOR[tags[verb][-1]]} not {base}")]


def negated_how_to(view: ClauseView, i: int) -> Iterator[Named]:
    """*how to boil eggs* → *how not to boil eggs*"""
    if view.words[i + 1] == "to" and view.tags[i + 2] in c5.BASE:
        yield "insert-not", [Change(i + 1, i + 1, "not")]


def insert_no(view: ClauseView, i: int) -> Iterator[Named]:
    """*has a significant effect* → *has no significant effect*, *a man is* → *no man is*"""
    words, tags = view.words, view.tags
    head = view.noun_end(i + 1)
    if not head or view.question or view.has_negative(i) or not WORDS["amount"].isdisjoint(words[i + 1 : head + 1]):
        return
    if tags[i + 1] in {"CRD", "ORD", "AJS"} or tags[head] != "NN1":
        return
    if i == 0 and tags[head + 1] in c5.FINITE:
        yield "insert-no", [Change(0, 1, "no")]
        return
    verb = i - 1
    bears = tags[verb - 1] == "EX0"
    if tags[verb] not in c5.BE:
        bears = tags[verb] in c5.LEXICAL | c5.HAVE and view.base_form(verb) in WORDS["bears-no"]
        bears = bears and bool(view.verb_group(verb)[1])
    if bears:
        yield "insert-no", [Change(i, i + 1, "no")]
