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
        unmatched, has_cells = self.exclude, False
        for values in itertools.product(*self.matrix.values()):
            cell = self._cell(values)
            options = {**self.options, **cell}
            matching = [excluded for excluded in self.exclude if excluded.items() <= options.items()]
            unmatched = [excluded for excluded in unmatched if excluded not in matching]
            if not matching:
                has_cells = True
                yield cell
        for excluded in unmatched:
            raise DataError(where, f"exclude {_written(excluded)} matches no combination of the matrix")
        if not has_cells:
            reasons = "; ".join(map(_written, self.exclude))
            raise DataError(where, f"exclude leaves no combination of the matrix: {reasons}")
        yield from self.include

    def _cell(self, values: Sequence[Any]) -> Options:
        """The options of one combination of values; a value may be several options."""
        cell: dict[str, Any] = {}
        for axis, value in zip(self.matrix, values, strict=True):
            cell |= value if isinstance(value, dict) else {axis: value}
        return cell


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
    text, content = read_toml(path)
    title, gates = content.pop("title", Path(path).stem), content.pop("gates", {})
    if not isinstance(title, str) or not isinstance(gates, dict):
        raise DataError(path, "title should be a text, and gates a table")
    tables: list[StudyTable] = []
    for key, value in content.items():
        tables += _tables(path, (key,), value, commands)
    if not tables:
        raise DataError(path, "asks for nothing: expected a table of a command, such as [finetune] or [eval]")
    names = Counter(table.name for table in tables)
    if twice := sorted(name for name, count in names.items() if count > 1):
        raise UsageError(f"{path}: several tables are called {', '.join(twice)}; give each a `name` of its own")
    return Study(path, text, title, tables, gates)


def _tables(path: str, words: Words, content: Any, commands: CommandTree) -> Iterator[StudyTable]:
    heading = ".".join(words)
    _check_command(path, words, commands)
    subcommands = commands.below(words)
    for table in _as_tables(path, heading, content):
        options = {key: value for key, value in table.items() if key not in subcommands}
        if options and not commands.is_command(words):
            key = next(iter(options))
            near = f"{did_you_mean(key, subcommands)}; [{words[-1]}] has {', '.join(subcommands)}"
            raise DataError(path, f"{heading}.{key} is no command{near}")
        if options or not subcommands:
            yield _table(path, words, options)
        for key, value in table.items():
            if key in subcommands:
                yield from _tables(path, (*words, key), value, commands)


def _as_tables(path: str, heading: str, content: Any) -> list[dict[str, Any]]:
    tables = content if isinstance(content, list) else [content]
    if not all(isinstance(table, dict) for table in tables):
        raise DataError(path, f"{heading} should be a table, as in [{heading}]")
    return tables


def _check_command(path: str, words: Words, commands: CommandTree) -> None:
    siblings = commands.below(words[:-1])
    if words[-1] not in siblings:
        others = () if words[:-1] else ("title", "gates")
        problem = f"[{'.'.join(words)}] is no command{did_you_mean(words[-1], (*siblings, *others))}"
        raise DataError(path, f"{problem}; expected one of {', '.join(siblings)}")


def _table(path: str, words: Words, content: dict[str, Any]) -> StudyTable:
    heading = ".".join(words)
    name = content.get("name", "-".join(words))
    if not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name) or len(name.encode()) > LONGEST:
        raise DataError(path, f"{heading}.name should be letters, digits, - and _, at most {LONGEST} bytes")
    options = {_spelled(key): value for key, value in content.items() if key not in OF_THE_STUDY}
    matrix = _matrix(path, heading, content)
    if both := sorted(matrix.keys() & options.keys()):
        raise DataError(path, f"{heading}: {', '.join(both)} is in the table and in its matrix; remove one")
    include, exclude = _cells(path, heading, content, "include"), _cells(path, heading, content, "exclude")
    return StudyTable(name, words, options, matrix, include, exclude)


