"""Converted transformers, a folder each, next to the embeddings of the cache, until the cache is cleared."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from retrokit.core.errors import disk_errors
from retrokit.core.outputs import folder_in_the_making
from retrokit.data.jsonl import read_json, write_json
from retrokit.encoders.store import cache_folder

_FOLDER = "graphs"
_ABOUT = "conversion.json"


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
    """The folder that is cached under ``key``; a temporary one if the cache is off. If it is missing, ``write`` fills
    it and returns the fields of :class:`Graph` except ``size``, while other processes wait."""
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
    sizes = {
        about: sum(file.stat().st_size for file in about.parent.iterdir())
        for about in sorted((cache / _FOLDER).glob(f"*/{_ABOUT}"))
    }
    return [read_json(about, "the note of a graph", Graph, size=size) for about, size in sizes.items()]


def clear_graphs(cache: Path) -> None:
    """Remove all of them.

    Raises:
        DataError: they cannot be removed.
    """
    if (cache / _FOLDER).is_dir():
        with disk_errors(cache / _FOLDER):
            shutil.rmtree(cache / _FOLDER)
