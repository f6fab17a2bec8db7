"""``retrokit report``."""

import typer

from retrokit.cli.common import PriceOption, app, writes
from retrokit.core.settings import FILE


@app.command()
def report(
    paths: list[str] = typer.Argument(
        ...,
        metavar="PATH",
        help="Results folder (eval --results), run's folder (finetune, rerank train), or file that --json of eval, "
        "rerank or probe was sent to. Repeatable.",
    ),
    output: str = typer.Option(
        ..., "--output", "-o", callback=writes(FILE), help="HTML file to write; - is standard output."
    ),
    title: str | None = typer.Option(None, "--title", help="Title of the page."),
    price_per_hour: PriceOption = None,
) -> None:
    """One page to read of results and runs: tables, pictures, tests, and what they say, in one HTML file.

    retrokit report results runs/qnorm-0 runs/qnorm-1 -o page.html
    """
    from retrokit.report.page import write_page

    write_page(paths, output, title, price_per_hour=price_per_hour)
