"""Numbers, units, dates and bounds: the sentence states another quantity."""

import re
from collections.abc import Iterable, Iterator, Sequence

from retrokit.augmentation.edits.family import Rewriting, family
from retrokit.augmentation.edits.subject import LEXICON, Subject


def _any_of(words: Iterable[str]) -> str:
    """The pattern of any of the words, longer ones first."""
    return "|".join(sorted(map(re.escape, words), key=lambda word: (-len(word), word)))


_BEFORE, _BEHIND = r"(?<![\w.,/–—:−+±×*^-])", r"(?![\w/–—:−±×*^('′-]|[.,]\d|\s*±)"
# A number with nothing that makes it a part of a code, a range, a formula or a label.
_NUMBER = re.compile(rf"{_BEFORE}(?:\d{{1,3}}(?:,\d{{3}})+|\d+(?:\.\d+)?){_BEHIND}")
_LABEL = rf"(?:[A-Z][\w-]*|(?:{_any_of(LEXICON.words['labels'])})s?)"
_LABELLED = re.compile(rf"(?:\b{_LABEL}\.?(?:\s\d+\s(?:and|to|or))?|[\[(])\s*$")
_YEAR = re.compile(r"(?<![\w.,/–—-])(?:19\d|20[012])\d(?![\w–—/-]|[.,]\d)")
_MONTHS = tuple("January February March April May June July August September October November December".split())
_DAYS = tuple("Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split())
_DATED = re.compile(rf"(?i)\b(?:in|since|until|by|during|before|after|from|late|early|year|{_any_of(_MONTHS)})\s$")
_NAMED_DAY = re.compile(r"(?i)\b(?:in|since|until|by|during|of|on|from|last|next|every|early|late)\s$")
_UNITS, _BOUNDS = LEXICON.pairs["units"], LEXICON.pairs["bounds"]
_UNIT = re.compile(rf"(?<![\w.-])(\d[\d,.]*(?:\s|-(?!g\b))?)({_any_of(_UNITS)})(?![\w/-])")  # 1-g is gravity
_BOUND = re.compile(rf"(?<![\w-])({_any_of(_BOUNDS)})(?![\w-]|\sof\s(?:our|my)\sknowledge)", re.IGNORECASE)
_BEFORE_NUMBER = frozenset(bound for bound in _BOUNDS if bound.partition(" ")[0] in ("at", "no", "up"))
_AMOUNT = re.compile(r"\s(?:\d|(?:a|an|one|two|three|four|five|six|seven|eight|nine|ten|half|twice)\b)")
_WORDS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twelve", "twenty", "thirty")
_COUNT = re.compile(
    rf"(?<![\w-])({_any_of(_WORDS)})(?=\s[a-z]{{3,}})(?!\s(?:and|other|such|hundred|million|thousand)\b)", re.IGNORECASE
)
_BEFORE_COUNT = re.compile(r"(?:\b(?:the|these|those|between|other|all|or|and|to|one)|[,-])\s$", re.IGNORECASE)


@family("numbers", mentioned=True)
def numbers(subject: Subject) -> Iterator[Rewriting]:
    """*12 patients* → *72 patients*, *three trials* → *seven trials*"""
    sentence = subject.passage.sentence
    for match in _NUMBER.finditer(sentence):
        before = sentence[: match.start()]
        if _YEAR.fullmatch(match[0]) or _LABELLED.search(before) or not match[0].strip("0.,"):
            continue
        number = _other_number(match[0], sentence[match.end() :].startswith("%"), subject)
        yield Rewriting("number", f"{before}{number}{sentence[match.end() :]}")
    for match in _COUNT.finditer(sentence):
        if not _BEFORE_COUNT.search(sentence[: match.start()]):
            others = [word for word in _WORDS if word != match[0].lower()]
            word = others[subject.draw(len(others), "count", match.start())]
            yield Rewriting("count", _put(sentence, match.start(), match.end(), word))


def _other_number(number: str, percent: bool, subject: Subject) -> str:
    """The number with another leading digit, at least 2 away; a share stays below 100%."""
    if percent and number.partition(".")[0] == "100":
        return "60"
    leading = next(digit for digit in number if digit in "123456789")
    others = [other for other in range(1, 10) if abs(other - int(leading)) > 1]
    return number.replace(leading, f"{others[subject.draw(len(others), 'number', number)]}", 1)


@family("units", mentioned=True)
def units(subject: Subject) -> Iterator[Rewriting]:
    """*5 mg* → *5 g*, *12 weeks* → *12 days*"""
    sentence = subject.passage.sentence
    for match in _UNIT.finditer(sentence):
        yield Rewriting("unit", sentence[: match.start(2)] + _UNITS[match[2]] + sentence[match.end() :])


@family("dates", mentioned=True)
def dates(subject: Subject) -> Iterator[Rewriting]:
    """*in 1998* → *in 2007*, *in March* → *in August*"""
    yield from _other_years(subject)
    yield from _other_names(subject, "month", _MONTHS[:4] + _MONTHS[5:])  # "may" is a word
    yield from _other_names(subject, "day", _DAYS)


def _other_years(subject: Subject) -> Iterator[Rewriting]:
    """Another year in place of the only one."""
    sentence = subject.passage.sentence
    matches = list(_YEAR.finditer(sentence))
    if len(matches) != 1 or not _DATED.search(sentence[: matches[0].start()]):
        return
    year, distance = int(matches[0][0]), 4 + subject.draw(9, "year")
    is_later = year < 1990 or subject.draw(2, "earlier")
    other = min(year + distance if is_later else year - distance, 2026)
    if other != year:
        yield Rewriting("year", _put(sentence, matches[0].start(), matches[0].end(), str(other)))


def _other_names(subject: Subject, kind: str, names: Sequence[str]) -> Iterator[Rewriting]:
    """Another month or day in place of the only one."""
    sentence = subject.passage.sentence
    if sum(re.search(rf"\b{name}s?\b", sentence) is not None for name in names) != 1:
        return
    for match in re.finditer(rf"\b(?:{'|'.join(names)})\b(?!\s+[A-Z])", sentence):
        if _NAMED_DAY.search(sentence[: match.start()]):
            others = [name for name in names if name != match[0]]
            other = others[subject.draw(len(others), match[0])]
            yield Rewriting(kind, _put(sentence, match.start(), match.end(), other))


@family("quantities", mentioned=True)
def quantities(subject: Subject) -> Iterator[Rewriting]:
    """*at least five* → *at most five*, *the majority* → *the minority*"""
    sentence = subject.passage.sentence
    for match in _BOUND.finditer(sentence):
        bound = match[0].lower()
        if bound in _BEFORE_NUMBER and not _AMOUNT.match(sentence[match.end() :]):
            continue
        yield Rewriting(bound.replace(" ", "-"), _put(sentence, match.start(), match.end(), _BOUNDS[bound]))


def _put(sentence: str, start: int, end: int, text: str) -> str:
    """The sentence with a text in that place, with a capital where there was one."""
    text = text[0].upper() + text[1:] if sentence[start].isupper() else text
    return sentence[:start] + text + sentence[end:]
