"""Text files: reading them line by line, writing them whole or not at all, and their digests.

Everywhere a path is taken, ``-`` is standard input or output. Input is unpacked by its content, not by its name:
gzip, bzip2 and Zstandard, and UTF-16 with a byte-order mark. Output is compressed if its name ends in ``.gz``.
"""

import bz2
import codecs
import glob
import gzip
import hashlib
import io
import os
import re
import secrets
import stat
import sys
import time
import tomllib
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from retrokit.core import system
from retrokit.core.errors import DataError, disk_errors, first_line, naming
from retrokit.core.errors import named as named

LONGEST_LINE = 64 << 20
"""Bytes: what has no line ends, such as a device, would else be read into memory without end."""
LARGEST_TOML, LARGEST_JSON = 4 << 20, 512 << 20
"""Bytes of a file that is read whole."""
_NEW = 10
"""Seconds in which a writer has surely come to hold its file."""
_UNPAIRED = "backslashreplace"


COMPRESSED = (".gz", ".bz2", ".zst")
"""How the names of compressed files end."""


def plain_or_packed(path: Path) -> Path | None:
    """The file itself, or the compressed one of that name; ``None``: neither is there."""
    candidates = [path.with_name(path.name + ending) for ending in ("", *COMPRESSED)]
    return next((candidate for candidate in candidates if os.path.isfile(candidate)), None)


def unpacked_name(name: str) -> str:
    """The name of a file without the ending of a compressed one.

    >>> unpacked_name("corpus.jsonl.gz")
    'corpus.jsonl'
    """
    stem, ending = os.path.splitext(name)
    return stem if ending.lower() in COMPRESSED else name


def shards(path: str | Path) -> list[Path]:
    """The files that a path with ``*`` in its last part names, sorted; else only the path itself."""
    path = Path(path)
    if "*" not in path.name or path.exists():
        return [path]
    return sorted(path.parent.glob(path.name)) or [path]