def _matrix(path: str, heading: str, content: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The values of each option of a table's matrix."""
    matrix, example = content.get("matrix", {}), 'such as sim = ["cosine", "qnorm"]'
    if not isinstance(matrix, dict) or (not matrix and "matrix" in content):
        raise DataError(path, f"{heading}.matrix should be a table of one list or more, {example}")
    axes = {}
    for axis, values in matrix.items():
        if not isinstance(values, list) or not values:
            problem = "is empty; expected" if values == [] else "should be"
            raise DataError(path, f"{heading}.matrix.{axis} {problem} a list of values, {example}")
        axes[_spelled(axis)] = list(map(_cell, values))
    return axes


def _cells(path: str, heading: str, content: Mapping[str, Any], key: str) -> list[Options]:
    """The cells that a table includes, or excludes."""
    cells = content.get(key, [])
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise DataError(path, f"{heading}.{key} should be a list of tables, such as [[{heading}.{key}]]")
    return list(map(_cell, cells))


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
    order = _order_of_tables(study)
    by_table: dict[str, list[Step]] = {}
    for name in order:
        room = MOST - sum(map(len, by_table.values()))
        table_steps = _steps(study, by_name[name], Path(output), by_table, commands)
        by_table[name] = list(itertools.islice(table_steps, room + 1))
        if len(by_table[name]) > room:
            problem = f"more than {MOST:,} steps, with those of [{name}]"
            raise DataError(study.path, f"{problem}; give its matrix fewer values, or divide the study")
    steps = list(itertools.chain.from_iterable(by_table[table.name] for table in study.tables))
    names = Counter(step.name for step in steps)
    if twice := [name for name, count in names.items() if count > 1]:
        raise DataError(study.path, f"two cells are the same: {twice[0]}")
    return sorted(steps, key=lambda step: order.index(step.table))


def _order_of_tables(study: Study) -> list[str]:
    """The names of the tables, each after those that it names in braces."""
    graph = {table.name: list(_named_in([table.options, table.matrix, table.include])) for table in study.tables}
    for name, needed in graph.items():
        if unknown := sorted(set(needed) - graph.keys()):
            problem = f"{{{unknown[0]}}} is no table of the study{did_you_mean(unknown[0], graph)}"
            raise DataError(study.path, f"{name}: {problem}")
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise DataError(study.path, f"these wait for each other: {', '.join(error.args[1])}") from error


def _steps(
    study: Study, table: StudyTable, output: Path, by_table: Mapping[str, list[Step]], commands: CommandTree
) -> Iterator[Step]:
    is_eval, where = table.words == ("eval",), f"{study.path}: {table.name}"
    form = commands.form_of(table.words, where)
    for excluded in table.exclude:
        if not excluded:
            raise DataError(where, "exclude is empty; expected options of a combination of the matrix")
        commands.line_of(table.words, excluded, f"{where}: exclude")
    earlier = list(itertools.chain.from_iterable(by_table.values()))
    for options, cell in _options_of_steps(table, where, by_table):
        paths: set[str] = set()
        for option, value in options.items():
            if option != CACHE:
                paths.update(_possible_paths(value))
        needed = [step.name for step in earlier if step.output in paths]
        line = commands.line_of(table.words, options, where)
        name = _step_name(cell, line, needed)
        path = output / table.name if is_eval else output / table.name / f"{name}{form.ending}"
        ending = [f"--{form.output}", str(path)] if form.output else ["--json"]
        yield Step(
            name=f"{table.name}.{name}",
            table=table.name,
            command=(*line, *ending),
            output=str(path),
            prints=form.output is None,
            resumes=form.resumes,
            replaces=form.replaces,
            after=tuple(needed),
            reads=tuple(sorted(_files(paths, output))),
            cell=cell,
        )


def _options_of_steps(
    table: StudyTable, where: str, by_table: Mapping[str, list[Step]]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The options of each step, and those in which it differs from its neighbours. An evaluation has a step for each
    system, so that one that fails leaves the others."""
    for table_cell in table.cells(where):
        for options, cell in _with_outputs({**table.options, **table_cell}, table_cell, by_table):
            systems = options.get(SYSTEMS)
            if table.words != ("eval",) or not isinstance(systems, list):
                yield options, cell
                continue
            for system in systems:
                yield {**options, SYSTEMS: [system]}, {**cell, SYSTEMS: os.path.basename(system)}


def _step_name(cell: Mapping[str, Any], line: list[str], needed: list[str]) -> str:
    """A readable label of what differs, and a digest of all that decides the step."""
    label = "-".join(filter(None, map(_slug, cell.values()))).encode()[:LONGEST].decode(errors="ignore")
    digest = hashlib.sha256(json.dumps([line, needed]).encode()).hexdigest()[:6]
    return f"{label}-{digest}" if label else digest


def _with_outputs(
    options: Options, cell: Options, by_table: Mapping[str, list[Step]]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The options with paths in place of names in braces, for every combination of the steps that a text names; a list
    takes all of them. Each with the options in which it differs from its neighbours."""
    plain = {key: value for key, value in cell.items() if not (isinstance(value, str) and _NAMED.search(value))}
    for paths in _choices([value for value in options.values() if isinstance(value, str)], by_table):
        filled: dict[str, Any] = {}
        for key, value in options.items():
            if isinstance(value, list):
                filled[key] = _with_all_paths(value, by_table)
            else:
                filled[key] = _with_paths(value, paths)
        yield filled, plain | {name: os.path.basename(path) for name, path in paths.items()}


def _with_all_paths(items: Sequence[Any], by_table: Mapping[str, list[Step]]) -> list[Any]:
    """The items of a list with the paths of all steps that each names."""
    filled = []
    for item in items:
        filled += [_with_paths(item, paths) for paths in _choices([item], by_table)]
    return filled


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


def _possible_paths(value: Any) -> Iterator[str]:
    """What may be a path in the value of an option: each text, and the parts of a spec."""
    for text in value if isinstance(value, list) else [value]:
        if isinstance(text, str):
            yield from (text, *re.split("[:,=]", re.sub(rf"\b{CACHE}=[^,]*", "", text)))


def _files(names: Iterable[str], output: Path) -> Iterator[str]:
    """The files that options name, outside of what the study makes; of a folder, those that are not hidden."""
    for name in names:
        path = Path(name)
        if name and os.path.exists(name) and not path.resolve().is_relative_to(output.resolve()):
            for file in [path] if path.is_file() else path.rglob("*"):
                if file.is_file() and not file.name.startswith("."):
                    yield os.path.abspath(file)


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
    if "/" in text:
        text = os.path.basename(text.rstrip("/"))
    return re.sub(r"[^\w.-]+", "_", text).strip("_")[:40]
