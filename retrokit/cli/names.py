"""``retrokit names``."""

import typer

from retrokit.cli.common import NAMES, named, show
from retrokit.cli.completion import choosing
from retrokit.core.errors import UsageError, did_you_mean


def names(
    kinds: list[str] | None = typer.Argument(
        None,
        metavar="KIND",
        help=f"{', '.join(NAMES)}. Default: all. Repeatable.",
        autocompletion=choosing(NAMES),
    ),
) -> None:
    """List registered names with descriptions and parameters, including those of plugins.

    retrokit names

    retrokit names similarities encoders
    """
    wrong = [f"unknown kind {kind!r}{did_you_mean(kind, NAMES)}" for kind in kinds or () if kind not in NAMES]
    if wrong:
        raise UsageError("\n".join([*wrong, f"known: {', '.join(NAMES)}"]))
    show(*(named(kind).describe() for kind in kinds or NAMES))
