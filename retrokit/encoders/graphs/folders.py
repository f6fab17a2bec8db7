"""Converted transformers, a folder each, next to the embeddings of the cache, until the cache is cleared."""

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from retrokit.core.errors import disk_errors
from retrokit.core.outputs import folder_in_the_making
from retrokit.data.jsonl import read_json, write_json
from retrokit.encoders.store import cache_folder

_FOLDER = "graphs"
_ABOUT = "conversion.json"
_KEY = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class Graph:
    """A converted transformer: its encoder's ``spec``, ``backend`` and ``dtype``, the report of its quality (``said``),
    and its ``size`` in bytes."""

    spec: str
    backend: str
    dtype: str
    said: str
    size: int


@contextmanager
def kept(key: str, write: Callable[[Path], dict[str, str]]) -> Iterator[Path]:
    """The folder that is cached under ``key``, 32 hexadecimal digits; a temporary one if the cache is off. If it is
    missing, ``write`` fills it and returns the fields of :class:`Graph` except ``size``, while other processes wait."""
    cache = cache_folder()
    if cache is None:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder))
            yield Path(folder)
        return
    place = cache / _FOLDER / key
    with disk_errors(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{place}.lock"):
            if not (place / _ABOUT).is_file():
                with folder_in_the_making(place, check=lambda: None) as unfinished:
                    write_json(unfinished / _ABOUT, write(unfinished), kind="conversion")
    yield place


def held_graphs(cache: Path) -> list[Graph]:
    """The graphs in the cache's folder."""
    graphs = []
    for folder in _graphs_in(cache):
        size = sum(file.stat().st_size for file in folder.iterdir())
        graphs.append(read_json(folder / _ABOUT, "the note of a graph", Graph, size=size))
    return graphs


def clear_graphs(cache: Path) -> None:
    """Remove all of them, and nothing else.

    Raises:
        DataError: they cannot be removed.
    """
    with disk_errors(cache / _FOLDER):
        for folder in _graphs_in(cache):
            shutil.rmtree(folder)
            Path(f"{folder}.lock").unlink(missing_ok=True)
        with suppress(OSError):  # it contains anything else
            (cache / _FOLDER).rmdir()


def _graphs_in(cache: Path) -> list[Path]:
    """The folders that :func:`kept` has filled."""
    folders = [about.parent for about in (cache / _FOLDER).glob(f"*/{_ABOUT}")]
    return sorted(folder for folder in folders if _KEY.fullmatch(folder.name) and not folder.is_symlink())
