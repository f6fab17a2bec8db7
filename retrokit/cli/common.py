"""What all commands share: the application, help that ends with the registered names, and how output is shown."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from retrokit import __version__

app = typer.Typer(
    name="retrokit",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
    help="Train, stress-test and rerank with dense text retrievers.",
    epilog="Documentation: docs/ in the repository. Exit codes: 0 done, 1 a gate failed, 2 wrong use or bad input, "
    "3 a missing optional package, 4 an outside service failed, 130 interrupted.",
)


def with_names(*registries: str) -> type[TyperCommand]:
    """A command whose help ends with the names in the given registries, third parties' included."""

    class WithNames(TyperCommand):
        def format_help(self, ctx: Any, formatter: Any) -> None:
            """Add the names when help is asked for, and only then."""
            super().format_help(ctx, formatter)
            import importlib

            for path in registries:
                module, _, attribute = path.partition(":")
                typer.echo(getattr(importlib.import_module(module), attribute).describe())

    return WithNames


ENCODERS = "retrokit.encoders:registry"
SIMILARITIES = "retrokit.similarities:registry"
RETRIEVERS = "retrokit.retrievers:registry"
TASKS = "retrokit.evaluation:registry"
AUGMENTATIONS = "retrokit.augmentation:registry"
RERANKERS = "retrokit.reranking:registry"
SPLITTERS = "retrokit.augmentation.splitters:registry"
MIXTURE = "retrokit.augmentation.mixing:registry"
LLMS = "retrokit.llm:registry"
DATA = "retrokit.data.pairs:registry"


JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
DeviceOption = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, mps; default: the best there is.")]


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"retrokit {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Train, stress-test and rerank with dense text retrievers."""


@contextmanager
def readers_may_leave() -> Iterator[None]:
    """Writing to standard output is done when its reader has seen enough (``| head``): that is no error."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def show(*parts: Any) -> None:
    """Print tables or text on standard output."""
    from retrokit.report.terminal import console

    with readers_may_leave():
        for part in parts:
            if not isinstance(part, str):
                shown = console()
                with shown.capture() as captured:  # rich's own way with a closed pipe is to exit with 1
                    shown.print(part)
                part = captured.get().rstrip("\n")
            typer.echo(part)
        sys.stdout.flush()


def is_first_process() -> bool:
    return os.environ.get("RANK", "0") == "0"