def read_lines(
    path: str | Path, expected: str, feed: Callable[[bytes], object] | None = None, as_stored: bool = False
) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 text file that are not blank, each with its number (from 1) and without its line end. With
    ``as_stored``, blank lines and line ends are included.

    A byte-order mark at the start is dropped. ``expected`` describes the expected content in a few words, for error
    messages. ``feed`` is called with the bytes of every line, blank ones too. Pass the ``update`` of a hash to get the
    digest of the bytes read, because a pipe cannot be read twice.

    Raises:
        DataError: no such file, a folder, an empty file, damaged or truncated compressed data, bytes that are not
            UTF-8, or a line of more than 64 MiB.
    """
    blank = True
    with opened(path) as stream:
        for number, raw in enumerate(_raw_lines(stream), start=1):
            if len(raw) > LONGEST_LINE:
                raise line_too_long(path, number, expected)
            if feed is not None:
                feed(raw)
            if number == 1:
                raw = raw.removeprefix(codecs.BOM_UTF8)
            text = decoded(raw, path, number)
            line = text.rstrip("\r\n")
            is_blank = not line or line.isspace()
            blank = blank and is_blank
            if as_stored:
                yield number, text
            elif not is_blank:
                yield number, line
    if blank:
        raise DataError(path, f"is empty; expected {expected}")


def _raw_lines(stream: BinaryIO) -> Iterator[bytes]:
    """The lines of a stream with their ends; one that is too long is cut. Old Macs end a line with CR."""
    lines = iter(partial(stream.readline, LONGEST_LINE + 1), b"")
    first = next(lines, b"")
    if first.endswith(b"\n") or len(first) > LONGEST_LINE:
        yield first
    else:
        yield from first.splitlines(keepends=True)
    yield from lines


@contextmanager
def opened(path: str | Path) -> Iterator[BinaryIO]:
    """The bytes of a file or of standard input, unpacked and without UTF-16; raises :class:`DataError` if there are
    none to read."""
    with ExitStack() as stack:
        if str(path) == "-":
            check_standard_input()
            packed = sys.stdin.buffer
            if not isinstance(packed, io.BufferedReader):
                packed = io.BufferedReader(packed)
                stack.callback(packed.detach)  # its owner closes it
        else:
            try:
                packed = stack.enter_context(open(path, "rb"))
            except (OSError, ValueError) as error:  # the latter: a NUL in the name
                raise DataError(path, damage(error)) from error
        try:
            unpacked = _unpacked(packed, path, stack)
            yield _without_utf16(unpacked, stack)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(path, damage(error)) from error
        except UnicodeDecodeError as error:
            if not error.encoding.startswith("utf-16"):  # of the block's own work
                raise
            raise DataError(path, damage(error)) from error


class _LeftOpen(io.BufferedReader):
    """The content of a stream, which stays open when pyarrow closes this."""

    def close(self) -> None:
        pass


_GZIP = b"\x1f\x8b"
_BZIP2 = re.compile(rb"BZh[1-9](1AY&SY|\x17\x72\x45\x38\x50\x90)")  # with the mark of its first block, or of its end
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_OTHER_KINDS = {
    b"PK\x03\x04": "is a zip archive or an Excel workbook; unpack it, or save it as CSV",
    b"\xfd7zXZ\x00": "is compressed by xz; unpack it first with xz -d",
    b"7z\xbc\xaf\x27\x1c": "is a 7z archive; unpack it first",
    b"PAR1\x15": "is Parquet; its name should end in .parquet",
}
"""What files of these first bytes are, and what to do."""


def _unpacked(stream: io.BufferedReader, path: str | Path, stack: ExitStack) -> io.BufferedReader:
    """The content of a compressed stream, or the stream itself; raises :class:`DataError` for what is no text."""
    start = stream.peek(16)
    for first_bytes, problem in _OTHER_KINDS.items():
        if start.startswith(first_bytes):
            raise DataError(path, problem)
    unpacked: Any
    if start.startswith(_GZIP):
        unpacked = gzip.GzipFile(fileobj=stream, mode="rb")
    elif _BZIP2.match(start):
        unpacked = bz2.BZ2File(stream)
    elif start.startswith(_ZSTANDARD):
        import pyarrow

        unpacked = pyarrow.CompressedInputStream(pyarrow.PythonFile(_LeftOpen(stream), "r"), "zstd")
    else:
        return stream
    # a buffer reads lines three times as fast as a GzipFile does by itself
    return io.BufferedReader(stack.enter_context(unpacked))


def _without_utf16(stream: io.BufferedReader, stack: ExitStack) -> io.BufferedReader:
    """The stream, or UTF-8 in place of UTF-16, if it begins with the byte-order mark of that."""
    if not stream.peek(2).startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return stream
    import pyarrow

    utf8 = pyarrow.transcoding_input_stream(pyarrow.PythonFile(_LeftOpen(stream), "r"), "utf-16", "utf-8")
    return io.BufferedReader(stack.enter_context(utf8))


def check_standard_input() -> None:
    """Raise :class:`DataError` if standard input is closed."""
    if sys.stdin is None or sys.stdin.closed:
        raise DataError("standard input", "could not be read: it is closed")


def line_too_long(path: str | Path, number: int, expected: str) -> DataError:
    """The error for a line of more than :data:`LONGEST_LINE`."""
    return DataError(path, f"the line is longer than {LONGEST_LINE >> 20} MiB; expected {expected}", number)


def read_text(path: str | Path, limit: int) -> str:
    """The text of a UTF-8 file of at most ``limit`` bytes, without a byte-order mark.

    Raises:
        DataError: no such file, a folder, damaged compressed data, bytes that are not UTF-8, or a larger file.
    """
    with opened(path) as stream:
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise DataError(path, f"is larger than {limit >> 20} MiB")
    return decoded(content.removeprefix(codecs.BOM_UTF8), path)


undecodable: ContextVar[Callable[[str | Path, int | None], None] | None] = ContextVar("undecodable", default=None)
"""If set, it is called for bytes that are not UTF-8, which are then read as Windows-1252."""


def decoded(content: bytes, path: str | Path, line: int | None = None) -> str:
    """The text of a file, or of its line of that number; raises :class:`DataError` if it is not UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        if (listen := undecodable.get()) is not None:
            listen(path, line)
            return content.decode("cp1252", "replace")
        where = f"at position {error.start + 1}{' of the line' if line else ''}"
        raise DataError(path, f"is not UTF-8 text (byte 0x{content[error.start]:02x} {where})", line) from error


