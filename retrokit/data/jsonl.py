"""JSON files and JSON lines, both strict (RFC 8259: UTF-8, no NaN, no Infinity), and values of a declared type.

:class:`Faults` are what a reader continues after, as the field's tools do: counted and reported, or errors."""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import MISSING, fields, is_dataclass
from itertools import chain
from numbers import Real
from pathlib import Path
from types import FunctionType, NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, cast, get_args, get_origin, get_type_hints

from retrokit.core.errors import DataError
from retrokit.core.files import (
    LARGEST_JSON,
    decoded,
    named,
    read_lines,
    read_text,
    syntax_problem,
    undecodable,
    writing,
)
from retrokit.core.notices import UNSAFE, notice
from retrokit.core.sheet import Column
from retrokit.data.images import Image, open_image

QUERY_IDS = ("qid", "query_id", "query-id", "queryid", "q_id", "topic_id")
DOCUMENT_IDS = (
    *("pid", "passage_id", "passage-id", "docid", "doc_id", "doc-id", "docno", "did"),
    *("document_id", "document-id", "corpus_id", "corpus-id"),
)
IDENTIFIERS = ("id", "_id", *QUERY_IDS, *DOCUMENT_IDS)
"""Names of the field of an identifier; the first that a row has counts."""
TEXTS = ("text", "contents", "content", "body", "passage", "document", "segment", "sentence", "query", "question")
"""Names of the field of a text. ``text`` counts before the others, of which a row may have one."""

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_SHOWN_FIELDS = 6


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _finite(literal: str) -> float:
    number = float(literal)
    if math.isinf(number):
        raise ValueError(f"{literal[:40]} is larger than a number can be")
    return number


# json.loads builds a new decoder at every call that changes a setting
_decoder = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)


def _decode(line: str) -> Any:
    """The value of a line. An object without space around it takes half the time of the decoder's ``decode``."""
    if line.startswith("{") and line.endswith("}"):
        value, end = _decoder.raw_decode(line)
        if end == len(line):
            return value
    return _decoder.decode(line)


def read_jsonl(
    path: str | Path, expected: str = "one JSON object a line", feed: Callable[[bytes], object] | None = None
) -> Iterator[tuple[int, Row]]:
    """The objects of a JSONL file with their line numbers from 1; the arguments are those of
    :func:`retrokit.core.files.read_lines`. Raises :class:`DataError` as it does, and for a line that is no object."""
    for number, line in read_lines(path, expected, feed):
        yield number, read_row(line, path, number)


def read_row(
    line: str | bytes, path: str | Path, number: int, columns: Mapping[int, tuple[str, ...]] | None = None
) -> Row:
    """The object of a line, or an array with the names of ``columns`` by its length; raises :class:`DataError`."""
    if isinstance(line, bytes):
        line = decoded(line, path, number).rstrip("\r\n")
    row = _value(line, path, number)
    if isinstance(row, list) and columns and len(row) in columns:
        row = dict(zip(columns[len(row)], row, strict=True))
    if not isinstance(row, dict):
        raise DataError(path, f"expected a JSON object, found {kind_of(row)}", number)
    return Row(row, path, number)


def read_json(path: str | Path, expected: str, kind: Any = dict, *, nan: bool = False, **fields: Any) -> Any:
    """The value of a strict JSON file as the type ``kind`` (:func:`restored`).

    Args:
        expected: what the file should be, for messages, such as "a baseline".
        nan: accept NaN and infinities, which files of the libraries contain.
        fields: of a dataclass, the fields that the file does not contain.

    Raises:
        DataError: a file that cannot be read or is empty, no strict JSON, or a value of another type.
    """
    text = read_text(path, LARGEST_JSON)
    if not text.strip():
        raise DataError(path, f"is empty; expected {expected}")
    value = _value(text, path, expected=f"; expected {expected}", decode=json.loads if nan else _decode)
    _check_depth(value, path)
    if not nan:
        _check_version(value, path)
    return checked(kind, {**value, **fields} if fields and isinstance(value, dict) else value, path, expected)


