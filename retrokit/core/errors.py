"""The exceptions that a user may meet, each with the exit code that the command line gives it.

Everything here is a clear one-line message for a person. Any other exception is a bug and shows its traceback. A
message names a parameter as ```batch_size=```; the command line shows its option instead (``--batch-size``).
"""

import errno
import importlib.util
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

DISTRIBUTION = "retrokit-ir"
"""What is installed to ``import retrokit``; ``retrokit`` itself is another project on the public index."""


def installation(extra: str) -> str:
    """The command that installs an optional package.

    >>> installation("map")
    "python -m pip install 'retrokit-ir[map]'"
    """
    return f"python -m pip install '{DISTRIBUTION}[{extra}]'"


_PASSWORD = re.compile(
    r"(?<=://)[^\s\"'<>]*@|(?<=[?&])([^\s=&]*(?:key|token|secret|password|credential|sig)[^\s=&]*)=[^\s&#]+", re.I
)


copies: dict[str, str] = {}
"""Paths of local copies, each with the address by which specs and messages call it."""


def addressed(text: str) -> str:
    """``text`` with addresses in place of the paths of local copies."""
    for path, address in copies.items():
        text = text.replace(path, address)
    return text


def redacted(text: str) -> str:
    """``text`` with :func:`addressed` copies, and without what addresses in it have of names, passwords, keys and
    tokens.

    >>> redacted("https://me:secret@hub.example/x?api_key=123&page=2: not found")
    'https://…@hub.example/x?api_key=…&page=2: not found'
    """
    return _PASSWORD.sub(lambda match: "…@" if match[1] is None else f"{match[1]}=…", addressed(text))


class RetrokitError(Exception):
    """Base of all errors with a message for the user; ``exit_code`` is what the command line returns."""

    exit_code = 2

    def __init__(self, message: str = "") -> None:
        super().__init__(redacted(str(message)))

    heard: bool | None = None
    """Of several processes, whether this one is to say it; ``None``: the first one does, for all have met it."""


class UsageError(RetrokitError):
    """A wrong name, parameter or combination of parameters."""


def named(path: object) -> str:
    """How messages call an input: its path, or "standard input" for ``-``."""
    return "standard input" if str(path) == "-" else str(path)


class DataError(RetrokitError):
    """Bad input: the message names the file, the line (if there is one) and what is expected."""

    def __init__(self, where: object, problem: str, line: int | None = None) -> None:
        location = f"{named(where)}:{line}" if line is not None else named(where)
        text = f"{location}: {problem}"
        super().__init__(" ".join(line.strip() for line in text.split("\n")))  # a library's may have several lines
        self.line = line or 0


class GateFailed(RetrokitError):
    """A gate that the user set (``fail_under``, ``fail_if_worse``) did not hold."""

    exit_code = 1


class MissingExtra(RetrokitError):
    """An optional package is missing; the message is the exact command that installs it."""

    exit_code = 3

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional package: {installation(extra)}")
        self.extra = extra


_MODULES = {
    "lora": ("peft",),
    "bits": ("bitsandbytes",),
    "beir": ("beir", "requests"),
    "bm25": ("bm25s", "Stemmer"),
    "negatives": ("HanTa", "lemminflect", "inflect"),
    "llm": ("openai", "anyio", "httpx2"),
}
"""The modules of an extra that is not called as its one module is."""


def check_extra(what: str, extra: str, modules: Sequence[str] = ()) -> None:
    """Raise :class:`MissingExtra` unless the ``modules`` that ``what`` needs are installed, or those of a known extra;
    imports none of them."""
    if any(importlib.util.find_spec(name) is None for name in modules or _MODULES.get(extra, (extra,))):
        raise MissingExtra(what, extra)


class ServiceError(RetrokitError):
    """An outside service (a model hub, an LLM) failed or could not be reached."""

    exit_code = 4


class Interrupted(RetrokitError):
    """The user stopped the work, and its state is saved. The same call with ``parameters`` set resumes it.
    ``words`` are those of its command line."""

    exit_code = 130
    words: Sequence[str] = ()

    def __init__(self, message: str, *parameters: str) -> None:
        super().__init__(message)
        self.parameters = parameters


