"""What of the tasks stands in the data that encoders were trained on: of runs their own, of others what is named."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from retrokit import encoders
from retrokit.core.errors import DataError, RetrokitError, UsageError
from retrokit.core.notices import notice
from retrokit.data import pairs as training_data
from retrokit.data.holdout import hold_out
from retrokit.data.overlap import Overlap, overlaps
from retrokit.data.pairs import Source, read_source
from retrokit.data.runs import is_run, read_run
from retrokit.data.training_rows import Kind
from retrokit.evaluation.task import Task

MOST = 64 << 20  # bytes of a run's data that are read unasked


def overlaps_with_training(
    tasks: Sequence[Task], trained_on: Sequence[str], specs: Sequence[str], examples: int
) -> list[Overlap]:
    """What of each task stands in ``trained_on``, or else in the data of each of the encoders' ``specs`` that is a run,
    where these are as they were and not large; a line of each that was seen, of encoders of the same data together."""
    tests = {task.spec: texts for task in tasks if (texts := task.judged_texts()) is not None}
    if not tests:
        return []
    if trained_on:
        read = {", ".join(trained_on): [_read(spec) for spec in trained_on]}
    else:
        read = {spec: sources for spec in specs if (sources := _of_run(spec))}
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, sources in read.items():
        alike.setdefault(tuple(f"{source.digest} {len(source.records)}" for source in sources), []).append(name)
    results = []
    for first, *others in alike.values():
        name = f"{first} and {len(others)} more of the same data" if others else first
        results += [
            replace(overlap, test=f"{overlap.test} and {name}") for overlap in overlaps(tests, read[first], examples)
        ]
    for warning in filter(None, (overlap.warning() for overlap in results)):
        notice(warning)
    return results


def _read(spec: str) -> Source:
    """Training data of whatever kind; raises what is wrong with them as pairs."""
    kinds: tuple[Kind, ...] = ("pairs", "scored", "texts")
    errors = []
    for kind in kinds:
        try:
            return read_source(spec, kind, images=True)
        except (DataError, UsageError) as error:
            errors.append(error)
    raise errors[0]


def _of_run(spec: str) -> list[Source]:
    """What the encoder of that spec was trained on, if it is a run and its data are at hand."""
    path = str(encoders.registry.parse(spec).params.get("path", ""))
    identity = read_run(path).identity if path and is_run(path) else {}
    names = identity.get("data", [])
    if not names:
        return []
    kind: Kind = "texts" if identity.get("augment") else "scored" if identity.get("loss") == "mse" else "pairs"
    ask = "give `trained_on=` to look for texts of the tests in them"
    try:
        places = [str(training_data.registry.parse(name).params.get("path", "")) for name in names]
        size = sum(map(_size, places))
        if size > MOST:
            notice(f"{spec}: its training data are of {size:,} bytes: {ask}")
            return []
        sources = [read_source(name, kind, images=True) for name in names]
        if [source.digest for source in sources] != identity.get("data_digests"):
            raise DataError(spec, "they have changed")
        return hold_out(sources, identity["holdout"], identity["seed"])[0] if identity.get("holdout") else sources
    except (RetrokitError, OSError):
        notice(f"{spec}: its training data, {', '.join(names)}, are not here as they were: {ask}")
        return []


def _size(path: str) -> int:
    """Bytes of a file, or of all in a folder; raises :class:`OSError` where there is none."""
    if not os.path.isdir(path):
        return os.path.getsize(path)
    return sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())
