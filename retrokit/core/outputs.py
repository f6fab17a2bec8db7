"""What a command writes: found out to be writable before the work, locked while it is written, put in place whole.

Missing parent folders are made. A folder that takes the place of another is made beside it, under a hidden name, and
what was there goes only once the new one stands. Nothing is replaced that an input lies in, nor what no command made.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shlex
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from fnmatch import fnmatch
from pathlib import Path

from filelock import FileLock, Timeout

from retrokit.core.errors import DataError, UsageError, disk_errors
from retrokit.core.files import mode_of, parents_of
from retrokit.core.registry import Registry, split_items
from retrokit.core.settings import EITHER, FOLDER, Settings

_LONGEST_NAME, _LONGEST_PATH = 255, 4095  # bytes
_OURS = ".*.retrokit-*"


def check_file(path: str | Path) -> None:
    """See before the work that the file ``path`` can be written (``-``: standard output).

    Raises:
        DataError: it is a folder, or nothing can be written there.
    """
    if str(path) == "-":
        return
    if os.path.isdir(path) or str(path).endswith(os.sep):
        raise DataError(path, "could not be written: it is a folder")
    _check_place(path)


def check_folder(path: str | Path) -> None:
    """See before the work that files can be written into the folder ``path``, which need not be there.

    Raises:
        DataError: it is a file, or nothing can be written there.
    """
    if os.path.lexists(path) and not os.path.isdir(path):
        raise DataError(path, "could not be written: it is not a folder")
    _check_place(Path(path) / "x")


def _check_place(path: str | Path) -> None:
    """Raise :class:`DataError` unless ``path`` could be made, with the folders that it is in."""
    if not str(path) or "\0" in str(path):
        raise DataError(repr(str(path)), "could not be written: it is not a name of a file")
    target = Path(os.path.realpath(path))
    if os.path.exists(target) and not os.path.isfile(target):  # a pipe, a device: it takes what comes, or says so
        return
    there = next(folder for folder in target.parents if os.path.lexists(folder))
    if any(len(os.fsencode(name)) > _LONGEST_NAME for name in target.parts) or len(os.fsencode(target)) > _LONGEST_PATH:
        raise DataError(f"{str(path)[:60]}…", f"could not be written: {os.strerror(errno.ENAMETOOLONG)}")
    if os.path.islink(there) or os.path.islink(target):  # after all links are followed: a circle
        raise DataError(path, f"could not be written: {os.strerror(errno.ELOOP)}")
    if not os.path.isdir(there):
        raise DataError(path, f"could not be written: {there} is not a folder")
    with disk_errors(path), tempfile.TemporaryFile(dir=there):
        pass


def beside(path: Path, ending: str) -> Path:
    """The hidden name beside ``path`` under which its ``ending`` (its lock, its successor) is kept.

    >>> beside(Path("runs/qnorm"), "retrokit-new").as_posix()
    'runs/.qnorm.retrokit-new'
    """
    name = path.name
    if len(os.fsencode(name)) > _LONGEST_NAME - 40:
        name = hashlib.blake2b(os.fsencode(name), digest_size=16).hexdigest()
    return path.with_name(f".{name}.{ending}")


def check_own(path: Path) -> None:
    """Raise :class:`DataError` if a hidden ``path``, which commands write into or remove, is a link, or belongs neither
    to this user nor to the owner of the folder that it is in."""
    if not os.path.lexists(path):
        return
    owner = path.lstat().st_uid
    if path.is_symlink():
        raise DataError(path, "could not be written: it is a link; remove it, or name another output")
    if hasattr(os, "geteuid") and owner not in (os.geteuid(), path.parent.stat().st_uid):
        raise DataError(path, "could not be written: it belongs to another user; name another output")


# --- inputs


_LAYOUT = (
    *("corpus.jsonl*", "queries.jsonl*", "*.tsv", "*.safetensors", "config*.json", "modules.json", "tokenizer*.json"),
    *("vocab.*", "adapter_*", "retrokit.json", "export.json", "ids.jsonl*", "*.npy"),
)
"""Names of files that are read from the folder of a data set, a model or an export."""
_MOST_FILES, _DEPTH = 20_000, 4


def check_settings(settings: Settings) -> None:
    """Check the outputs of ``settings`` as :func:`check_outputs` does; all other settings may name inputs."""
    values = [(getattr(settings, setting.name), setting.metadata["writes"]) for setting in fields(settings)]
    outputs = [(path, kind) for path, kind in values if kind and path is not None]
    check_outputs(outputs, [value for value, kind in values if not kind])


def check_outputs(outputs: Iterable[tuple[str | Path, str]], given: Iterable[object]) -> None:
    """See before the work that all outputs of a command can be written, and that none replaces an input or another.

    Args:
        outputs: paths, each with what is written there: ``FILE``, ``FOLDER``, or ``EITHER``.
        given: whatever else the command was given: texts, or sequences of them, that may be or contain paths.

    Raises:
        UsageError: an output is an input, or a file of a folder that is one, under whatever name; a new file would be
            read as a part of such a folder; or two outputs have one name.
        DataError: an output cannot be written.
    """
    inputs = paths_in(given)
    files: dict[tuple[int, int], str] = {}
    names: dict[str, str | Path] = {}
    for path, kind in outputs:
        is_folder = kind == FOLDER or (kind == EITHER and (str(path).endswith(os.sep) or os.path.isdir(path)))
        (check_folder if is_folder else check_file)(path)
        if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
            continue  # a pipe or a device
        name = "-" if str(path) == "-" else os.path.realpath(path)
        if name in names:
            raise UsageError(f"{path}: is the name of two outputs ({names[name]}); name another for one of them")
        names[name] = path
        files = files or {_identity(file): file for source in inputs for file in _files_of(source)}
        if name != "-" and os.path.exists(path) and (read := files.get(_identity(path))) is not None:
            raise UsageError(f"{path}: is an input too ({read}); write to another {'folder' if is_folder else 'file'}")
        if (
            not is_folder
            and not os.path.exists(path)
            and any(fnmatch(os.path.basename(name), pattern) for pattern in _LAYOUT)
        ):
            for source in inputs:
                if os.path.isdir(source) and Path(name).is_relative_to(os.path.realpath(source)):
                    raise UsageError(f"{path}: would be read as a part of an input ({source}); write to another file")


def _identity(path: str | Path) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _files_of(path: str) -> Iterator[str]:
    """The path itself, and the files below a folder, ``_DEPTH`` folders deep, at most ``_MOST_FILES``."""
    yield path
    deepest = path.rstrip(os.sep).count(os.sep) + _DEPTH
    left = _MOST_FILES
    for place, folders, names in os.walk(path, followlinks=True):
        if place.count(os.sep) >= deepest or left < len(names):
            folders.clear()
        yield from filter(os.path.isfile, (os.path.join(place, name) for name in names[:left]))
        left -= len(names[:left])


def paths_in(given: Iterable[object]) -> list[str]:
    """The files and folders that are there and that texts name, or specs in them.

    A registered name alone is none, and neither is a parameter's word (``split=test``), unless it names the folder of a
    model or of a data set.

    Args:
        given: texts, or sequences of them; anything else is left out.
    """
    paths: dict[str, None] = {}
    for value in given:
        for text in value if isinstance(value, (list, tuple)) else [value]:
            for part, is_word in _parts(text) if isinstance(text, str) and not Registry.has(text) else ():
                is_path = not is_word or os.sep in part or not os.path.isdir(part)
                if os.path.lexists(part) and (is_path or _is_read(part)):
                    paths[part] = None
    return list(paths)


def _is_read(folder: str) -> bool:
    return any(fnmatch(name, pattern) for name in os.listdir(folder) for pattern in _LAYOUT)


def _parts(text: str, is_word: bool = False) -> Iterator[tuple[str, bool]]:
    """What may be a path in a text, which may be a spec; and whether it is no more than a word of it."""
    yield text, is_word
    for spec in filter(None, (text, text.partition(":")[2])):
        with suppress(UsageError):  # it is no spec
            for key, value in split_items(spec, text):
                if value != text:
                    yield from _parts(value, key is not None)
    yield from ((part, True) for part in re.split(r'[:=,+"]', text))


def check_replaceable(folder: str | Path, own_names: Iterable[str], inputs: Iterable[str | Path] = ()) -> None:
    """See that nothing is lost if ``folder`` gives its place to another.

    Args:
        own_names: patterns of the names that the command which made it gave to what is in it.
        inputs: what is read.

    Raises:
        UsageError: it holds anything else, or an input; or it is, or holds, the folder that one is in.
    """
    target = Path(os.path.realpath(folder))
    patterns = [*own_names, _OURS]
    foreign = sorted(name for name in os.listdir(target) if not any(fnmatch(name, pattern) for pattern in patterns))
    if foreign:
        more = f" and {len(foreign) - 3} more" if len(foreign) > 3 else ""
        shown = ", ".join(foreign[:3]) + more
        raise UsageError(f"{folder} holds what was not made with it ({shown}): move that, or name another `output=`")
    check_apart(folder, inputs)
    if Path.cwd().is_relative_to(target):
        raise UsageError(f"{folder}: is not replaced while you are in it; name it from outside, or another `output=`")
    if os.path.ismount(target):
        raise UsageError(f"{folder}: a file system is mounted there, and it cannot be replaced; name a new `output=`")


def check_apart(folder: str | Path, inputs: Iterable[str | Path]) -> None:
    """Raise :class:`UsageError` if one of the ``inputs`` lies in ``folder``, which is to be replaced."""
    for source in inputs:
        places = (
            (os.path.abspath(source), os.path.abspath(folder)),
            (os.path.realpath(source), os.path.realpath(folder)),
        )
        if any(Path(path).is_relative_to(within) for path, within in places):
            raise UsageError(
                f"{folder} holds an input, {source}: replacing it would delete that; name another `output=`"
            )


def is_empty(folder: str | Path) -> bool:
    """Whether a folder holds nothing but empty folders, and what a kill has left of files that were being written."""
    for place, folders, names in os.walk(folder):
        names += [name for name in folders if os.path.islink(os.path.join(place, name))]
        if not all(fnmatch(name, _OURS) for name in names):
            return False
    return True


# --- locks


@contextmanager
def locked(path: str | Path) -> Iterator[None]:
    """Within the block no other command may write ``path``; the operating system gives it free when a process ends.

    The folders that ``path`` lies in are made, and go again where nothing came into them.

    Raises:
        UsageError: another command writes there; the message names it.
        DataError: no lock can be made there.
    """
    target = Path(os.path.realpath(path))
    with parents_of(target, path):
        place = _place_of_lock(target)
        lock = _taken(path, place)
        try:
            with disk_errors(path):
                command = shlex.join([os.path.basename(sys.argv[0]), *sys.argv[1:]]) if sys.argv else "python"
                oneself = f"process {os.getpid()} on {socket.gethostname()}: {command[:200]}"
                place.write_text(oneself, encoding="utf-8", errors="backslashreplace")
            yield
        finally:
            place.unlink(missing_ok=True)  # before it is free: who opens it now looks whether it still has a name
            lock.release()


def check_free(path: str | Path) -> None:
    """Raise :class:`UsageError` if another command writes ``path`` now; its message names that."""
    place = _place_of_lock(Path(os.path.realpath(path)))
    if os.path.exists(place):
        _taken(path, place).release()


def _place_of_lock(target: Path) -> Path:
    """Beside the target, or in it where only that can be written to, as in a folder that is mounted."""
    if os.path.isdir(target) and not os.access(target.parent, os.W_OK | os.X_OK):
        return target / ".folder.retrokit-lock"
    return beside(target, "retrokit-lock")


def _taken(path: str | Path, place: Path) -> FileLock:
    """The lock of ``path``, which is this process's now."""
    check_own(place)
    lock = FileLock(place)
    with disk_errors(path):
        while not lock.is_locked:
            try:
                lock.acquire(timeout=0)
            except Timeout:
                with suppress(FileNotFoundError):  # the other one has ended, and its lock is gone
                    who = " ".join(place.read_text(encoding="utf-8", errors="replace").split()) or "it has just begun"
                    problem = f"is being written by another command ({who}); wait for it, or name another"
                    raise UsageError(f"{path} {problem}") from None
    return lock


