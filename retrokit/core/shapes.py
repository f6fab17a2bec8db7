"""Shapes of JSON that say more than a type does: what ``schemas.py`` of an extension and ``docs/make_schemas.py`` use.

A shape is a type, a dataclass, or built of these: ``[X]`` is a list of X, ``{"name": X}`` an object that has these keys
and no others (``"name?"`` may be missing; ``"*"``: any other), ``(X, "words")`` is X, described. What a dataclass's
docstring says of its fields is their description.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class But:
    """The dataclass as it is printed: without some fields, with others, or with fields of another shape."""

    kind: type
    changed: Mapping[str, Any] = field(default_factory=dict)
    without: Sequence[str] = ()


@dataclass(frozen=True)
class Either:
    """One of several shapes."""

    shapes: Sequence[Any]


@dataclass(frozen=True)
class Printed:
    """What a command of the core prints with ``--json``; its words have dashes between."""

    command: str


def but(kind: type, *without: str, **changed: Any) -> But:
    """See :class:`But`."""
    return But(kind, changed, without)
