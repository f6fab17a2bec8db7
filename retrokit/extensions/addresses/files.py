"""Files at an address of fsspec: copied into the cache to be read, and uploaded from a local folder.

A copy is cached under the address and what the file system says of each file: size, time, entity tag. A file that has
changed is therefore copied again. Credentials are those of the file system's own package and of fsspec's configuration.
"""

import atexit
import errno
import hashlib
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from retrokit.core.errors import DataError, RetrokitError, UsageError, copies, first_line, is_write_error, redacted
from retrokit.core.files import damage
from retrokit.core.notices import notice
from retrokit.data.beir import data_folder
from retrokit.data.jsonl import fields_of
from retrokit.encoders.kept import Note, kept

_PAGE = re.compile(r"https?://(?:huggingface|hf)\.co/(?!.*/(?:resolve|raw)/)")
_copied: dict[str, Path] = {}
"""The folders of copies that are in use, by their key."""
_in_use = ExitStack()
atexit.register(_in_use.close)  # without a cache, copies are temporary


class Files:
    """The file systems of fsspec, as :func:`retrokit.core.registry.file_system` describes them."""

    def fetch(self, address: str) -> str:
        """The path of a local copy of a file, a folder, or the files of a pattern with ``*``.

        Raises:
            UsageError: an unknown scheme, or a missing package.
            DataError: nothing is there, or it cannot be read.
        """
        if _PAGE.match(address):
            raise UsageError(f"{address}: is a page of the hub; give ORG/NAME, or the address of a file")
        listing = _listed(address)
        key = str([address, *listing.files])

        def write(folder: Path) -> Note:
            _download(listing, address, folder)
            return Note(redacted(address), f"{len(listing.files):,} files")

        if key not in _copied:
            _copied[key] = _in_use.enter_context(kept("addresses", key, write))
        path = str(_copied[key] / listing.name)
        copies[path] = address.rstrip("/")
        copies[str(_copied[key])] = address.rstrip("/").rpartition("/")[0]
        return path

    def names(self, address: str) -> set[str]:
        """The names of files and folders in a folder, which need not be there; raises as :meth:`fetch`."""
        system, path = _opened(address)
        with _errors(address, "read"):
            return {name.partition("/")[0] for name in _names_below(system, path)}

    def target(self, address: str, names: Iterable[str] | None) -> Path:
        """The local folder to write before :meth:`upload`: of one address always the same, so that an interrupted
        command can resume. Files of other ``names`` at the address are not replaced.

        Raises:
            UsageError: an unknown scheme, a missing package, or files at the address that may not be replaced.
            DataError: nothing can be written there.
        """
        system, path = _opened(address)
        with _errors(address, "written"):
            existing = _names_below(system, path)
        if existing and names is None:
            raise UsageError(f"{address}: exists already; name a new folder")
        foreign = [name for name in existing if not any(fnmatch(name, pattern) for pattern in names or ())]
        if foreign:
            raise UsageError(
                f"{address}: contains files that are not replaced ({fields_of(foreign)}); name a new folder"
            )
        with _errors(address, "written"), tempfile.NamedTemporaryFile() as empty:
            system.put_file(empty.name, f"{path}/.retrokit-check")
            system.rm_file(f"{path}/.retrokit-check")
        digest = hashlib.blake2b(address.encode(), digest_size=16).hexdigest()
        return data_folder() / "uploads" / digest / PurePosixPath(path).name

    def upload(self, folder: Path, address: str, last: str) -> None:
        """Upload the files of ``folder``, the one called ``last`` at the end. Former files are removed, that one first.
        Raises :class:`DataError`, which names the folder."""
        system, path = _opened(address)
        names = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())
        names.sort(key=last.__eq__)
        with _errors(address, "written", f"; the whole export is in {folder}"):
            before = _names_below(system, path)
            if last in before:
                system.rm_file(f"{path}/{last}")
            for name in set(before) - {*names, last}:
                system.rm_file(f"{path}/{name}")
            for name in names:
                system.put_file(str(folder / name), f"{path}/{name}")
        notice(f"{address}: uploaded {len(names)} files of {folder}")


class _File(NamedTuple):
    """A file in a file system: its path there, its path below the folder of a copy, and what the system reports."""

    path: str
    name: str
    size: int
    about: str


class _Listing(NamedTuple):
    """The files at an address. ``name`` is that of the file, folder or pattern in the folder of a copy."""

    system: Any
    name: str
    files: list[_File]


def _listed(address: str) -> _Listing:
    """The files at an address; raises as :meth:`Files.fetch`."""
    system, path = _opened(address)
    root, _, name = path.rpartition("/")
    with _errors(address, "read"):
        if "*" in name:
            entries = system.glob(path, detail=True)
        else:
            about = system.info(path)
            entries = system.find(path, detail=True) if about["type"] == "directory" else {path: about}
    files = []
    for remote, about in sorted(entries.items()):
        below = _without_query(remote.removeprefix(root).strip("/"))
        if ".." in PurePosixPath(below).parts:
            raise DataError(address, f"the name of the file {below!r} has '..' in it, and is not copied")
        files.append(_File(remote, below, about.get("size") or 0, str(sorted(map(str, about.items())))))
    if not files:
        raise DataError(address, "contains no files")
    return _Listing(system, _without_query(name), files)


def _without_query(name: str) -> str:
    """The name of a file without the query of a signed address."""
    return name.partition("?")[0]


def _download(listing: _Listing, address: str, folder: Path) -> None:
    size = sum(file.size for file in listing.files)
    notice(f"{address}: copying {len(listing.files):,} files of {size / 1e6:,.1f} MB")
    with _errors(address, "read"):
        for file in listing.files:
            target = folder / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            listing.system.get_file(file.path, str(target))


def _names_below(system: Any, path: str) -> list[str]:
    """The paths of the files below a folder, which need not be there."""
    if not system.exists(path):
        return []
    return [file.removeprefix(path).strip("/") for file in system.find(path)]


def _opened(address: str) -> tuple[Any, str]:
    """The file system of an address, without listings that it has cached, and the path in it."""
    import fsspec

    with _errors(address, "read"):
        system, path = fsspec.url_to_fs(address)
    system.invalidate_cache()
    return system, path.rstrip("/")


@contextmanager
def _errors(address: str, verb: str, advice: str = "") -> Iterator[None]:
    """Turn any error that a file system's package raises into one line that names the address. A full disk of this
    machine is none of its errors."""
    try:
        yield
    except RetrokitError:
        raise
    except ImportError as error:
        raise UsageError(f"{address}: {first_line(error)}; {_installation(address)}") from error
    except FileNotFoundError as error:
        problem = damage(error) if verb == "read" else "could not be written: its bucket or folder does not exist"
        raise DataError(address, f"{problem}{advice}") from error
    except Exception as error:
        if is_write_error(error) and getattr(error, "errno", None) != errno.EIO:  # s3fs has it for errors of a server
            raise
        if isinstance(error, ValueError) and "Protocol not known" in str(error):
            raise UsageError(f"{address}: is of no file system that fsspec knows") from error
        raise DataError(address, f"could not be {verb}: {first_line(error)}{advice}") from error


def _installation(address: str) -> str:
    """The command that installs the package of a file system."""
    from fsspec.registry import known_implementations

    scheme = address.partition("://")[0]
    package = known_implementations[scheme]["class"].partition(".")[0]
    if package == "fsspec":
        package = f"'fsspec[{scheme.removesuffix('s')}]'"
    return f"python -m pip install {package}"
