"""Options of a command from the fields of :class:`~core.settings.Settings`."""

import inspect
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING
from functools import cache
from typing import Annotated, Any, get_args, get_origin

import typer

from retrokit.cli.common import DeviceOption, JsonOption, option, writes
from retrokit.cli.completion import choosing
from retrokit.cli.config import CONFIG, standing_for
from retrokit.core.settings import Settings


def takes(*settings: type[Settings], **annotations: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for every field of each of ``settings``, in place of its parameter of that type.

    ``annotations`` are those of fields whose option has more to it; ``None``: the field is none. ``device`` and
    ``as_json`` are the same everywhere.
    """
    annotations = {"device": DeviceOption, "as_json": JsonOption, **annotations}
    taken = {
        kind: [field for field in kind.ordered() if annotations.get(field.name, field) is not None] for kind in settings
    }

    def with_options(command: Callable[..., None]) -> Callable[..., None]:
        def settings_of(given: dict[str, Any]) -> dict[str, Settings]:
            return {
                names[kind]: kind(**{field.name: _value(field, given.pop(field.name)) for field in fields})
                for kind, fields in taken.items()
            }

        def run(**given: Any) -> None:
            command(**settings_of(given), **given)

        run.settings_of = settings_of  # type: ignore[attr-defined]
        run.first = tuple(name for kind in settings for name in kind.first)  # type: ignore[attr-defined]
        names: dict[type[Settings], str] = {}
        parameters = []
        for param in inspect.signature(command, eval_str=True).parameters.values():
            if param.annotation in taken:
                names[param.annotation] = param.name
                fields = taken[param.annotation]
                parameters += [
                    _parameter(field, _hint(param.annotation, field.name), annotations.get(field.name))
                    for field in fields
                ]
            else:
                parameters.append(param)
        return standing_for(command, run, [*parameters, CONFIG])

    return with_options


def _hint(settings: type[Settings], name: str) -> Any:
    """The type of a field, as by ``typing.get_type_hints``, which is slower."""
    owner = next(kind for kind in settings.__mro__ if name in vars(kind).get("__annotations__", ()))
    written = owner.__annotations__[name]
    return _evaluated(owner.__module__, written) if isinstance(written, str) else written


@cache
def _evaluated(module: str, written: str) -> Any:
    return eval(written, vars(sys.modules[module]))


def _parameter(field: Any, hint: Any, annotation: Any) -> inspect.Parameter:
    about, allowed = field.metadata, field.metadata["values"]
    kind, default = hint, about["typed"]
    if about["read"] is not None:
        kind, default = (str, default) if isinstance(default, str) else (str | None, None)
    elif get_origin(hint) is Sequence or hint is Sequence:
        items: Any = list[get_args(hint) or str]  # type: ignore[misc]
        kind, default = (items, default) if default is MISSING else (items | None, None)
    text = re.sub(r"`(\w+)=`", lambda name: option(name[1]), about["help"])
    if about["argument"]:
        info: Any = typer.Argument(help=text, metavar=about["metavar"])
    else:
        flags = about["flags"] or ((option(field.name),) if kind is bool else ())
        least, most = (allowed.minimum, allowed.maximum) if int in (kind, *get_args(kind)) else (None, None)
        if (least, most) == (1, None):  # as every whole number has, and Command says
            least = None
        written = about["content"].writes
        check = writes(written) if written else None
        more = {"help": text, "rich_help_panel": about["panel"], "min": least, "max": most, "callback": check}
        if allowed.choices:
            more |= {"metavar": f"[{'|'.join(allowed.choices)}]", "autocompletion": choosing(allowed.choices)}
        info = typer.Option(*flags, **more)
    empty = inspect.Parameter.empty if default is MISSING else default
    kind = annotation if annotation is not None else Annotated[kind, info, about["content"]]
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=empty, annotation=kind)


def _value(field: Any, given: Any) -> Any:
    if field.metadata["read"] is not None:
        return field.default if given is None else field.metadata["read"](given)
    if field.default == () or isinstance(given, list):
        return tuple(given or ())
    return given
