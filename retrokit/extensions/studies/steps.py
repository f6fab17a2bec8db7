"""A study's file and its steps: each a command line that a user could type, what it writes, and what it waits for."""

import hashlib
import itertools
import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, Protocol

from retrokit.core.errors import DataError, UsageError, did_you_mean
from retrokit.core.files import read_toml
from retrokit.data.jsonl import FILE_NAME

OF_THE_STUDY = ("name", "matrix", "include", "exclude")
"""Keys of a table that are no options of its command."""
LONGEST = 100
"""Bytes of a table's name, and of the label of a cell: they are parts of file names."""
SYSTEMS = "encoders"
"""The option of ``eval`` whose every value is evaluated in a step of its own."""
CACHE = "cache"
"""The option of commands and of specs whose folder the commands fill: no input."""
MOST = 10_000
"""Steps of a study."""
Options = Mapping[str, Any]
Words = tuple[str, ...]
_NAMED = re.compile(r"\{([\w-]+)\}")


@dataclass(frozen=True)
class Form:
    """How a study runs a command.

    Attributes:
        output: option that names the result, without dashes; ``None``: the command prints JSON.
        ending: of the result's path.
        resumes: whether it has ``--resume``.
        replaces: whether it has ``--overwrite``.
    """

    output: str | None
    ending: str
    resumes: bool
    replaces: bool


class CommandTree(Protocol):
    """The commands that a study may name, each by its words after ``retrokit``."""

    def below(self, words: Words) -> Words:
        """The commands of a group; none if the words are no group."""

    def is_command(self, words: Words) -> bool:
        """Whether the words run without a further word."""

    def line_of(self, words: Words, options: Options, where: str) -> list[str]:
        """The words of a command line; raises :class:`DataError` about ``where`` for an option that does not fit."""

    def form_of(self, words: Words, where: str) -> Form:
        """How a study runs the command; raises :class:`DataError` about ``where`` for one without a result."""


@dataclass(frozen=True)
class StudyTable:
    """A command with its options.

    Attributes:
        name: by which other tables refer to its results.
        words: the command, after ``retrokit``.
        options: of every cell.
        matrix: values of further options, whose every combination is a cell; a table as a value gives several options.
        include: further cells.
        exclude: a combination of the matrix that has all options of one of these is left out.
    """

    name: str
    words: Words
    options: Options
    matrix: Mapping[str, list[Any]] = field(default_factory=dict)
    include: list[Options] = field(default_factory=list)
    exclude: list[Options] = field(default_factory=list)

    def cells(self, where: str) -> Iterator[Options]:
        """Each cell's own options; raises :class:`DataError` about ``where`` for an exclude that matches no combination
        of the matrix, or if none is left."""
        unmatched, is_left = self.exclude, False
        for values in itertools.product(*self.matrix.values()):
            cell: dict[str, Any] = {}
            for axis, value in zip(self.matrix, values, strict=True):
                cell |= value if isinstance(value, dict) else {axis: value}
            matching = [left_out for left_out in self.exclude if left_out.items() <= {**self.options, **cell}.items()]
            unmatched = [left_out for left_out in unmatched if left_out not in matching]
            if not matching:
                is_left = True
                yield cell
        for left_out in unmatched:
            raise DataError(where, f"exclude {_written(left_out)} matches no combination of the matrix")
        if not is_left:
            excluded = "; ".join(map(_written, self.exclude))
            raise DataError(where, f"exclude leaves no combination of the matrix: {excluded}")
        yield from self.include


@dataclass(frozen=True)
class Study:
    """The contents of a study's file."""

    path: str
    text: str
    title: str
    tables: list[StudyTable]
    gates: Options


@dataclass(frozen=True)
class Step:
    """One command of a study.

    Attributes:
        command: words after ``retrokit``, the output among them.
        prints: whether ``output`` is what it prints.
        after: names of the steps whose results it reads.
        reads: further files that it reads.
        cell: options in which it differs from its neighbours.
    """

    name: FILE_NAME
    table: FILE_NAME
    command: Words
    output: str
    prints: bool
    resumes: bool
    replaces: bool
    after: Words
    reads: Words
    cell: dict[str, Any]

    @property
    def line(self) -> str:
        """The command line."""
        return shlex.join(["retrokit", *self.command])

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def read_study(path: str, commands: CommandTree) -> Study:
    """The study in a TOML file.

    Raises:
        DataError: the file cannot be read, is not TOML, or names an unknown command.
        UsageError: two tables have one name.
    """
    text, given = read_toml(path)
    title, gates = given.pop("title", Path(path).stem), given.pop("gates", {})
    if not isinstance(title, str) or not isinstance(gates, dict):
        raise DataError(path, "title should be a text, and gates a table")
    tables = [table for key in given for table in _tables(path, (key,), given[key], commands)]
    if not tables:
        raise DataError(path, "asks for nothing: expected a table of a command, such as [finetune] or [eval]")
    names = Counter(table.name for table in tables)
    if twice := sorted(name for name, count in names.items() if count > 1):
        raise UsageError(f"{path}: several tables are called {', '.join(twice)}; give each a `name` of its own")
    return Study(path, text, title, tables, gates)


