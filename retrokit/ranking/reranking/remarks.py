"""What is to be told of a pair beside its score: a verifier is never to judge in silence what it cannot see.

Of ``identical`` texts (but for white space) and of ``empty`` ones the verdict is certain: accepted, and rejected. Texts
that are ``cut`` at the limit of tokens, that are ``unfamiliar`` (half of their tokens are unknown) or ``not English``
where the verifier knows English alone are scored as they are.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

IDENTICAL, EMPTY, CUT, UNFAMILIAR, FOREIGN = "identical", "empty", "cut", "unfamiliar", "not English"
VERDICTS = {IDENTICAL: True, EMPTY: False}
"""Whether a pair is accepted, whatever its score."""

_ENGLISH = frozenset(
    "the of and to is are were be been for with that by from it not this his her they have has had will would but "
    "their which there when who what how can i you we my your our do does did she him than then after before between "
    "into while because its".split()
)
_OTHERS = frozenset(
    "der die das den dem und ein eine nicht ist im zu mit auf le la les et un une des est du dans que qui el los las y "
    "una del por con il di che gli nel lo della o os um uma da em não het een van en de niet og och att det som ett på "
    "er til jest nie się na w z".split()
)
"""Frequent words of German, French, Spanish, Italian, Portuguese, Dutch, the Scandinavian languages and Polish."""


def of_texts(first: Sequence[str], second: Sequence[str]) -> list[list[str]]:
    """What the texts of each pair say by themselves: that they are identical, or that one is empty."""
    return [
        [EMPTY] if not (a.strip() and b.strip()) else [IDENTICAL] * (a.split() == b.split())
        for a, b in zip(first, second, strict=True)
    ]


def is_foreign(text: str) -> bool:
    """Whether a text is not English: most of its words have no Latin letter, or there is a frequent word of another
    language and none of English. A few words tell nothing.

    >>> is_foreign("Der Hund hat den Mann gebissen."), is_foreign("A dog bites a man."), is_foreign("Собака кусает.")
    (True, False, True)
    """
    words = re.findall(r"[^\W\d_]+", text.lower())
    if 2 * sum(not re.match("[a-zà-öø-ɏ]", word) for word in words) > len(words):
        return True
    return not _ENGLISH.intersection(words) and not _OTHERS.isdisjoint(words)


def decided(remarks: Iterable[str]) -> bool | None:
    """Whether a pair with these remarks is accepted whatever its score; ``None``: its score decides."""
    return next((VERDICTS[remark] for remark in remarks if remark in VERDICTS), None)


def told(counts: Counter[str], pairs: int) -> str:
    """What is to be told of so many pairs, in a line; empty: nothing."""
    means = {
        IDENTICAL: "have identical texts, and are accepted",
        EMPTY: "have an empty text, and are rejected",
        CUT: "are longer than what is read, and judged by their beginnings",
        UNFAMILIAR: "have a text of tokens that are mostly unknown: do not rely on their scores",
        FOREIGN: "have a text that is not English: do not rely on their scores",
    }
    return "; ".join(
        f"{counts[remark]:,} of {pairs:,} pairs {meaning}" for remark, meaning in means.items() if counts[remark]
    )
