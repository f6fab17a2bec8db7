"""A sentence as tagged words, its noun phrases and verb groups, and rewriting it: the base of all near-miss families.

The tags are the C5 set of the British National Corpus: ``NN1`` singular noun, ``NN2`` plural noun, ``NP0`` proper
noun, ``AJ0`` adjective, ``AT0`` article, ``VVZ`` a lexical verb's third person, ``VBD`` a past form of *be*, ``VM0``
modal, ``XX0`` *not*, ``PRP`` preposition, ``PUN`` punctuation, and so on. Regular expressions over one character a
token find phrases and groups.
"""

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib import import_module
from typing import Any, NamedTuple

from retrokit.core.errors import check_extra

# Words keep inner apostrophes, hyphens, points and slashes; clitics (n't, 's, 're, …) stand alone, as in the tag set.
_WORD = re.compile(
    r"\b(?:ca|wo|sha|do|does|did|is|are|was|were|has|have|had|could|should|would|might|must|need)(?=n['’]t\b)"
    r"|can(?=not\b)|n['’]t\b|['’](?:s|re|ve|ll|d|m)\b|\d+(?:[.,]\d+)*%?|\w+(?:(?:[-/.]|['’](?!(?:s|re|ve|ll|d|m)\b))\w+)*|\S",
    re.IGNORECASE,
)
_LOOSE_MARK = re.compile(r"\s+([,.;:?!])(?=\s|$)")
_ARTICLE = re.compile(r"\b([Aa]n?)\s+([\w'’-]+)")


class Token(NamedTuple):
    """A word or mark: its text, its C5 tag, and its place in the sentence."""

    text: str
    tag: str
    start: int
    end: int

    @property
    def lower(self) -> str:
        """The text in lower case."""
        return self.text.lower()


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence and its tokens."""

    text: str
    tokens: tuple[Token, ...]

    def words(self, start: int, end: int) -> str:
        """The text of the tokens ``start`` to ``end`` (exclusive)."""
        return self.text[self.tokens[start].start : self.tokens[end - 1].end] if start < end else ""


class Change(NamedTuple):
    """Put ``text`` in place of the tokens ``start`` to ``end`` (exclusive); before ``start`` if the two are equal."""

    start: int
    end: int
    text: str


Named = tuple[str, Sequence[Change]]
"""A name of an edit and the changes that make it."""


def tag(text: str) -> Sentence:
    """The sentence ``text`` with its words tagged; raises :class:`~core.errors.MissingExtra` without the tagger."""
    spans = [(match.group(), match.start(), match.end()) for match in _WORD.finditer(text)]
    tags = _tagger().tag_sent([word.replace("’", "'") for word, _, _ in spans], taglevel=0)
    return Sentence(text, tuple(Token(word, t, a, b) for (word, a, b), t in zip(spans, tags, strict=True)))


def rewrite(sentence: Sentence, changes: Iterable[Change]) -> str:
    """The sentence with the changes, which must not overlap: spacing as before, a capital where the sentence began
    with one, *a* and *an* as the word that now follows wants them.

    Words that leave the start of the sentence keep their capital: pass them through :func:`uncapitalized`.
    """
    source, ends = sentence.text, [sentence.tokens[0].start, *(token.end for token in sentence.tokens)]
    text, position = "", 0
    for change in sorted(changes):
        text += source[ends[position] : ends[change.start]]
        if change.text:
            replaced = sentence.tokens[change.start] if change.start < change.end else None
            space = " " if replaced is None else source[ends[change.start] : replaced.start]
            text += (space if text else "") + change.text
        position = change.end
    text = (text + source[ends[position] : ends[-1]]).lstrip()
    if not _LOOSE_MARK.search(source):
        text = _LOOSE_MARK.sub(r"\1", text)
    if source.lstrip()[:1].isupper():
        text = text[:1].upper() + text[1:]

    def with_article(match: re.Match[str]) -> str:
        if match.group() in source:
            return match.group()
        article = indefinite_article(match[2])
        article = article.capitalize() if match[1][0] == "A" else article
        return match.group().replace(match[1], article, 1)

    return _ARTICLE.sub(with_article, text)


def uncapitalized(sentence: Sentence, start: int, end: int) -> str:
    """The words of the tokens ``start`` to ``end`` for use inside a sentence: without the capital that only the
    sentence's start gave them. Names, acronyms and *I* keep theirs."""
    words = sentence.words(start, end)
    first = sentence.tokens[0]
    if (
        start > 0
        or not words
        or first.tag == "NP0"
        or first.text == "I"
        or any(letter.isupper() for letter in first.text[1:])
    ):
        return words
    return words[0].lower() + words[1:]


