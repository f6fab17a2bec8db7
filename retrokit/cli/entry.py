"""The entry point: run a command, and turn errors into a message and an exit code."""

import errno
import gc
import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain, takewhile
from traceback import walk_tb
from typing import Any, NoReturn

import typer
from typer.exceptions import TyperException

from retrokit.cli.commands import CommandEntry, registry
from retrokit.cli.common import option, placeholder
from retrokit.cli.root import app as app
from retrokit.cli.root import application
from retrokit.cli.streams import is_first_process, prepare_streams, print_at_once, printing
from retrokit.core import interrupts
from retrokit.core.errors import DataError, Interrupted, RetrokitError, is_write_error
from retrokit.core.notices import harmless, listening
from retrokit.core.registry import plugin_of


def _quiet_libraries() -> None:
    """Silence the messages of libraries; retrokit reports what a user needs."""
    import warnings

    os.environ["MPLBACKEND"] = "agg"  # figures are files; a notebook's backend may not be installed here
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false" if "RANK" in os.environ else "true")
    warnings.filterwarnings("ignore")


def _listening() -> AbstractContextManager[None]:
    """Show notices and progress, with the names of options; only in the first process of a distributed run."""
    if not is_first_process():
        return nullcontext()
    from retrokit.report.terminal import TerminalListener

    class OptionListener(TerminalListener):
        def notice(self, message: str) -> None:
            super().notice(in_options(message))

    return listening(OptionListener())


def in_options(message: str) -> str:
    """A message of the library for the command line, with options in place of parameters. Only the mark that the
    library itself writes is replaced: other backticks may be quoted from a service, a library or a file.

    >>> in_options("`save_every=` is for training: missing field `texts`")
    '--save-every is for training: missing field `texts`'
    """
    return re.sub(r"`([a-z][a-z0-9_]*)=`", lambda match: _option_of(match[1]) or match[0], message)


def _option_of(parameter: str) -> str | None:
    """The option of a parameter of the running command, or else its argument, or an option of any other command."""
    commands = list(_all_commands(application()))
    loaded = [command for command in commands if getattr(command, "is_loaded", True)]
    arguments = (
        {param.name: placeholder(param) for param in command.params if _is_argument(param)} for command in loaded
    )
    others = (_options_of(command) for command in commands if command not in loaded)
    for names in chain(map(_options_of, loaded), arguments, others):  # others are loaded only if they are needed
        if parameter in names:
            return names[parameter]
    return None


def _is_argument(param: Any) -> bool:
    is_argument: bool = param.param_type_name == "argument"
    return is_argument


def _all_commands(command: Any) -> Iterator[Any]:
    yield command
    for below in getattr(command, "commands", {}).values():
        yield from _all_commands(below)


def _options_of(command: Any) -> dict[str, str]:
    """The option of each parameter of a command: by its name, and by the option's own."""
    options: dict[str, str] = {}
    for param in command.params:
        if not _is_argument(param):
            flag = max(param.opts, key=len)
            options.setdefault(param.name, flag)
            options[flag.lstrip("-").replace("-", "_")] = flag
    return options


BUG = 70
"""The exit code of a bug; Python's own is 1, which means that a gate failed."""

_MACHINE = (errno.ENAMETOOLONG, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ELOOP)
"""Errors of the file system that a user's path causes; any other may be a bug."""


def _shortened(line: str) -> str:
    """Abbreviate words of 400 characters or more."""
    return re.sub(r"\S{400,}", lambda word: f"{word[0][:200]}…{word[0][-100:]}", line)


def _fail(message: str, code: int, heard: bool | None = None) -> int:
    if is_first_process() if heard is None else heard:
        for line in in_options(message).rstrip("\n").split("\n"):
            typer.echo(f"retrokit: {_shortened(harmless(line))}", err=True)
    return code


def _resume_line(words: Sequence[str], parameters: tuple[str, ...]) -> str:
    options = [*map(option, parameters)]
    rest = [word for word in words if word not in ("--overwrite", *options)]
    return f"resume with: retrokit {shlex.join([*rest, *options])}"


def run(argv: Sequence[str]) -> int:
    """Run the command that the words name (``["eval", "minilm", "--on", …]``) and return its exit code."""
    interrupts.forget()
    try:
        code = _run_command(argv)
    except Interrupted as error:
        options_of_all = takewhile(lambda word: word.startswith("-"), argv)
        words = [*options_of_all, *error.words] if error.words else argv
        return _fail(f"{error}; {_resume_line(words, error.parameters)}", interrupts.exit_code())
    except BaseException as error:
        if interrupts.requested() or isinstance(error, KeyboardInterrupt):  # and whatever came of it
            return _fail("interrupted", interrupts.exit_code())
        return _code_of(error)
    return _fail("interrupted", interrupts.exit_code()) if interrupts.requested() else code


