"""Arrays that survive an interruption: long work stores each shard in a file until the whole is done.

A shard's name is the digest of all that decides it, so a wrong one is never read. The file ends with the digest of its
bytes, so a shard that a kill, a full disk or a bit error damaged is computed again.
"""

import hashlib
import io
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import numpy as np

from retrokit.core.errors import disk_errors
from retrokit.core.files import replaced

_DIGEST = hashlib.sha256().digest_size
_SHARD = "[0-9a-f]" * 2 * _DIGEST + ".npy"


class Shards:
    """Float32 arrays in ``folder``, both created when they are first requested. Without a folder nothing is stored."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    @property
    def goes_on(self) -> bool:
        """Whether an earlier run has left something."""
        return self.folder is not None and next(self.folder.glob(_SHARD), None) is not None

    def array(self, about: Iterable[str], shape: tuple[int, ...], make: Callable[[], np.ndarray]) -> np.ndarray:
        """The float32 array of ``shape`` that ``about`` decides: the stored one, else the result of ``make``.

        Raises:
            DataError: it cannot be written.
        """
        if self.folder is None:
            return make()
        path = self.folder / f"{_name(about)}.npy"
        embeddings = _read(path)
        if embeddings is None or embeddings.shape != shape:
            embeddings = make()
            with disk_errors(self.folder):
                self.folder.mkdir(parents=True, exist_ok=True)
                _write(path, embeddings)
        return embeddings

    def remove(self) -> None:
        """Remove the stored arrays. Anything else in the folder stays, and the folder with it."""
        if self.folder is None:
            return
        for pattern in (_SHARD, ".*.retrokit-tmp"):
            for path in self.folder.glob(pattern):
                path.unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()


def _name(about: Iterable[str]) -> str:
    name = hashlib.sha256()
    for text in about:
        raw = text.encode()
        name.update(len(raw).to_bytes(8, "big") + raw)
    return name.hexdigest()


def _read(path: Path) -> np.ndarray | None:
    try:
        whole = path.read_bytes()
    except OSError:
        return None
    content, digest = whole[:-_DIGEST], whole[-_DIGEST:]
    if hashlib.sha256(content).digest() != digest:
        return None
    array: np.ndarray = np.load(io.BytesIO(content), allow_pickle=False)
    return array


def _write(path: Path, array: np.ndarray) -> None:
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    with replaced(path) as temporary:
        temporary.write_bytes(content.getvalue() + hashlib.sha256(content.getvalue()).digest())
