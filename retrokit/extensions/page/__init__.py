"""The page: what commands measured, as one HTML file with tables, tests and pictures."""

from typing import TYPE_CHECKING

from retrokit.cli.commands import CommandEntry
from retrokit.core.registry import Extension

if TYPE_CHECKING:
    from retrokit.extensions.page.page import write_page as write_page

EXTENSION = Extension(
    "page",
    "Write results as one HTML page.",
    commands=(
        CommandEntry(
            "report",
            "Write a self-contained HTML report of results and model folders.",
            "retrokit.extensions.page.cli:report",
        ),
    ),
    python={"write_page": "retrokit.extensions.page.page:write_page"},
)
__getattr__ = EXTENSION.attribute
