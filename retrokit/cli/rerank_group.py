"""The group ``retrokit rerank``: its first word is one of its commands, or else belongs to the command ``run``.

So ``retrokit rerank minilm --on TASK --with maxsim`` is ``retrokit rerank run minilm …``, beside ``retrokit rerank
train …``. An encoder's folder that is named like a command is written ``./train``.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from retrokit.cli.common import app

RUN = "run"
"""The command that takes what names no command."""


class RunByDefault(TyperGroup):
    """A group that puts :data:`RUN` before words that start with no command's name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As the base class, after that."""
        if args and RUN in self.commands and args[0] not in {*self.commands, *ctx.help_option_names}:
            args = [RUN, *args]
        return super().parse_args(ctx, args)


group = typer.Typer(
    cls=RunByDefault,
    no_args_is_help=True,
    help="Score what a search has found anew, from the tokens of both texts; train, calibrate and use verifiers.\n\n"
    "retrokit rerank ENCODER --on TASK --with RERANKER is short for retrokit rerank run.",
)
app.add_typer(group, name="rerank")
