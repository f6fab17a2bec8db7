"""The application's commands as a study names them: which there are, and the words that give one its options."""

import os
from collections.abc import Mapping
from typing import Any

from retrokit.cli.common import GroupWithDefault, application
from retrokit.cli.completion import KINDS, named
from retrokit.cli.config import FORMER, current, options_of, typed
from retrokit.core.errors import DataError, UsageError, did_you_mean
from retrokit.study.steps import Form

_PLACED = {"output", "results", "json", "resume", "overwrite", "dry-run", "format", "per-query"}
"""Options that a study sets."""
_LONGEST_WORD = 128 << 10
"""Bytes: Linux starts no command that has a longer one."""
_NOT_STEPS = {"study", "report", "names", "cache", "doctor", "search"}


def below(words: tuple[str, ...]) -> tuple[str, ...]:
    """The commands of a group that a study may name; none if the words are no group."""
    commands = getattr(_command(words), "commands", {})
    former = [name for name, present in FORMER.items() if present in commands]
    return tuple(name for name in (*commands, *former) if words or name not in _NOT_STEPS)


def is_command(words: tuple[str, ...]) -> bool:
    """Whether the words run without a further word."""
    command = _command(words)
    return not hasattr(command, "commands") or isinstance(command, GroupWithDefault)


def line_of(words: tuple[str, ...], options: Mapping[str, Any], where: str) -> list[str]:
    """The words of a command line, arguments before options; raises :class:`DataError` for an option that the command
    has not, that the study sets, or whose value is of another kind."""
    params = {name: param for name, param in options_of(_runs(words)).items() if name not in _PLACED}
    options = {current(key, params): given for key, given in options.items()}
    if unknown := [f"{key}{did_you_mean(key, params)}" for key in options if key not in params]:
        given = [f"{key} (the study gives it)" if key.partition(" ")[0] in _PLACED else key for key in unknown]
        raise DataError(where, f"`retrokit {' '.join(words)}` takes no {', '.join(given)}")
    arguments: dict[str, list[str]] = {}
    flags: list[str] = []
    for key, given in options.items():
        value = typed(where, key, params[key], given)
        _check_names(where, key, KINDS.get(params[key].name, ()), value)
        if params[key].param_type_name == "argument":
            arguments[params[key].name] = value if isinstance(value, list) else [value]
        elif isinstance(value, bool):
            flags += [f"--{key}"] if value else []
        else:
            flags += [f"--{key}={item}" for item in (value if isinstance(value, list) else [value])]
    in_order = [param.name for param in _runs(words).params if param.name in arguments]
    line = [*words, *(word for name in in_order for word in arguments[name]), *flags]
    for word in line:
        if "\0" in word or len(os.fsencode(word)) >= _LONGEST_WORD:
            problem = "contains a NUL character" if "\0" in word else f"is longer than {_LONGEST_WORD >> 10} KiB"
            raise DataError(where, f"{word[:40]!r}… {problem}, which no command line takes")
    return line


def _check_names(where: str, key: str, kinds: tuple[str, ...], given: Any) -> None:
    """Raises :class:`DataError` for an unknown name of a kind whose names are all known before anything is loaded."""
    for name in given if isinstance(given, list) else [given]:
        if len(kinds) == 1 and name != "auto" and (names := named(kinds[0])).fallback is None:
            try:
                names.parse(name)
            except UsageError as error:
                raise DataError(where, f"{key}: {error}") from error


def form_of(words: tuple[str, ...]) -> Form:
    """How a study runs the command."""
    names = options_of(_runs(words)).keys()
    output = next((name for name in ("output", "results") if name in names), None)
    if words[0] == "rerank" and words[1:2] != ("train",):
        output = None
    makes_lines = words[0] == "augment" and words[1:] != ("split",)
    ending = ".json" if output is None else ".jsonl" if makes_lines else ""
    return Form(output, ending, "resume" in names, "overwrite" in names)


def _command(words: tuple[str, ...]) -> Any:
    command = application()
    for word in words:
        command = command.commands[FORMER.get(word, word)]
    return command


def _runs(words: tuple[str, ...]) -> Any:
    """The command that the words run: of a group, its usual one."""
    command = _command(words)
    return command.commands[command.default] if isinstance(command, GroupWithDefault) else command
