"""In what numbers embeddings are stored: the names."""

import re
from typing import NamedTuple

from retrokit.core.errors import UsageError, did_you_mean

DTYPES = {"float32": "<f4", "float16": "<f2", "int8": "|i1", "binary": "|u1"}
RESCORE = "binary+rescore"
QUANTIZATIONS = (*DTYPES, RESCORE)
MULTIPLIER = 4


class Stored(NamedTuple):
    """The type of the stored numbers; of binary, how many times k documents are scored again by the query's floats, 0:
    none."""

    dtype: str
    rescored: int = 0


def stored_as(text: str) -> Stored:
    """What a quantisation's name stands for; raises :class:`UsageError` for an unknown one.

    >>> stored_as("int8"), stored_as("binary+rescore:8")
    (Stored(dtype='int8', rescored=0), Stored(dtype='binary', rescored=8))
    """
    name, colon, multiplier = text.partition(":")
    if name not in QUANTIZATIONS:
        near = did_you_mean(name, QUANTIZATIONS)
        raise UsageError(f"`quantize=` {text}: unknown{near}; known: {', '.join(QUANTIZATIONS)}")
    if colon and (name != RESCORE or not re.fullmatch("[1-9][0-9]{0,3}", multiplier)):
        raise UsageError(
            f"`quantize=` {text}: after a colon only {RESCORE} has something, how many times k (1 to 9999)"
        )
    return Stored("binary", int(multiplier or MULTIPLIER)) if name == RESCORE else Stored(name)


def quantization_name(text: str | None) -> str | None:
    """The canonical name of a quantisation; ``None`` for float32, which is none. Raises as :func:`stored_as`.

    >>> quantization_name("binary+rescore:4"), quantization_name("float32")
    ('binary+rescore', None)
    """
    stored = stored_as(text) if text is not None else Stored("float32")
    if not stored.rescored:
        return stored.dtype if stored.dtype != "float32" else None
    return RESCORE if stored.rescored == MULTIPLIER else f"{RESCORE}:{stored.rescored}"