def _tables(path: str, words: Words, given: Any, commands: CommandTree) -> Iterator[StudyTable]:
    place = ".".join(words)
    if words[-1] not in (known := commands.below(words[:-1])):
        others = () if words[:-1] else ("title", "gates")
        problem = f"[{place}] is no command{did_you_mean(words[-1], (*known, *others))}"
        raise DataError(path, f"{problem}; expected one of {', '.join(known)}")
    tables = given if isinstance(given, list) else [given]
    if not all(isinstance(table, dict) for table in tables):
        raise DataError(path, f"{place} should be a table, as in [{place}]")
    below = commands.below(words)
    for table in tables:
        of_command = {key: value for key, value in table.items() if key not in below}
        if of_command and not commands.is_command(words):
            key = next(iter(of_command))
            near = f"{did_you_mean(key, below)}; [{words[-1]}] has {', '.join(below)}"
            raise DataError(path, f"{place}.{key} is no command{near}")
        if of_command or not below:
            yield _table(path, words, of_command)
        for key in (key for key in table if key in below):
            yield from _tables(path, (*words, key), table[key], commands)


def _table(path: str, words: Words, given: dict[str, Any]) -> StudyTable:
    place = ".".join(words)
    options = {_spelled(key): value for key, value in given.items() if key not in OF_THE_STUDY}
    name, matrix = given.get("name", "-".join(words)), given.get("matrix", {})
    if not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name) or len(name.encode()) > LONGEST:
        raise DataError(path, f"{place}.name should be letters, digits, - and _, at most {LONGEST} bytes")
    example = 'such as sim = ["cosine", "qnorm"]'
    if not isinstance(matrix, dict) or (not matrix and "matrix" in given):
        raise DataError(path, f"{place}.matrix should be a table of one list or more, {example}")
    for axis, values in matrix.items():
        if not isinstance(values, list) or not values:
            problem = "is empty; expected" if values == [] else "should be"
            raise DataError(path, f"{place}.matrix.{axis} {problem} a list of values, {example}")
    axes = {_spelled(axis): [_cell(value) for value in values] for axis, values in matrix.items()}
    if both := sorted(axes.keys() & options.keys()):
        raise DataError(path, f"{place}: {', '.join(both)} is in the table and in its matrix; remove one")
    parts = {part: given.get(part, []) for part in ("include", "exclude")}
    for part, cells in parts.items():
        if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
            raise DataError(path, f"{place}.{part} should be a list of tables, such as [[{place}.{part}]]")
    return StudyTable(name, words, options, axes, **{part: list(map(_cell, cells)) for part, cells in parts.items()})


def _spelled(key: str) -> str:
    return key.replace("_", "-")


def _written(options: Options) -> str:
    return ", ".join(f"{key} = {json.dumps(value)}" for key, value in options.items())


def _cell(value: Any) -> Any:
    return {_spelled(key): entry for key, entry in value.items()} if isinstance(value, dict) else value


def steps_of(study: Study, output: str, commands: CommandTree) -> list[Step]:
    """The steps of a study whose results go below the folder ``output``, each after those that it needs.

    Raises:
        DataError: a command does not have an option, a name in braces is no table, tables wait for each other, or
            there are more than 10,000 steps.
    """
    by_name = {table.name: table for table in study.tables}
    graph = {table.name: list(_named_in([table.options, table.matrix, table.include])) for table in study.tables}
    for name, needed in graph.items():
        if unknown := sorted(set(needed) - by_name.keys()):
            problem = f"{{{unknown[0]}}} is no table of the study{did_you_mean(unknown[0], by_name)}"
            raise DataError(study.path, f"{name}: {problem}")
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise DataError(study.path, f"these wait for each other: {', '.join(error.args[1])}") from error
    by_table: dict[str, list[Step]] = {}
    for name in order:
        left = MOST - sum(map(len, by_table.values()))
        by_table[name] = list(
            itertools.islice(_steps(study, by_name[name], Path(output), by_table, commands), left + 1)
        )
        if len(by_table[name]) > left:
            problem = f"more than {MOST:,} steps, with those of [{name}]"
            raise DataError(study.path, f"{problem}; give its matrix fewer values, or divide the study")
    steps = [step for table in study.tables for step in by_table[table.name]]
    names = Counter(step.name for step in steps)
    if twice := [name for name, count in names.items() if count > 1]:
        raise DataError(study.path, f"two cells are the same: {twice[0]}")
    return sorted(steps, key=lambda step: order.index(step.table))