def _check_depth(value: Any, path: str | Path) -> None:
    """Raise :class:`DataError` for what code that follows each level into the next one may not come back from."""
    level = [value]
    for _ in range(DEEPEST):
        inner = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, (dict, list))]
        level = [*chain.from_iterable(inner)]
    if level:
        raise DataError(path, f"is nested more than {DEEPEST} levels deep")


def _check_version(value: Any, path: str | Path) -> None:
    """Raise :class:`DataError` for an object of another version than :func:`of_kind` writes, or a list of such."""
    first = value[0] if isinstance(value, list) and value else value
    if not isinstance(first, dict) or "kind" not in first:
        return
    version = first.get("version", VERSION)
    if type(version) is not int or version != VERSION:
        problem = f"has version {json.dumps(version)[:40]} of its format; expected version {VERSION}"
        raise DataError(path, f"{problem}; update retrokit, or write the file again")


def checked(kind: Any, value: Any, path: str | Path, expected: str) -> Any:
    """As :func:`restored`; raises :class:`DataError`, which names the file, and the line of a :class:`Row`."""
    try:
        return restored(kind, value)
    except (TypeError, ValueError) as error:
        line = value.line if isinstance(value, Row) else None
        raise DataError(path, f"is not {expected}: {error}", line) from error


def _value(
    text: str, path: str | Path, line: int | None = None, expected: str = "", decode: Callable[[str], Any] = _decode
) -> Any:
    """The value of a JSON text: a line of a file, or the file."""
    try:
        value = decode(text)
        if _SURROGATE.search(text):  # half of a surrogate pair, which can be neither written, hashed nor tokenized
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        problem = f"malformed JSON: {error.msg} (column {error.colno}){expected}"
        raise DataError(path, problem, line or error.lineno) from error
    except UnicodeEncodeError as error:
        problem = f"malformed JSON: \\u{ord(error.object[error.start]):04x} is half of a surrogate pair{expected}"
        raise DataError(path, problem, line) from error
    except (ValueError, RecursionError) as error:
        raise DataError(path, f"malformed JSON: {syntax_problem(error)}{expected}", line) from error
    return value


def fields_of(names: Iterable[str]) -> str:
    """Field names for a message, quoted on one line, long lists and long names cut."""
    names = list(names)
    shown = [repr(name if len(name) <= 40 else name[:39] + "…") for name in names[:_SHOWN_FIELDS]]
    if len(names) > _SHOWN_FIELDS:
        shown.append(f"and {len(names) - _SHOWN_FIELDS} more")
    return ", ".join(shown) or "none"


def names_in(folder: str | Path) -> str:
    """The names in a folder, for a message as :func:`fields_of` has them."""
    return fields_of(sorted(path.name for path in Path(folder).glob("*")))


class Row(dict[str, Any]):
    """A JSON object on line ``line`` of ``path``. Its methods raise :class:`DataError`, which names both."""

    def __init__(self, fields: Mapping[str, Any], path: str | Path, line: int) -> None:
        super().__init__(fields)
        self.path, self.line = path, line

    def wrong(self, problem: str) -> DataError:
        """An error about this line."""
        return DataError(self.path, problem, self.line)

    def required(self, key: str) -> Any:
        """The value of the field ``key``."""
        if key not in self:
            raise self.wrong(f"no field {key!r}; the fields are {fields_of(self)}")
        return self[key]

    def text(self, key: str, default: str | None = None) -> str:
        """The string in the field ``key``; ``default``, if given, for a missing field or null."""
        value = self.get(key)
        if isinstance(value, str):
            return value
        if value is None and default is not None:
            return default
        raise self.wrong(f"field {key!r} should be a string, found {kind_of(self.required(key))}")

    def text_of(self, field: str) -> str:
        """The string in ``field``; of ``text``, :attr:`content`."""
        return self.content if field == "text" else self.text(field)

    def image(self, path: str) -> Image:
        """The image file of that path, relative to the folder of the line's file."""
        return open_image(Path(self.path).parent / path, named(self.path), self.line)

    def item(self) -> str:
        """The image of its field ``image`` if it has one, else its text."""
        path = self.text("image", "")
        return self.image(path) if path else self.content

    @property
    def content(self) -> str:
        """The text in the one field of :data:`TEXTS`."""
        if "text" in self:
            return self.text("text")
        fields = [name for name in TEXTS if name in self]
        if len(fields) > 1:
            raise self.wrong(f"the text could be in any of {fields_of(fields)}; keep one")
        return self.text(fields[0] if fields else "text")

    @property
    def id(self) -> str:
        """The identifier in a field of :data:`IDENTIFIERS`: a string or a whole number, as a string."""
        for key in IDENTIFIERS:
            if key in self:
                break
        else:
            raise self.wrong(f"no field 'id' or '_id'; the fields are {fields_of(self)}")
        value = self[key]
        if key != "_id" and self.get("_id", value) != value:
            raise self.wrong("has both 'id' and '_id', and they differ")
        if not isinstance(value, (str, int)) or isinstance(value, bool):
            raise self.wrong(f"field {key!r} should be a string or a whole number, found {kind_of(value)}")
        if value == "":
            raise self.wrong(f"field {key!r} is empty")
        check_id(str(value), self.path, self.line)
        return str(value)

    @property
    def id_if_any(self) -> str | None:
        """The same, ``None`` if it has no such field."""
        return None if self.keys().isdisjoint(IDENTIFIERS) else self.id


