"""The application, its help pages, shared options, and output."""

import os
import re
import shutil
import textwrap
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from retrokit.cli.completion import completing
from retrokit.cli.completion import named as named
from retrokit.cli.config import taking_config
from retrokit.cli.streams import printing
from retrokit.core.errors import UsageError, out_of_range
from retrokit.core.notices import harmless

OUTPUTS = "retrokit.outputs"
_ALL = "--help-all"


def option(name: str) -> str:
    """The option of a parameter.

    >>> option("save_every")
    '--save-every'
    """
    return f"--{name.replace('_', '-')}"


_NUMBERS = {"int": "N", "float": "X"}


def placeholder(param: Any) -> str:
    """How help and reference name the value of an option or of an argument."""
    if param.metavar is not None:
        return param.metavar
    if param.param_type_name == "argument":
        return param.name.upper()
    if getattr(param, "is_flag", False):
        return ""
    return _NUMBERS.get(param.bare_type().removeprefix("list[").removesuffix("]"), "TEXT")


class Described:
    """A command or a group whose parameters have placeholders, not Typer's types (``--on <list[str]>``). A group has
    one page: ``--help-all`` shows it too."""

    def get_help_option_names(self, ctx: Any) -> list[str]:
        """Those of commands and groups."""
        return ["--help", _ALL]

    def get_params(self, ctx: Any) -> list[Any]:
        """As the base class, each parameter with its placeholder."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            param.metavar = placeholder(param)
            if param.param_type_name == "argument":  # whose name is its placeholder
                param.display_type_rich = lambda ctx: None
        return params


class Group(Described, TyperGroup):
    """A group of commands."""


class GroupWithDefault(Group):
    """A group whose first word is one of its commands, or else belongs to the command ``default``."""

    default: ClassVar[str]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands:
            args = [self.default, *args]
        return super().parse_args(ctx, args)


class Command(Described, TyperCommand):
    """A command that refuses numbers out of range, all of them at once, and outputs that would replace an input or each
    other. ``kinds`` are those of the names that it takes. ``--help`` shows the options that come first, ``--help-all``
    all options and the names."""

    kinds: ClassVar[tuple[str, ...]] = ()

    def get_help_option(self, ctx: Any) -> Any:
        option: Any = super().get_help_option(ctx)
        option.help = "Show common options, or all and the names; exit."
        return option

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Show a copy of the command that has the options of the page."""
        page, shows_all = copy(self), ctx.meta.get(_ALL, False)
        options: dict[str, Any] = {
            param.name: copy(param) for param in self.params if param.param_type_name == "option"
        }
        first = [options.pop(name) for name in getattr(self.callback, "first", ())]
        for param in first:
            param.rich_help_panel = "Common options" if shows_all else None
        arguments = [param for param in self.params if param.param_type_name == "argument"]
        page.params = [*arguments, *first, *(options.values() if shows_all or not first else ())]
        if not shows_all:
            page.rich_markup_mode, page.help = None, "\n\n".join(map(_copyable, (self.help or "").split("\n\n")))
        super(Command, page).format_help(ctx, formatter)
        if shows_all:
            show(_names_of(self.kinds))
        else:
            more = f" {len(options)} more options: {_ALL}.\n" if first else ""
            names = f" Names: retrokit names {' '.join(self.kinds)}\n" if self.kinds else ""
            formatter.write(f"\n{more}{names}".rstrip() + "\n")

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As the base class; raises :class:`UsageError` for a number out of range. The minimum of a whole number is 1,
        unless its option has another."""
        ctx.meta[_ALL] = _ALL in args
        rest = super().parse_args(ctx, args)
        problems = [problem for param in self.params for problem in _out_of_range(param, ctx.params.get(param.name))]
        if problems:
            raise UsageError("\n".join(problems))
        kinds = ctx.meta.get(OUTPUTS, {})
        outputs = [(ctx.params[name], kind) for name, kind in kinds.items() if ctx.params[name] is not None]
        if outputs:
            from retrokit.core.outputs import check_outputs

            given = [value for name, value in ctx.params.items() if name not in kinds]
            for kind in self.kinds if any(map(_is_there, given)) else ():
                named(kind)  # a name that it knows is no path
            check_outputs(outputs, given, ctx.params)
        return rest


def _copyable(paragraph: str) -> str:
    """A paragraph of a help; an example has lines that a shell reads as one."""
    if not paragraph.startswith("retrokit "):
        return paragraph
    text = re.sub(r"( -[\w-]+) (?!-)", "\\1\0", " ".join(paragraph.split()))  # an option stays with its value
    lines = textwrap.wrap(text, 74, break_on_hyphens=False, subsequent_indent=4 * " ")
    return "\b\n" + " \\\n".join(lines).replace("\0", " ")


def _is_there(given: Any) -> bool:
    """Whether a file or folder has the name that is given, or one of the names."""
    names = given if isinstance(given, list) else [given]
    return any(isinstance(name, str) and os.path.lexists(name) for name in names)


def _out_of_range(param: Any, given: Any) -> Iterator[str]:
    low, high = getattr(param, "min", None), getattr(param, "max", None)
    for value in given if isinstance(given, list) else [given]:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            least = 1 if low is None and isinstance(value, int) else low
            if expected := out_of_range(value, least, high):
                yield f"{param.opts[0]} {value} is out of range ({expected})"


class Commands(typer.Typer):
    """A group of :class:`Command` objects, which take ``--config``; without arguments it shows its help."""

    def __init__(self, *, cls: type[TyperGroup] = Group, **options: Any) -> None:
        super().__init__(cls=cls, no_args_is_help=True, **options)

    def command(self, name: str | None = None, *, cls: type[TyperCommand] = Command, **options: Any) -> Any:  # type: ignore[override]
        register = super().command(name, cls=cls, **options)

        def add(function: Any) -> Any:
            register(completing(taking_config(function)))
            return function

        return add


def with_names(*kinds: str) -> type[TyperCommand]:
    """A command that takes names of the given kinds, third parties' included."""
    return type("WithNames", (Command,), {"kinds": kinds})


