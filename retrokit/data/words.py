"""Words of texts in any script, for BM25 and for near-duplicates.

BM25 takes scripts without spaces in pairs of characters, as Lucene's CJKAnalyzer does. A character is a letter with its
marks, such as a Thai consonant with the vowel above it.
"""

import re
import unicodedata
from collections import Counter
from operator import add

_UNSPACED = {
    "Han": "々〇\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff",
    "Hiragana": "\u3041-\u309f",
    "Katakana": "\u30a0-\u30ff\u31f0-\u31ff",
    "Hangul": "\u1100-\u11ff\ua960-\ua97f\uac00-\ud7ff",
    "Thai": "\u0e01-\u0e3a\u0e40-\u0e4e",
    "Lao": "\u0e81-\u0ecd\u0edc-\u0edf",
    "Khmer": "\u1780-\u17d3\u17dc\u17dd",
    "Myanmar": "\u1000-\u103f\u104e-\u108f\ua9e0-\ua9ef\uaa60-\uaa7f",
}
_SCRIPTS = {name: re.compile(f"[{letters}]") for name, letters in _UNSPACED.items()}
_ANY = "".join(_UNSPACED.values())
# the marks of writing (below U+10000; above it a pattern would take long): Python's \w leaves them out, and so cuts
# words of Hindi at their vowels
_MARKS = "".join(chr(i) for i in range(0x10000) if unicodedata.category(chr(i))[0] == "M")
_CHARACTER = f"[{_ANY}][{_MARKS}]*"
_CHARACTERS, _RUN = re.compile(_CHARACTER), re.compile(f"(?:{_CHARACTER})+")
_UNIT = re.compile(f"{_CHARACTER}|(?:[^\\W{_ANY}]+[{_MARKS}]*)+")
_WORD = re.compile(r"\w+")
COUNTED = f"\\w[\\w{_MARKS}]+|[{_ANY}]"
"""The pattern of what BM25 counts in texts of :func:`spaced`: words of two letters or more, and characters."""
_NEEDS_MORE = re.compile(f"[{_ANY}{_MARKS}]")  # than \w
# soft hyphens and joiners, variants of a glyph, vowel points
_DROPPED = re.compile("[\u00ad\u034f\u200d\u2060\ufeff\ufe00-\ufe0f\u0640\u064b-\u0652\u0670\u05b0-\u05c7]")
_NON_JOINER = re.compile("(?<![\u0600-\u06ff])\u200c")  # which in Arabic script separates words


def normalized(text: str, turkish: bool = False) -> str:
    """``text`` in NFKC, without case, vowel points of Arabic and Hebrew, or soft hyphens. The dotted and the dotless I
    are one letter, except in Turkish.

    >>> normalized("Ｃａｆｅ\\u0301 İSTANBUL"), normalized("ISI", turkish=True)
    ('café istanbul', 'ısı')
    """
    if turkish:
        text = text.replace("I", "ı").replace("İ", "i")
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).replace("i\u0307", "i")
    text = _NON_JOINER.sub("", _DROPPED.sub("", text))
    return text if turkish else text.replace("ı", "i")


def units(text: str) -> list[str]:
    """The words of a text, and each character of a script that puts no spaces between them.

    >>> units("用Python写代码")
    ['用', 'python', '写', '代', '码']
    """
    text = normalized(text)
    return (_UNIT if _needs_more(text) else _WORD).findall(text)


def has_units(text: str) -> bool:
    """Whether a text has any of its :func:`units`."""
    return _WORD.search(text) is not None if text.isascii() else bool(units(text))


def _needs_more(text: str) -> bool:
    return not text.isascii() and _NEEDS_MORE.search(text) is not None


def spaced(text: str) -> str:
    """A normalized text with spaces between what BM25 counts: words, pairs of characters, and each Han character.

    >>> spaced("用python写代码")
    ' 用 python 写代 代码 写 代 码 '
    """
    return _RUN.sub(_pairs, text) if _needs_more(text) else text


def _pairs(run: re.Match[str]) -> str:
    characters = _CHARACTERS.findall(run[0])
    singles = filter(_SCRIPTS["Han"].match, characters) if len(characters) > 1 else characters
    return f" {' '.join([*map(add, characters, characters[1:]), *singles])} "


def unspaced_scripts(text: str) -> Counter[str]:
    """Counts of letters of each script without spaces."""
    if not _needs_more(text):
        return Counter()
    return Counter({name: len(letters.findall(text)) for name, letters in _SCRIPTS.items() if letters.search(text)})