def check_id(value: str, path: str | Path, line: int) -> None:
    """Raise :class:`DataError` for an identifier that contains a NUL, at which code in C would end it."""
    if "\0" in value:
        raise DataError(path, "an identifier contains a NUL character", line)


# json.dumps builds a new encoder at every call that changes a setting
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


VERSION, DEEPEST = 1, 100
"""Of the form of all JSON output; and the most levels of a file."""


def of_kind(kind: str, value: Any) -> Any:
    """An object, or each of a list, with its ``kind`` and the version of its form, as all JSON output has them.

    >>> of_kind("cache", {"size": 0})
    {'kind': 'cache', 'version': 1, 'size': 0}
    """
    if isinstance(value, list):
        return [of_kind(kind, item) for item in value]
    return {"kind": kind, "version": VERSION, **value}


def to_json(value: Any, indent: int | None = 2, kind: str | None = None) -> str:
    """``value`` as strict JSON, control characters escaped, as :func:`of_kind` has it for a ``kind``; raises
    :class:`ValueError` for NaN and infinities.

    >>> to_json(["\x9b2J"], indent=None)
    '["\\\\u009b2J"]'
    """
    value = value if kind is None else of_kind(kind, value)
    text = _encode(value) if indent is None else json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    return UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def digest_of_json(value: Any) -> str:
    """A digest of ``value`` in 64 hexadecimal digits, the same for any order of keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def json_line(row: Mapping[str, Any]) -> str:
    """``row`` as a line of a JSONL file, its end included; see :func:`to_json`."""
    return to_json(row, indent=None) + "\n"


def write_json(path: str | Path, value: Any, indent: int | None = None, kind: str | None = None) -> None:
    """Write ``value`` as :func:`to_json` has it as a file, whole or not at all; raises :class:`DataError`."""
    with writing(path) as stream:
        stream.write(to_json(value, indent, kind) + "\n")


def write_jsonl(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write ``rows`` as JSONL, whole or not at all, and return their number; raises :class:`DataError`, and
    :class:`ValueError` for NaN and infinities."""
    count = 0
    with writing(path) as stream:
        for row in rows:
            stream.write(json_line(row))
            count += 1
    return count


_KINDS: dict[type, str] = {
    **{type(None): "null", bool: "true or false", str: "a string"},
    **dict.fromkeys((int, float, Real), "a number"),
    **{list: "a list", dict: "an object"},
}


def kind_of(value: Any) -> str:
    """What a decoded JSON value is, in words: "a string", "a number", "null"…"""
    return _KINDS.get(type(value), type(value).__name__)


COUNT = Annotated[int, range(1 << 63)]
DIMENSION = Annotated[int, range(1, 1 << 31)]


def _is_file_name(text: str) -> bool:
    """the name of a file in the folder"""
    return text not in ("", ".", "..") and {"/", "\\", "\0"}.isdisjoint(text)


FILE_NAME = Annotated[str, _is_file_name]


