"""What a command writes: checked to be writable before the work, locked while it is written, put in place whole.

Missing parent folders are created. A folder that replaces another is written next to it, under a hidden name. The old
one is removed only once the new one is in place. A folder that contains an input, or that no command created, is never
replaced.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from retrokit.core.errors import DataError, UsageError, disk_errors, naming
from retrokit.core.files import mode_of, parents_of
from retrokit.core.registry import Registry, split_items
from retrokit.core.settings import EITHER, FOLDER, FOLDER_OR_ADDRESS, Settings, is_address, param_of
from retrokit.core.system import belongs_to_another

_LONGEST_NAME = 255  # bytes
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
    if is_address(path):
        return  # which is checked by what uploads the folder
    if os.path.lexists(path) and not os.path.isdir(path):
        raise DataError(path, "could not be written: it is not a folder")
    _check_place(Path(path) / "x")


def _check_place(path: str | Path) -> None:
    """Raise :class:`DataError` unless ``path`` could be created, with its parent folders."""
    if not str(path) or "\0" in str(path):
        raise DataError(repr(str(path)), "could not be written: it is not a name of a file")
    with disk_errors(path if len(str(path)) < 200 else f"{str(path)[:60]}…"):
        with suppress(FileNotFoundError):
            if not os.path.isdir(path) and not stat.S_ISREG(os.stat(path).st_mode):
                return  # a pipe or a device
        parents = Path(os.path.realpath(path)).parents
        with tempfile.TemporaryFile(dir=next(folder for folder in parents if os.path.lexists(folder))):
            pass


def beside(path: Path, ending: str) -> Path:
    """The hidden name next to ``path`` of its ``ending`` (its lock, its successor). Raises :class:`DataError` for the
    root, which has nothing next to it.

    >>> beside(Path("runs/qnorm"), "retrokit-new").as_posix()
    'runs/.qnorm.retrokit-new'
    """
    name = path.name
    if not name:
        raise DataError(path, "could not be written: it is the root of the file system; name a folder in it")
    if len(os.fsencode(name)) > _LONGEST_NAME - 40:
        name = hashlib.blake2b(os.fsencode(name), digest_size=16).hexdigest()
    return path.with_name(f".{name}.{ending}")


def check_own(path: Path) -> None:
    """Raise :class:`DataError` if a hidden ``path``, which commands write into or remove, is a link, or belongs neither
    to this user nor to the owner of the folder that it is in."""
    if not os.path.lexists(path):
        return
    if path.is_symlink():
        raise DataError(path, "could not be written: it is a link; remove it, or name another output")
    if belongs_to_another(path):
        raise DataError(path, "could not be written: it belongs to another user; name another output")


# --- inputs


def check_settings(settings: Settings, *inputs: object) -> None:
    """Check the outputs of ``settings`` as :func:`check_outputs` does; all other settings may name inputs, as further
    ``inputs`` may."""
    values = [(getattr(settings, setting.name), param_of(setting).writes) for setting in fields(settings)]
    outputs = [(path, kind) for path, kind in values if kind and path is not None]
    check_outputs(outputs, [*inputs, *(value for value, kind in values if not kind)], vars(settings))


def check_outputs(
    outputs: Iterable[tuple[str | Path, str]],
    arguments: Iterable[object],
    settings: Mapping[str, Any] = {},
) -> None:
    """See before the work that all outputs of a command can be written, and that none replaces an input or another.

    Args:
        outputs: paths, each with what is written there: ``FILE``, ``FOLDER``, or ``EITHER``; or with the name of the
            setting whose file it may update.
        arguments: the command's other ones: texts, or sequences of them, that may be or contain paths.
        settings: the values of settings by name.

    Raises:
        UsageError: an output is an input, or a file of a folder that is one; or two outputs have one name.
        DataError: an output cannot be written.
    """
    inputs = paths_in(arguments)
    names: dict[str, str | Path] = {}
    for path, kind in outputs:
        if _is_updated(path, settings.get(kind)):
            check_file(path)
            continue
        is_folder = _is_folder(path, kind)
        if is_folder:
            check_folder(path)
        else:
            check_file(path)
        if _is_special(path):
            continue
        name = "-" if str(path) == "-" else os.path.realpath(path)
        if name in names:
            raise UsageError(f"{path}: is the name of two outputs ({names[name]}); name another for one of them")
        names[name] = path
        if name != "-" and os.path.exists(path):
            _check_no_input(path, inputs, "folder" if is_folder else "file")


def _is_updated(path: str | Path, input_path: str | None) -> bool:
    return input_path is not None and os.path.realpath(input_path) == os.path.realpath(path)


def _is_folder(path: str | Path, kind: str) -> bool:
    if kind == EITHER:
        return str(path).endswith(os.sep) or os.path.isdir(path)
    return kind in (FOLDER, FOLDER_OR_ADDRESS)


def _is_special(path: str | Path) -> bool:
    """Whether ``path`` is a pipe or a device."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _check_no_input(path: str | Path, inputs: Iterable[str], kind: str) -> None:
    for source in inputs:
        if os.path.samefile(path, source) or (os.path.isfile(path) and _lies_in(path, source)):
            raise UsageError(f"{path}: is an input too ({source}); write to another {kind}")


