"""Options of a command from its parameters: :class:`~core.settings.Settings`, or single settings."""

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import MISSING, Field, dataclass, fields, make_dataclass, replace
from functools import cache, cached_property
from typing import Annotated, Any, get_args, get_origin

import typer

from retrokit.cli.commands import LeftOut
from retrokit.cli.completion import choosing, completing
from retrokit.core.errors import LARGEST, UsageError
from retrokit.core.settings import (
    EITHER,
    FILE,
    FOLDER,
    FOLDER_OR_ADDRESS,
    METRIC_NAMES,
    RUNS,
    Param,
    Settings,
    param_of,
)
from retrokit.kinds import KINDS, named


def option(name: str) -> str:
    """The option of a parameter.

    >>> option("save_every")
    '--save-every'
    """
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True)
class Option:
    """A setting as an option, or an argument, of a command: its name, its type and its declaration."""

    name: str
    hint: Any
    param: Param

    def parameter(self) -> inspect.Parameter:
        """The option as Typer reads it."""
        hint, default = self._typed()
        text = re.sub(r"`(\w+)=`", lambda name: option(name[1]), self.param.help)
        if self.param.argument:
            info: Any = typer.Argument(help=text, metavar=self.param.metavar, autocompletion=completing(self.param))
        else:
            info = self._info(hint, text)
        empty = inspect.Parameter.empty if default is MISSING else default
        annotation = Annotated[hint, info]  # type: ignore[valid-type] # a type at run time
        return inspect.Parameter(self.name, inspect.Parameter.KEYWORD_ONLY, default=empty, annotation=annotation)

    def with_default(self, left_out: LeftOut) -> "Option":
        """The option as a command has it that takes something for it when it is left out."""
        default = () if self.is_repeatable else None
        text = f"{self.param.help} Default: {left_out.about}."
        return replace(self, param=replace(self.param, default=default, required=False, help=text))

    @property
    def flag(self) -> str:
        """The longest name of the option."""
        return max(self.param.flags, key=len, default=option(self.name))

    @property
    def is_repeatable(self) -> bool:
        """Whether it takes several values."""
        return self.param.read is None and Sequence in (self.hint, get_origin(self.hint))

    def _typed(self) -> tuple[Any, Any]:
        """The type and the default of what is typed."""
        default = self.param.default
        if self.param.read is not None:
            return (str, default) if isinstance(default, str) else (str | None, None)
        if self.is_repeatable:
            items: Any = list[get_args(self.hint) or str]  # type: ignore[misc]
            return (items, default) if default is MISSING else (items | None, None)
        return (self.hint | None if default is None else self.hint), default

    def _info(self, hint: Any, text: str) -> Any:
        param = self.param
        flags = param.flags
        if not flags and hint is bool:
            flags = (option(self.name),)  # without its opposite
        minimum, maximum = None, None
        if int in (hint, *get_args(hint)):
            minimum, maximum = param.minimum, param.maximum
        if maximum is not None and maximum > LARGEST:  # nothing that a reader of the help needs to know
            maximum = None
        if (minimum, maximum) == (1, None):  # as every whole number has
            minimum = None
        about: dict[str, Any] = {"help": text, "rich_help_panel": param.panel, "min": minimum, "max": maximum}
        about["metavar"] = param.metavar or metavar_of(param)
        about["autocompletion"] = choosing(param.choices) if param.choices else completing(param)
        return typer.Option(*flags, **about)

    def value(self, typed: Any) -> Any:
        """The value of the setting, from what is typed."""
        if self.param.read is not None:
            return self.param.default if typed is None else self._read(typed, self.param.read)
        if self.param.default == () or isinstance(typed, list):
            return tuple(typed or ())
        return typed

    def _read(self, typed: str, read: Callable[[str], Any]) -> Any:
        try:
            return read(typed)
        except ValueError as error:
            raise UsageError(f"`{self.name}=` {typed}: expected {error}") from None


def metavar_of(param: Param) -> str | None:
    """How help calls the value of an option: its choices, a file or folder, or what its names are of; else ``None``."""
    if param.choices:
        return f"[{'|'.join(param.choices)}]"
    for path in (param.reads, param.writes):
        if path is not None:
            return _PATHS.get(path, "FILE")
    if tuple(param.kinds) == ("encoders", "searchers"):
        return "SYSTEM"
    if not param.kinds:
        return None
    return _SINGULAR.get(param.kinds[0], param.kinds[0].removesuffix("s").upper())


