"""The steps of a study: each a command line that a user could type, what it makes, and what must be there before."""

import hashlib
import json
import os
import re
from collections import Counter
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
