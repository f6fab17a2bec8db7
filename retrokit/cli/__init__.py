"""The command line: each command parses, makes one library call, renders.

Nothing heavy is imported before a command runs: ``--help`` must stay fast.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from retrokit.core import interrupts
from retrokit.core.processor import limit_threads

if TYPE_CHECKING:
    from retrokit.cli.entry import app as app
    from retrokit.cli.entry import run as run


def main() -> None:
    """Entry point of the ``retrokit`` command."""
    interrupts.watch()
    limit_threads()
    try:
        entry = import_module("retrokit.cli.entry")
    except KeyboardInterrupt:
        code = interrupts.exit_code()
        interrupts.end(code)
        print("retrokit: interrupted", file=sys.stderr)
        sys.exit(code)
    try:
        code = entry.run(sys.argv[1:])
    except Exception:
        sys.excepthook(*sys.exc_info())
        code = entry.BUG
    entry.end(code)


def __getattr__(name: str) -> Any:
    """The application ``app`` and the function ``run``, imported where they are used: after signals are watched for."""
    if name not in ("app", "run"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("retrokit.cli.entry"), name)
