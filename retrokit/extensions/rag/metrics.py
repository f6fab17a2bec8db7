"""Exact match and token F1 of an answer, with the normalisation of SQuAD's evaluation (MAG, J.1).

Rajpurkar et al., "SQuAD: 100,000+ Questions for Machine Comprehension of Text", EMNLP 2016. Of several right answers
the one that fits best counts. Values are 0 to 1, higher is better.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalized(text: str) -> str:
    """``text`` in lower case, without punctuation, without articles, with single spaces.

    >>> normalized("The  U.S.A., an  example!")
    'usa example'
    """
    plain = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", plain).split())


def exact_match(prediction: str, answers: Sequence[str]) -> float:
    """1 if the prediction is one of ``answers`` after normalisation, else 0; 0 where there is no answer.

    >>> exact_match("the Beatles.", ["Queen", "Beatles"])
    1.0
    """
    return float(normalized(prediction) in [normalized(answer) for answer in answers])


def token_f1(prediction: str, answers: Sequence[str]) -> float:
    """The best F1 of the prediction's tokens with those of an answer; 0 where there is no answer.

    Two texts without a token (only articles and punctuation) are equal; one such text shares nothing.

    >>> token_f1("in the year 1999", ["1999", "the year 2000"])
    0.5
    """
    return max((_f1(normalized(prediction).split(), normalized(answer).split()) for answer in answers), default=0.0)


def _f1(predicted: list[str], right: list[str]) -> float:
    if not predicted or not right:
        return float(predicted == right)
    shared = sum((Counter(predicted) & Counter(right)).values())
    return 2 * shared / (len(predicted) + len(right))
