"""Storage dtypes of embeddings, by name."""

import re
from typing import NamedTuple

from retrokit.core.errors import UsageError, did_you_mean

DTYPES = {"float32": "<f4", "float16": "<f2", "int8": "|i1", "binary": "|u1"}
RESCORE = "binary+rescore"
QUANTIZATIONS = (*DTYPES, RESCORE)
MULTIPLIER = 4


class Stored(NamedTuple):
    """A storage dtype; of binary, how many times k documents are scored again by the query's floats (0: none)."""

    dtype: str
    rescored: int = 0


def stored_as(text: str) -> Stored:
    """The storage dtype of a name; raises :class:`UsageError` for an unknown one.

    >>> stored_as("int8"), stored_as("binary+rescore:8")
    (Stored(dtype='int8', rescored=0), Stored(dtype='binary', rescored=8))
    """
    name, colon, multiplier = text.partition(":")
    if name not in QUANTIZATIONS:
        near = did_you_mean(name, QUANTIZATIONS)
        raise UsageError(f"`quantize=` {text}: unknown{near}; known: {', '.join(QUANTIZATIONS)}")
    if colon and (name != RESCORE or not re.fullmatch("[1-9][0-9]{0,3}", multiplier)):
        raise UsageError(f"`quantize=` {text}: expected {RESCORE}:N, N times k (1 to 9999), or no colon")
    return Stored("binary", int(multiplier or MULTIPLIER)) if name == RESCORE else Stored(name)


def quantization_name(text: str | None) -> str | None:
    """The canonical name of a storage dtype; ``None`` for float32. Raises as :func:`stored_as`.

    >>> quantization_name("binary+rescore:4"), quantization_name("float32")
    ('binary+rescore', None)
    """
    stored = stored_as(text) if text is not None else Stored("float32")
    if not stored.rescored:
        return stored.dtype if stored.dtype != "float32" else None
    return RESCORE if stored.rescored == MULTIPLIER else f"{RESCORE}:{stored.rescored}"
