"""``retrokit report``."""

from collections.abc import Sequence

from retrokit.cli.api import FILE, common, setting
from retrokit.core.settings import EITHER


def report(
    paths: Sequence[str] = setting(
        help="Results folder, model folder, or JSON of eval, rerank, probe or check. Repeatable.",
        argument=True,
        metavar="PATH",
        names="runs",
        reads=EITHER,
    ),
    output: str = common("output", help="HTML file to write; - is standard output.", writes=FILE),
    title: str | None = setting(None, "Title of the page."),
    price_per_hour: float | None = common("price_per_hour"),
) -> None:
    """Write a self-contained HTML report of results and model folders.

    retrokit report results runs/qnorm-0 runs/qnorm-1 -o page.html
    """
    from retrokit.extensions.page.page import write_page

    write_page(paths, output, title, price_per_hour=price_per_hour)
