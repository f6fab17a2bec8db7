"""What the label of a pair means: positive, not positive, or no label."""

import math
import re
from typing import Any

from retrokit.data.jsonl import kind_of

POSITIVE_NAMES = {
    *("positive", "relevant", "entailment", "entails", "duplicate", "paraphrase", "equivalent", "similar", "same"),
    *("match", "true", "yes"),
}
NEGATIVE_NAMES = {
    *("negative", "irrelevant", "neutral", "contradiction", "contradicts", "different", "unrelated", "dissimilar"),
    *("mismatch", "false", "no"),
}
_NEGATION = re.compile(r"^(not|non) ?")


def is_positive(label: Any, column: str, level: float | None = None, is_nli: bool = False) -> bool | None:
    """Whether a pair with ``label`` is positive; ``None`` if it has no label (null, empty, ``-``, -1).

    A name means what it says. A number is positive from ``level`` on. Without a level it is 1 or 0, or with ``is_nli``
    0 (entailment), 1 (neutral) or 2 (contradiction).

    Raises:
        ValueError: any other label; the message names the ``column``.

    >>> is_positive("not_entailment", "label"), is_positive(1.0, "label"), is_positive("-", "gold_label")
    (False, True, None)
    >>> is_positive(3, "score", level=2), is_positive(0, "label", is_nli=True)
    (True, True)
    """
    if label is None or isinstance(label, bool):
        return label
    number = number_of(label)
    if number is not None:
        return _is_positive_number(number, column, level, is_nli)
    if not isinstance(label, str):
        raise ValueError(f"field {column!r} should be a label, found {kind_of(label)}")
    name = " ".join(re.split(r"[\s_-]+", label.strip().lower())).strip()
    if not name:
        return None
    if name in POSITIVE_NAMES:
        return True
    if name in NEGATIVE_NAMES or _NEGATION.sub("", name) in POSITIVE_NAMES:
        return False
    examples = "1 or 0, true or false, or a name such as relevant, duplicate, entailment, neutral"
    raise ValueError(f"field {column!r} of a pair has the unknown label {label!r}; expected {examples}")


def number_of(label: Any) -> float | None:
    """``label`` as a number, if it is one or the digits of one."""
    if not isinstance(label, (int, float, str)):
        return None
    try:
        return float(label)
    except (ValueError, OverflowError):
        return None


def _is_positive_number(number: float, column: str, level: float | None, is_nli: bool) -> bool | None:
    if math.isnan(number):
        return None
    if level is not None:
        return number >= level
    if number == -1:
        return None
    if is_nli and number in (0, 1, 2):
        return number == 0
    if not is_nli and number in (0, 1):
        return number == 1
    expected = "0 (entailment), 1 or 2" if is_nli else "0 or 1"
    raise ValueError(
        f"field {column!r} of a pair should be {expected}, found {number:g}; "
        "to train on the scores, add `loss=` mse; to train on pairs with a score of at least N, write FILE,level=N"
    )


def has_score(label: Any) -> bool:
    """Whether ``label``, or one of a list of labels, is a number that no label is.

    >>> has_score([1, 0.3]), has_score(1), has_score("relevant")
    (True, False, False)
    """
    if isinstance(label, list):
        return any(map(has_score, label))
    return isinstance(label, (int, float)) and label not in (-1, 0, 1)
