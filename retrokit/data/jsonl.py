"""JSON files, and JSON lines: one object a line. Both are strict (RFC 8259: UTF-8, no NaN, no Infinity)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from retrokit.core.errors import DataError
from retrokit.core.files import LARGEST_JSON, decoded, named, read_lines, read_text, syntax_problem, writing
from retrokit.core.notices import UNSAFE
from retrokit.data.images import Image, open_image
from retrokit.data.typed import kind_of, restored

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_SHOWN_FIELDS = 12


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


# json.loads builds a new decoder at every call that changes a setting
_decoder = json.JSONDecoder(parse_constant=_refuse_constant)


def _decode(line: str) -> Any:
    """The value of a line; that of one without space around it in half the time that the decoder takes by itself."""
    if line.startswith("{") and line.endswith("}"):
        value, end = _decoder.raw_decode(line)
        if end == len(line):
            return value
    return _decoder.decode(line)


def read_jsonl(
    path: str | Path, expected: str = "one JSON object a line", feed: Callable[[bytes], object] | None = None
) -> Iterator[tuple[int, Row]]:
    """The objects of a JSONL file, each with its line number (from 1); blank lines are skipped.

    ``path`` may be ``-`` (standard input) and may end in ``.gz``. ``expected`` and ``feed`` are those of
    :func:`retrokit.core.files.read_lines`.

    Raises:
        DataError: a file that cannot be read or is empty, or a line (named) that is no strict JSON object.
    """
    for number, line in read_lines(path, expected, feed):
        yield number, read_row(line, path, number)


def read_row(
    line: str | bytes, path: str | Path, number: int, columns: Mapping[int, tuple[str, ...]] | None = None
) -> Row:
    """The object of one line of a JSONL file; raises :class:`DataError` if it is no strict JSON object, or an array of
    as many values as ``columns`` has names for."""
    if isinstance(line, bytes):
        line = decoded(line, path, number).rstrip("\r\n")
    row = _value(line, path, number)
    if isinstance(row, list) and columns and len(row) in columns:
        row = dict(zip(columns[len(row)], row, strict=True))
    if not isinstance(row, dict):
        raise DataError(named(path), f"expected a JSON object, found {kind_of(row)}", number)
    return Row(row, path, number)


def read_json(path: str | Path, expected: str, kind: Any = dict, *, nan: bool = False, **fields: Any) -> Any:
    """The value of a file that is one strict JSON value, as the type ``kind`` (:func:`retrokit.data.typed.restored`).

    Args:
        expected: what the file should be, for messages, such as "a baseline".
        nan: accept NaN and infinities, which Python's own writer spells as words: the libraries' files have them.
        fields: of a dataclass, the values of fields that the file does not contain.

    Raises:
        DataError: a file that cannot be read or is empty, no strict JSON, or a value of another type.
    """
    text = read_text(path, LARGEST_JSON)
    if not text.strip():
        raise DataError(named(path), f"is empty; expected {expected}")
    value = _value(text, path, expected=f"; expected {expected}", decode=json.loads if nan else _decode)
    return checked(kind, {**value, **fields} if fields and isinstance(value, dict) else value, path, expected)


def checked(kind: Any, value: Any, path: str | Path, expected: str) -> Any:
    """As :func:`retrokit.data.typed.restored`; raises :class:`DataError`, which names the file that ``value`` is of."""
    try:
        return restored(kind, value)
    except (TypeError, ValueError) as error:
        raise DataError(named(path), f"is not {expected}: {error}") from error


def _value(
    text: str, path: str | Path, line: int | None = None, expected: str = "", decode: Callable[[str], Any] = _decode
) -> Any:
    """The value of a JSON text, which is the line of that number, or the whole file."""
    try:
        value = decode(text)
        if _SURROGATE.search(text):  # half of a surrogate pair, which can be neither written, hashed nor tokenized
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        problem = f"malformed JSON: {error.msg} (column {error.colno}){expected}"
        raise DataError(named(path), problem, line or error.lineno) from error
    except UnicodeEncodeError as error:
        problem = f"malformed JSON: \\u{ord(error.object[error.start]):04x} is half of a surrogate pair{expected}"
        raise DataError(named(path), problem, line) from error
    except (ValueError, RecursionError) as error:
        raise DataError(named(path), f"malformed JSON: {syntax_problem(error)}{expected}", line) from error
    return value


def fields_of(names: Iterable[str]) -> str:
    """Field names for a message, quoted on one line, long lists and long names cut."""
    names = list(names)
    shown = [repr(name if len(name) <= 40 else name[:39] + "…") for name in names[:_SHOWN_FIELDS]]
    if len(names) > _SHOWN_FIELDS:
        shown.append(f"and {len(names) - _SHOWN_FIELDS} more")
    return ", ".join(shown) or "none"


class Row(dict[str, Any]):
    """A JSON object of a file, and where it stands: line ``line`` of ``path``. What asks for a field raises
    :class:`DataError`, which names both, where the field is not as expected."""

    def __init__(self, fields: Mapping[str, Any], path: str | Path, line: int) -> None:
        super().__init__(fields)
        self.path, self.line = path, line

    def wrong(self, problem: str) -> DataError:
        """What is wrong with this line, as an error to raise."""
        return DataError(named(self.path), problem, self.line)

    def required(self, key: str) -> Any:
        """The value of the field ``key``; without it the message names the fields that are there."""
        if key not in self:
            raise self.wrong(f"no field {key!r}; the fields are {fields_of(self)}")
        return self[key]

    def text(self, key: str, default: str | None = None) -> str:
        """The string in the field ``key``; ``default``, if given, where there is none, or null."""
        if default is not None and self.get(key) is None:
            return default
        value = self.required(key)
        if not isinstance(value, str):
            raise self.wrong(f"field {key!r} should be a string, found {kind_of(value)}")
        return value

    def image(self, path: str) -> Image:
        """The image file of that path, relative to the folder that the line's own file lies in."""
        return open_image(Path(self.path).parent / path, named(self.path), self.line)

    def item(self) -> str:
        """What the line stands for: the image of its field ``image`` if it has one, else its ``text``."""
        path = self.text("image", "")
        return self.image(path) if path else self.text("text")

    @property
    def id(self) -> str:
        """The identifier in the field ``id`` or ``_id``: a string, or a whole number that becomes one."""
        keys = [key for key in ("id", "_id") if key in self]
        if not keys:
            raise self.wrong(f"no field 'id' or '_id'; the fields are {fields_of(self)}")
        if len(keys) == 2 and self["id"] != self["_id"]:
            raise self.wrong("has both 'id' and '_id', and they differ")
        value = self[keys[0]]
        if not isinstance(value, (str, int)) or isinstance(value, bool):
            raise self.wrong(f"field {keys[0]!r} should be a string or a whole number, found {kind_of(value)}")
        if value == "":
            raise self.wrong(f"field {keys[0]!r} is empty")
        check_id(str(value), self.path, self.line)
        return str(value)

    @property
    def id_if_any(self) -> str | None:
        """The same, ``None`` where it has neither field."""
        return self.id if "id" in self or "_id" in self else None


