"""The application's commands as a study names them: which there are, and the words that give one its options."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from typer.exceptions import TyperException

from retrokit.cli.api import options_of, typed, wrong_use
from retrokit.cli.common import GroupWithDefault
from retrokit.cli.left_out import left_out_of
from retrokit.cli.root import application
from retrokit.cli.settings import Option
from retrokit.core.errors import DataError, UsageError, did_you_mean
from retrokit.core.files import check_exists
from retrokit.core.registry import Registry, Spec, head_of
from retrokit.core.settings import METRIC_NAMES, RUNS, Param, listed
from retrokit.data.beir import check_split
from retrokit.data.pairs import built_in_folder
from retrokit.evaluation import RANKING
from retrokit.extensions.studies.steps import Form
from retrokit.kinds import kinds_of_names, named
from retrokit.metrics.names import metric_names
from retrokit.metrics.ranking import check_metric

_PLACED = {"output", "results", "json", "resume", "overwrite", "dry-run", "format", "per-query"}
"""Options that a study sets."""
_LONGEST_WORD = 128 << 10
"""Bytes: Linux starts no command that has a longer one."""
_PLACES = ("tasks", "data", "mixture")
"""Kinds of names of the core that stand for files or folders."""
_OWN = "study"
"""The group of commands that no study names."""


def below(words: tuple[str, ...]) -> tuple[str, ...]:
    """The commands of a group that a study may name; none if the words are no group."""
    commands = getattr(_command(words), "commands", {})
    return tuple(name for name in commands if words or name != _OWN)


def is_command(words: tuple[str, ...]) -> bool:
    """Whether the words run without a further word."""
    command = _command(words)
    return not hasattr(command, "commands") or isinstance(command, GroupWithDefault)


def line_of(words: tuple[str, ...], options: Mapping[str, Any], where: str) -> list[str]:
    """The words of a command line, arguments before options; raises :class:`DataError` for an option that the command
    has not, that the study sets, or whose value is of another kind."""
    command = _runs(words)
    params = _free_options(command)
    _check_options(words, options, params, where)
    arguments: dict[str, list[str]] = {}
    flags: list[str] = []
    for key, option in options.items():
        param = params[key]
        value = typed(where, key, param, option)
        _check_names(where, key, _declared(command)[param.name].param, value)
        values = value if isinstance(value, list) else [value]
        if param.param_type_name == "argument":
            arguments[param.name] = values
        elif not isinstance(value, bool):
            flags += [f"--{key}={item}" for item in values]
        elif value:
            flags.append(f"--{key}")
    line = list(words)
    for param in command.params:
        line += arguments.get(param.name, [])
    line += flags
    for word in line:
        _check_word(word, where)
    return line


def _free_options(command: Any) -> dict[str, Any]:
    """The options that the study does not set."""
    return {name: param for name, param in options_of(command).items() if name not in _PLACED}


def _check_options(words: tuple[str, ...], options: Mapping[str, Any], params: Mapping[str, Any], where: str) -> None:
    unknown = []
    for key in options:
        if key in _PLACED:
            unknown.append(f"{key}{did_you_mean(key, params)} (the study gives it)")
        elif key not in params:
            unknown.append(f"{key}{did_you_mean(key, params)}")
    if unknown:
        raise DataError(where, f"`retrokit {' '.join(words)}` takes no {', '.join(unknown)}")


def _check_word(word: str, where: str) -> None:
    problem = ""
    if "\0" in word:
        problem = "contains a NUL character"
    elif len(os.fsencode(word)) >= _LONGEST_WORD:
        problem = f"is longer than {_LONGEST_WORD >> 10} KiB"
    if problem:
        raise DataError(where, f"{word[:40]!r}… {problem}, which no command line takes")


def _declared(command: Any) -> dict[str, Option]:
    """The options of a command, by name."""
    options: dict[str, Option] = command.callback.call.options
    return options


def _check_names(where: str, key: str, param: Param, value: Any) -> None:
    """Raises :class:`DataError` for a wrong name, or wrong parameters of one. Names of :data:`_PLACES` may also be
    those of files, which may not exist yet."""
    kinds = tuple(kind for kind in param.kinds if kind not in (METRIC_NAMES, RUNS, "data", "mixture", "losses"))
    if not kinds:
        return
    names = value if isinstance(value, list) else [value]
    if param.read is listed:
        names = list(chain.from_iterable(map(listed, names)))
    for name in names:
        if name in ("auto", "none"):
            continue
        try:
            _registry_of(name, kinds).parse(name)
        except UsageError as error:
            raise DataError(where, f"{key}: {error}") from error


def _registry_of(spec: str, kinds: Sequence[str]) -> Registry:
    """The first of the registries that has the name of the spec; else the one that takes a path, or the first."""
    registries = [named(kind) for kind in kinds]
    head = head_of(spec)
    for registry in registries:
        if head in registry.names():
            return registry
    return next((registry for registry in registries if registry.fallback is not None), registries[0])


def check(lines: Iterable[tuple[str, Iterable[str]]], output: str) -> dict[str, Any]:
    """See, without running the command lines, that each would be accepted; returns the settings of the last.

    Args:
        lines: the words of each after ``retrokit``, and what a message about it begins with.
        output: folder that the commands write into.

    Raises:
        UsageError: all that the commands would refuse before they read data or load a model; metrics that no ranking
            has; and inputs that do not exist, unless one of the commands writes them. Each once.
    """
    problems: dict[str, str] = {}
    contexts, settings, written = [], dict[str, Any](), {os.path.realpath(output)}
    for where, words in lines:
        try:
            context = _context(words)
            call = context.command.callback.call
            _check_complete(call, context)
            settings = call.arguments(context.params)
        except (TyperException, UsageError, DataError) as error:
            text = wrong_use(error) if isinstance(error, TyperException) else str(error)
            for line in text.splitlines():
                problems.setdefault(line, where)
        else:
            contexts.append((where, context))
            written |= {os.path.realpath(path) for path, _ in call.outputs(context.params)}
    for where, context in contexts:
        for problem in _input_problems(context, written):
            problems.setdefault(problem, where)
    if problems:
        raise UsageError("\n".join(f"{where}: {problem}" for problem, where in problems.items()))
    return settings


def _check_complete(call: Any, context: Any) -> None:
    """Raises :class:`UsageError` if the command would take something for what is left out: a study names all."""
    problems = []
    for default in left_out_of(call.left_out, context):
        option = call.options[default.name]
        if option.param.argument:
            problems.append(f"Missing argument {option.param.metavar or option.name.upper()!r}")
        else:
            problems.append(f"Missing option {option.flag!r}")
    if problems:
        raise UsageError("\n".join(problems))


def _context(words: Iterable[str]) -> Any:
    """The options of a command line, as the command reads them. A step may run on another machine than this one, so
    its device is not looked for."""
    command, rest = application(), [word for word in words if not word.startswith("--device=")]
    while hasattr(command, "commands"):
        word = rest[0]
        command = command.commands[word if word in command.commands else command.default]
        rest = rest[word == command.name :]
    return command.make_context(f"retrokit {command.name}", rest)


def _input_problems(context: Any, written: set[str]) -> Iterator[str]:
    """The inputs of a command that do not exist and are not below what is ``written``, and unknown metrics."""
    values: dict[str, Sequence[Any]] = {}
    for name, value in context.params.items():
        if value is not None:
            values[name] = value if isinstance(value, (list, tuple)) else [value]
    tasks: list[str] = []
    for name, option in _declared(context.command).items():
        for text in values.get(name, ()):
            yield from _value_problems(option.param, text, written, tasks)
    if tasks and set(tasks) <= set(RANKING) and "gate_metric" in context.params:
        yield from _metric_problems(values)


def _value_problems(param: Param, text: str, written: set[str], tasks: list[str]) -> Iterator[str]:
    """What is wrong with the value of an option; adds the name of a task to ``tasks``."""
    if param.reads is not None:
        yield from _path_problems(text, None, written)
    kind = next(iter(param.kinds), "")
    if not _are_places(kind) or os.path.exists(text) or _is_below(text, written):
        return
    try:
        spec = named(kind).parse(text)
    except UsageError as error:
        yield str(error)
        return
    if kind == "tasks":
        tasks.append(spec.name)
    yield from _spec_problems(kind, spec, written)


def _are_places(kind: str) -> bool:
    """Whether the names of a kind stand for files or folders."""
    if kind in _PLACES or kind not in kinds_of_names.names():
        return kind in _PLACES
    return all(entry.positional == "path" for entry in named(kind).entries())


def _spec_problems(kind: str, spec: Spec, written: set[str]) -> Iterator[str]:
    """That what a spec reads does not exist."""
    options = named(kind).options(spec)
    if "path" not in options or spec.name == "bright":  # which may be on the hub
        return
    parameters: Mapping[str, Any] = options if kind == "tasks" else spec.params  # crops need no split
    split = parameters.get("split") if spec.name == "beir" else None
    yield from _path_problems(options["path"], split, written)


def _path_problems(path: str, split: str | None, written: set[str]) -> Iterator[str]:
    if _is_below(path, written) or built_in_folder(path) is not None:
        return
    try:
        check_exists(path) if split is None else check_split(path, split)
    except DataError as error:
        yield str(error)


def _metric_problems(values: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    names = [*chain.from_iterable(map(listed, values.get("metrics", ()))), *values.get("gate_metric", ())]
    names += [gate.partition("=")[0].strip() for gate in values.get("fail_under", ())]
    for name in metric_names(list(filter(None, names))):
        try:
            check_metric(name)
        except UsageError as error:
            yield str(error)


def _is_below(path: str, folders: set[str]) -> bool:
    real = Path(os.path.realpath(path))
    return not folders.isdisjoint(map(str, (real, *real.parents)))


def form_of(words: tuple[str, ...], where: str) -> Form:
    """How a study runs the command; raises :class:`DataError` for one without a result."""
    command = _runs(words)
    names, prints = options_of(command).keys(), command.entry.prints
    output = next((name for name in ("output", "results") if name in names), None)
    if prints == "json":
        output = None
    elif output is None:
        raise DataError(where, f"`retrokit {' '.join(words)}` has no result that a study can keep")
    ending = {"json": ".json", "lines": ".jsonl", "": ""}[prints]
    return Form(output, ending, "resume" in names, "overwrite" in names)


def _command(words: tuple[str, ...]) -> Any:
    command = application()
    for word in words:
        command = command.commands[word]
    return command


def _runs(words: tuple[str, ...]) -> Any:
    """The command that the words run: of a group, its usual one."""
    command = _command(words)
    return command.commands[command.default] if isinstance(command, GroupWithDefault) else command
