"""A folder of results: one strict JSON file each, used again while nothing that matters has changed.

A file is named by its label: encoder, similarity, task, precision, dimensions, index, quantisation. It is used again if
its key is that of the new request (the encoder's fingerprint, what the similarity has learned, the digest of the data,
the device, the versions of the libraries, retrokit's own source) and if it holds all the metrics asked for; else it is
replaced. Of a task without a digest of its data nothing is used again. A checksum tells a damaged file. Rankings are
not kept: they are large, and ``--save-run`` writes them in TREC's format.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from retrokit.core.errors import DataError, disk_errors
from retrokit.core.files import digest
from retrokit.core.notices import notice
from retrokit.core.version import __version__
from retrokit.data.jsonl import read_json, write_json
from retrokit.data.typed import restored
from retrokit.evaluation.comparison.trained import Training
from retrokit.evaluation.result import Result, draws_of, known, settled

if TYPE_CHECKING:  # a folder is read and shown without loading a model
    from retrokit.encoders.base import Encoder
    from retrokit.evaluation.task import Request, Task
    from retrokit.ranking.retrieval.base import Searcher
    from retrokit.similarities.base import Similarity

FORMAT = 1
_LABEL = ("encoder", "similarity", "task", "precision", "dims", "index", "quantize")
_LIBRARIES = (
    *("torch", "transformers", "tokenizers", "sentence-transformers", "numpy", "scipy", "scikit-learn"),
    *("pytrec-eval-terrier", "faiss-cpu"),
)
_OWN = Path(__file__).parents[2]
_NO_PART_OF_A_RESULT = ("cli", "report")
_IN_A_FORM_OF_THEIR_OWN = ("run", "resampled")


@dataclass(frozen=True)
class Record:
    """A result with what it depends on.

    Attributes:
        key: all that decides the result, as plain values.
        asked: the metrics that were asked for; the result may have more.
        shown: the columns that its task shows.
        training: how the encoder, or what searched and reranked, came about.
        added: when a result of this label first came here, in UTC: the order in which results are shown.
        made: when it was computed, in UTC.
    """

    key: dict[str, Any]
    asked: list[str]
    shown: list[str]
    training: Training | None
    added: str
    made: str
    result: Result


class ResultsFolder:
    """Where results are kept."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._digests: dict[str, str | None] = {}
        self._used = self._made = 0

    def evaluate(
        self, task: Task, request: Request, training: Training | None = None, keep_runs: bool = False
    ) -> list[Result]:
        """As ``task.evaluate``; what is here and still holds is not computed again, and the rest is kept here.

        With ``keep_runs`` everything is computed, because rankings are not kept. Raises :class:`DataError` if the
        folder cannot be written to, or whatever the task raises.
        """
        encoder, metrics = request.encoder, list(request.metrics)
        if encoder is None and request.searcher is not None and self._digest(task) is not None:
            return [self._searched(task, request, request.searcher, training, keep_runs)]
        if encoder is None or self._digest(task) is None:  # kept to be shown, and never used again
            results = task.evaluate(request)
            keys = [_key_of_no_use(result, self._digest(task)) for result in results]
            return [self._keep(*both, metrics, task, training).result for both in zip(keys, results, strict=True)]
        given = request.similarities
        chosen = list({similarity.spec: similarity for similarity in task.scored_with(encoder, given)}.values())
        key_of = {similarity.spec: self._key(task, encoder, similarity, request) for similarity in chosen}
        records = {name: record for name, key in key_of.items() if (record := self._valid(key)) is not None}
        there = {name for name, record in records.items() if set(metrics) <= set(record.asked)}
        missing = [similarity for similarity in chosen if keep_runs or similarity.spec not in there]
        if missing:
            known = [
                name for similarity in missing if similarity.spec in records for name in records[similarity.spec].asked
            ]
            all_metrics = list(dict.fromkeys([*metrics, *known]))
            # A task that scores with others than the given similarities takes them as a whole.
            as_given = all(any(similarity is other for other in given) for similarity in chosen)
            for result in task.evaluate(
                replace(request, similarities=missing if as_given else given, metrics=all_metrics)
            ):
                records[result.similarity] = self._keep(key_of[result.similarity], result, all_metrics, task, training)
        self._used += len(chosen) - len(missing)
        # they may hold more than was asked for now
        chosen_records = (records[similarity.spec] for similarity in chosen)
        return [
            record.result.without(set(record.asked) - {*metrics, record.result.main_metric})
            for record in chosen_records
        ]

    def _searched(
        self, task: Task, request: Request, searcher: Searcher, training: Training | None, keep_runs: bool
    ) -> Result:
        """The result of a searcher that is no encoder."""
        metrics = list(request.metrics)
        decides = {"fingerprint": searcher.fingerprint(), "similarity": searcher.similarity}
        key = self._any_key(task, searcher.spec, **decides, source=_source(searcher, task))
        record = self._valid(key)
        if record is None or keep_runs or not set(metrics) <= set(record.asked):
            all_metrics = list(dict.fromkeys([*metrics, *(record.asked if record is not None else ())]))
            (result,) = task.evaluate(replace(request, metrics=all_metrics))
            record = self._keep(key, result, all_metrics, task, training)
        else:
            self._used += 1
        return record.result.without(set(record.asked) - {*metrics, record.result.main_metric})

    def report(self) -> None:
        """Say how many results were used again."""
        notice(f"{self.path}: {self._used:,} results used again, {self._made:,} computed")

    def read(self) -> list[Record]:
        """All sound results, in the order in which they were first evaluated. A notice names each damaged file, and
        each result on data that have changed since: of one task, those on the data seen last count. Raises
        :class:`DataError` if there is no such folder, or it holds no sound result."""
        if not self.path.is_dir():
            raise DataError(self.path, "is not a folder of results; `results=` of an evaluation makes one")
        records = []
        for file in sorted(self.path.glob("*.json")):
            record = _read(file)
            if record is None:
                notice(f"{file} is damaged and left out; evaluate its encoder again")
            else:
                records.append(record)
        if not records:
            raise DataError(self.path, "holds no results; `results=` of an evaluation makes them")
        latest = {record.key["task"]: record.key["data"] for record in sorted(records, key=lambda r: r.made)}
        current = []
        for record in sorted(records, key=lambda record: record.added):
            if record.key["data"] == latest[record.key["task"]]:
                current.append(record)
            else:
                notice(f"{record.result.name} on {record.result.task} is left out: its data have changed since")
        return current

    def _key(self, task: Task, encoder: Encoder, similarity: Similarity, request: Request) -> dict[str, Any]:
        """What decides the similarity's result."""
        return self._any_key(
            task,
            encoder.spec,
            precision=encoder.computes_in(request.precision),
            dims=request.dims or encoder.dimension,
            index=request.index,
            quantize=request.quantize,
            fingerprint=encoder.fingerprint(),
            device=encoder.device.type,
            similarity=similarity.spec,
            learned=similarity.fingerprint(),
            source=_source(encoder, task, similarity),
        )

    def _any_key(self, task: Task, name: str, **decides: Any) -> dict[str, Any]:
        """What decides a result, on a task's data and with these libraries."""
        always = {"data": self._digest(task), "retrokit": __version__, "libraries": library_versions()}
        return {**dict.fromkeys(_LABEL), "encoder": name, "task": task.spec, **always, **decides}

    def _digest(self, task: Task) -> str | None:
        """The digest of the task's data, which is looked at once."""
        if task.spec not in self._digests:
            self._digests[task.spec] = task.digest()
        return self._digests[task.spec]

    def _file(self, key: dict[str, Any]) -> Path:
        label = [key[name] for name in _LABEL]
        shown = re.sub(r"[^A-Za-z0-9.=_-]+", "_", "-".join(map(str, label[:3])))[:120].strip("._-")
        return self.path / f"{shown}-{hashlib.sha256(json.dumps(label).encode()).hexdigest()[:16]}.json"

    def _valid(self, key: dict[str, Any]) -> Record | None:
        """The record here that was made under just this key; a damaged one is named and counts as none."""
        file = self._file(key)
        if not file.exists():
            return None
        record = _read(file)
        if record is None:
            notice(f"{file} is damaged: computed again")
        return record if record is not None and record.key == key and key["source"] is not None else None

    def _keep(
        self, key: dict[str, Any], result: Result, metrics: list[str], task: Task, training: Training | None
    ) -> Record:
        """Write a result that was computed just now; it takes the place of any other of its label."""
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        result = settled(result)
        result = replace(result, resampled={name: draws_of(metric) for name, metric in result.resampled.items()})
        added = _added(self._file(key)) or now
        record = Record(key, metrics, list(task.shown_metrics), training, added, now, result)
        self._write(record)
        self._made += 1
        return record

    def _write(self, record: Record) -> None:
        training = vars(record.training) if record.training is not None else None
        content = {"format": FORMAT, **vars(record), "training": training, "result": plain(record.result)}
        with disk_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        write_json(self._file(record.key), {"checksum": _checksum(content), **content})


