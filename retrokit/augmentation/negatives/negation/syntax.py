"""Subjects, verbs and noun phrases as the rules of negation need them: which agrees with which, and where they end."""

from __future__ import annotations

from retrokit.augmentation.negatives.negation.clauses import ClauseView, clause_rest, clause_start
from retrokit.augmentation.negatives.negation.lexicon import PAIRS, WORDS
from retrokit.augmentation.negatives.sentence import Change, inflected, lemma
from retrokit.augmentation.negatives.tags import (
    ADJECTIVE,
    BASE,
    BE,
    FINITE,
    HAVE,
    LEXICAL,
    NAME_LIKE,
    NOUN,
    OBJECT,
    OPENS_CLAUSE,
    PARTICIPLE,
    PENN,
    PHRASE,
)
from retrokit.augmentation.negatives.view import agreeing

DO_FOR = {"Z": "does", "B": "do", "D": "did"}  # by the last letter of the verb's tag


def subject_number(view: ClauseView, end: int) -> str:
    """What stands as the subject right before token ``end``: ``"1"`` if it takes *does*, ``"2"`` if it takes *do*,
    ``"12"`` if it may take either, and nothing if there is no certain subject."""
    words, tags, last = view.words, view.tags, end - 1
    tag, word = tags[last], words[last]
    if tag == "PNP":
        clear = word not in {"it", "you"} or tags[last - 1] in OPENS_CLAUSE | {"", "CJC", "AV0"}
        return PAIRS["nominative"][word] if word in PAIRS["nominative"] and clear else ""
    if tag in {"PNQ", "DTQ", "CJT"}:  # a relative pronoun; the noun before it decides
        return "12" if word in {"who", "which"} or (word == "that" and tags[last - 1] in NOUN) else ""
    if tag in {"PNI", "DT0", "EX0"}:
        opens = tags[last - 1] in OPENS_CLAUSE | {""}
        return {"this": "1", "that": "1", "these": "2", "those": "2"}.get(word, "") if opens else ""
    return _noun_subject(view, last) if tag in NOUN or tag in NAME_LIKE else ""


def _noun_subject(view: ClauseView, last: int) -> str:
    """As :func:`subject_number`, for a subject that ends in the noun ``last``."""
    tags = view.tags
    start = last
    while start and tags[start - 1] in PHRASE:
        start -= 1
    if start and tags[start - 1] not in OPENS_CLAUSE:
        return ""
    while start < last and (tags[start] in {"AV0", "CJC"} or tags[start] == "PRP"):
        if tags[start] == "PRP":
            return ""
        start += 1
    if tags[start] == "PRF" or not WORDS["universal"].isdisjoint(view.words[start:last]):
        return ""
    head = start
    while tags[head] not in NOUN and tags[head] not in NAME_LIKE:
        head += 1
    while head < last and (tags[head + 1] in NOUN or tags[head + 1] in {"POS", "CRD"} or tags[head + 1] in NAME_LIKE):
        head += 1
    if "CJC" in tags[start : last + 1]:
        joined = tags.index("CJC", start)
        if view.words[joined] != "and" or not {"PRF", "PRP"}.isdisjoint(tags[start:joined]):
            return ""
        return "2"
    return {"NN2": "2", "NN1": "1", "NP0": "1"}.get(tags[head], "12")


def is_auxiliary(view: ClauseView, i: int) -> bool:
    """Whether the finite verb ``i`` can be negated without *do*."""
    tags = view.tags
    after = view.after_adverbs(i + 1, ("AV0", "XX0"))
    if tags[i] in BE:
        return True
    if tags[i] == "VM0":
        return tags[after] in BASE
    return tags[i] in HAVE and tags[after] in PARTICIPLE


def base_form(view: ClauseView, i: int) -> str:
    """The base form of the finite verb ``i``; nothing if the word is not surely that form of a verb."""
    word, tag = view.words[i], view.tags[i]
    if tag in HAVE:
        return "have" if word in {"has", "have", "had"} else ""
    if not word.isalpha():
        return ""
    if tag == "VVB":
        return word
    base = "leave" if word == "left" else lemma(word, "VERB")
    return base if inflected(base, PENN[tag]) == word else ""