def typed_text(text: str, where: str, line: int | None = None) -> str:
    """A typed text. Bytes that the locale does not decode, lone surrogates in Python, are read as UTF-8. Raises
    :class:`DataError` if they are not UTF-8."""
    return decoded(text.encode("utf-8", "surrogateescape"), where, line)


def read_toml(path: str | Path) -> tuple[str, dict[str, Any]]:
    """The text of a TOML file, and its table; raises :class:`DataError` if it cannot be read or is not TOML."""
    text = read_text(path, LARGEST_TOML)
    try:
        return text, tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(path, f"is not TOML: {syntax_problem(error)}") from error


def syntax_problem(error: ValueError | RecursionError) -> str:
    """What is wrong with a text in JSON or TOML, given what its decoder has raised."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return "a number has more than 4,300 digits" if "integer string conversion" in str(error) else str(error)


def check_exists(path: str) -> None:
    """Raise :class:`DataError` where no file has that name, before a command spends seconds on models."""
    if path != "-" and not all(map(os.path.exists, shards(path))):
        raise DataError(path, damage(FileNotFoundError()))


def check_is_folder(path: str | Path, expected: str, hint: str = "") -> None:
    """Raise :class:`DataError` for what is no folder; ``expected`` says what the folder should contain."""
    if not os.path.isdir(path):
        problem = "is a file" if os.path.exists(path) else "does not exist"
        raise DataError(path, f"{problem}{hint}; expected {expected}")


def damage(error: Exception) -> str:
    """What is wrong with a file, after its name, given what reading it has raised."""
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return "does not exist"
        case IsADirectoryError():
            return "is a folder; expected a file"
        case EOFError():
            return "the compressed data ends too early (a truncated file?)"
        case gzip.BadGzipFile() | zlib.error():
            return f"is not a sound gzip file ({error})"
        case UnicodeDecodeError():
            return f"is not UTF-16 text: {first_line(error)}"
        case OSError():
            return f"could not be read: {error.strerror or error}"
    return str(error)


@contextmanager
def writing(path: str | Path) -> Iterator[TextIO]:
    """Write ``path`` as UTF-8 text, whole or not at all.

    The text goes to a hidden file next to ``path`` that replaces it when the block ends well and is removed
    otherwise. It has the permissions of the file that it replaces. Missing parent folders are created. ``-`` is
    standard output. A pipe or a device is written to directly. ``.gz`` files carry no time, so the same text gives the
    same bytes. A byte of a path that is not UTF-8, half of a surrogate pair in Python, becomes its JSON escape.

    Raises:
        DataError: the file cannot be written (no permission, disk full). A ``BrokenPipeError`` of standard output is
            let through: the reader has seen enough, which is no fault of anyone.
    """
    if str(path) == "-":
        if sys.stdout is None:
            raise DataError("standard output", "could not be written: it is closed")
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", errors=_UNPAIRED)
        with naming("standard output", "standard output"):
            yield sys.stdout
            sys.stdout.flush()
        return
    target = Path(os.path.realpath(path))
    if os.path.isdir(target) or str(path).endswith(os.sep):
        raise DataError(path, "could not be written: it is a folder")
    special = os.path.exists(target) and not os.path.isfile(target)
    with naming(target, path), nullcontext(target) if special else replaced(path) as file, ExitStack() as stack:
        with disk_errors(path):
            binary: BinaryIO = stack.enter_context(open(file, "wb"))
        if str(path).endswith(".gz"):
            packer = stack.enter_context(gzip.GzipFile(filename="", mode="wb", fileobj=binary, mtime=0))
            binary = cast(BinaryIO, packer)
        yield stack.enter_context(io.TextIOWrapper(binary, encoding="utf-8", errors=_UNPAIRED, newline="\n"))


@contextmanager
def replaced(path: str | Path) -> Iterator[Path]:
    """A hidden file next to ``path`` to write. It replaces ``path``, on the disk, when the block ends well, and is
    removed otherwise. From the start it has the permissions of the file that it replaces. Leftovers of killed writers
    are removed.

    Raises:
        DataError: it cannot be written.
    """
    target = Path(os.path.realpath(path))
    _drop_abandoned(target)
    # no process id: in containers many have the same
    temporary = target.with_name(f".{target.name[:50]}.{secrets.token_hex(8)}.retrokit-tmp")
    mode = mode_of(target)
    with parents_of(target, path):
        try:
            with disk_errors(path):
                file: BinaryIO = open(temporary, "xb", opener=partial(os.open, mode=mode or 0o666))  # noqa: SIM115
            with file:  # locked, so that no other writer takes it for abandoned
                system.lock(file)
                if mode is not None:
                    os.chmod(temporary, mode)
                with naming(temporary, path):
                    yield temporary
                with disk_errors(path):
                    os.utime(temporary)  # new, until it has its name
            with disk_errors(path):  # closed, because Windows renames no open file
                with open(temporary, "rb+") as written:  # a library may have made it anew
                    os.fsync(written.fileno())
                os.replace(temporary, target)
        finally:
            with suppress(OSError):
                temporary.unlink()


def mode_of(path: Path) -> int | None:
    """The permission bits of a regular file or of a folder; ``None`` if there is neither."""
    return stat.S_IMODE(path.stat().st_mode) & 0o777 if os.path.isfile(path) or os.path.isdir(path) else None


def _drop_abandoned(target: Path) -> None:
    """Remove the leftovers of killed writers of ``target``. A live writer has its file locked."""
    for leftover in target.parent.glob(f".{glob.escape(target.name[:50])}.*.retrokit-tmp"):
        if leftover.is_symlink() or not leftover.is_file():
            continue
        with suppress(OSError), open(leftover, "rb") as file:
            if time.time() - os.fstat(file.fileno()).st_mtime > _NEW and system.lock(file):
                leftover.unlink()


@contextmanager
def parents_of(target: Path, what: object) -> Iterator[None]:
    """Create the missing parent folders of ``target``. At the end, those of them that are empty are removed."""
    missing = [folder for folder in target.parents if not os.path.lexists(folder)]
    with disk_errors(what):
        target.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        for folder in missing:
            with suppress(OSError):
                folder.rmdir()


def digest(path: str | Path, names: Iterable[str] | None = None) -> str:
    """``sha256:<hex>`` of the bytes of a file; of a folder or of :func:`shards`, over the files' sorted relative names
    and their bytes.

    ``names`` restricts a folder to those of its files (paths relative to it). What a pipe held is gone once it is read:
    give ``feed`` of :func:`read_lines` the ``update`` of a hash instead.

    Raises:
        DataError: no such file or folder, one that cannot be read, or a pipe or a device.
    """
    folder = Path(path)
    if names is not None:
        files = [file for name in names for file in shards(folder / name)]
    elif os.path.isdir(folder):
        files = [file for file in folder.rglob("*") if file.is_file()]
    else:
        files = shards(folder)
        if files == [folder]:
            return f"sha256:{_file_hash(folder)}"
        folder = folder.parent
    total = hashlib.sha256()
    for name, file in sorted((file.relative_to(folder).as_posix(), file) for file in files):
        total.update(f"{name}\0{_file_hash(file)}\n".encode("utf-8", "surrogateescape"))
    return f"sha256:{total.hexdigest()}"


def _file_hash(path: Path) -> str:
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise DataError(path, "is a pipe or a device, which has no digest; expected a file")
        with open(path, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise DataError(path, damage(error)) from error
