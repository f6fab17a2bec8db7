"""``--config FILE.toml``: options of a command from a file; command-line options override it."""

import inspect
from typing import Annotated, Any

import typer

from retrokit.core.errors import DataError, did_you_mean

_NOT_IN_A_FILE = {"config", "help"}


def _read(ctx: typer.Context, path: str | None) -> str | None:
    """Read the defaults of the context from the file.

    Raises:
        DataError: a file that cannot be read or is not TOML, a name that the command has not, or a value that its
            option does not take.
    """
    if path is None:
        return None
    from retrokit.core.files import read_toml

    _, given = read_toml(path)
    params = options_of(ctx.command)
    given_params = {key: params.get(key.replace("_", "-")) for key in given}
    if unknown := [f"{key}{_whose(key, params, ctx)}" for key, param in given_params.items() if param is None]:
        raise DataError(path, f"{ctx.command_path} has no option {', '.join(unknown)}")
    ctx.default_map = {param.name: typed(path, key, param, given[key]) for key, param in given_params.items() if param}
    return path


def _whose(key: str, params: dict[str, Any], ctx: typer.Context) -> str:
    """What a message about an unknown ``key`` says of the nearest one, or of the commands that have it."""
    others = _commands(ctx.find_root().command, [])
    names = [" ".join(words) for words, command in others if key.replace("_", "-") in options_of(command)]
    return f" (that is of {', '.join(names)})" if 1 <= len(names) <= 3 else did_you_mean(key, params)


def _commands(command: Any, words: list[str]) -> list[tuple[list[str], Any]]:
    below = getattr(command, "commands", {}).items()
    of_below = [(words if word == getattr(command, "default", None) else [*words, word], part) for word, part in below]
    return [(words, command), *(entry for named, part in of_below for entry in _commands(part, named))]


_ConfigOption = Annotated[
    str | None,
    typer.Option(
        is_eager=True,
        callback=_read,
        help="TOML file of options (batch-size = 64); the command line wins.",
        metavar="FILE",
    ),
]
CONFIG = inspect.Parameter("config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_ConfigOption)


def options_of(command: Any) -> dict[str, Any]:
    """What a file may give a command: by its name there, the parameter."""
    return {name: param for param in command.params for name in _names(param) if name not in _NOT_IN_A_FILE}


def _names(param: Any) -> list[str]:
    """As the file calls it: an option without its first dashes, an argument by its name or as its help calls it."""
    if param.param_type_name == "argument":
        return [name.lower().replace("_", "-") for name in (param.name, param.metavar) if name]
    longest = max(param.opts, key=len)
    return [longest.lstrip("-")]


def typed(path: str, key: str, param: Any, value: Any) -> Any:
    """The value as it would come from the command line: a text, several, or whether a switch is on; raises
    :class:`DataError`, which begins with ``path``, for what the parameter does not take."""
    if getattr(param, "is_flag", False):
        if not isinstance(value, bool):
            raise DataError(path, f"{key} is a switch; expected true or false")
        return value
    texts = []
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, bool) or not isinstance(item, (str, int, float)):
            raise DataError(path, f"{key} should be a text or a number, or a list of them")
        texts.append(item if isinstance(item, str) else repr(item))
    takes_several = getattr(param, "multiple", False) or param.nargs != 1
    return texts if takes_several else ",".join(texts)