def verb_group(view: ClauseView, i: int) -> tuple[int, str]:
    """Where the verb ``i`` with the adverbs before it begins, and its base form; an empty form if no subject stands
    before them that agrees with the verb, or the verb is no plain finite one."""
    words, tags = view.words, view.tags
    if tags[i] not in LEXICAL and tags[i] not in HAVE:
        return i, ""
    first = i
    while tags[first - 1] == "AV0" and first > 1:
        first -= 1
    before_verb = any(word.endswith("ly") or word in WORDS["before-verb"] for word in words[first:i])
    place = first if before_verb else i  # other adverbs belong to the noun: "the diagram below shows"
    number = subject_number(view, first)
    wanted = {"Z": "1", "B": "2"}.get(tags[i][-1], number[:1])
    joined = tags[i + 1] in FINITE | {"CJC"} or (words[i + 1] == "," and tags[i + 2][:1] == "V")
    if (
        not number
        or wanted not in number
        or joined
        or tags[i + 1] == "XX0"
        or words[first - 1] in WORDS["not-subjects"]
    ):
        return i, ""
    if tags[i] == "VVD" and (words[i + 1] == "to" or not (tags[first - 1] == "PNP" or _surely_past(view, i))):
        return i, ""
    while words[place] in WORDS["before-not"]:
        place += 1
    if not WORDS["no-not-with"].isdisjoint(words[place:i]):
        return i, ""
    base = base_form(view, i)
    return place, "" if base in WORDS["no-do"] else base


def _surely_past(view: ClauseView, i: int) -> bool:
    """Whether the past form ``i`` is its clause's verb and not a participle that follows its noun."""
    if view.words[i + 1] == "by" or view.tags[i + 1] in {"PUN", "PUL", ""}:
        return False
    base = base_form(view, i)
    headline = view.words[view.size - 1] not in {".", "!"}
    if headline and view.tags[i + 1] not in OBJECT and inflected(base, "VBN") == view.words[i]:
        return False
    later = any(view.tags[k] in FINITE for k in clause_rest(view, i))
    comma = clause_rest(view, i).stop
    return not later and not (view.words[comma] == "," and view.tags[comma + 1] in FINITE)


def noun_end(view: ClauseView, i: int) -> int:
    """Where the noun stands that ends the plain noun phrase beginning at ``i``; 0 if there is none."""
    tags = view.tags
    k = i + (tags[i] in {"AT0", "DPS"})
    while tags[k] in ADJECTIVE or tags[k] in NOUN or tags[k] in {"VVN", "CRD", "ORD", "UNC"}:
        k += 1
    k -= 1
    ends = k >= i and tags[k] in {"NN1", "NN2", "NN0"} and tags[k + 1] not in {"POS", "ZZ0"}
    return k if ends and view.words[k + 1] not in {"-", "/"} else 0


def in_number(view: ClauseView, i: int, plural: bool) -> list[Change] | None:
    """The changes that make the finite verb right after ``i`` agree with a plural or a singular subject; None if no
    finite verb follows."""
    k = view.after_adverbs(i + 1)
    if view.tags[k] not in FINITE:
        return None
    agreed = agreeing(view.words[k], view.tags[k], plural)
    if agreed is None:
        return None
    return [Change(k, k + 1, agreed)] if agreed != view.words[k] else []


def is_subject(view: ClauseView, i: int, head: int) -> bool:
    """Whether the phrase from ``i`` to ``head`` begins its clause and a finite verb follows."""
    k = view.after_adverbs(head + 1)
    joined = view.tags[i - 1] == "CJC" and not FINITE.isdisjoint(view.tags[clause_start(view, i) : i])
    return view.tags[k] in FINITE and (joined or view.tags[i - 1] in OPENS_CLAUSE | {""} or i == 1)
