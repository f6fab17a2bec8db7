"""Standard streams that are closed or full, or get text that is not UTF-8."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from retrokit.core.errors import DataError, disk_errors


def is_first_process() -> bool:
    """Whether this process prints: the only one, or the first of those that a launcher started."""
    return os.environ.get("RANK", "0") == "0"


class _Messages(io.TextIOWrapper):
    """Standard error. After a write error, as on a full disk, messages are dropped and the work continues."""

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except OSError:
            self._go_on()
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            self._go_on()

    def _go_on(self) -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())


def prepare_streams() -> None:
    """Make standard streams fit for use, before any file is opened.

    In place of a closed one, nothing is opened: else the next file that is opened would have its number, and would get
    what is printed. What stands for a byte of a path that is not UTF-8 is printed as an escape. Raises
    :class:`DataError` if standard output is closed.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - lives as long as the process
    if sys.stderr is sys.__stderr__ and isinstance(sys.stderr, io.TextIOWrapper):
        encoding, errors = sys.stderr.encoding, sys.stderr.errors
        sys.stderr = sys.__stderr__ = _Messages(  # type: ignore[misc] # what it was is detached
            sys.stderr.detach(), encoding=encoding, errors=errors, line_buffering=True
        )
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        raise DataError("standard output", "is closed; send it to a file, or to /dev/null")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # what a line that is typed holds is checked where it is read


def drop_output() -> None:
    """Discard pending output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_at_once() -> None:
    """Flush standard output, or discard it if its reader blocks."""
    number = sys.stdout.fileno()
    os.set_blocking(number, False)
    try:
        sys.stdout.flush()
        blocked = False
    except OSError:
        blocked = True
    os.set_blocking(number, True)
    if blocked:
        drop_output()


@contextmanager
def readers_may_leave() -> Iterator[None]:
    """A closed pipe on standard output (``| head``) is no error."""
    try:
        yield
    except BrokenPipeError:
        drop_output()


@contextmanager
def printing() -> Iterator[None]:
    """For printing only. Raises :class:`DataError` if standard output fails, as on a full disk."""
    with readers_may_leave():
        try:
            yield
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError:
            drop_output()
            with disk_errors("standard output"):
                raise
