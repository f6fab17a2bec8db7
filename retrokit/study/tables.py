"""The file of a study: a table for each command, with the command's own options."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from retrokit.core.errors import DataError, UsageError, did_you_mean
from retrokit.core.files import read_toml

OF_THE_STUDY = ("name", "matrix", "include", "exclude")
"""Keys of a table that are no options of its command."""
GATES = "gates"
LONGEST = 100
"""Bytes of a table's name, and of the label of a cell: they are parts of file names."""
Options = Mapping[str, Any]


class CommandTree(Protocol):
    """The commands that a study may name."""

    def below(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """The commands of the group of these words; none where that is a command by itself."""

    def is_command(self, words: tuple[str, ...]) -> bool:
        """Whether the words run something by themselves."""


@dataclass(frozen=True)
class StudyTable:
    """A command (its ``words`` after ``retrokit``) with its options: those that every cell has; the ``matrix``, values
    of further options, of which every combination is a cell (a value that is a table gives several options); further
    cells; and those left out, which have all of one of ``exclude``. Other tables refer to it by its ``name``."""

    name: str
    words: tuple[str, ...]
    options: Options
    matrix: Mapping[str, list[Any]] = field(default_factory=dict)
    include: list[Options] = field(default_factory=list)
    exclude: list[Options] = field(default_factory=list)

    def cells(self) -> Iterator[Options]:
        """The options of each cell that are its own."""
        for values in itertools.product(*self.matrix.values()):
            cell: dict[str, Any] = {}
            for axis, value in zip(self.matrix, values, strict=True):
                cell |= value if isinstance(value, dict) else {axis: value}
            if not any(left_out.items() <= {**self.options, **cell}.items() for left_out in self.exclude):
                yield cell
        yield from self.include


@dataclass(frozen=True)
class Study:
    """The contents of a study's file."""

    path: str
    text: str
    title: str
    tables: list[StudyTable]
    gates: Options


def read_study(path: str, commands: CommandTree) -> Study:
    """The study in a file.

    Raises:
        DataError: a file that cannot be read, is not TOML, or names a command that there is not.
        UsageError: two tables of one name.
    """
    text, given = read_toml(path)
    title, gates = given.pop("title", Path(path).stem), given.pop(GATES, {})
    if not isinstance(title, str) or not isinstance(gates, dict):
        raise DataError(path, "title should be a text, and gates a table")
    tables = [table for key in given for table in _tables(path, (key,), given[key], commands)]
    if not tables:
        raise DataError(path, "asks for nothing: expected a table of a command, such as [finetune] or [eval]")
    names = Counter(table.name for table in tables)
    if twice := sorted(name for name, count in names.items() if count > 1):
        raise UsageError(f"{path}: several tables are called {', '.join(twice)}; give each a `name` of its own")
    return Study(path, text, title, tables, gates)


def _tables(path: str, words: tuple[str, ...], given: Any, commands: CommandTree) -> Iterator[StudyTable]:
    *group, last = words
    known = commands.below(tuple(group))
    if last not in known:
        what = f"[{'.'.join(words)}] is no command{did_you_mean(last, known)}"
        raise DataError(path, f"{what}; expected one of {', '.join(known)}")
    tables = given if isinstance(given, list) else [given]
    if not all(isinstance(table, dict) for table in tables):
        raise DataError(path, f"{'.'.join(words)} should be a table, as in [{'.'.join(words)}]")
    below = commands.below(words)
    for table in tables:
        of_command = {key: value for key, value in table.items() if key not in below}
        if of_command and not commands.is_command(words):
            key = next(iter(of_command))
            near = f"{did_you_mean(key, below)}; [{words[-1]}] has {', '.join(below)}"
            raise DataError(path, f"{'.'.join((*words, key))} is no command{near}")
        if of_command or not below:
            yield _table(path, words, of_command)
        for key in (key for key in table if key in below):
            yield from _tables(path, (*words, key), table[key], commands)


def _table(path: str, words: tuple[str, ...], given: dict[str, Any]) -> StudyTable:
    where = ".".join(words)
    options = {_spelled(key): value for key, value in given.items() if key not in OF_THE_STUDY}
    name, matrix = given.get("name", "-".join(words)), given.get("matrix", {})
    if not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name) or len(name.encode()) > LONGEST:
        raise DataError(path, f"{where}.name should be letters, digits, - and _, at most {LONGEST} bytes")
    if not isinstance(matrix, dict) or not all(isinstance(axis, list) and axis for axis in matrix.values()):
        raise DataError(path, f'{where}.matrix should be a table of lists, such as sim = ["cosine", "qnorm"]')
    axes = {_spelled(axis): [_cell(value) for value in values] for axis, values in matrix.items()}
    if both := sorted(axes.keys() & options.keys()):
        raise DataError(path, f"{where}: {', '.join(both)} stands in the table and in its matrix")
    parts = {}
    for part in ("include", "exclude"):
        cells = given.get(part, [])
        if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
            raise DataError(path, f"{where}.{part} should be a list of tables, such as [[{where}.{part}]]")
        parts[part] = [_cell(cell) for cell in cells]
    return StudyTable(name, words, options, axes, **parts)


def _spelled(key: str) -> str:
    return key.replace("_", "-")


def _cell(value: Any) -> Any:
    return {_spelled(key): entry for key, entry in value.items()} if isinstance(value, dict) else value
