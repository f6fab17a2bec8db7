"""The training source ``hf``: a Hugging Face data set, from a folder or the hub, through the ``datasets`` package."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrokit.core.errors import DataError, ServiceError, UsageError, first_line
from retrokit.data.columns import used_columns
from retrokit.data.jsonl import fields_of
from retrokit.data.pairs import Source, build_source
from retrokit.data.training_rows import Kind, iterate_records, training_rows

if TYPE_CHECKING:
    from datasets import Dataset


def from_hf(name: str, config: str | None, split: str, *, kind: Kind, spec_text: str, **use: Any) -> Source:
    """The source ``hf``: the rows of one split, columns named as in ``columns.py``; wrong rows are named from 1.

    ``name`` is a folder that ``save_to_disk`` wrote, a folder of data files, or a hub id.

    Raises:
        UsageError: no such split or configuration (the message lists those that are there).
        DataError: a folder that holds no data set, or a row that is wrong.
        ServiceError: the hub cannot be reached, or has no such data set.
    """
    saved = any(os.path.isfile(os.path.join(name, mark)) for mark in ("dataset_dict.json", "state.json"))
    dataset = _saved(name, config, split) if saved else _loaded(name, config, split)
    where = f"{name}, split {split}"
    names = tuple(dataset.column_names)
    try:
        used = used_columns(names, kind)
    except ValueError as error:
        raise DataError(where, str(error)) from error
    seen = hashlib.sha256()
    # the other columns may hold images or audio, which would be decoded row by row
    rows = training_rows(_rows(dataset.select_columns(used), seen.update), kind, where, names)
    records = iterate_records(rows, kind, where)
    return build_source(records, spec_text, Path(name).name, lambda: f"sha256:{seen.hexdigest()}", **use)


def _rows(dataset: Dataset, feed: Callable[[bytes], object]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, row in enumerate(dataset, start=1):
        feed(json.dumps(row, default=str).encode() + b"\n")
        yield number, row


def _saved(name: str, config: str | None, split: str) -> Dataset:
    from datasets import DatasetDict, load_from_disk

    if config is not None:
        raise UsageError(f"{name}: a saved data set has no configurations; leave config={config} out")
    try:
        dataset = load_from_disk(name)
    except Exception as error:
        raise DataError(name, f"the saved data set could not be read: {_reason(error)}") from error
    if not isinstance(dataset, DatasetDict):
        # one saved split may not know its own name; then it is the one that is meant
        dataset = {str(dataset.split or split): dataset}
    if split not in dataset:
        raise UsageError(f"{name}: has no split {split!r}; its splits are {fields_of(dataset)}")
    return dataset[split]


def _loaded(name: str, config: str | None, split: str) -> Dataset:
    from datasets import load_dataset

    local = os.path.exists(name)
    if os.path.isfile(name):
        raise UsageError(f"{name}: is a file; write jsonl:{name}, or name the folder that it is in")
    if not local and name.startswith(("/", ".", "~")):
        raise DataError(name, "does not exist; expected a folder with a data set, or a hub id")
    try:
        return load_dataset(name, config, split=split)
    except Exception as error:
        # whatever a server or another package's file readers raise is about the data set, not about this program
        reason = _reason(error)
        if isinstance(error, ValueError) and reason.startswith(("Unknown split", "BuilderConfig", "Unrecognized")):
            raise UsageError(f"{name}: {reason}") from error
        if local:
            raise DataError(name, f"is not a data set that can be read: {reason}") from error
        tried = f"no folder {name!r} here, and loading it from the hub failed"
        raise ServiceError(f"hf:{name}: {tried}: {reason}") from error


def _reason(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return first_line(error)[:300]
