"""Files that are uploaded: copies without links, and texts without folders of this machine."""

import re
import shutil
from pathlib import Path

from retrokit.core.errors import DataError

_FOLDERS = re.compile(r"(?<![\w/.])/(?!/)(?:[^\s`|,/\"]+/)*")


def copy(source: Path, target: Path) -> None:
    """Copy a file or a folder; raises :class:`DataError` for a link, which may lead out of the folder."""
    for path in (source, *source.rglob("*")):
        if path.is_symlink():
            raise DataError(path, "is a link; replace it by the file")
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)


def without_folders(text: str) -> str:
    """The text with the names of files and folders in place of absolute paths.

    >>> without_folders("trained on `/home/me/data/pairs.jsonl`")
    'trained on `pairs.jsonl`'
    """
    return _FOLDERS.sub("", text)
