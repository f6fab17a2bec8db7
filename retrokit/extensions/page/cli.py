"""``retrokit report``."""

from typing import Annotated

import typer

from retrokit.cli.api import FILE, Content, PriceOption, writes
from retrokit.core.settings import EITHER


def report(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH",
            help="Results folder, model folder, or JSON of eval, rerank, probe or check. Repeatable.",
        ),
        Content(("runs",), reads=EITHER),
    ],
    output: str = typer.Option(
        ..., "--output", "-o", callback=writes(FILE), help="HTML file to write; - is standard output."
    ),
    title: str | None = typer.Option(None, "--title", help="Title of the page."),
    price_per_hour: PriceOption = None,
) -> None:
    """Write a self-contained HTML report of results and model folders.

    retrokit report results runs/qnorm-0 runs/qnorm-1 -o page.html
    """
    from retrokit.extensions.page.page import write_page

    write_page(paths, output, title, price_per_hour=price_per_hour)