def restored(kind: Any, value: Any, field: str = "") -> Any:
    """``value`` as the type ``kind``, which is any of these:

    a dataclass: an object with its fields, others are left out; NaN of null for a float;
    a dict: an object with fields of these types (``name?``: may be missing; ``*``: any other), which keeps its others;
    a list of one type: a list of such items; ``Annotated``: its type, and unless it is null its second type too, if
    that is no :class:`Column`;
    a range, a tuple, ``Literal``: one of its values; a function: a string for which it is true, and its
    docstring is what is expected.

    Raises:
        TypeError: another type, or a missing field; the message names the ``field``.
        ValueError: a number that is too large, or none of the values that are allowed.
    """
    if kind is Any or is_dataclass(value):
        return value
    if isinstance(kind, (FunctionType, range, tuple)):
        return _allowed(kind, value, field)
    if isinstance(kind, dict):
        return {**_typed(value, dict, field), **_restored_fields(kind, value, field)}
    if isinstance(kind, list):
        return _restored_items(kind * len(_typed(value, list, field)), value, field)
    if is_dataclass(kind):
        return cast(Any, kind)(**_restored_fields(_fields(kind), _typed(value, dict, field), field))
    if getattr(kind, "__name__", "") == "ndarray":
        return _restored_array(kind, value, field)
    if get_origin(kind) is not None:
        return _restored_generic(kind, value, field)
    if kind is float and value is None:
        return math.nan
    return _in_range(_typed(value, kind, field), kind, field)


def _allowed(kind: Any, value: Any, field: str) -> Any:
    """``value``, if it is one of a range or tuple, or a function is true for it."""
    if isinstance(kind, FunctionType):
        if not kind(value):
            raise ValueError(f"field {field!r} is {value[:60]!r}; expected {kind.__doc__}")
    elif value not in kind:
        if isinstance(kind, range):
            bound = f"at least {kind.start}" if value < kind.start else f"at most {kind.stop - 1}"
            raise ValueError(f"field {field!r} is {value}; expected {bound}")
        raise ValueError(f"field {field!r} is {str(value)[:40]!r}; expected {' or '.join(map(str, kind))}")
    return value


def _restored_generic(kind: Any, value: Any, field: str) -> Any:
    """``value`` as a type with arguments, such as ``dict[str, int]`` or ``int | None``."""
    origin: Any = get_origin(kind)
    arguments = get_args(kind)
    if origin is Annotated:
        value = restored(arguments[0], value, field)
        is_shown = isinstance(arguments[1], Column)  # which says nothing of the value
        return value if value is None or is_shown else restored(arguments[1], value, field)
    if origin is Literal:
        return _allowed(arguments, value, field)
    if origin in (Union, UnionType):
        if value is None and NoneType in arguments:
            return None
        return restored(Real if {*arguments} == {int, float} else arguments[0], value, field)
    if issubclass(origin, Mapping):
        items = _typed(value, dict, field).items()
        return {name: restored(arguments[1], item, _within(field, name)) for name, item in items}
    return _restored_sequence(origin, arguments, value, field)


def _restored_sequence(origin: Any, kinds: tuple[Any, ...], value: Any, field: str) -> Any:
    """``value`` as a tuple, or as the list of any other sequence."""
    values = _typed(value, list, field)
    if origin is tuple and ... not in kinds:
        return tuple(_restored_items(kinds, values, field))
    items = _restored_items(kinds[:1] * len(values), values, field)
    return tuple(items) if origin is tuple else items


def _restored_items(kinds: Sequence[Any], values: Sequence[Any], field: str) -> list[Any]:
    if len(values) != len(kinds):
        raise ValueError(f"field {field!r} should have {len(kinds)} items, found {len(values)}")
    items = []
    for index, (kind, value) in enumerate(zip(kinds, values, strict=True)):
        items.append(restored(kind, value, _within(field, index)))
    return items


def _restored_array(kind: Any, value: Any, field: str) -> Any:
    """Numbers or rows of numbers as an array of NumPy."""
    import numpy as np

    kinds = [kind if isinstance(item, list) else float for item in _typed(value, list, field)]
    return np.array(_restored_items(kinds, value, field), dtype=np.float64)


def _typed(value: Any, kind: type, field: str) -> Any:
    """``value``, if it has that type."""
    accepted: Any = {float: (int, float), list: (list, tuple)}.get(kind, kind)
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        what = f"field {field!r} should be" if field else "expected"
        expected = "a whole number" if kind is int else _KINDS.get(kind, kind.__name__)
        raise TypeError(f"{what} {expected}, found {kind_of(value)}")
    return value


