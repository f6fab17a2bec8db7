"""Noun phrases and verb groups of a tagged sentence, found by regular expressions over one character a token."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from retrokit.augmentation.negatives.sentence import Sentence, Token, inflected, lemma, uncapitalized

# One character a tag. Determiners d p t, numerals c o, adjectives a, nouns n N, adverbs r m (m: degree), verbs by form.
_CODES = {
    **{"AT0": "d", "DPS": "p", "DT0": "t", "CRD": "c", "ORD": "o", "AJ0": "a", "AJC": "a", "AJS": "a"},
    **{"NN1": "n", "NN2": "n", "NN0": "n", "NP0": "N", "POS": "'", "AV0": "r", "AVP": "u", "AVQ": "q"},
    **{"PNP": "i", "PNI": "I", "PNQ": "w", "PNX": "x", "DTQ": "w", "CJC": "&", "CJS": "s", "CJT": "h"},
    **{"PRF": "f", "PRP": "P", "TO0": "T", "XX0": "!", "EX0": "e", "PUL": "(", "PUR": ")", "PUQ": '"'},
    **{"VVB": "b", "VVZ": "z", "VVD": "v", "VVN": "k", "VVG": "g", "VVI": "y", "VM0": "M"},
    **{"VBZ": "B", "VBB": "B", "VBD": "B", "VBI": "E", "VBN": "K", "VBG": "G"},
    **{"VHZ": "H", "VHB": "H", "VHD": "H", "VDZ": "D", "VDB": "D", "VDD": "D"},
}
_DEGREE = frozenset({"very", "more", "most", "less", "least", "too", "quite", "so"})

_CORE = r"(?:[dpt]{1,2}[oc]{0,2}(?:m?[akg])*|[oc]{0,2})(?:m?a|n|N)*[nN]"
_PHRASE = re.compile(rf"{_CORE}(?:'(?:m?a|n|N)*[nN])*|i")
_ACTIVE = re.compile(r"[rm]*(?:M!?[rm]*y|D!?[rm]*y|B!?[rm]*g|H!?[rm]*K[rm]*g|H!?[rm]*k|[zbv])")
_PASSIVE = re.compile(r"[rm]*(?:B!?[rm]*G?[rm]*k|M!?[rm]*E[rm]*k|H!?[rm]*K[rm]*k)")
_COPULA = re.compile(r"[rm]*(?:M!?[rm]*E|H!?[rm]*K|B)")

# Nominative and accusative; "her" alone is read as an object, "it" and "you" never change.
_ACCUSATIVE = {"i": "me", "he": "him", "she": "her", "we": "us", "they": "them"}
_NOMINATIVE = {accusative: "I" if nominative == "i" else nominative for nominative, accusative in _ACCUSATIVE.items()}
PRONOUNS = frozenset(_ACCUSATIVE) | frozenset(_NOMINATIVE)
_PLURAL_PRONOUNS = frozenset({"we", "us", "they", "them"})
_BE = {("is", True): "are", ("are", False): "is", ("was", True): "were", ("were", False): "was"}
_IRREGULAR = {**_BE, ("has", True): "have", ("have", False): "has", ("does", True): "do", ("do", False): "does"}


_OF_NAMES = re.compile(
    r"^[A-Z].*(?:[^m]ian|ean|ese|[^dl]can|eli|aqi)$|^(?:Brit|Span|Ir|Engl|Turk|Swed|Pol|Jew|Dan|Finn)ish$"
)


class Phrase(NamedTuple):
    """The tokens ``start`` to ``end`` (exclusive), their head noun, and whether it is plural (None: either)."""

    start: int
    end: int
    head: int
    plural: bool | None


class VerbGroup(NamedTuple):
    """The tokens of a verb group, its finite word (which agrees with the subject) and its main verb."""

    start: int
    end: int
    finite: int
    main: int


@dataclass(frozen=True, slots=True)
class Parse:
    """A sentence, a character for each of its tokens, and its noun phrases by where they start and end."""

    sentence: Sentence
    shape: str
    phrases: tuple[Phrase, ...]
    starting: dict[int, Phrase]
    ending: dict[int, Phrase]

    def lower(self, index: int) -> str:
        """The token's text in lower case; empty outside the sentence."""
        tokens = self.sentence.tokens
        return tokens[index].text.lower() if 0 <= index < len(tokens) else ""

    def code(self, index: int) -> str:
        """The token's character; ``.`` outside the sentence."""
        return self.shape[index] if 0 <= index < len(self.shape) else "."

    def head(self, phrase: Phrase) -> str:
        """The dictionary form of the phrase's head."""
        token = self.sentence.tokens[phrase.head]
        return token.lower if token.tag in ("NN0", "NP0", "PNP") else lemma(token.text, "NOUN")


def parse(sentence: Sentence) -> Parse:
    """The noun phrases of a sentence."""
    shape = "".join(_code(token, i) for i, token in enumerate(sentence.tokens))
    phrases = tuple(_phrase(sentence, match.start(), match.end()) for match in _PHRASE.finditer(shape))
    return Parse(sentence, shape, phrases, {p.start: p for p in phrases}, {p.end: p for p in phrases})


def _code(token: Token, index: int) -> str:
    if index == 0 and len(token.text) > 4 and token.text.isupper():
        return "?"  # the label of a structured abstract: BACKGROUND, RESULTS
    code = _CODES.get(token.tag, "?")
    if code == "r" and token.lower.endswith(("ity", "ness")):
        return "n"  # a noun that the tagger does not know
    if code == "r" and index and (token.lower in _DEGREE or token.lower.endswith("ly")):
        return "m"
    if code == "?" and token.tag == "PUN":
        return "," if token.text == "," else "." if token.text in ".;:!?…" else "?"
    return code