@lru_cache(maxsize=20_000)
def indefinite_article(word: str) -> str:
    """*a* or *an*, as ``word`` is spoken."""
    return "an" if _articles().a(word).startswith("an ") else "a"


@lru_cache(maxsize=20_000)
def inflected(lemma: str, tag: str) -> str:
    """A form of a word by its Penn tag (``VB``, ``VBZ``, ``VBD``, ``VBN``, ``VBG``, ``NN``, ``NNS``), the first if
    there are several; the lemma itself if the form is not known, or the lemma is empty."""
    if not lemma:
        return lemma
    forms = _package("lemminflect").getInflection(lemma, tag) or _package("lemminflect").getInflectionOOV(lemma, tag)
    return str(forms[0]) if forms else lemma


@lru_cache(maxsize=20_000)
def lemma(word: str, part_of_speech: str) -> str:
    """The dictionary form of ``word`` as a ``VERB``, ``NOUN`` or ``ADJ``."""
    lemmas = _package("lemminflect").getLemma(word.lower(), upos=part_of_speech)
    return str(lemmas[0]) if lemmas else word.lower()


@cache
def _tagger() -> Any:
    tagger = _package("HanTa.HanoverTagger").HanoverTagger("morphmodel_en.pgz")
    # A word that is not in the tagger's lexicon is taken apart afresh each time: most of the cost of running text.
    tagger.analyze_forward = lru_cache(maxsize=100_000)(tagger.analyze_forward)
    return tagger


@cache
def _articles() -> Any:
    return _package("inflect").engine()


@cache
def _package(name: str) -> Any:
    check_extra("near-misses", "negatives")
    return import_module(name)


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
_CODES_OF_MARKS = {",": ",", **dict.fromkeys(".;:!?…", ".")}
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
_NUMBERS = {form: pair for pair in (("is", "are"), ("was", "were"), ("has", "have"), ("does", "do")) for form in pair}
"""The singular and the plural of an auxiliary, by either."""


_OUTSIDE = 8
_NOUN_PHRASE_START = frozenset("AT0 DPS AJ0 AJC AJS NN0 NN1 NN2 NP0 CRD DT0 ORD PNP PNI".split())
_OF_NAMES = re.compile(
    r"^[A-Z].*(?:[^m]ian|ean|ese|[^dl]can|eli|aqi)$|^(?:Brit|Span|Ir|Engl|Turk|Swed|Pol|Jew|Dan|Finn)ish$"
)


_ACRONYMS = re.compile(r"[A-Z][\w-]*[A-Z\d]s")


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