def _run_command(argv: Sequence[str]) -> int:
    """Run the command and return its exit code; a process of a distributed run that only helps returns 0."""
    completes = "_RETROKIT_COMPLETE" in os.environ  # which takes its words from elsewhere
    helps = not argv or not {"--help", "--help-all", "--version"}.isdisjoint(argv)
    command = application()
    prepare_streams()
    if not helps:
        _quiet_libraries()
    with printing() if helps else _listening(), _distributed(argv) as is_idle:
        if completes:
            return command.main(list(argv), prog_name="retrokit", standalone_mode=False) or 0
        return 0 if is_idle else _invoke(command, argv)


def _code_of(error: BaseException) -> int:
    """The exit code of an error, whose message is printed; a bug is raised again."""
    match error:
        case SystemExit():
            return error.code if isinstance(error.code, int) else 0
        case TyperException():  # wrong options; or no command: help is printed, and nothing is left to say
            text = wrong_use(error)
            return _fail(f"{text}{_where_help_is(error)}", error.exit_code) if text else error.exit_code
        case RetrokitError():
            return _fail(str(error), error.exit_code, error.heard)
        case OSError(errno=number, filename=str() | bytes() as name) if number in _MACHINE:
            return _fail(f"{os.fsdecode(name)}: {error.strerror}", DataError.exit_code)
        case OSError() if is_write_error(error):
            return _fail(f"a file could not be written: {error.strerror or error}", DataError.exit_code)
    plugin = _plugin_at_fault(error)
    if plugin is not None:
        error.add_note(f"This is a bug of the plugin {plugin}, or of a value that it got, and not of retrokit.")
    raise error


def _plugin_at_fault(error: BaseException) -> str | None:
    """The plugin that raised an error, or called a library that did; ``None`` if retrokit did so."""
    plugin = None
    for frame, _ in walk_tb(error.__traceback__):
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] == "retrokit":
            plugin = None
        else:
            plugin = plugin_of(module) or plugin
    return plugin


def wrong_use(error: Any) -> str:
    """What is wrong with the words of a command; of what should be a number, with the value, which Typer leaves out."""
    errors: list[Any] = getattr(error.__cause__, "errors", list)()
    if errors and errors[0]["type"] in _NUMBERS:
        return f"{error.param.opts[0]} {errors[0]['input']}: expected {_NUMBERS[errors[0]['type']]}"
    return error.format_message().removesuffix(".")


_NUMBERS = {"int_parsing": "a whole number", "float_parsing": "a number"}


def _where_help_is(error: Any) -> str:
    context = getattr(error, "ctx", None)
    if context is None:
        return ""
    config = context.params.get("config")
    source = f"; some options are from {config}" if config is not None else ""
    return f" (see {context.command_path} --help{source})"


def _invoke(command: Any, argv: Sequence[str]) -> int:
    """The exit code of the command; what is wrong with its options is raised."""
    try:
        with command.make_context("retrokit", list(argv)) as context:
            return command.invoke(context) or 0
    except typer.Exit as end:
        return end.exit_code


@contextmanager
def _distributed(argv: Sequence[str]) -> Iterator[bool]:
    """Whether this process of a distributed run leaves the command to the first, for which it encodes meanwhile. A
    training runs in every process, and an export, of which each makes a shard."""
    is_one_shard = any(word.partition("=")[0] == "--shard" for word in argv)
    if os.environ.get("WORLD_SIZE", "1") == "1" or (_runs_in_every_process(argv) and not is_one_shard):
        yield False
        return
    from retrokit.encoders.processes import help_first, helped

    if is_first_process():
        with helped():
            yield False
    else:
        help_first()
        yield True


def _runs_in_every_process(argv: Sequence[str]) -> bool:
    words = [word for word in argv if not word.startswith("-")]
    names = (" ".join(words[:2]), " ".join(words[:1]))
    entry = next((entry for entry in map(registry.find, names) if entry is not None), None)
    return isinstance(entry, CommandEntry) and entry.processes == "every"


def end(code: int) -> NoReturn:
    """End the process with the exit code of its command, after its output is flushed."""
    interrupts.end(code)
    if code == interrupts.exit_code():
        print_at_once()
    try:
        with printing():
            pass
    except DataError as error:  # the help page, or what an error has left unprinted
        code = code or _fail(str(error), error.exit_code)
    gc.freeze()  # what is left goes with the process: to look through it once more takes half a second beside torch
    if os.environ.get("WORLD_SIZE", "1") != "1":
        # Threads of the collective backend can abort an interpreter that shuts down, when all is long done.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