def paths_in(values: Iterable[object]) -> list[str]:
    """The existing files and folders that texts name, or specs in them. A registered name is none, and neither is a
    folder called as a parameter's word (``split=test``).

    Args:
        values: texts, or sequences of them; anything else is left out.

    Raises:
        UsageError: standard input is named twice.
    """
    texts: list[object] = []
    for value in values:
        texts += value if isinstance(value, (list, tuple)) else [value]
    if texts.count("-") > 1:
        raise UsageError("standard input can be read once only")
    paths: dict[str, None] = {}
    for text in texts:
        if not isinstance(text, str) or Registry.has(text):
            continue
        for path, is_word in _possible_paths(text):
            if _is_path(path, is_word):
                paths[path] = None
    return list(paths)


def _is_path(text: str, is_word: bool) -> bool:
    return os.path.exists(text) and (not is_word or os.sep in text or not os.path.isdir(text))


def _possible_paths(text: str, is_word: bool = False) -> Iterator[tuple[str, bool]]:
    """What may be a path in a text, which may be a spec; and whether it is no more than a word of it."""
    yield text, is_word
    for spec in filter(None, (text, text.partition(":")[2])):
        with suppress(UsageError):  # it is no spec
            for key, value in split_items(spec, text):
                if value != text:
                    yield from _possible_paths(value, key is not None)
    for word in re.split(r'[:=,+"]', text):
        yield word, True


def check_replaceable(folder: str | Path, own_names: Iterable[str], inputs: Iterable[str | Path] = ()) -> None:
    """Check that nothing is lost if another folder replaces ``folder``.

    Args:
        own_names: patterns of what the command which created ``folder`` writes in it (:func:`foreign_names`).
        inputs: paths that are read.

    Raises:
        UsageError: it contains anything else, or an input; or it is, or contains, the working directory.
    """
    target = Path(os.path.realpath(folder))
    foreign = foreign_names(target, own_names)
    if foreign:
        names = ", ".join(foreign[:3])
        if len(foreign) > 3:
            names += f" and {len(foreign) - 3} more"
        raise UsageError(
            f"{folder} contains files that it did not create ({names}): move that, or name another `output=`"
        )
    check_apart(folder, inputs)
    if Path.cwd().is_relative_to(target):
        raise UsageError(f"{folder}: is not replaced while you are in it; name it from outside, or another `output=`")
    if os.path.ismount(target):
        raise UsageError(f"{folder}: a file system is mounted there, and it cannot be replaced; name a new `output=`")