class View:
    """What every rule sees of a sentence: its ``size`` tokens as ``words`` in lower case with straight apostrophes, and
    their ``tags``. Both end in empty entries, for places before the first or after the last."""

    def __init__(self, sentence: Sentence) -> None:
        self.sentence = sentence
        self.size = len(sentence.tokens)
        self.words = [token.text.lower().replace("’", "'") for token in sentence.tokens] + [""] * _OUTSIDE
        self.tags = [token.tag for token in sentence.tokens] + [""] * _OUTSIDE

    @cached_property
    def shape(self) -> str:
        """A character for each token (``_CODES``)."""
        return "".join(_code(token, i) for i, token in enumerate(self.sentence.tokens))

    @cached_property
    def codes(self) -> str:
        """The shape, with full stops at its end for what is outside."""
        return self.shape + "." * _OUTSIDE

    @cached_property
    def phrases(self) -> list[Phrase]:
        """The noun phrases."""
        tokens = self.sentence.tokens
        spans = (match.span() for match in _PHRASE.finditer(self.shape))
        return [Phrase(start, end, end - 1, _is_plural(tokens[end - 1])) for start, end in spans]

    @cached_property
    def starting(self) -> dict[int, Phrase]:
        """The noun phrases by their first tokens."""
        return {phrase.start: phrase for phrase in self.phrases}

    @cached_property
    def subjects(self) -> list[Phrase]:
        """The noun phrases that stand where a clause starts: subjects of the verb group at their end."""
        first = [self.extended(phrase, "fP") for phrase in self.phrases[:1] if phrase.start == 0]
        later = (phrase for phrase in self.phrases if phrase.start > 0 and self._starts_clause(phrase.start))
        return first + [self.extended(phrase) for phrase in later]

    def head(self, phrase: Phrase) -> str:
        """The dictionary form of the phrase's head."""
        word = self.words[phrase.head]
        return word if self.tags[phrase.head] in ("NN0", "NP0", "PNP") else lemma(word, "NOUN")

    def says(self, at: int, *words: str) -> bool:
        """Whether ``words`` stand from the token ``at`` on."""
        return self.words[at : at + len(words)] == list(words)

    def find(self, words: Container[str], start: int, stop: int) -> int | None:
        """The first token from ``start`` up to ``stop`` (exclusive) that is one of the words."""
        return next((at for at in range(start, min(stop, self.size)) if self.words[at] in words), None)

    def before_adverbs(self, at: int) -> int:
        """The last token before ``at`` that is neither adverb nor *not*."""
        at -= 1
        while self.tags[at] in {"AV0", "XX0"}:
            at -= 1
        return at

    def starts_noun_phrase(self, at: int) -> bool:
        """Whether a noun phrase may start at a token."""
        return self.tags[at] in _NOUN_PHRASE_START and self.words[at] not in {"that", "such", "all", "both"}

    def is_noun(self, at: int) -> bool:
        """Whether a token is a common noun."""
        return self.tags[at].startswith("NN")

    def before_noun(self, at: int) -> bool:
        """Whether a token is before a noun, at most one adjective between."""
        return self.is_noun(at + 1) or (self.tags[at + 1] == "AJ0" and self.is_noun(at + 2))

    def ends_phrase(self, at: int) -> bool:
        """Whether a predicate or an object may end before a token."""
        return self.tags[at] in {"", "PUN", "PRP", "PRF", "CJC", "CJS", "CJT", "TO0"}

    def is_passive(self, at: int) -> bool:
        """Whether a form of *be* is before a token."""
        return self.tags[self.before_adverbs(at)].startswith("VB")

    def after_adverbs(self, at: int, skipped: Container[str] = ("AV0",)) -> int:
        """The first token from ``at`` on that is no adverb."""
        while self.tags[at] in skipped:
            at += 1
        return at

    def counted_noun(self, at: int) -> int:
        """The noun that ends the phrase after a token, in families that count things; 0 if there is none."""
        return 0

    def extended(self, phrase: Phrase, codes: str = "f") -> Phrase:
        """The phrase with the noun phrases that its prepositions attach: of *of*, and with ``codes="fP"`` all."""
        end = phrase.end
        while self.codes[end] in codes and (after := self.starting.get(end + 1)):
            end = after.end
        return phrase._replace(end=end)

    def active(self, at: int) -> VerbGroup | None:
        """The active verb group that starts at a token."""
        return _group(_ACTIVE.match(self.shape, at))

    def passive(self, at: int) -> VerbGroup | None:
        """The passive verb group that starts at a token."""
        return _group(_PASSIVE.match(self.shape, at))

    def copula(self, at: int) -> VerbGroup | None:
        """The form of *be*, with its auxiliaries, that starts at a token."""
        return _group(_COPULA.match(self.shape, at))

    def agrees(self, finite: int, subject: Phrase) -> bool:
        """Whether the finite verb has the number of its subject; if not, one of the two is misread."""
        number, head = subject.plural, self.words[subject.head]
        return agreeing(self.words[finite], self.tags[finite], number, head) == self.words[finite]

    def in_agreement(self, finite: int, plural: bool | None, subject: str = "") -> list[Change] | None:
        """The changes that make a finite verb agree with another subject; None if unclear."""
        word = self.words[finite]
        form = agreeing(word, self.tags[finite], plural, subject)
        if form is None:
            return None
        return [Change(finite, finite + 1, form)] if form != word else []

    def as_subject(self, phrase: Phrase) -> str:
        """The phrase's words for use as a subject inside a sentence."""
        return self._in_case(phrase, _NOMINATIVE)

    def as_object(self, phrase: Phrase) -> str:
        """The phrase's words for use as an object inside a sentence."""
        return self._in_case(phrase, _ACCUSATIVE)

    def lowered(self, start: int, end: int) -> str:
        """The words of some tokens for use inside a sentence; adjectives of names (*Italian*) keep their capital."""
        first = self.sentence.tokens[start]
        if start == 0 and ((first.tag == "AJ0" and is_of_name(first.text)) or self._is_headline()):
            return self.sentence.words(start, end)
        words = uncapitalized(self.sentence, start, end)
        labelled = self.words[start - 1] == ":" and first.text.istitle() and first.tag not in ("NP0", "NN0")
        return words[0].lower() + words[1:] if labelled and first.text != "I" else words  # "Results: Blood flow rose."

    def _in_case(self, phrase: Phrase, cases: dict[str, str]) -> str:
        if self.codes[phrase.head] == "i":
            word = self.words[phrase.head]
            return cases.get(word, "I" if word == "i" else word)
        return self.lowered(phrase.start, phrase.end)

    def _is_headline(self) -> bool:
        long = [token.text for token in self.sentence.tokens if len(token.text) > 3]
        return len(long) > 2 and sum(text[0].isupper() for text in long) > 0.7 * len(long)

    def _starts_clause(self, at: int) -> bool:
        before = self.codes[at - 1]
        if before == "," and self.shape.find(",") == at - 1:
            return self.codes[0] in "PsrmT"
        if self.words[at - 1] in (";", ":"):
            return True
        if before == "&" and self.codes[at - 2] == ",":
            return self.starting[at].plural is False
        return before in "hsq" and self.words[at - 1] not in ("as", "than", "like")