def _phrase(sentence: Sentence, start: int, end: int) -> Phrase:
    return Phrase(start, end, end - 1, _is_plural(sentence.tokens[end - 1]))


def _is_plural(head: Token) -> bool | None:
    if head.tag == "PNP":
        return head.lower in _PLURAL_PRONOUNS
    if head.lower in ("people", "police"):
        return True
    if head.tag == "NN2":
        return True if lemma(head.text, "NOUN") != head.lower and "-" not in head.text else None
    if re.fullmatch(r"[A-Z][\w-]*[A-Z\d]s", head.text):
        return True  # RNAs, GPT4s
    return None if head.tag == "NN0" and not head.lower.endswith(("ia", "is", "ism", "ity")) else False


def extended(parse: Parse, phrase: Phrase, codes: str = "f") -> Phrase:
    """The phrase with the noun phrases that its prepositions attach: those of *of*, and with ``codes="fP"`` all."""
    end = phrase.end
    while parse.code(end) in codes and (after := parse.starting.get(end + 1)):
        end = after.end
    return phrase._replace(end=end)


def active(parse: Parse, at: int) -> VerbGroup | None:
    """The active verb group that starts at a token."""
    return _group(_ACTIVE.match(parse.shape, at))


def passive(parse: Parse, at: int) -> VerbGroup | None:
    """The passive verb group that starts at a token."""
    return _group(_PASSIVE.match(parse.shape, at))


def copula(parse: Parse, at: int) -> VerbGroup | None:
    """The form of *be*, with its auxiliaries, that starts at a token."""
    return _group(_COPULA.match(parse.shape, at))


def _group(match: re.Match[str] | None) -> VerbGroup | None:
    if match is None:
        return None
    finite = match.start() + next(i for i, code in enumerate(match.group()) if code not in "rm")
    return VerbGroup(match.start(), match.end(), finite, match.end() - 1)


def agrees(parse: Parse, finite: int, subject: Phrase) -> bool:
    """Whether the finite verb has the number of its subject; a disagreement means that one of the two is misread."""
    return agreeing(parse.sentence.tokens[finite], subject.plural, parse.lower(subject.head)) == parse.lower(finite)


def agreeing(verb: Token, plural: bool | None, subject: str = "") -> str | None:
    """A finite verb as a subject of that number wants it, in lower case; None if that cannot be told."""
    word = verb.lower
    if verb.tag in ("VM0", "VVD", "VHD", "VDD"):
        return word
    if word.startswith(("'", "’")) or plural is None or (subject == "i" and verb.tag.startswith("VB")):
        return None
    plural = plural or subject == "i"
    if verb.tag in ("VVB", "VVZ"):
        return inflected(lemma(word, "VERB"), "VB" if plural else "VBZ")
    return _IRREGULAR.get((word, plural), word if (word, not plural) in _IRREGULAR else None)


def as_subject(parse: Parse, phrase: Phrase) -> str:
    """The phrase's words for use as a subject inside a sentence."""
    return _in_case(parse, phrase, _NOMINATIVE)


def as_object(parse: Parse, phrase: Phrase) -> str:
    """The phrase's words for use as an object inside a sentence."""
    return _in_case(parse, phrase, _ACCUSATIVE)


def _in_case(parse: Parse, phrase: Phrase, cases: dict[str, str]) -> str:
    if parse.code(phrase.head) == "i":
        word = parse.lower(phrase.head)
        return cases.get(word, "I" if word == "i" else word)
    return lowered(parse, phrase.start, phrase.end)


def lowered(parse: Parse, start: int, end: int) -> str:
    """The words of some tokens for use inside a sentence; adjectives of names (*Italian*) keep their capital."""
    first = parse.sentence.tokens[start]
    if start == 0 and ((first.tag == "AJ0" and is_of_name(first.text)) or _is_headline(parse)):
        return parse.sentence.words(start, end)
    words = uncapitalized(parse.sentence, start, end)
    labelled = parse.lower(start - 1) == ":" and first.text.istitle() and first.tag not in ("NP0", "NN0")
    return words[0].lower() + words[1:] if labelled and first.text != "I" else words  # "Results: Blood flow rose."


def is_of_name(adjective: str) -> bool:
    """Whether an adjective is made of a name, as *Italian* and *Bayesian* are, and so has its capital everywhere."""
    return _OF_NAMES.search(adjective) is not None


def _is_headline(parse: Parse) -> bool:
    long = [token.text for token in parse.sentence.tokens if len(token.text) > 3]
    return len(long) > 2 and sum(text[0].isupper() for text in long) > 0.7 * len(long)


def subjects(parse: Parse) -> Iterator[Phrase]:
    """The noun phrases that stand where a clause starts, and so are the subject of the verb group at their end."""
    for phrase in parse.phrases:
        if phrase.start == 0:
            yield extended(parse, phrase, "fP")
        elif _starts_clause(parse, phrase.start):
            yield extended(parse, phrase)


def _starts_clause(parse: Parse, at: int) -> bool:
    before = parse.code(at - 1)
    if before == "," and parse.shape.find(",") == at - 1:
        return parse.code(0) in "PsrmT"
    if parse.lower(at - 1) in (";", ":"):
        return True
    if before == "&" and parse.code(at - 2) == ",":
        return parse.starting[at].plural is False
    return before in "hsq" and parse.lower(at - 1) not in ("as", "than", "like")
