"""The embedding cache: what was encoded once is read from disk from then on, whichever command or corpus asks.

Here is where it lies and how large it may get; :mod:`retrokit.encoders.store.database` is the cache itself.
"""

import os
import re
from functools import cache
from pathlib import Path

from retrokit.core.errors import UsageError
from retrokit.encoders.store.database import LIMIT, EmbeddingCache

PLACE = "RETROKIT_CACHE"
DEFAULT_LIMIT = "20GB"

_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def read_size(text: str) -> int:
    """Bytes of ``500MB``, ``20GB``, or a plain number."""
    match = re.fullmatch(r"(\d{1,15}(?:\.\d+)?) ?([KMGT]B)?", text.strip().upper())
    if match is None:
        raise UsageError(f"{text!r} is not a size; expected for example 500MB or 20GB")
    return int(float(match[1]) * _UNITS[match[2] or ""])


def cache_folder() -> Path | None:
    """Where the cache lies: ``RETROKIT_CACHE``, else ``retrokit/embeddings`` in the user's cache folder (XDG); ``None``
    if it is turned off. Raises :class:`UsageError` if the variable names a file."""
    named = os.environ.get(PLACE, "")
    if named.lower() == "off":
        return None
    if named:
        folder = Path(named).expanduser()
        if any(os.path.isfile(place) for place in (folder, *folder.parents)):
            raise UsageError(f"{PLACE}={named}: is a file; name a folder, or off")
        return folder
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "retrokit" / "embeddings"


def open_cache(folder: str | Path | None = None) -> EmbeddingCache | None:
    """The cache in ``folder``; by default the user's, ``None`` if that is turned off. Nothing is written before there
    is something to keep."""
    place = cache_folder() if folder is None else folder
    return None if place is None else cache_in(place)


def cache_in(folder: str | Path) -> EmbeddingCache:
    """The cache in ``folder``; of one folder and limit always the same object."""
    return _opened(Path(folder).expanduser(), read_size(os.environ.get(LIMIT) or DEFAULT_LIMIT))


_opened = cache(EmbeddingCache)
