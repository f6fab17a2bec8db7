"""The steps of a study: each a command line that a user could type, what it makes, and what must be there before."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from retrokit.core.errors import DataError, did_you_mean
from retrokit.study.tables import LONGEST, Options, Study, StudyTable

SYSTEMS = "encoders"
"""The option of ``eval`` whose every value is evaluated in a step of its own."""
MOST = 10_000
"""Steps of a study."""
_NAMED = re.compile(r"\{([\w-]+)\}")


@dataclass(frozen=True)
class Form:
    """How a command is to be run by a study.

    Attributes:
        output: the option that says where its result goes, without dashes; ``None``: it prints JSON.
        ending: of the path of the result.
        resumes: whether it has an option to go on with what was begun.
        replaces: whether it has an option to replace what is there.
    """

    output: str | None
    ending: str
    resumes: bool
    replaces: bool


@dataclass(frozen=True)
class Step:
    """One command of a study.

    Attributes:
        command: the words after ``retrokit``, its output among them.
        output: the path that it makes; what it prints goes there if ``prints``.
        after: names of the steps whose results it reads.
        reads: files that it reads besides.
        cell: the options that tell it from its neighbours.
    """

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
        by_table[name] = list(
            _steps(study, by_name[name], Path(output), by_table, line_of, form_of(by_name[name].words))
        )
    steps = [step for table in study.tables for step in by_table[table.name]]
    if len({step.name for step in steps}) < len(steps):
        names = [step.name for step in steps]
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(study.path, f"two cells are the same: {twice}")
    return sorted(steps, key=lambda step: order.index(step.table))


def _count(table: StudyTable, counts: Mapping[str, int]) -> int:
    """At most how many steps a table has, computed from its axes alone and before any cell is excluded; ``counts`` has
    the tables that it names."""

    def ways(value: Any, named: Iterable[str] = ()) -> int:
        """Of a value of an option that is not a list: one for every combination of the steps that it names."""
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
    where = f"{study.path}: {table.name}"
    for own in table.cells():
        for options, chosen in _with_outputs({**table.options, **own}, own, by_table):
            for each, also in _systems(table, options):
                label = "-".join(filter(None, (_slug(value) for value in (*chosen.values(), *also.values()))))
                needed = [step.name for step in _mentioned(each, by_table)]
                line = line_of(table.words, each, where)
                digest = hashlib.sha256(json.dumps([line, needed]).encode()).hexdigest()[:6]
                label = label.encode()[:LONGEST].decode(errors="ignore")
                name = "-".join(filter(None, (label, digest)))
                path = output / table.name / f"{name}{form.ending}"
                if table.words == ("eval",):
                    path = output / table.name
                placed = [f"--{form.output}", str(path)] if form.output else ["--json"]
                yield Step(
                    f"{table.name}.{name}",
                    table.name,
                    (*line, *placed),
                    str(path),
                    form.output is None,
                    form.resumes,
                    form.replaces,
                    tuple(needed),
                    tuple(sorted(_files(each.values(), output))),
                    {**chosen, **also},
                )


def _systems(table: StudyTable, options: Options) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The options of each step: an evaluation has one for each system, so that one that fails leaves the others."""
    systems = options.get(SYSTEMS)
    if table.words != ("eval",) or not isinstance(systems, list):
        yield dict(options), {}
        return
    for system in systems:
        yield {**options, SYSTEMS: [system]}, {SYSTEMS: os.path.basename(system)}


def _with_outputs(
    options: Options, own: Options, by_table: Mapping[str, list[Step]]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The options with paths in place of names in braces: for every combination of those that a text names; a list
    takes in all of them. Each with the options that tell it from its neighbours."""
    alone = sorted({name for value in options.values() if isinstance(value, str) for name in _named_in([value])})
    for steps in product(*(by_table[name] for name in alone)):
        paths = {name: step.output for name, step in zip(alone, steps, strict=True)}
        filled: dict[str, Any] = {}
        for key, value in options.items():
            if isinstance(value, str):
                filled[key] = _with_paths(value, paths)
            elif isinstance(value, list):
                filled[key] = [entry for item in value for entry in _spread(item, by_table)]
            else:
                filled[key] = value
        names = {name: os.path.basename(path) for name, path in paths.items()}
        plain_options = {
            key: value for key, value in own.items() if not (isinstance(value, str) and _NAMED.search(value))
        }
        yield filled, {**plain_options, **names}


def _spread(item: Any, by_table: Mapping[str, list[Step]]) -> list[Any]:
    names = sorted(set(_named_in([item])))
    if not names:
        return [item]
    several = product(*(by_table[name] for name in names))
    return [_with_paths(item, dict(zip(names, [step.output for step in steps], strict=True))) for steps in several]


def _with_paths(text: str, paths: Mapping[str, str]) -> str:
    return _NAMED.sub(lambda match: paths[match[1]], text)


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
    for step in (step for steps in by_table.values() for step in steps):
        if step.output in parts:
            yield step


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
