"""What counts as a word, for the checks of what a model wrote.

A word is a run of letters and digits, in lower case; in scripts without spaces between words, each character is one.
UTF-8 that was once read as Latin-1 ("CafÃ©", frequent in MS MARCO) counts as what it was: models mend it unasked.
"""

import re
from collections.abc import Sequence

# Thai, Lao, Myanmar, Khmer, kana, Han and the compatibility ideographs are written without spaces
_ALONE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_ALONE}]|[^\W_{_ALONE}]+")
_MISREAD = re.compile("[\u00c2-\u00f4][\u0080-\u00bf]{1,3}")


def words_of(text: str) -> list[str]:
    """The words of ``text`` in order.

    >>> words_of("“Self-employed” in 2024: 日本")
    ['self', 'employed', 'in', '2024', '日', '本']
    >>> words_of("CafÃ©s")
    ['cafés']
    """
    return [word.lower() for word in _WORD.findall(_MISREAD.sub(_mended, text))]


def _mended(misread: re.Match[str]) -> str:
    try:
        return misread[0].encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return misread[0]


def share_within(part: Sequence[str], whole: Sequence[str], length: int = 3) -> float:
    """How much of ``part`` stands word for word in ``whole``: the share of its words that lie in a run of ``length``
    words which ``whole`` holds, too, wherever. Runs are shorter where ``part`` is.

    >>> share_within("the cat sat down".split(), "down there the cat sat".split())
    0.75
    >>> share_within(["down"], ["sat", "down"]), share_within([], ["sat"])
    (1.0, 1.0)
    """
    if not part:
        return 1.0
    length = min(length, len(part))
    held = {tuple(whole[start : start + length]) for start in range(len(whole) - length + 1)}
    within = [False] * len(part)
    for start in range(len(part) - length + 1):
        if tuple(part[start : start + length]) in held:
            within[start : start + length] = [True] * length
    return sum(within) / len(part)


def holds_run(words: Sequence[str], run: Sequence[str]) -> bool:
    """Whether ``run`` stands in ``words`` as it is.

    >>> holds_run(["a", "bank", "account"], ["bank", "account"]), holds_run(["bankers"], ["bank"])
    (True, False)
    """
    size = len(run)
    return any(list(words[start : start + size]) == list(run) for start in range(len(words) - size + 1))
