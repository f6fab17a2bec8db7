"""Taking a negative away: *not*, *never*, *no*, *fail to*, *lack*, and mending what only a negative allows (*any*)."""

from collections.abc import Iterator

from retrokit.augmentation.near_misses import tags as c5
from retrokit.augmentation.near_misses.negation.clauses import PAIRS, WORDS, ClauseView
from retrokit.augmentation.near_misses.sentence import Change, Named, inflected

_CORRECTING = frozenset(("also", "rather", "instead", "only", "not", "is", "are", "for", "as", "it", "at"))


def affirmed(view: ClauseView, i: int) -> list[Change]:
    """The changes that take away the *not* at ``i``; none if that is not certain to be right."""
    words, tags = view.words, view.tags
    repaired = without_polarity(view, i)
    correcting = words[i + 1] in WORDS["not-after-not"]
    if correcting or words[i - 1] in {"if", "or", "why", "and", "but", ",", "perhaps"} or repaired is None:
        return []
    host = i - 2 if tags[i - 1] == "AV0" else i - 1
    if tags[host] in c5.DO:
        changes = _without_do(view, host, i)
    elif tags[host] in c5.BE | c5.HAVE | {"VM0"}:
        changes = _without_not(view, host, i)
    elif tags[i + 1] == "TO0" or (tags[i - 1] == "TO0" and tags[i + 1] in c5.BASE):
        changes = [Change(i, i + 1, "")]
    else:
        changes = []
    if changes and words[i + 1] == "yet":
        changes.append(Change(i + 1, i + 2, "already"))
    return changes + repaired if changes else []


def without_polarity(view: ClauseView, i: int) -> list[Change] | None:
    """The changes that what only a negative allows wants once the negative ``i`` has gone; None if they are unclear."""
    words, tags = view.words, view.tags
    changes = []
    for k in range(i + 1, view.size):
        word = words[k]
        if word in {";", ":"}:
            break
        if word in PAIRS["polar"] and words[k - 1] not in {"than", "by", "if"}:
            if word == "any" and (words[k + 1] in WORDS["not-after-some"] or tags[k + 1] == "AJC"):
                return None
            changes.append(Change(k, k + 1, PAIRS["polar"][word]))
        elif word == "at" and words[k + 1] == "all" and tags[k + 2] not in c5.NOUN:
            changes.append(Change(k, k + 2, ""))
        elif word == "but":
            # one that does not begin a clause with its own finite verb corrects: "but rather"
            if words[k + 1] in _CORRECTING or c5.FINITE.isdisjoint(tags[n] for n in view.clause_rest(k)):
                return None
        elif word in WORDS["negative-only"] and words[k + 1] != "than" and not (word == "yet" and k == i + 1):
            return None
    return changes


def _without_do(view: ClauseView, host: int, i: int) -> list[Change]:
    """*does not improve* → *improves*; in a question and where the subject follows, only the *not* goes."""
    words, tags = view.words, view.tags
    verb = view.after_adverbs(i + 1)
    if tags[verb] not in {"VVI", "VHI"} or words[verb] == "help":
        asks = view.question and words[0] in WORDS["wh"] and words[i] == "n't"
        return [Change(i, i + 1, "")] if asks and tags[i + 1] in c5.NOUN | c5.BEGINS_PHRASE else []
    if view.question and tags[host - 1] in {"", "PUN", "AVQ"}:
        return []
    if tags[host] == "VDB":
        return [Change(host, i + 1, "")]
    for k in range(verb, view.clause_rest(verb).stop + 1):  # a second verb of the same "does" would want its ending too
        after = tags[k + 2 if tags[k + 1] == "AV0" else k + 1]
        if (tags[k] in {"CJC", "PUN"} and after in c5.BASE | {"VVB"}) or (words[k] == "or" and after == "NN1"):
            return []
    return [Change(host, i + 1, ""), Change(verb, verb + 1, inflected(words[verb], c5.PENN[tags[host]]))]


def _without_not(view: ClauseView, host: int, i: int) -> list[Change]:
    inverted = host == 0 or view.tags[i + 1] == "PNP" or view.tags[host - 1] in {"PUN", "AVQ"}
    asks = view.question and view.words[0] in WORDS["wh"]
    if view.tags[i + 1] in {"PUN", "CJC", ""} or view.words[host] in {"need", "dare"} or (inverted and not asks):
        return []
    if view.words[host] in PAIRS["whole"] and view.words[i] == "n't":
        return [Change(host, i + 1, PAIRS["whole"][view.words[host]])]
    return [Change(i, i + 1, "")]


def remove_never(view: ClauseView, i: int) -> Iterator[Named]:
    """*never works* → *always works*, *works*"""
    words, tags = view.words, view.tags
    repaired = without_polarity(view, i)
    if repaired is None or view.question or words[i + 1] in {"before", "mind", "ending", "again", ",", ".", "the", "a"}:
        return
    yield "swap-never-always", [Change(i, i + 1, "always"), *repaired]
    if tags[i - 1] in c5.FINITE or tags[i + 1] in {"VVZ", "VVD"} or words[i - 1] in PAIRS["nominative"]:
        yield "remove-never", [Change(i, i + 1, ""), *repaired]


def remove_no(view: ClauseView, i: int) -> Iterator[Named]:
    """*no longer* → *still*, *no more than* → *more than*, *no evidence* → *some evidence*, *no drug* → *every drug*"""
    words, tags = view.words, view.tags
    if words[i + 1] == "longer":
        if tags[i + 2] not in {"PUN", "CJC", ""} and words[i + 2] != "than":
            yield "remove-no-longer", [Change(i, i + 2, "still")]
        return
    if words[i + 1] in {"more", "less", "fewer"} and words[i + 2] == "than" and tags[i + 3] == "CRD":
        yield "remove-no", [Change(i, i + 1, "")]
        return
    repaired = without_polarity(view, i)
    head = view.noun_end(i + 1)
    if repaired is None or not head or tags[i] != "AT0" or words[i - 1] in {"or", "and", "whether", "if"}:
        return
    if tags[i + 1] == "CRD" or words[i + 1] in WORDS["no-idiom"] or words[head] in WORDS["no-idiom"]:
        return
    if i == 0 and tags[head + 1] in c5.FINITE and words[head] not in WORDS["counted"]:
        yield "swap-no-every", [Change(i, i + 1, "all" if tags[head] == "NN2" else "every"), *repaired]
    predicate = tags[i - 1] in c5.BE and tags[i - 2] != "EX0"
    if tags[head] == "NN1" and (predicate or words[head] in WORDS["counted"]):
        yield "remove-no", [Change(i, i + 1, "a"), *repaired]
    else:
        yield "swap-no-some", [Change(i, i + 1, "some"), *repaired]


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


def remove_lack(view: ClauseView, i: int) -> Iterator[Named]:
    """*lacks a nucleus* → *has a nucleus*; *the lack of* → *the presence of*"""
    words, tags = view.words, view.tags
    if words[i + 1] == "of" and words[i - 1] == "the" and tags[i + 2] in {"NN1", "NN2", "AJ0"}:
        yield "remove-lack", [Change(i, i + 1, "presence")]
    form = {"VVZ": "has", "VVB": "have", "VVD": "had", "VVG": "having", "VVI": "have"}.get(tags[i])
    follows = tags[i + 1] in c5.PHRASE - {"PRP", "PRF", "AV0", "CJC"} and "XX0" not in {tags[i - 1], tags[i - 2]}
    if form and follows and without_polarity(view, i) == []:
        yield "remove-lack", [Change(i, i + 1, form)]
