"""Folders that are written once and cached next to the embeddings, until the cache is cleared: for what takes long
to compute and follows from a key, such as a converted model, an index or a table.
"""

import hashlib
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock

from retrokit.core.errors import disk_errors
from retrokit.core.outputs import folder_in_the_making
from retrokit.data.jsonl import read_json, write_json
from retrokit.encoders.store import cache_folder

_NOTE = "kept.json"
_DIGEST = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class Note:
    """What ``retrokit cache`` prints of a folder: the ``name`` of what it belongs to, and ``said``, a few words."""

    name: str
    said: str


@dataclass(frozen=True)
class Kept(Note):
    """A cached folder: its note, its ``area``, and its ``size`` in bytes."""

    area: str
    size: int


@contextmanager
def kept(area: str, key: str, write: Callable[[Path], Note]) -> Iterator[Path]:
    """The folder that is cached in ``area`` under ``key``; a temporary one if the cache is off. If it is missing,
    ``write`` fills it and returns its note, while other processes wait.

    Args:
        area: what kind of folder it is: the name of a folder in the cache.
        key: any text that names all that decides its contents.
    """
    cache = cache_folder()
    if cache is None:
        with tempfile.TemporaryDirectory() as temporary:
            write(Path(temporary))
            yield Path(temporary)
        return
    folder = cache / area / hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
    with disk_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock"):
            if not (folder / _NOTE).is_file():
                with folder_in_the_making(folder, check=lambda: None) as unfinished:
                    write_json(unfinished / _NOTE, asdict(write(unfinished)), kind="kept")
    yield folder


def kept_in(cache: Path) -> list[Kept]:
    """The folders in the cache's folder, by area."""
    entries = []
    for folder in _folders_in(cache):
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        note = read_json(folder / _NOTE, "the note of a cached folder", Kept, area=folder.parent.name, size=size)
        entries.append(note)
    return entries


def clear_kept(cache: Path) -> None:
    """Remove all of them, and nothing else.

    Raises:
        DataError: they cannot be removed.
    """
    for folder in _folders_in(cache):
        with disk_errors(folder.parent):
            shutil.rmtree(folder)
            Path(f"{folder}.lock").unlink(missing_ok=True)
            with suppress(OSError):  # the area contains anything else
                folder.parent.rmdir()


def _folders_in(cache: Path) -> list[Path]:
    """The folders that :func:`kept` has filled."""
    folders = [note.parent for note in cache.glob(f"*/*/{_NOTE}")]
    return sorted(folder for folder in folders if _DIGEST.fullmatch(folder.name) and not folder.is_symlink())
