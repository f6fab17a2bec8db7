"""The application, its help pages, shared options, and output."""

import re
import shutil
import textwrap
from collections.abc import Callable, Collection, Sequence
from copy import copy
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from retrokit.cli.calls import with_options
from retrokit.cli.commands import LeftOut
from retrokit.cli.settings import option as option
from retrokit.cli.streams import printing, readers_may_leave
from retrokit.core.notices import harmless, notice
from retrokit.kinds import named as named

_ALL = "--help-all"
_OTHER_NAMES = {
    "--compute-dtype": "--precision",
    "--dtype": "--precision",
    "--learning-rate": "--lr",
    "--max-seq-length": "--max-length",
    "--max-steps": "--steps",
    "--num-train-epochs": "--epochs",
    "--per-device-train-batch-size": "--batch-size",
    "--truncate-dim": "--dims",
}
"""Options of sentence-transformers, transformers and vLLM, and what they are called here."""
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
        completes_a_command = not args and ctx.resilient_parsing
        if not completes_a_command and (not args or args[0] not in self.commands):
            args = [self.default, *args]
        return super().parse_args(ctx, args)


class Command(Described, TyperCommand):
    """A command. ``--help`` shows the options that come first, ``--help-all`` all options and the names."""

    def get_help_option(self, ctx: Any) -> Any:
        option: Any = super().get_help_option(ctx)
        option.help = "Show common options, or all and the names; exit."
        return option

    def format_help(self, ctx: Any, formatter: Any) -> None:
        callback: Any = self.callback
        kinds = callback.call.kinds
        if ctx.meta.get(_ALL, False):
            self._page(shows_all=True).format_page(ctx, formatter)
            show(_names_of(kinds))
            return
        page = self._page(shows_all=False)
        page.format_page(ctx, formatter)
        missing = len(self.params) - len(page.params)
        more = f" {missing} more options: {_ALL}.\n" if missing else ""
        names = f" Names: retrokit names {' '.join(kinds)}\n" if kinds else ""
        formatter.write(f"\n{more}{names}".rstrip() + "\n")

    def format_page(self, ctx: Any, formatter: Any) -> None:
        """The page as Typer writes it."""
        super().format_help(ctx, formatter)

    def _page(self, shows_all: bool) -> "Command":
        """A copy of the command that has the parameters of the page."""
        page, callback = copy(self), self.callback
        call: Any = vars(callback)["call"]
        arguments: list[Any] = []
        options: dict[str | None, Any] = {}
        for param in self.params:
            if param.param_type_name == "argument":
                arguments.append(param)
            else:
                options[param.name] = copy(param)
        first = [options.pop(name) for name in call.first()]
        for param in first:
            param.rich_help_panel = "Common options" if shows_all else None
        page.params = [*arguments, *first]
        if shows_all or not first:
            page.params += options.values()
        if not shows_all:
            paragraphs = (self.help or "").split("\n\n")
            page.rich_markup_mode, page.help = None, "\n\n".join(map(_copyable, paragraphs))
        return page

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As the base class; notes which help is requested, and takes other tools' names of options."""
        ctx.meta[_ALL] = _ALL in args
        options = {name for param in self.params for name in param.opts}
        return super().parse_args(ctx, [_option_here(word, options) for word in args])


def _option_here(word: str, options: Collection[str]) -> str:
    """``--truncate-dim=8`` as ``--dims=8``, if the second is an option of the command and the first is none."""
    name, equals, value = word.partition("=")
    other = _OTHER_NAMES.get(name)
    return f"{other}{equals}{value}" if other in options and name not in options else word


def _copyable(paragraph: str) -> str:
    """A paragraph of a help; an example has lines that a shell reads as one."""
    if not paragraph.startswith("retrokit "):
        return paragraph
    text = re.sub(r"( -[\w-]+) (?!-)", "\\1\0", " ".join(paragraph.split()))  # an option stays with its value
    lines = textwrap.wrap(text, 74, break_on_hyphens=False, subsequent_indent=4 * " ")
    return "\b\n" + " \\\n".join(lines).replace("\0", " ")


class Commands(typer.Typer):
    """A group of :class:`Command` objects, which take ``--config``; without arguments it shows its help."""

    def __init__(self, *, cls: type[TyperGroup] = Group, **options: Any) -> None:
        super().__init__(cls=cls, no_args_is_help=True, **options)

    def command(  # type: ignore[override]
        self,
        name: str | None = None,
        *,
        cls: type[TyperCommand] = Command,
        left_out: Sequence[LeftOut] = (),
        **options: Any,
    ) -> Any:
        register = super().command(name, cls=cls, **options)

        def add(function: Any) -> Any:
            register(with_options(function, left_out))
            return function

        return add


def _names_of(kinds: Sequence[str]) -> str:
    """The names of each kind, for a help page."""
    width = max(60, min(100, shutil.get_terminal_size().columns))
    lines = [" Names (described by: retrokit names KIND)"] if kinds else []
    for kind in kinds:
        names, first = ", ".join(named(kind).names()), f"   {kind:<14} "
        lines += textwrap.wrap(names, width, initial_indent=first, subsequent_indent=18 * " ", break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def show(*parts: Any, error: bool = False, wrap: bool = False) -> None:
    """Print tables or text on standard output, or on standard error. ``wrap`` text: it is no wider than a table."""
    from retrokit.report.sheets import TerminalTable
    from retrokit.report.terminal import console

    with printing():
        for part in parts:
            if not isinstance(part, str) or wrap:
                shown = console(error)
                with shown.capture() as captured:  # rich's own way with a closed pipe is to exit with 1
                    shown.print(part if isinstance(part, str) else TerminalTable(part))
                part = captured.get().rstrip("\n")
            else:
                part = harmless(part, lines=True)
            typer.echo(part, err=error)


def show_result(as_json: bool, kind: str, data: Any, *parts: Any) -> None:
    """Print ``data`` as one JSON object that names its kind, or else the tables and sentences."""
    from retrokit.data.jsonl import to_json

    if as_json:
        show(to_json(data, kind=kind))
    else:
        show(*parts, wrap=True)


def show_record(as_json: bool, kind: str, record: Any, *more: Any) -> None:
    """Print a record of a registered ``kind`` as one JSON object, or else its tables and the sentences ``more``."""
    from retrokit.report.records import registry

    entry: Any = registry.entry(kind)
    parts = [] if as_json else [*entry.sheets_of(record), *more]
    show_result(as_json, kind, record.to_json(), *parts)


def write_rows(work: Callable[[], Any]) -> None:
    """Write rows and print the summary of the result, a line or several."""
    with readers_may_leave():
        summary = work().summary()
        for line in [summary] if isinstance(summary, str) else summary:
            notice(line)
