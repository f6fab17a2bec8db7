"""Values of a declared type from the plain values of a JSON file."""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from numbers import Real
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

_KINDS: dict[type, str] = {
    **{type(None): "null", bool: "true or false", str: "a string"},
    **dict.fromkeys((int, float, Real), "a number"),
    **{list: "a list", dict: "an object"},
}


def kind_of(value: Any) -> str:
    """What a decoded JSON value is, in words: "a string", "a number", "null"…"""
    return _KINDS.get(type(value), type(value).__name__)


def restored(kind: Any, value: Any, field: str = "") -> Any:
    """``value`` as the type ``kind``: of a dataclass, an object with its fields; of a float, null is NaN.

    A dict as ``kind`` has the types of the fields that an object needs (``name?``: may have), which keeps its others. A
    list of one kind: items of it.

    Raises:
        TypeError: it is of another type, or lacks a field; the message names the ``field``.
        ValueError: a number that is too large.
    """
    origin, parts = (list, kind) if isinstance(kind, list) else (get_origin(kind), get_args(kind))
    if kind is Any:
        return value
    if origin in (Union, UnionType):
        kind = Real if set(parts) == {int, float} else parts[0]
        return None if value is None and NoneType in parts else restored(kind, value, field)
    if is_dataclass(value):
        return value
    if isinstance(kind, dict) or is_dataclass(kind):
        _check(value, dict, field)
        hints, required = (kind, list(kind)) if isinstance(kind, dict) else _fields(kind)
        if missing := [name for name in required if not name.endswith("?") and name not in value]:
            raise TypeError(f"no field {_within(field, missing[0])!r}")
        known = {name.rstrip("?"): hint for name, hint in hints.items() if name.rstrip("?") in value}
        known = {name: restored(hint, value[name], _within(field, name)) for name, hint in known.items()}
        return {**value, **known} if isinstance(kind, dict) else cast(Any, kind)(**known)
    if kind is float:
        number = math.nan if value is None else _check(value, float, field)
        if abs(number) > sys.float_info.max:
            raise ValueError(f"field {field!r} is no finite number")
        return number
    if getattr(kind, "__name__", "") == "ndarray":
        import numpy as np

        return np.array(_check(value, list, field), dtype=np.float64)
    if origin in (tuple, list) or (origin is not None and issubclass(origin, Sequence)):
        items = [
            restored(parts[0], item, _within(field, place)) for place, item in enumerate(_check(value, list, field))
        ]
        if origin is tuple and ... not in parts and len(items) != len(parts):
            raise ValueError(f"field {field!r} should have {len(parts)} items, found {len(items)}")
        return tuple(items) if origin is tuple else items
    if origin is not None and issubclass(origin, Mapping):
        named = _check(value, dict, field)
        return {name: restored(parts[1], item, _within(field, name)) for name, item in named.items()}
    _check(value, kind, field)
    if kind is int and abs(value) >= 1 << 63:
        raise ValueError(f"field {field!r} is larger than 64 bits")
    return value


def _check(value: Any, kind: type, field: str) -> Any:
    kinds: Any = {float: (int, float), list: (list, tuple)}.get(kind, kind)
    if not isinstance(value, kinds) or (isinstance(value, bool) and kind is not bool):
        what = f"field {field!r} should be" if field else "expected"
        raise TypeError(
            f"{what} {'a whole number' if kind is int else _KINDS.get(kind, kind.__name__)}, found {kind_of(value)}"
        )
    return value


def _fields(kind: Any) -> tuple[dict[str, Any], list[str]]:
    """The fields of a dataclass with their types, and those that it needs."""
    given, hints = [field for field in fields(kind) if field.init], get_type_hints(kind)
    needed = [field.name for field in given if field.default is MISSING and field.default_factory is MISSING]
    return {field.name: hints[field.name] for field in given}, needed


def _within(field: str, name: object) -> str:
    return f"{field}.{name}" if field else str(name)
