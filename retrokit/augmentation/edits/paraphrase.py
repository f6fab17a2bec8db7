"""The same in other words: synonyms, another order of words, keywords in place of a question, another language."""

import re
from collections.abc import Iterator
from functools import partial

from retrokit.augmentation.edits import tags as c5
from retrokit.augmentation.edits.family import Family, Rewriting
from retrokit.augmentation.edits.sentence import Change, View, inflected, lemma, rewrite
from retrokit.augmentation.edits.subject import FUNCTION_WORDS, LEXICON, Subject

_VERBS, _NOUNS, _OTHERS = (LEXICON.pairs[name] for name in ("verbs", "nouns", "others"))
_WORKS = "paper|work|study|article|review|letter|report|trial"
_OPENING = re.compile(rf"^(In this (?:{_WORKS})|Here|Recently|To date),? (?=we\b|I\b)")
_OPENERS = "Although|Though|Because|While|Whereas|Since|If|When|After|Before|Once|Unless"
_CLAUSE = re.compile(rf"^({_OPENERS}) ([^,;:()]+), ([^,;:()]+)\.$")
_NEGATIONS = frozenset("no not nor without".split())
_SHORT = 18  # words that a phrase at the end can be read over
_COORDINATED = re.compile(r"(?:(?<=[PfrBzbv])|^)([an])&\1(?=[.fPzbvBkr])")


def _synonyms(subject: Subject) -> Iterator[Rewriting]:
    """*The results show that it helps* → *The results demonstrate that it aids*: all words that have a synonym."""
    view, changes = View(subject.tagged), []
    for place, word in enumerate(view.words[: view.size]):
        tag = view.tags[place]
        other = _OTHERS.get(word) if tag not in c5.NOUN | {"NP0"} and not tag.startswith("VV") else None
        if tag in c5.PENN and tag.startswith("VV") and view.words[place + 1] not in ("up", "out", "off", "to", "down"):
            other = _VERBS.get(lemma(word, "VERB"))
            other = other and inflected(other, c5.PENN[tag])
        elif tag in ("NN1", "NN2") and subject.tagged.tokens[place].text.islower():
            other = _NOUNS.get(lemma(word, "NOUN"))
            other = other and (inflected(other, "NNS") if tag == "NN2" else other)
        if other and other not in view.words and view.words[place + 1] != "of":
            titled = subject.tagged.tokens[place].text.istitle()
            changes.append(Change(place, place + 1, other.capitalize() if titled else other))
    if changes:
        yield Rewriting("words", rewrite(subject.tagged, changes))


def _word_order(subject: Subject) -> Iterator[Rewriting]:
    """*If it rains, he reads.* → *He reads if it rains.*; *mice and rats were fed* → *rats and mice were fed*"""
    sentence, view = subject.passage.sentence, View(subject.tagged)
    if match := _OPENING.match(sentence):
        rest = sentence[match.end() :]
        if (
            rest.endswith(".")
            and len(rest.split()) <= _SHORT
            and not re.search(r"[,;:(]|\b(?:that|which|who|whether|when)\b", rest)
        ):
            yield Rewriting("opening", f"{rest[0].upper()}{rest[1:-1]} {match[1][0].lower()}{match[1][1:]}.")
    if (match := _CLAUSE.match(sentence)) and not re.search(
        r"\b(?:and|or|but|it|its|they|them|their|this|these|those)\b", match[0]
    ):
        yield Rewriting("clause", f"{match[3][0].upper()}{match[3][1:]} {match[1].lower()} {match[2]}.")
    for match in _COORDINATED.finditer(view.shape):
        first, last = match.start(), match.end() - 1
        before, behind = view.words[first - 1], view.words[last + 1 : last + 2]
        # what stands before or behind may belong to one of the two alone, and another list may follow their order
        is_alone = before not in ("between", "of", "per") and not {"of", "in", "to", "on"} & {*behind}
        is_alone = is_alone and "respectively" not in view.words
        is_word = not any(letter.isdigit() for place in (first, last) for letter in view.words[place])
        if first > 0 and view.words[first + 1] in ("and", "or") and is_alone and is_word:
            words = [Change(first, first + 1, view.sentence.words(last, last + 1))]
            words.append(Change(last, last + 1, view.sentence.words(first, first + 1)))
            yield Rewriting("coordinates", rewrite(subject.tagged, words))


def _keywords(subject: Subject) -> Iterator[Rewriting]:
    """The words of the query that are no function words, in their order; negations stay."""
    words = re.findall(r"[\w'’/.-]*\w", subject.query)
    keywords = [word for word in words if word.lower() not in FUNCTION_WORDS - _NEGATIONS]
    if 1 < len(keywords) < 0.9 * len(words):
        yield Rewriting("query", subject.passage.text, subject.passage, " ".join(keywords))


def _language(subject: Subject) -> Iterator[Rewriting]:
    if subject.translation:
        yield Rewriting("query", subject.passage.text, subject.passage, subject.translation)


synonyms = partial(Family, "synonyms", _synonyms, changes_meaning=False)
word_order = partial(Family, "word-order", _word_order, changes_meaning=False)
keywords = partial(Family, "keywords", _keywords, changes_meaning=False)
language = partial(Family, "language", _language, changes_meaning=False)
