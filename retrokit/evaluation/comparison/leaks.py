"""Texts of tests in the training data of encoders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

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
    if trained_on:
        read = {", ".join(trained_on): [read_any_source(spec) for spec in trained_on]}
    else:
        read = {spec: sources for spec in specs if (sources := _of_run(spec))}
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, sources in read.items():
        alike.setdefault(tuple(f"{source.digest} {len(source.records)}" for source in sources), []).append(name)
    results = []
    for first, *others in alike.values():
        name = f"{first} and {len(others)} more of the same data" if others else first
        own = overlaps(tests, read[first], examples)
        results += [replace(overlap, test=f"{overlap.test} and {name}") for overlap in own]
    for warning in filter(None, (overlap.warning() for overlap in results)):
        notice(warning)
    return results


def _of_run(spec: str) -> list[Source]:
    """The training data of the encoder of that spec, if it is a model folder and they are available."""
    path = str(encoders.registry.parse(spec).params.get("path", ""))
    identity = read_run(path).identity if path and is_run(path) else {}
    if not (names := identity.get("data", [])):
        return []
    kind: Kind = "texts" if identity.get("augment") else "scored" if identity.get("loss") == "mse" else "pairs"
    ask = "give `trained_on=` to look for texts of the tests in them"
    try:
        places = [Path(str(training_data.registry.parse(name).params["path"])) for name in names]
        files = [file for place in places for file in (place.rglob("*") if place.is_dir() else [place])]
        size = sum(file.stat().st_size for file in files if not file.is_dir())
        if size > MOST:
            notice(f"{spec}: its training data are of {size:,} bytes: {ask}")
            return []
        sources = [read_source(name, kind, images=True) for name in names]
        if [source.digest for source in sources] != identity.get("data_digests"):
            raise DataError(spec, "they have changed")
        return hold_out(sources, identity["holdout"], identity["seed"])[0] if identity.get("holdout") else sources
    except (RetrokitError, OSError, KeyError):  # no file: data of the hub
        notice(f"{spec}: its training data, {', '.join(names)}, are not here as they were: {ask}")
        return []