def check_id(value: str, path: str | Path, line: int) -> None:
    """Raise :class:`DataError` for an identifier that holds a NUL, at which whatever is written in C would end it."""
    if "\0" in value:
        raise DataError(named(path), "an identifier holds a NUL character", line)


# json.dumps builds a new encoder at every call that changes a setting
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def to_json(value: Any, indent: int | None = 2) -> str:
    """``value`` as strict JSON. Characters that a terminal must not get are written as the escapes of JSON.

    Raises:
        ValueError: it contains NaN or an infinity, for which JSON has no numbers.

    >>> to_json(["\x9b2J"], indent=None)
    '["\\\\u009b2J"]'
    """
    text = _encode(value) if indent is None else json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    return UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def json_line(row: Mapping[str, Any]) -> str:
    """``row`` as a line of a JSONL file, its end included; see :func:`to_json`."""
    return to_json(row, indent=None) + "\n"


def write_json(path: str | Path, value: Any, indent: int | None = None) -> None:
    """Write ``value`` as a JSON file, whole or not at all; see :func:`to_json`.

    Raises:
        DataError: the file cannot be written.
    """
    with writing(path) as stream:
        stream.write(to_json(value, indent) + "\n")


def write_jsonl(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write ``rows`` as JSONL, whole or not at all, and return how many there were; ``-`` is standard output.

    Raises:
        DataError: the file cannot be written.
        ValueError: a row holds NaN or an infinity, which JSON has no numbers for.
    """
    count = 0
    with writing(path) as stream:
        for row in rows:
            stream.write(json_line(row))
            count += 1
    return count