def _in_range(value: Any, kind: type, field: str) -> Any:
    """``value``, if it is no number that is too large."""
    if kind in (float, Real) and not abs(value) <= sys.float_info.max:
        raise ValueError(f"field {field!r} is no finite number")
    if kind is int and abs(value) >= 1 << 63:
        raise ValueError(f"field {field!r} is larger than 64 bits")
    return value


def _restored_fields(hints: Mapping[str, Any], value: Mapping[str, Any], field: str) -> dict[str, Any]:
    """The fields of an object that ``hints`` name, each of its type."""
    result: dict[str, Any] = {}
    for hint, kind in hints.items():
        name = hint.removesuffix("?")
        if hint == "*":
            others = [other for other in value if not {other, f"{other}?"} & hints.keys()]
            for other in others:
                result[other] = restored(kind, value[other], _within(field, other))
        elif name in value:
            result[name] = restored(kind, value[name], _within(field, name))
        elif name == hint:
            raise TypeError(f"no field {_within(field, name)!r}")
    return result


def _fields(kind: Any) -> dict[str, Any]:
    """The types of a dataclass's fields by name, ``name?`` of those with a default."""
    hints = get_type_hints(kind, include_extras=True)
    result = {}
    for field in fields(kind):
        if field.init:
            is_needed = field.default is MISSING and field.default_factory is MISSING
            result[field.name if is_needed else f"{field.name}?"] = hints[field.name]
    return result


def _within(field: str, name: object) -> str:
    return f"{field}.{name}" if field else str(name)


_is_strict: ContextVar[bool] = ContextVar("strict", default=False)


@contextmanager
def strictly(strict: bool) -> Iterator[None]:
    """Make every fault of a data file an error in the block if ``strict``."""
    before = _is_strict.set(strict)
    try:
        yield
    finally:
        _is_strict.reset(before)


class Gathered(NamedTuple):
    """A fault of a file's line."""

    path: str
    kind: str
    problem: str
    line: int | None


_gathered: ContextVar[list[Gathered] | None] = ContextVar("gathered", default=None)


@contextmanager
def gathering() -> Iterator[list[Gathered]]:
    """The faults that readers meet within the block, which then stop none of them: lines that are not UTF-8 too."""
    faults: list[Gathered] = []

    def undecoded(path: str | Path, line: int | None) -> None:
        faults.append(Gathered(named(path), "encoding", "is not UTF-8 text", line))

    before, listener = _gathered.set(faults), undecodable.set(undecoded)
    try:
        yield faults
    finally:
        _gathered.reset(before)
        undecodable.reset(listener)


def is_gathering() -> bool:
    """Whether faults are gathered, so that their reader reports none."""
    return _gathered.get() is not None


class Faults:
    """The faults of one file: ``counts`` by kind."""

    def __init__(self, path: str | Path) -> None:
        self.path = path
        self.counts: Counter[str] = Counter()
        self._first: dict[str, tuple[str, int | None]] = {}

    def add(self, kind: str, problem: str, line: int | None = None) -> None:
        """Count a fault; raises :class:`DataError` within :func:`strictly`."""
        if _is_strict.get():
            raise DataError(self.path, problem, line)
        if (gathered := _gathered.get()) is not None:
            gathered.append(Gathered(named(self.path), kind, problem, line))
        self.counts[kind] += 1
        self._first.setdefault(kind, (problem, line))

    def refuse(self, kind: str, problem: str, line: int | None = None) -> None:
        """Raise :class:`DataError`; within :func:`gathering` the fault is counted instead."""
        if not is_gathering():
            raise DataError(self.path, problem, line)
        self.add(kind, problem, line)

    def report(self, kind: str, effect: str) -> None:
        """Report the faults of this kind, if there are any, in one notice: the first one, and the ``effect`` of all
        ``{n}``; not within :func:`gathering`, whose caller does that."""
        if (count := self.counts[kind]) and not is_gathering():
            problem, line = self._first[kind]
            fault = DataError(self.path, problem, line)
            notice(f"{fault}; {effect.format(n=f'{count:,}')}", once=True)