# --- folders that are written whole


@contextmanager
def folder_in_the_making(
    folder: str | Path,
    check: Callable[[], None] | None = None,
    can_go_on: Callable[[Path], bool] = lambda unfinished: False,
) -> Iterator[Path]:
    """A hidden folder beside ``folder`` to write into; it takes its place when the block ends well, and is removed when
    it does not.

    Args:
        check: raises :class:`UsageError` where what stands in ``folder`` may not be replaced; asked before the work and
            after it. Without it nothing is replaced.
        can_go_on: whether the hidden folder, as a break or a kill leaves it, is of use to the next call, which then
            gets it as it is.

    Raises:
        UsageError: ``folder`` exists, unless it may be replaced; or another command writes there.
        DataError: it cannot be written.
    """
    target = Path(os.path.realpath(folder))
    with locked(folder):
        put_back(target)
        _check_taken(folder, check)
        unfinished = beside(target, "retrokit-tmp")
        check_own(unfinished)
        with disk_errors(folder):
            if not can_go_on(unfinished):
                shutil.rmtree(unfinished, ignore_errors=True)
                unfinished.mkdir()
            if os.path.isdir(target):
                unfinished.chmod(0o700)  # until it has the permissions of what it replaces
        try:
            yield unfinished
            _check_taken(folder, check)
            with disk_errors(folder):
                take_place(unfinished, target)
        finally:
            if not can_go_on(unfinished):
                shutil.rmtree(unfinished, ignore_errors=True)


