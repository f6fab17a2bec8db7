"""The group ``retrokit rerank``: its first word is one of its commands, or else belongs to the command ``run``.

So ``retrokit rerank minilm --on TASK --with maxsim`` is ``retrokit rerank run minilm …``, beside ``retrokit rerank
train …``. An encoder's folder that is named like a command is written ``./train``.
"""

from __future__ import annotations

from retrokit.cli.common import Commands, GroupWithDefault, app

RUN = "run"
"""The command that takes what names no command."""


class _Running(GroupWithDefault):
    default = RUN


group = Commands(
    cls=_Running,
    no_args_is_help=True,
    help="Score what a search has found anew, from the tokens of both texts; train, calibrate and use verifiers.\n\n"
    "retrokit rerank ENCODER --on TASK --with RERANKER is short for retrokit rerank run.",
)
app.add_typer(group, name="rerank")