def _steps(
    study: Study, table: StudyTable, output: Path, by_table: Mapping[str, list[Step]], commands: CommandTree
) -> Iterator[Step]:
    is_eval, where = table.words == ("eval",), f"{study.path}: {table.name}"
    form = commands.form_of(table.words, where)
    for left_out in table.exclude:
        if not left_out:
            raise DataError(where, "exclude is empty; expected options of a combination of the matrix")
        commands.line_of(table.words, left_out, f"{where}: exclude")
    for own in table.cells(where):
        for options, chosen in _with_outputs({**table.options, **own}, own, by_table):
            several = options.get(SYSTEMS)
            # an evaluation has a step for each system, so that one that fails leaves the others
            systems = [{SYSTEMS: [system]} for system in several] if is_eval and isinstance(several, list) else [{}]
            for system in systems:
                each = {**options, **system}
                cell = chosen | {name: os.path.basename(path) for name, (path,) in system.items()}
                parts = {part for option, value in each.items() if option != CACHE for part in _parts_of(value)}
                needed = [step.name for steps in by_table.values() for step in steps if step.output in parts]
                line = commands.line_of(table.words, each, where)
                label = "-".join(filter(None, map(_slug, cell.values()))).encode()[:LONGEST].decode(errors="ignore")
                digest = hashlib.sha256(json.dumps([line, needed]).encode()).hexdigest()[:6]
                name = "-".join(filter(None, (label, digest)))
                path = output / table.name if is_eval else output / table.name / f"{name}{form.ending}"
                yield Step(
                    name=f"{table.name}.{name}",
                    table=table.name,
                    command=(*line, *([f"--{form.output}", str(path)] if form.output else ["--json"])),
                    output=str(path),
                    prints=form.output is None,
                    resumes=form.resumes,
                    replaces=form.replaces,
                    after=tuple(needed),
                    reads=tuple(sorted(_files(parts, output))),
                    cell=cell,
                )


def _with_outputs(
    options: Options, own: Options, by_table: Mapping[str, list[Step]]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The options with paths in place of names in braces, for every combination of the steps that a text names; a list
    takes all of them. Each with the options in which it differs from its neighbours."""
    plain = {key: value for key, value in own.items() if not (isinstance(value, str) and _NAMED.search(value))}
    for paths in _choices([value for value in options.values() if isinstance(value, str)], by_table):
        filled = {
            key: [_with_paths(item, each) for item in value for each in _choices([item], by_table)]
            if isinstance(value, list)
            else _with_paths(value, paths)
            for key, value in options.items()
        }
        yield filled, plain | {name: os.path.basename(path) for name, path in paths.items()}


def _choices(values: Iterable[Any], by_table: Mapping[str, list[Step]]) -> Iterator[dict[str, str]]:
    """The output of one step of each table that the values name, for every combination."""
    names = sorted(set(_named_in(values)))
    for steps in itertools.product(*(by_table[name] for name in names)):
        yield {name: step.output for name, step in zip(names, steps, strict=True)}


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


def _parts_of(value: Any) -> Iterator[str]:
    """What may be a path in the value of an option: each text, and the parts of a spec."""
    for text in value if isinstance(value, list) else [value]:
        if isinstance(text, str):
            yield from (text, *re.split("[:,=]", re.sub(rf"\b{CACHE}=[^,]*", "", text)))


def _files(parts: Iterable[str], output: Path) -> Iterator[str]:
    """The files that options name, outside of what the study makes; of a folder, those that are not hidden."""
    for part in parts:
        path = Path(part)
        if part and os.path.exists(part) and not path.resolve().is_relative_to(output.resolve()):
            files = [path] if path.is_file() else (file for file in path.rglob("*") if file.is_file())
            yield from (os.path.abspath(file) for file in files if not file.name.startswith("."))


def evaluations_of(steps: Iterable[Step]) -> dict[str, list[Step]]:
    """The evaluations of each table, whose systems one command compares."""
    by_table: dict[str, list[Step]] = {}
    for step in steps:
        if step.command[0] == "eval":
            by_table.setdefault(step.table, []).append(step)
    return by_table


def comparing(steps: Sequence[Step], gates: Words) -> Words:
    """The command line that compares the systems of these evaluations."""
    systems = (step.command[1] for step in steps)
    return ("eval", *systems, *steps[0].command[2:], *gates, "--json", "--per-query")


def _slug(value: Any) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return re.sub(r"[^\w.-]+", "_", os.path.basename(text.rstrip("/")) if "/" in text else text).strip("_")[:40]