def _names_of(kinds: Sequence[str]) -> str:
    """The names of each kind, for a help page."""
    width = max(60, min(100, shutil.get_terminal_size().columns))
    lines = [" Names (described by: retrokit names KIND)"] if kinds else []
    for kind in kinds:
        names, first = ", ".join(named(kind).names()), f"   {kind:<14} "
        lines += textwrap.wrap(names, width, initial_indent=first, subsequent_indent=18 * " ", break_on_hyphens=False)
    return "\n".join(lines) + "\n"


JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
EstimateOption = Annotated[bool, typer.Option("--dry-run", help="Estimate calls and tokens, and exit.")]
PriceOption = Annotated[
    float | None,
    typer.Option("--price-per-hour", min=0, help="Price of a machine hour, to show costs; any currency."),
]


def _usable(device: str | None) -> str | None:
    """The device of ``--device``; raises :class:`UsageError` if torch does not have it."""
    if device is not None:
        import torch

        try:
            torch.empty(0, device=device)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise UsageError(f"--device {device}: {reason}") from error
    return device


def writes(kind: str) -> Callable[..., str | None]:
    """The callback of an option whose path is written; :class:`Command` checks it with all other options."""

    def note(ctx: typer.Context, param: typer.CallbackParam, path: str | None) -> str | None:
        if path == "":
            raise UsageError(f"{param.opts[0]} is empty; expected a path to write")
        ctx.meta.setdefault(OUTPUTS, {})[param.name] = kind
        return path

    return note


DeviceOption = Annotated[
    str | None, typer.Option(callback=_usable, help="cpu, cuda, cuda:1, mps. Default: auto-detected.")
]


def show(*parts: Any, error: bool = False) -> None:
    """Print tables or text on standard output, or on standard error."""
    from retrokit.report.sheets import TerminalTable
    from retrokit.report.terminal import console

    with printing():
        for part in parts:
            if not isinstance(part, str):
                shown = console(error)
                with shown.capture() as captured:  # rich's own way with a closed pipe is to exit with 1
                    shown.print(TerminalTable(part))
                part = captured.get().rstrip("\n")
            else:
                part = harmless(part, lines=True)
            typer.echo(part, err=error)


def show_result(as_json: bool, kind: str, data: Any, *parts: Any) -> None:
    """Print ``data`` as one JSON object that names its kind, or else the tables and texts."""
    from retrokit.data.jsonl import to_json

    show(*([to_json(data, kind=kind)] if as_json else parts))


def is_first_process() -> bool:
    """Whether this process prints: the only one, or the first of those that a launcher started."""
    return os.environ.get("RANK", "0") == "0"
