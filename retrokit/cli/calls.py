"""How Typer calls a command: with what is typed, and with what the command takes for what is left out."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import typer

from retrokit.cli.commands import LeftOut
from retrokit.cli.config import CONFIG
from retrokit.cli.left_out import Substitutes
from retrokit.cli.settings import CommandCall
from retrokit.core.errors import DataError, Interrupted, ServiceError, UsageError

CONTEXT = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)


def with_options(command: Callable[..., None], left_out: Sequence[LeftOut] = ()) -> Callable[..., None]:
    """The command for Typer to read. An error of use, of data or of a service says if options are
    from a file."""
    call = CommandCall(command, left_out)

    def run(context: typer.Context, config: str | None, **typed: Any) -> None:
        substitutes = Substitutes(left_out, call.options, context, typed)
        values: dict[str, Any] = typed
        try:
            for values in substitutes.runs():
                arguments = call.arguments(values, config)
                if values is substitutes.values:
                    substitutes.announce()
                command(**arguments)
        except Interrupted as error:
            error.words = substitutes.line(values, config)
            raise
        except (DataError, ServiceError, UsageError) as error:
            if config is not None:
                error.args = (f"{error} (some options are from {config})",)
            raise
        substitutes.follow()

    parameters = [CONTEXT, *(option.parameter() for option in call.options.values()), CONFIG]
    run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.call = call  # type: ignore[attr-defined]
    return run
