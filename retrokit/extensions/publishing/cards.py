"""What uploads of models and data share: copies without links, and cards without folders of this machine."""

import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import DatasetCard, ModelCard

from retrokit.core.errors import DataError, first_line
from retrokit.core.notices import notice

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


def read_card(kind: type[ModelCard] | type[DatasetCard], text: str, path: Path) -> ModelCard | DatasetCard:
    """The card of the Hub in a text of the file ``path``; raises :class:`DataError` for none."""
    try:
        return kind(text)
    except Exception as error:  # the library raises anything
        raise DataError(path, f"is not a card: {first_line(error)}") from error


def complete(card: ModelCard | DatasetCard, entries: Mapping[str, Any], tags: Iterable[str]) -> None:
    """Set the entries of a card that have a value, and add tags."""
    for key, value in entries.items():
        if value:
            card.data[key] = value
    card.data["tags"] = list(dict.fromkeys([*(card.data.get("tags") or ()), *tags]))
    if not card.data.get("license"):
        notice("the card names no licence, so nobody may use the upload; give a `license=`")
