"""The same in other words: synonyms, another order of words, keywords in place of a question, another language."""

import re
from collections.abc import Iterator

from retrokit.augmentation.edits import tags as c5
from retrokit.augmentation.edits.family import Rewriting, family
from retrokit.augmentation.edits.sentence import Change, View, inflected, lemma, rewrite
from retrokit.augmentation.edits.subject import FUNCTION_WORDS, LEXICON, Subject

_VERBS, _NOUNS, _OTHERS = (LEXICON.pairs[name] for name in ("verbs", "nouns", "others"))
_WORKS = "paper|work|study|article|review|letter|report|trial"
_OPENING = re.compile(rf"^(In this (?:{_WORKS})|Here|Recently|To date),? (?=we\b|I\b)")
_OPENERS = "Although|Though|Because|While|Whereas|Since|If|When|After|Before|Once|Unless"
_CLAUSE = re.compile(rf"^({_OPENERS}) ([^,;:()]+), ([^,;:()]+)\.$")
_OTHER_CLAUSE = re.compile(r"[,;:(]|\b(?:that|which|who|whether|when)\b")
_REFERRING = re.compile(r"\b(?:and|or|but|it|its|they|them|their|this|these|those)\b")
_NEGATIONS = frozenset("no not nor without".split())
_SHORT = 18  # words that a phrase at the end can be read over
_COORDINATED = re.compile(r"(?:(?<=[PfrBzbv])|^)([an])&\1(?=[.fPzbvBkr])")


@family("synonyms", changes_meaning=False)
def synonyms(subject: Subject) -> Iterator[Rewriting]:
    """*The results show that it helps* → *The results demonstrate that it aids*: all words that have a synonym."""
    view, changes = View(subject.tagged), []
    for index, token in enumerate(subject.tagged.tokens):
        other = _synonym_of(view, index)
        if other and other not in view.words and view.words[index + 1] != "of":
            changes.append(Change(index, index + 1, other.capitalize() if token.text.istitle() else other))
    if changes:
        yield Rewriting("words", rewrite(subject.tagged, changes))


def _synonym_of(view: View, index: int) -> str | None:
    """A synonym in the form of the word at a token, if there is one."""
    word, tag = view.words[index], view.tags[index]
    if tag.startswith("VV") and tag in c5.PENN:
        if view.words[index + 1] in ("up", "out", "off", "to", "down"):
            return None
        return inflected(_VERBS.get(lemma(word, "VERB"), ""), c5.PENN[tag])
    if tag in ("NN1", "NN2"):
        if not view.sentence.tokens[index].text.islower():
            return None
        noun = _NOUNS.get(lemma(word, "NOUN"), "")
        return inflected(noun, "NNS") if tag == "NN2" else noun
    return _OTHERS.get(word) if tag not in c5.NOUN else None


@family("word-order", changes_meaning=False)
def word_order(subject: Subject) -> Iterator[Rewriting]:
    """*If it rains, he reads.* → *He reads if it rains.*; *mice and rats were fed* → *rats and mice were fed*"""
    sentence = subject.passage.sentence
    yield from _opening_last(sentence)
    yield from _clause_last(sentence)
    view = View(subject.tagged)
    for match in _COORDINATED.finditer(view.shape):
        first, last = match.start(), match.end() - 1
        if first > 0 and view.words[first + 1] in ("and", "or") and _may_turn(view, first, last):
            changes = [Change(first, first + 1, view.sentence.words(last, last + 1))]
            changes.append(Change(last, last + 1, view.sentence.words(first, first + 1)))
            yield Rewriting("coordinates", rewrite(subject.tagged, changes))


def _opening_last(sentence: str) -> Iterator[Rewriting]:
    """*In this paper, we show it.* → *We show it in this paper.*"""
    match = _OPENING.match(sentence)
    if match is None:
        return
    rest = sentence[match.end() :]
    if rest.endswith(".") and len(rest.split()) <= _SHORT and not _OTHER_CLAUSE.search(rest):
        yield Rewriting("opening", f"{rest[0].upper()}{rest[1:-1]} {match[1][0].lower()}{match[1][1:]}.")


def _clause_last(sentence: str) -> Iterator[Rewriting]:
    """*If it rains, he reads.* → *He reads if it rains.*"""
    match = _CLAUSE.match(sentence)
    if match is not None and not _REFERRING.search(sentence):
        opener, clause, rest = match.groups()
        yield Rewriting("clause", f"{rest[0].upper()}{rest[1:]} {opener.lower()} {clause}.")


def _may_turn(view: View, first: int, last: int) -> bool:
    """Whether two coordinated words may change places: what is before or behind may belong to only one of them, and
    another list may follow their order."""
    if view.words[first - 1] in ("between", "of", "per") or view.words[last + 1] in ("of", "in", "to", "on"):
        return False
    has_digit = any(letter.isdigit() for letter in view.words[first] + view.words[last])
    return not has_digit and "respectively" not in view.words


@family("keywords", changes_meaning=False)
def keywords(subject: Subject) -> Iterator[Rewriting]:
    """The words of the query that are no function words, in their order; negations stay."""
    words = re.findall(r"[\w'’/.-]*\w", subject.query)
    keywords = [word for word in words if word.lower() not in FUNCTION_WORDS - _NEGATIONS]
    if 1 < len(keywords) < 0.9 * len(words):
        yield Rewriting("query", subject.passage.text, subject.passage, " ".join(keywords))


@family("language", changes_meaning=False)
def language(subject: Subject) -> Iterator[Rewriting]:
    if subject.translation:
        yield Rewriting("query", subject.passage.text, subject.passage, subject.translation)
