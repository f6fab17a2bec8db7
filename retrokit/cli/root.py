"""The command ``retrokit``: what :mod:`retrokit.cli.commands` lists, each command imported when it is used."""

import os
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from typing import Any

import typer
from typer.exceptions import TyperException

from retrokit.cli.commands import CommandEntry, GroupEntry, registry
from retrokit.cli.common import Commands, Group, GroupWithDefault
from retrokit.cli.papers import sources, without_sources
from retrokit.core.registry import missing_extensions
from retrokit.core.version import DOCUMENTATION, __version__


class LazyCommand:
    """A command that a group lists by its entry; the rest, and the function, are imported where they are needed."""

    hidden = False
    deprecated = False

    def __init__(self, entry: CommandEntry) -> None:
        self.entry = entry
        group, _, self.name = entry.name.rpartition(" ")
        self.short_help = without_sources(entry.summary)
        self.rich_help_panel = None if group else entry.panel

    @cached_property
    def command(self) -> Any:
        """The command itself."""
        alone = Commands(add_completion=False)
        alone.command(self.name, left_out=self.entry.left_out)(self.entry.load())
        command: Any = typer.main.get_command(alone)
        command.epilog = sources(command.help or "")
        return command

    @property
    def is_loaded(self) -> bool:
        """Whether the command has been imported."""
        return "command" in vars(self)

    def __getattr__(self, name: str) -> Any:
        if name == "commands":  # which groups have, and which is asked for without a wish to load
            raise AttributeError(name)
        return getattr(self.command, name)


class CommandTable(Mapping[str, Any]):
    """The commands of a group by their last word, or those at the top. To list them loads none."""

    def __init__(self, group: str = "") -> None:
        self._group = group
        self._commands: dict[str, Any] = {}

    def __iter__(self) -> Iterator[str]:
        return (entry.name.rpartition(" ")[2] for entry in registry.below(self._group))

    def __len__(self) -> int:
        return len(registry.below(self._group))

    def __getitem__(self, word: str) -> Any:
        if word not in self._commands:
            entry = registry.find(f"{self._group} {word}".strip())
            if not isinstance(entry, CommandEntry):
                raise KeyError(word)
            self._commands[word] = _group_of(entry) if isinstance(entry, GroupEntry) else LazyCommand(entry)
        return self._commands[word]


def _group_of(entry: GroupEntry) -> Group:
    """The group of an entry, with its commands."""
    kind: type[Group] = Group
    if entry.default is not None:
        kind = type("WithDefault", (GroupWithDefault,), {"default": entry.default})
    about = f"{entry.summary}\n\n{entry.about}".strip()
    group: Any = typer.main.get_group(Commands(cls=kind, name=entry.name, help=about))
    group.rich_help_panel = entry.panel
    group.commands = CommandTable(entry.name)
    return group


class Root(Group):
    """The group of all commands."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = CommandTable()  # type: ignore[assignment]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As the base class; the message for a name that resembles none says which extensions are not installed."""
        try:
            return super().resolve_command(ctx, args)
        except TyperException as error:
            if "Did you mean" not in error.message:
                error.message = error.message.removesuffix(".") + missing_extensions()
            raise


app = Commands(
    cls=Root,
    name="retrokit",
    pretty_exceptions_enable=False,
    add_completion=True,
    help="Train, stress-test and rerank with dense text retrievers.\n\n"
    "retrokit doctor\n\nretrokit names similarities encoders\n\nretrokit help finetune",
    epilog=f"Troubleshooting: retrokit doctor. Documentation: {DOCUMENTATION} . "
    "Exit codes: 0 done, 1 a gate failed, 2 wrong use or bad input, "
    "3 a missing optional package, 4 an outside service failed, 130 interrupted, 143 terminated.",
)


@cache
def application() -> Any:
    """All commands, created once."""
    return typer.main.get_command(app)


def _version(is_set: bool) -> None:
    if is_set:
        typer.echo(f"retrokit {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
    no_cache: bool = typer.Option(False, "--no-cache", help="Disable the embedding cache (RETROKIT_CACHE=off)."),
) -> None:
    """Train, stress-test and rerank with dense text retrievers."""
    if no_cache:
        os.environ["RETROKIT_CACHE"] = "off"
