"""What stands for the value of an option in the help: N, X or TEXT, and nothing behind a switch."""

from __future__ import annotations

from typing import Any

_NUMBERS = {"int": "N", "float": "X"}


def placeholder(param: Any) -> str:
    """How the help and ``docs/cli.md`` name the value of an option or of an argument."""
    if param.metavar is not None:
        return param.metavar
    if param.param_type_name == "argument":
        return param.name.upper()
    if getattr(param, "is_flag", False):
        return ""
    return _NUMBERS.get(param.bare_type().removeprefix("list[").removesuffix("]"), "TEXT")


class Described:
    """Of a command or a group: its parameters by their placeholders, where Typer shows types of Python
    (``--json <bool>``, ``--on <list[str]>``)."""

    def get_params(self, ctx: Any) -> list[Any]:
        """As the base class, each parameter with its placeholder."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            param.metavar = placeholder(param)
            if param.param_type_name == "argument":  # whose name is its placeholder
                param.display_type_rich = _nothing
        return params


def _nothing(ctx: Any) -> None: ...