_PATHS = {FILE: "FILE", FOLDER: "FOLDER", FOLDER_OR_ADDRESS: "FOLDER", EITHER: "PATH"}
_SINGULAR = {"similarities": "SIMILARITY", "losses": "LOSS", "corpora": "CORPUS", "mixture": "DATA", "runs": "FOLDER"}


class CommandCall:
    """How a command is called: with settings, and with values of parameters that are a single setting each."""

    def __init__(self, command: Callable[..., None], left_out: Sequence[LeftOut] = ()) -> None:
        self.left_out = left_out
        self.settings: dict[str, type[Settings]] = {}
        single: list[tuple[str, Any, Any]] = []
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            if isinstance(parameter.default, Field):
                single.append((parameter.name, parameter.annotation, copy(parameter.default)))
            elif inspect.isclass(parameter.annotation) and issubclass(parameter.annotation, Settings):
                self.settings[parameter.name] = parameter.annotation
            else:
                where = f"{command.__module__}:{command.__name__}"
                expected = "expected a type of `Settings`, `= setting(…)` or `= common(…)`"
                raise UsageError(f"command {where}: its parameter {parameter.name} is no setting; {expected}")
        self.single: Any = make_dataclass("Single", single, bases=(Settings,), frozen=True, kw_only=True)

    @cached_property
    def options(self) -> dict[str, Option]:
        """The options by name."""
        defaults = {default.name: default for default in self.left_out}
        options = {}
        for kind in (*self.settings.values(), self.single):
            for option in options_of_settings(kind):
                if option.name in defaults:
                    option = option.with_default(defaults[option.name])
                options[option.name] = option
        return options

    @property
    def kinds(self) -> list[str]:
        """The kinds of names that the options take."""
        kinds = [kind for option in self.options.values() for kind in option.param.kinds]
        return [kind for kind in dict.fromkeys(kinds) if kind not in (METRIC_NAMES, RUNS, KINDS)]

    def first(self) -> tuple[str, ...]:
        """The options of the first help page; empty: all."""
        return tuple(name for kind in self.settings.values() for name in kind.first)

    def arguments(self, typed: dict[str, Any], config: str | None = None) -> dict[str, Any]:
        """What the command is called with, from what is typed and the file of options, which is an input too.

        Raises:
            UsageError: a value is wrong, or an output would replace an input or another output.
            MissingExtra: a value needs a package that is not installed.
            DataError: an output cannot be written.
        """
        self._check_outputs(typed, config)
        arguments = {name: self._settings(kind, typed) for name, kind in self.settings.items()}
        return arguments | vars(self._settings(self.single, typed))

    def _settings(self, kind: type[Settings], typed: dict[str, Any]) -> Any:
        names = [field.name for field in fields(kind) if field.name in self.options]
        return kind(**{name: self.options[name].value(typed[name]) for name in names})

    def outputs(self, typed: dict[str, Any]) -> list[tuple[str, str]]:
        """The paths that are written, each with what is written there."""
        kinds = {name: option.param.writes for name, option in self.options.items()}
        return [(typed[name], kind) for name, kind in kinds.items() if kind and typed[name]]

    def _check_outputs(self, typed: dict[str, Any], config: str | None) -> None:
        outputs = self.outputs(typed)
        if not outputs:
            return
        from retrokit.core.outputs import check_outputs

        others = [typed[name] for name, option in self.options.items() if not option.param.writes] + [config]
        if any(map(_exists, others)):
            for kind in self.kinds:
                named(kind)  # a name that it knows is no path
        check_outputs(outputs, others, typed)


def _exists(value: Any) -> bool:
    """Whether a file or folder has the name that is given, or one of the names."""
    names: Iterable[Any] = value if isinstance(value, list) else [value]
    return any(isinstance(name, str) and os.path.lexists(name) for name in names)


def options_of_settings(settings: type[Settings]) -> list[Option]:
    """An option for each field, in the order of the help page."""
    return [
        Option(field.name, _hint(settings, field.name), param_of(field))
        for field in settings.ordered()
        if param_of(field).is_option
    ]


def _hint(settings: type[Settings], name: str) -> Any:
    """The type of a field, as by ``typing.get_type_hints``, which is slower."""
    owner = next(kind for kind in settings.__mro__ if name in vars(kind).get("__annotations__", ()))
    written = owner.__annotations__[name]
    return _evaluated(owner.__module__, written) if isinstance(written, str) else written


@cache
def _evaluated(module: str, written: str) -> Any:
    return eval(written, vars(sys.modules[module]))