def _read(file: Path) -> Record | None:
    """The record in ``file``; ``None`` if it is not what was written."""
    try:
        content = read_json(file, "a result")
        if content.pop("checksum", None) != _checksum(content) or content.pop("format", None) != FORMAT:
            return None
        restored({"key": {"task": str, "data": str | None, "libraries?": dict[str, str]}}, content)
        return cast(Record, restored(Record, content))
    except (ValueError, TypeError, DataError):
        return None


def _added(file: Path) -> str | None:
    """When a result first came into ``file``, also into a damaged one that still says so: its row keeps its place."""
    try:
        with open(file, encoding="utf-8", errors="replace") as stream:
            match = re.search(r'"added": "([^"]+)"', stream.read(1 << 20))
        return datetime.fromisoformat(match[1]).isoformat(timespec="microseconds") if match else None
    except (OSError, ValueError):  # no file, or no time
        return None


def plain(result: Result) -> dict[str, Any]:
    """A result as plain values, without its ranking."""
    plain = {f.name: getattr(result, f.name) for f in fields(result) if f.name not in _IN_A_FORM_OF_THEIR_OWN}
    drawn = {name: draws_of(metric) for name, metric in result.resampled.items()}
    return {
        **plain,
        "metrics": {name: known(value) for name, value in result.metrics.items()},
        "resampled": {
            name: {**vars(draws), "drawn": [*map(known, draws.drawn.tolist())]} for name, draws in drawn.items()
        },
    }