def _check_taken(folder: str | Path, check: Callable[[], None] | None) -> None:
    if os.path.lexists(folder):
        if check is None:
            raise UsageError(f"{folder}: exists already; name a new folder")
        check()


def let_read(folder: Path, before: Path | None = None) -> None:
    """Let whoever may read the folder read its files too: safetensors leaves those that it writes to their owner. A
    file, or the folder, that replaces one of the folder ``before`` has the permissions of that one."""
    if before is not None and (own := mode_of(before)) is not None:
        folder.chmod(own)
    mode = folder.stat().st_mode & 0o666
    for file in folder.rglob("*"):
        replaced = None if before is None else mode_of(before / file.relative_to(folder))
        if not file.is_symlink() and (file.is_file() or replaced is not None):
            file.chmod(mode if replaced is None else replaced)


def take_place(new: Path, target: Path) -> None:
    """Put the folder ``new`` in the place of ``target``, and remove what stood there."""
    before = beside(target, "retrokit-old")
    check_own(before)
    let_read(new, target)
    if os.path.lexists(target):
        os.rename(target, before)
    try:
        os.rename(new, target)
    except OSError:
        put_back(target)
        raise
    shutil.rmtree(before, ignore_errors=True)


def put_back(target: Path) -> None:
    """What a kill has left of :func:`take_place`: the folder that stood there goes back, if nothing is in its place."""
    before = beside(target, "retrokit-old")
    check_own(before)
    if os.path.lexists(target):
        shutil.rmtree(before, ignore_errors=True)
    elif os.path.lexists(before):
        os.rename(before, target)
