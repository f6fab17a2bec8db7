"""The steps of a study: each a command line that a user could type, what it makes, and what must be there before."""

import hashlib
import itertools
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import product
from math import prod
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


SYSTEMS = "encoders"
"""The option of ``eval`` whose every value is evaluated in a step of its own."""
MOST = 10_000
"""Steps of a study."""
_NAMED = re.compile(r"\{([\w-]+)\}")


@dataclass(frozen=True)
class Form:
    """How a command is to be run by a study: ``output``, the option that says where its result goes, without dashes
    (``None``: it prints JSON); ``ending`` of the path of the result; whether it has an option to resume what was begun,
    or to replace what is there."""

    output: str | None
    ending: str
    resumes: bool
    replaces: bool


@dataclass(frozen=True)
class Step:
    """One command of a study: the words after ``retrokit``, its ``output`` among them, where what it prints goes if
    ``prints``; the steps whose results it reads, and files besides; the options that tell it from its neighbours."""

    name: str
    table: str
    command: tuple[str, ...]
    output: str
    prints: bool
    resumes: bool
    replaces: bool
    after: tuple[str, ...]
    reads: tuple[str, ...]
    cell: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


LineOf = Callable[[tuple[str, ...], Options, str], list[str]]
"""The words of a command with options, checked against those that it has; the last argument says where they stand."""
FormOf = Callable[[tuple[str, ...]], Form]


def steps_of(study: Study, output: str, line_of: LineOf, form_of: FormOf) -> list[Step]:
    """The steps of a study whose results go below the folder ``output``, each after those that it needs.

    Raises:
        DataError: an option that a command has not, a name in braces that is no table, or tables that wait for each
            other.
    """
    by_name = {table.name: table for table in study.tables}
    graph: dict[str, list[str]] = {}
    for table in study.tables:
        graph[table.name] = list(_named_in([table.options, table.matrix, table.include]))
        if unknown := sorted(set(graph[table.name]) - by_name.keys()):
            known = did_you_mean(unknown[0], by_name)
            raise DataError(study.path, f"{table.name}: {{{unknown[0]}}} is no table of the study{known}")
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise DataError(study.path, f"these wait for each other: {', '.join(error.args[1])}") from error
    counts: dict[str, int] = {}
    for name in order:
        counts[name] = _count(by_name[name], counts)
    if (total := sum(counts.values())) > MOST:
        largest = max(counts, key=lambda name: counts[name])
        problem = f"{total:,} steps, {counts[largest]:,} of them of [{largest}]; a study has at most {MOST:,}"
        raise DataError(study.path, f"{problem}: give its matrix fewer values, or divide the study")
    by_table: dict[str, list[Step]] = {}
    for name in order:
        table = by_name[name]
        by_table[name] = list(_steps(study, table, Path(output), by_table, line_of, form_of(table.words)))
    steps = [step for table in study.tables for step in by_table[table.name]]
    names = Counter(step.name for step in steps)
    if twice := [name for name, count in names.items() if count > 1]:
        raise DataError(study.path, f"two cells are the same: {twice[0]}")
    return sorted(steps, key=lambda step: order.index(step.table))


def _count(table: StudyTable, counts: Mapping[str, int]) -> int:
    """At most how many steps a table has, computed from its axes alone and before any cell is excluded; ``counts`` has
    the tables that it names. A text has one for every combination of the steps that it names; a list takes in all."""

    def ways(value: Any, named: Iterable[str] = ()) -> int:
        texts = value.values() if isinstance(value, Mapping) else [value]
        names = {name for text in texts if isinstance(text, str) for name in _named_in([text])}
        return prod(counts[name] for name in names.difference(named))

    always = {name for value in table.options.values() if isinstance(value, str) for name in _named_in([value])}
    axes = prod(sum(ways(value, always) for value in values) for values in table.matrix.values())
    cells = prod(counts[name] for name in always) * (axes + sum(ways(cell, always) for cell in table.include))
    systems = table.options.get(SYSTEMS)
    if table.words == ("eval",) and isinstance(systems, list):
        cells *= sum(ways(system) for system in systems)
    return cells