def _key_of_no_use(result: Result, data: str | None) -> dict[str, Any]:
    """The key of a result that is kept to be shown: its label and data, and that no request has this key."""
    configuration = {
        name: result.configuration.get(name) for name in ("precision", "dims", "index", "quantize", "fingerprint")
    }
    label = {"encoder": result.encoder, "similarity": result.similarity, "task": result.task}
    return {**label, **configuration, "data": data, "source": None}


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, ensure_ascii=False, allow_nan=False).encode()).hexdigest()


@cache
def library_versions() -> dict[str, str]:
    """Of the libraries that decide a result, by name."""
    versions = {}
    for name in _LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:  # a build of another name; the source of retrokit still counts
            versions[name] = "unknown"
    return versions


def _source(*objects: object) -> str | None:
    """A digest of retrokit's source, and of the files of the objects' classes where those are a plugin's; ``None`` if a
    class comes from no file. The version alone would not do: a checkout changes without it."""
    try:
        files = {inspect.getfile(type(instance)) for instance in objects}
    except (TypeError, OSError):  # made in an interactive session
        return None
    others = sorted(file for file in files if not Path(file).is_relative_to(_OWN))
    return " ".join([_own_source(), *map(digest, others)])


@cache
def _own_source() -> str:
    """A digest of retrokit's source, but for what only shows results."""
    names = [path.relative_to(_OWN) for path in _OWN.rglob("*.py")]
    return digest(_OWN, [name.as_posix() for name in names if name.parts[0] not in _NO_PART_OF_A_RESULT])