def _code(token: Token, index: int) -> str:
    if index == 0 and len(token.text) > 4 and token.text.isupper():
        return "?"  # the label of a structured abstract: BACKGROUND, RESULTS
    if token.tag == "PUN":
        return _CODES_OF_MARKS.get(token.text, "?")
    code = _CODES.get(token.tag, "?")
    return _code_of_adverb(token.lower, index) if code == "r" else code


def _code_of_adverb(word: str, index: int) -> str:
    if word.endswith(("ity", "ness")):
        return "n"  # a noun that the tagger does not know
    return "m" if index > 0 and (word in _DEGREE or word.endswith("ly")) else "r"


def _is_plural(head: Token) -> bool | None:
    if head.tag == "PNP":
        return head.lower in _PLURAL_PRONOUNS
    if head.lower in ("people", "police"):
        return True
    if head.tag == "NN2":
        return True if lemma(head.text, "NOUN") != head.lower and "-" not in head.text else None
    if _ACRONYMS.fullmatch(head.text):
        return True  # RNAs, GPT4s
    return None if head.tag == "NN0" and not head.lower.endswith(("ia", "is", "ism", "ity")) else False


def _group(match: re.Match[str] | None) -> VerbGroup | None:
    if match is None:
        return None
    finite = match.start() + next(i for i, code in enumerate(match.group()) if code not in "rm")
    return VerbGroup(match.start(), match.end(), finite, match.end() - 1)


def agreeing(word: str, tag: str, plural: bool | None, subject: str = "") -> str | None:
    """A finite verb as a subject of that number wants it, in lower case; None if unclear."""
    if tag in ("VM0", "VVD", "VHD", "VDD"):
        return word
    if word.startswith("'") or plural is None or (subject == "i" and tag.startswith("VB")):
        return None
    plural = plural or subject == "i"
    if tag in ("VVB", "VVZ"):
        return inflected(lemma(word, "VERB"), "VB" if plural else "VBZ")
    return _NUMBERS[word][plural] if word in _NUMBERS else None


def is_of_name(adjective: str) -> bool:
    """Whether an adjective derives from a name, as *Italian* and *Bayesian* are, and so has its capital everywhere."""
    return _OF_NAMES.search(adjective) is not None