@contextmanager
def disk_errors(what: object) -> Iterator[None]:
    """Turn an operating-system error while writing ``what`` (disk full, no permission) into one clear line, also one
    that a library reports by an exception of its own."""
    try:
        yield
    except RetrokitError:
        raise
    except Exception as error:
        if not isinstance(error, OSError) and not is_write_error(error):
            raise
        raise DataError(
            what, f"could not be written: {getattr(error, 'strerror', None) or first_line(error)}"
        ) from error


_WRITE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
_OF_LIBRARIES = ("PytorchStreamWriter", "unexpected pos", "(os error ")  # torch.save, safetensors, tokenizers
_OF_NUMPY = re.compile(r"\d+ requested and \d+ written")


def is_write_error(error: BaseException) -> bool:
    """Whether an exception says that a file which is open could not be written. Anything else that is raised while a
    file is being written, such as a connection that breaks or a pipe that its reader closed, is not about that file."""
    if isinstance(error, OSError):
        return error.errno in _WRITE_ERRORS or _OF_NUMPY.search(str(error)) is not None
    return any(text in str(error) for text in _OF_LIBRARIES)


@contextmanager
def naming(hidden: object, name: object) -> Iterator[None]:
    """Errors in the block call a ``hidden`` file or folder, which is to become ``name``, by that name. An error of
    writing becomes one about ``name``."""
    try:
        yield
    except RetrokitError as error:
        error.args = (str(error).replace(str(hidden), str(name)),)
        raise
    except Exception as error:
        if is_write_error(error):
            with disk_errors(name):
                raise
        if isinstance(error, OSError) and isinstance(error.filename, str):
            error.filename = error.filename.replace(str(hidden), str(name))
        raise


LARGEST_WHOLE = 2**31 - 1
LARGEST = 1e9
SMALLEST = 1e-12
"""Of numbers above 0: what is divided by them is finite."""


def out_of_range(value: float, minimum: float | None = None, maximum: float | None = None) -> str | None:
    """The range, in words, that ``value`` is not in; ``None`` where it is. Every number that a user gives is held
    against it: of a spec, of an option, of a configuration.

    Without a bound of its own, a whole number is at most :data:`LARGEST_WHOLE` in size, any other at most
    :data:`LARGEST`: so nothing is infinite, and nothing overflows where it is used.

    >>> out_of_range(0, minimum=1), out_of_range(10**20, minimum=1), out_of_range(float("nan"), 0, 1), out_of_range(2)
    ('at least 1', '1 to 2147483647', '0 to 1', None)
    >>> out_of_range(float("nan"))
    'a finite number'
    """
    low, high = _bounds(isinstance(value, int), minimum, maximum)
    if low <= value <= high:
        return None
    if minimum is None and maximum is None and value != value:  # isnan overflows for a huge whole number
        return "a finite number"
    is_open = maximum is None or maximum > LARGEST_WHOLE
    if is_open and not value > high:  # also where it is NaN
        return f"at least {low:.10g}"
    if minimum is None and not value < low:
        return f"at most {high:.10g}"
    return f"{low:.10g} to {high:.10g}"


def _bounds(is_whole: bool, minimum: float | None, maximum: float | None) -> tuple[float, float]:
    largest = LARGEST_WHOLE if is_whole else LARGEST
    low = -largest if minimum is None else minimum
    high = largest if maximum is None else maximum
    return low, high


def did_you_mean(name: str, names: Iterable[str], limit: int = 1) -> str:
    """What a message about an unknown ``name`` says of the nearest of the ``names``, at most ``limit``; nothing where
    none is near.

    >>> did_you_mean("ndgc", ["map", "ndcg"])
    ' (did you mean ndcg?)'
    """
    import difflib  # where nothing is wrong it is not needed

    near = difflib.get_close_matches(name, list(names), n=limit)
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or its type's name."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def shortened(text: str, limit: int) -> str:
    """``text`` on one line; of a longer one, ``limit`` characters that end in ``…``.

    >>> shortened("a long\\ntext", 9)
    'a long t…'
    """
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