def foreign_names(folder: Path, own_names: Iterable[str]) -> list[str]:
    """What ``folder`` contains that none of the patterns matches, sorted; :data:`_OURS` matches everywhere.

    A pattern with a slash, such as ``plots/*.png``, is of the content of a folder, which is looked through then. A
    folder that a pattern without a slash matches counts as a whole.
    """
    patterns = [*own_names, _OURS]
    foreign: list[str] = []
    for name in sorted(os.listdir(folder)):
        if _matches(name, patterns):
            continue
        inner_patterns = []
        for pattern in patterns:
            first, _, inner = pattern.partition("/")
            if inner and fnmatch(name, first):
                inner_patterns.append(inner)
        path = folder / name
        if inner_patterns and path.is_dir() and not path.is_symlink():
            foreign += [f"{name}/{inner}" for inner in foreign_names(path, inner_patterns)]
        else:
            foreign.append(name)
    return foreign


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def check_apart(folder: str | Path, inputs: Iterable[str | Path]) -> None:
    """Raise :class:`UsageError` if one of the ``inputs`` lies in ``folder``, which is to be replaced."""
    for source in inputs:
        if _lies_in(source, folder):
            raise UsageError(
                f"{folder} contains an input, {source}: replacing it would delete that; name another `output=`"
            )


def _lies_in(path: str | Path, folder: str | Path) -> bool:
    forms = (os.path.abspath, os.path.realpath)
    return any(Path(form(path)).is_relative_to(form(folder)) for form in forms)


def is_empty(folder: str | Path) -> bool:
    """Whether a folder contains only empty folders and leftovers of files that a killed process was writing."""
    for path, folders, names in os.walk(folder):
        names += [name for name in folders if os.path.islink(os.path.join(path, name))]
        if not all(fnmatch(name, _OURS) for name in names):
            return False
    return True


# --- locks


@contextmanager
def locked(path: str | Path) -> Iterator[None]:
    """Within the block no other command may write ``path``. The operating system releases it when a process ends.

    Missing parent folders of ``path`` are created, and removed at the end if they are empty.

    Raises:
        UsageError: another command writes there.
        DataError: no lock can be created there.
    """
    target = Path(os.path.realpath(path))
    with parents_of(target, path):
        lock_path = _path_of_lock(target)
        lock = _acquired(path, lock_path)
        try:
            yield
        finally:
            lock_path.unlink(missing_ok=True)  # before it is free: who opens it now looks whether it still has a name
            lock.release()


def check_free(path: str | Path) -> None:
    """Raise :class:`UsageError` if another command writes ``path`` now."""
    lock_path = _path_of_lock(Path(os.path.realpath(path)))
    if os.path.exists(lock_path):
        _acquired(path, lock_path).release()


def _path_of_lock(target: Path) -> Path:
    """Next to the target, or in it if only the target can be written to, as with a mounted folder."""
    if os.path.isdir(target) and not os.access(target.parent, os.W_OK | os.X_OK):
        return target / ".folder.retrokit-lock"
    return beside(target, "retrokit-lock")


def _acquired(path: str | Path, lock_path: Path) -> FileLock:
    """The lock of ``path``, which is this process's now."""
    check_own(lock_path)
    lock = FileLock(lock_path)
    with disk_errors(path):
        while not lock.is_locked:
            try:
                lock.acquire(timeout=0)
            except Timeout:
                if os.path.exists(lock_path):  # else the other one has ended, and its lock is gone
                    raise UsageError(
                        f"{path} is being written by another command; wait for it, or name another"
                    ) from None
    return lock


# --- folders that are written whole


@contextmanager
def folder_in_the_making(
    folder: str | Path,
    check: Callable[[], None] | None = None,
    can_go_on: Callable[[Path], bool] = lambda unfinished: False,
) -> Iterator[Path]:
    """A hidden folder next to ``folder`` to write into. It takes the place of ``folder`` when the block ends well, and
    is removed otherwise.

    Args:
        check: raises :class:`UsageError` if the content of ``folder`` may not be replaced. It is called before the
            work and after it. Without it nothing is replaced.
        can_go_on: whether the next call can resume from the hidden folder that a break or a kill leaves. If so, it
            gets the folder as it is.

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
            with naming(unfinished, folder):
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
    if before is not None and (folder_mode := mode_of(before)) is not None:
        folder.chmod(folder_mode)
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


def check_name_of_model(folder: str | Path) -> None:
    """Raise :class:`DataError` for a folder name that the libraries for tokenizers cannot write."""
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise DataError(folder, "could not be written: a model's folder needs a name in UTF-8") from None
