"""``retrokit names``."""

from collections.abc import Iterator

import typer

from retrokit.cli.common import named, show
from retrokit.cli.completion import CORE_KINDS, kinds_of_names
from retrokit.core.errors import UsageError

_SHOWN = ", ".join(kind.name for kind in CORE_KINDS)


def _kinds(incomplete: str) -> Iterator[str]:
    return (name for name in kinds_of_names.names() if name.startswith(incomplete))


def names(
    kinds: list[str] | None = typer.Argument(
        None,
        metavar="KIND",
        help=f"{_SHOWN}. Default: all. Repeatable.",
        autocompletion=_kinds,
    ),
) -> None:
    """List registered names with descriptions and parameters, including those of plugins.

    retrokit names

    retrokit names similarities encoders
    """
    known = kinds_of_names.names()
    wrong = [kind for kind in kinds or () if kind not in known]
    if wrong:
        raise UsageError("\n".join(kinds_of_names.unknown(kind) for kind in wrong))
    show(*(named(kind).describe() for kind in kinds or known))
