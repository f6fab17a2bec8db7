"""Running text: a text cut into sentences, and the rules by which a sentence is none."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from retrokit.augmentation.crops import Multilingual
from retrokit.core.calls import encodable

MIN_CHARS, MAX_CHARS = 20, 400
MIN_WORDS, MAX_WORDS = 4, 60
MOST_WITHOUT_MARK = 12
"""Words of a sentence without a mark at its end, such as a caption; a longer one is cut off."""
_ENDS = frozenset(".!?\"'”’)")

RULES: dict[str, str] = {
    "empty": "empty, or a pair without a paraphrase",
    "short": f"under {MIN_CHARS} characters",
    "few-words": f"fewer than {MIN_WORDS} words",
    "long": f"over {MAX_WORDS} words or {MAX_CHARS} characters",
    "broken": "wrong encoding, or cut off",
    "run-on": "a heading, list mark or figure in the sentence, or two sentences in one",
    "restated": "the same twice, with i.e. in between",
    "link": "a web or mail address",
    "markup": "LaTeX, HTML or program code",
    "symbols": "under 70% letters",
    "brackets": "unbalanced brackets or quotation marks",
    "capitals": "a heading or title in capitals",
    "language": "no common English word",
    "no-verb": "no verb",
    "duplicate": "duplicate sentence",
    "quota-full": "quota of its split reached",
    "no-edit": "no edit by a family with an open quota",
}
"""Why a text (the first) or a sentence gives nothing: the keys of the counts, and what they mean."""


def reasons(counts: Mapping[str, int], meanings: Mapping[str, str], prefix: str = "", most: int | None = None) -> str:
    """How often each reason was counted, under its key behind ``prefix``, the most frequent first; ``most``: only the
    first N, and … for the others."""
    counted = sorted(((counts.get(prefix + key, 0), key) for key in meanings), reverse=True)
    lines = [f"{number:,}: {meanings[key]}" for number, key in counted if number]
    if most is not None and len(lines) > most:
        lines[most:] = ["…"]
    return "; ".join(lines)


def sentences_in(text: str) -> Iterator[str]:
    """The sentences of a text; white space is normalised."""
    for piece in Multilingual("en").cut(encodable(text)):
        if sentence := " ".join(piece.split()):
            yield sentence


_BROKEN = re.compile(
    "[\ufffd\ufeff\x00-\x08\x0e-\x1f\x7f-\x9f\u200b]|[ÃÂâ][\u20ac\u0080-\u00bf]|"
    "(?:\\.\\.\\.|…|[,;:(–-]| (?:nn|np|pd|plt|tf|torch|os|sys|sympy)\\.)$|\\(cid:|^[^\\w\"“(‘'$£€]"
)
_RUN_ON = re.compile(
    r"^(?:[A-Z]{4,}/?|AIMS?)(?: [A-Z/&]{2,})*:? [A-Z0-9]|^(?:OBJECTIVES?|BACKGROUND|METHODS?|RESULTS?|CONCLUSIONS?) "
    r"|\b[A-Z]{4,} (?:A|An|The|This|These|In|If|For) [a-z]"  # a label inside
    r"|[a-z\d)] (?:The|This|These|Those|In|We|It|If|For|When|An|To|Our|There|However|Returns?|Specifies) [a-z]"
    r"|[a-z](?<!\bDr)(?<!\bSt)(?<!\bMr)(?<!\bMs)(?<!\bMrs)\. ?[A-Z][a-z]+ [a-z]|[a-z],[A-Za-z]|[a-z]\d*[.;:][A-Z]"
    r"|: .*\w: | : |^\S+ -- |::|\b(?:TODO|XXX|FIXME)\b| - [A-Z]"  # an entry of a list
    r"|^(?:[a-z_]\w*|Args|Returns?|Raises|Yields|Inputs?|Outputs?|Shape|[\w.]+[a-z][A-Z.]\w+): "  # of parameters
    r"|\w \([\w ,.|\[\]]+\): |[.:;] \d\.$"
    r"|\b(?!than|to|is|are|be|of|by|at|in|from|or|and|with|least|most|on|not|for|was|were|until|between)"
    r"[a-z]+[);:]? \d\.$"
    r"|[a-z]{3,} \d+ \d+ [a-z]|[a-z]- (?!and\b|or\b|to\b|,)[a-z]|\b(?!that\b|had\b)(\w{2,}) \1\b"
)
_RESTATED = re.compile(r"\bi\.e\b|\bie[.,]|\bviz\.|\bthat is,|\bin other words\b", re.IGNORECASE)
_LINK = re.compile(r"https?:|www\.|\b[\w-]+\.(?:com|org|net|edu|gov)\b|\w@\w", re.IGNORECASE)
_MARKUP = re.compile(r"[\\^{}|_]|<[A-Za-z/!]|\$[A-Za-z(]|\(\)|&\w+;|\[\w+\]|[=+*#].*[=+*#]")
_ENGLISH = re.compile(
    r"\b(?:the|a|an|of|to|in|is|are|was|were|be|been|and|or|for|on|at|by|with|from|as|that|this|these|those|it|its|we|our|"
    r"you|your|he|his|she|her|they|their|i|my|do|does|did|has|have|had|can|will|would|should|could|may|not|no|but|if|"
    r"when|what|how|who|why|where|which|than|after|before|into|over|under|there|all|more|most|some|any)\b",
    re.IGNORECASE,
)


def why_not(sentence: str) -> str | None:
    """The first rule (a key of :data:`RULES`) by which ``sentence`` is no running text, without tagging it.

    >>> why_not("Too short."), why_not("The cat sleeps inside the box.")
    ('short', None)
    """
    words = sentence.split()
    tests: list[tuple[str, Callable[[], object]]] = [
        ("short", lambda: len(sentence) < MIN_CHARS),
        ("long", lambda: len(sentence) > MAX_CHARS),
        ("few-words", lambda: len(words) < MIN_WORDS),
        ("long", lambda: len(words) > MAX_WORDS),
        ("broken", lambda: _BROKEN.search(sentence)),
        ("run-on", lambda: _RUN_ON.search(sentence)),
        ("broken", lambda: len(words) > MOST_WITHOUT_MARK and sentence[-1] not in _ENDS),
        ("restated", lambda: _RESTATED.search(sentence)),
        ("link", lambda: _LINK.search(sentence)),
        ("markup", lambda: _MARKUP.search(sentence)),
        ("symbols", lambda: sum(map(str.isalpha, sentence)) < 0.7 * (len(sentence) - len(words) + 1)),
        ("brackets", lambda: not _balanced(sentence)),
        ("capitals", lambda: _capitals(words)),
        ("language", lambda: not _ENGLISH.search(sentence)),
    ]
    return next((rule for rule, holds in tests if holds()), None)


_OPENING, _CLOSING = re.compile(r"(?<![\w'])'(?=[^\s\d.,;:])"), re.compile(r"(?<=[^\W\ds_'])'(?![\w'])|(?<=[.,?!])'")
_CUT_CODE = re.compile(r"^[^`]*\w`(?!\w)")  # "Session` is closed"
_PLURALS = re.compile(r"s'(?!\w)")


def _balanced(sentence: str) -> bool:
    """Whether every bracket, quotation mark and backtick has its counterpart."""
    if sentence.count('"') % 2 or sentence.count("`") % 2 or _CUT_CODE.search(sentence):
        return False
    if any(sentence.count(mark) != sentence.count(end) for mark, end in ("“”", ("``", "''"))):
        return False
    opened, closed = len(_OPENING.findall(sentence)), len(_CLOSING.findall(sentence))
    if closed > opened or opened > closed + len(_PLURALS.findall(sentence)):
        return False
    brackets = "".join(re.findall(r"[()\[\]]", sentence))
    while "()" in brackets or "[]" in brackets:
        brackets = brackets.replace("()", "").replace("[]", "")
    return not brackets


def _capitals(words: Sequence[str]) -> bool:
    """Whether more than 60% of the words of four and more letters begin with a capital, the first word apart."""
    long = [word for word in words[1:] if len(word) > 3 and word[0].isalpha()]
    return len(long) > 1 and sum(word[0].isupper() for word in long) > 0.6 * len(long)
