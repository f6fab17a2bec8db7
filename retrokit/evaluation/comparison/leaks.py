"""Texts of tests in the training data of encoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrokit import encoders
from retrokit.core.errors import DataError, RetrokitError
from retrokit.core.notices import notice
from retrokit.data import pairs as training_data
from retrokit.data.overlap import Overlap, overlaps
from retrokit.data.pairs import Source, hold_out, read_any_source, read_source
from retrokit.data.runs import is_run, read_run
from retrokit.data.training_rows import Kind

if TYPE_CHECKING:
    from retrokit.evaluation.task import Task

MOST = 64 << 20  # bytes of training data that are read without `trained_on=`


def overlaps_with_training(
    tasks: Sequence[Task], trained_on: Sequence[str], specs: Sequence[str], examples: int
) -> list[Overlap]:
    """What of each task is in ``trained_on``, or else in the training data of each of the encoders ``specs``, if these
    are unchanged and not large; encoders of the same data together, with a notice for each overlap."""
    tests = {task.spec: texts for task in tasks if (texts := task.judged_texts()) is not None}
    if not tests:
        return []
    results = []
    for name, sources in _training_data(trained_on, specs).items():
        for overlap in overlaps(tests, sources, examples):
            results.append(replace(overlap, test=f"{overlap.test} and {name}"))
    for overlap in results:
        if warning := overlap.warning():
            notice(warning)
    return results


def _training_data(trained_on: Sequence[str], specs: Sequence[str]) -> dict[str, list[Source]]:
    """The sources ``trained_on``, or else those of the encoders ``specs``, by a name for messages."""
    if trained_on:
        return {", ".join(trained_on): [read_any_source(spec) for spec in trained_on]}
    encoders_by_data: dict[tuple[str, ...], list[str]] = {}
    sources_by_data: dict[tuple[str, ...], list[Source]] = {}
    for spec in specs:
        sources = _sources_of_run(spec)
        if sources:
            data = tuple(f"{source.digest} {len(source.records)}" for source in sources)
            encoders_by_data.setdefault(data, []).append(spec)
            sources_by_data.setdefault(data, sources)
    sources_by_name = {}
    for data, (first, *others) in encoders_by_data.items():
        name = f"{first} and {len(others)} more of the same data" if others else first
        sources_by_name[name] = sources_by_data[data]
    return sources_by_name


def _sources_of_run(spec: str) -> list[Source]:
    """The training data of the encoder of that spec, if it is a model folder and they are available."""
    path = encoders.registry.parse(spec).path
    identity = read_run(path).identity if path and is_run(path) else {}
    names = identity.get("data", [])
    if not names:
        return []
    advice = "give `trained_on=` to look for texts of the tests in them"
    try:
        size = _size_of(names)
        if size > MOST:
            notice(f"{spec}: its training data are of {size:,} bytes: {advice}")
            return []
        return _read_unchanged(spec, names, identity)
    except (RetrokitError, OSError, KeyError):  # no file: data of the hub
        notice(f"{spec}: its training data, {', '.join(names)}, are not here as they were: {advice}")
        return []


def _size_of(names: Sequence[str]) -> int:
    """The bytes of the files of training data."""
    size = 0
    for name in names:
        folder = training_data.built_in_folder(name)
        path = folder or Path(str(training_data.registry.parse(name).params["path"]))
        files = path.rglob("*") if path.is_dir() else [path]
        size += sum(file.stat().st_size for file in files if not file.is_dir())
    return size


def _read_unchanged(spec: str, names: Sequence[str], identity: Mapping[str, Any]) -> list[Source]:
    """The data that a run was trained on, without held-out records. Raises :class:`DataError` if they have changed."""
    kind: Kind = "pairs"
    if identity.get("augment"):
        kind = "texts"
    elif str(identity.get("loss")).startswith("mse"):
        kind = "scored"
    sources = [read_source(name, kind, images=True) for name in names]
    if [source.digest for source in sources] != identity.get("data_digests"):
        raise DataError(spec, "they have changed")
    if identity.get("holdout"):
        sources, _ = hold_out(sources, identity["holdout"], identity["seed"])
    return sources