def _steps(
    study: Study, table: StudyTable, output: Path, by_table: Mapping[str, list[Step]], line_of: LineOf, form: Form
) -> Iterator[Step]:
    where, is_eval = f"{study.path}: {table.name}", table.words == ("eval",)
    for own in table.cells():
        for options, chosen in _with_outputs({**table.options, **own}, own, by_table):
            several = options.get(SYSTEMS)
            # an evaluation has a step for each system, so that one that fails leaves the others
            systems = [{SYSTEMS: [system]} for system in several] if is_eval and isinstance(several, list) else [{}]
            for system in systems:
                of_system = {name: os.path.basename(path) for name, (path,) in system.items()}
                label = "-".join(filter(None, map(_slug, (*chosen.values(), *of_system.values()))))
                each = {**options, **system}
                needed = [step.name for step in _mentioned(each, by_table)]
                line = line_of(table.words, each, where)
                digest = hashlib.sha256(json.dumps([line, needed]).encode()).hexdigest()[:6]
                name = "-".join(filter(None, (label.encode()[:LONGEST].decode(errors="ignore"), digest)))
                path = output / table.name if is_eval else output / table.name / f"{name}{form.ending}"
                placed = [f"--{form.output}", str(path)] if form.output else ["--json"]
                yield Step(
                    name=f"{table.name}.{name}",
                    table=table.name,
                    command=(*line, *placed),
                    output=str(path),
                    prints=form.output is None,
                    resumes=form.resumes,
                    replaces=form.replaces,
                    after=tuple(needed),
                    reads=tuple(sorted(_files(each.values(), output))),
                    cell=chosen | of_system,
                )


def _with_outputs(
    options: Options, own: Options, by_table: Mapping[str, list[Step]]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The options with paths in place of names in braces: for every combination of those that a text names; a list
    takes in all of them. Each with the options that tell it from its neighbours."""

    def spread(item: Any) -> list[Any]:
        names = sorted(set(_named_in([item])))
        several = product(*(by_table[name] for name in names))
        return [_with_paths(item, dict(zip(names, [step.output for step in steps], strict=True))) for steps in several]

    alone = sorted({name for value in options.values() if isinstance(value, str) for name in _named_in([value])})
    for steps in product(*(by_table[name] for name in alone)):
        paths = {name: step.output for name, step in zip(alone, steps, strict=True)}
        filled = {
            key: [entry for item in value for entry in spread(item)]
            if isinstance(value, list)
            else _with_paths(value, paths)
            for key, value in options.items()
        }
        plain = {key: value for key, value in own.items() if not (isinstance(value, str) and _NAMED.search(value))}
        yield filled, plain | {name: os.path.basename(path) for name, path in paths.items()}


def _with_paths(value: Any, paths: Mapping[str, str]) -> Any:
    return _NAMED.sub(lambda match: paths[match[1]], value) if isinstance(value, str) else value


def _named_in(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield from _NAMED.findall(value)
        elif isinstance(value, Mapping):
            yield from _named_in(value.values())
        elif isinstance(value, Sequence):
            yield from _named_in(value)


def _mentioned(options: Options, by_table: Mapping[str, list[Step]]) -> Iterator[Step]:
    values = [entry for value in options.values() for entry in (value if isinstance(value, list) else [value])]
    parts = {part for text in values if isinstance(text, str) for part in (text, *re.split("[:,=]", text))}
    return (step for steps in by_table.values() for step in steps if step.output in parts)


def _files(values: Iterable[Any], output: Path) -> Iterator[str]:
    """The files that options name, by themselves or in a spec, outside of what the study makes."""
    for value in values:
        if isinstance(value, list):
            yield from _files(value, output)
        elif isinstance(value, str):
            for part in {value, *re.split("[:,=]", value)}:
                path = Path(part)
                if not part or not os.path.exists(part) or path.resolve().is_relative_to(output.resolve()):
                    continue
                files = [path] if path.is_file() else (file for file in path.rglob("*") if file.is_file())
                yield from (os.path.abspath(file) for file in files if not file.name.startswith("."))


def _slug(value: Any) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return re.sub(r"[^\w.-]+", "_", os.path.basename(text.rstrip("/")) if "/" in text else text).strip("_")[:40]
