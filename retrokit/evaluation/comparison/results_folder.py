"""A folder of results: one strict JSON file each, used again while nothing that matters has changed.

A file is named by its label: encoder, similarity, task, precision, dimensions, index, quantisation. It is used again if
its key is that of the new request (fingerprint of the encoder, learned parameters of the similarity, digest of the
data, device, versions of the libraries, source of retrokit and of plugins) and if it has all requested metrics; else it
is replaced. A result of a task without a digest of its data is never used again. A checksum detects a damaged file.
Rankings are not stored: they are large, and ``--save-run`` writes them in TREC's format.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from retrokit.core.errors import DataError
from retrokit.core.files import digest
from retrokit.core.notices import notice
from retrokit.core.registry import Label
from retrokit.core.version import __version__
from retrokit.data.jsonl import checked, digest_of_json, of_kind, read_json, write_json
from retrokit.evaluation.comparison.trained import Training
from retrokit.evaluation.result import Result, draws_of, known, settled

if TYPE_CHECKING:  # a folder is read and shown without loading a model
    from retrokit.evaluation.task import Request, Task
    from retrokit.similarities.base import Similarity

_LABEL = ("encoder", "similarity", "task", "precision", "dims", "index", "quantize")
_LIBRARIES = (
    *("torch", "transformers", "tokenizers", "sentence-transformers", "numpy", "scipy", "scikit-learn"),
    *("pytrec-eval-terrier", "faiss-cpu"),
)
_PACKAGE = Path(__file__).parents[2]
_EXPECTED = "a result that `results=` of an evaluation has written"


class _NoResult(DataError):
    """A file of another kind, such as the plan of a study."""


@dataclass(frozen=True)
class Record:
    """A result with what it depends on.

    Attributes:
        key: all that decides the result, as plain values.
        asked: the requested metrics; the result may have more.
        shown: the columns that its task shows.
        label, spec: the name that was given to the system last, and its spec; empty: none.
        added: when a result of this label was first written, in UTC: the order in which results are shown.
        made: when it was computed, in UTC.
    """

    key: Annotated[dict[str, Any], {"task": str, "data": str | None, "libraries?": dict[str, str]}]
    asked: list[str]
    shown: list[str]
    training: Training | None
    added: str
    made: str
    result: Result
    label: str = ""
    spec: str = ""


class ResultsFolder:
    """A folder of results at ``path``."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._digests: dict[str, str | None] = {}
        self._used = self._computed = 0

    def evaluate(
        self,
        task: Task,
        request: Request,
        training: Training | None = None,
        keep_runs: bool = False,
        label: str = "",
        spec: str = "",
    ) -> list[Result]:
        """As ``task.evaluate``; a valid result of the folder is not computed again, and the rest is written.

        With ``keep_runs`` everything is computed, because rankings are not stored. The ``label`` and the ``spec`` of
        the system are stored for :meth:`read`. Raises :class:`DataError` if the folder cannot be written to, or what
        the task raises.
        """
        keys = self._keys(task, request)
        records: dict[str, Record] = {}
        missing = []
        metrics = list(request.metrics)  # with those of the records that are replaced
        for name, key in keys.items():
            record = self._valid(key)
            if record is None:
                missing.append(name)
                continue
            records[name] = record
            if keep_runs or not set(request.metrics) <= set(record.asked):
                missing.append(name)
                metrics += record.asked
        self._used += len(keys) - len(missing)
        if missing or not keys:
            similarities = _similarities(request, keys, missing)
            requested = replace(request, similarities=similarities, metrics=list(dict.fromkeys(metrics)))
            records |= self._computed_records(task, requested, keys, training)
        for record in records.values():
            if record.label != label:
                self._save(replace(record, label=label, spec=spec))
        return [_requested_part(records[name], request) for name in (keys or records)]

    def _computed_records(
        self, task: Task, request: Request, keys: Mapping[str, dict[str, Any]], training: Training | None
    ) -> dict[str, Record]:
        """The new records of a request by similarity, written."""
        records = {}
        for result in task.evaluate(request):
            key = keys.get(result.similarity) or _key_of_no_use(result, self._digest(task))
            records[result.similarity] = self._write(key, result, list(request.metrics), task, training)
        return records

    def report(self) -> None:
        """Report how many results were used again."""
        notice(f"{self.path}: {self._used:,} results used again, {self._computed:,} computed")

    def read(self) -> list[Record]:
        """All sound results, in the order in which they were first evaluated. A notice names each damaged file, and
        each result on data that have changed since: of one task, those on the data seen last count. Raises
        :class:`DataError` if there is no such folder, or it contains no sound result."""
        if not self.path.is_dir():
            raise DataError(self.path, "is not a folder of results; `results=` of an evaluation writes one")
        records = []
        for file in sorted(self.path.glob("*.json")):
            try:
                records.append(_read(file))
            except _NoResult:
                continue
            except DataError as error:
                notice(f"{error}; left out: evaluate its encoder again")
        if not records and (self.path / "eval").is_dir():
            raise DataError(self.path, f"contains no results, but {self.path / 'eval'} may, as in a study; give that")
        if not records:
            raise DataError(self.path, "contains no results; `results=` of an evaluation writes them")
        latest = {record.key["task"]: record.key["data"] for record in sorted(records, key=lambda r: r.made)}
        current = []
        for record in sorted(records, key=lambda record: record.added):
            if record.key["data"] == latest[record.key["task"]]:
                current.append(_named_record(record))
            else:
                notice(f"{record.result.name} on {record.result.task} is left out: its data have changed since")
        return current

    def _keys(self, task: Task, request: Request) -> dict[str, dict[str, Any]]:
        """All that decides each result, by the similarity that scores; none if nothing can be used again."""
        encoder = request.encoder
        always = {"data": self._digest(task), "retrokit": __version__, "libraries": library_versions()}
        if always["data"] is None:
            return {}
        always = {**dict.fromkeys(_LABEL), "encoder": request.name, "task": task.spec, **always}
        if encoder is None:
            return _key_without_encoder(request, task, always)
        code = encoder.code()  # of the model behind all views
        settings = {
            "code": dict(code or {}),
            "precision": encoder.computes_in(request.precision),
            "dims": request.dims or encoder.dimension,
            "index": request.index,
            "quantize": request.quantize,
            "fingerprint": encoder.fingerprint(),
            "device": encoder.device.type,
            **({"task_prompts": dict(encoder.task_prompts)} if encoder.task_prompts else {}),
        }
        keys = {}
        for similarity in task.scored_with(encoder, request.similarities):
            learned = {"similarity": similarity.spec, "learned": similarity.fingerprint()}
            source = None if code is None else _source(task, similarity)
            keys[similarity.spec] = {**always, **settings, **learned, "source": source}
        return keys

    def _digest(self, task: Task) -> str | None:
        """The digest of the task's data, computed once."""
        if task.spec not in self._digests:
            self._digests[task.spec] = task.digest()
        return self._digests[task.spec]

    def _file(self, key: dict[str, Any]) -> Path:
        label = [key[name] for name in _LABEL]
        name = re.sub(r"[^A-Za-z0-9.=_-]+", "_", "-".join(map(str, label[:3])))[:120].strip("._-")
        return self.path / f"{name}-{digest_of_json(label)[:16]}.json"

    def _valid(self, key: dict[str, Any]) -> Record | None:
        """The record of exactly this key; a damaged one is named and counts as none."""
        file = self._file(key)
        if not file.exists():
            return None
        try:
            record = _read(file)
        except DataError as error:
            notice(f"{error}; computed again")
            return None
        return record if record.key == key and key["source"] is not None else None

    def _write(
        self, key: dict[str, Any], result: Result, metrics: list[str], task: Task, training: Training | None
    ) -> Record:
        """Write a new result; it replaces any other of its label."""
        now, file = datetime.now(UTC).isoformat(timespec="microseconds"), self._file(key)
        result = settled(result)
        result = replace(result, resampled={name: draws_of(metric) for name, metric in result.resampled.items()})
        added = now
        with suppress(DataError):  # there is none, or it is damaged
            added = _read(file).added
        record = Record(key, metrics, list(task.shown_metrics), training, added, now, result)
        self._save(record)
        self._computed += 1
        return record

    def _save(self, record: Record) -> None:
        training = vars(record.training) if record.training is not None else None
        content = of_kind("result", {**vars(record), "training": training, "result": plain(record.result)})
        write_json(self._file(record.key), {"checksum": _checksum(content), **content})


def named(result: Result, label: str, spec: str) -> Result:
    """The result under the name that the system's spec gives it; the configuration has the spec."""
    return replace(result, encoder=Label(label), configuration={**result.configuration, "spec": spec})


def unseeded(training: Training | None) -> Training | None:
    """The training of a system with a name, which is of one system."""
    return replace(training, seed="") if training is not None else None


def _named_record(record: Record) -> Record:
    if not record.label:
        return record
    result = named(record.result, record.label, record.spec)
    return replace(record, result=result, training=unseeded(record.training))


def _requested_part(record: Record, request: Request) -> Result:
    """The result without metrics that only earlier requests have named."""
    others = set(record.asked) - {*request.metrics, record.result.main_metric}
    return record.result.without(others)


def _similarities(request: Request, keys: Mapping[str, object], missing: Sequence[str]) -> Sequence[Similarity]:
    """The similarities to compute. A task that scores with other ones than those of the request takes these as a
    whole."""
    by_spec = {similarity.spec: similarity for similarity in request.similarities}
    if not missing or not keys.keys() <= by_spec.keys():
        return request.similarities
    return [by_spec[spec] for spec in by_spec if spec in missing]


def _key_without_encoder(request: Request, task: Task, always: dict[str, Any]) -> dict[str, dict[str, Any]]:
    from retrokit.ranking.retrieval.base import OWN_SIMILARITY

    searcher, reranker = request.searcher, request.reranker
    if searcher is not None:
        about = {"fingerprint": searcher.fingerprint(), "similarity": searcher.similarity}
    else:
        assert reranker is not None
        about = {"fingerprint": reranker.key, "similarity": OWN_SIMILARITY}
    return {about["similarity"]: {**always, **about, "source": _source(*_components(searcher or reranker), task)}}


def _read(file: Path) -> Record:
    """The record in ``file``; raises :class:`DataError` for other content."""
    content = read_json(file, _EXPECTED)
    if content.get("kind", "result") != "result":
        raise _NoResult(file, f"is not {_EXPECTED}")
    if content.pop("checksum", None) != _checksum(content):
        raise DataError(file, "is damaged: its checksum differs")
    record = cast(Record, checked(Record, content, file, _EXPECTED))
    for name in ("encoder", "similarity", "task"):
        if getattr(record.result, name) != record.key.get(name):
            raise DataError(file, f"is damaged: its result and its key differ in the {name}")
    return record


def plain(result: Result) -> dict[str, Any]:
    """A result as plain values, without its ranking."""
    plain = {field.name: getattr(result, field.name) for field in fields(result) if field.name != "run"}
    plain["metrics"] = {name: known(value) for name, value in result.metrics.items()}
    plain["resampled"] = {}
    for name, metric in result.resampled.items():
        draws = draws_of(metric)
        plain["resampled"][name] = {**vars(draws), "drawn": [*map(known, draws.drawn.tolist())]}
    return plain


def _key_of_no_use(result: Result, data: str | None) -> dict[str, Any]:
    """The key of a result that is only shown: its label and data; no request has this key."""
    names = ("precision", "dims", "index", "quantize", "fingerprint")
    label = {"encoder": result.encoder, "similarity": result.similarity, "task": result.task}
    return {**label, **{name: result.configuration.get(name) for name in names}, "data": data, "source": None}


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


def software() -> str:
    """A digest of what computes every result: retrokit's source, its version and those of the libraries."""
    return digest_of_json([__version__, library_versions(), _package_source()])


def _components(system: object) -> Iterator[object]:
    """A searcher or a reranker, and those and the encoders that it consists of."""
    from retrokit.encoders.base import Encoder
    from retrokit.ranking.reranking.base import Reranker
    from retrokit.ranking.retrieval.base import Searcher

    yield system
    for value in vars(system).values():
        if {Encoder, Reranker, Searcher} & {*type(value).__mro__}:
            yield from _components(value)


def _source(*objects: object) -> str | None:
    """A digest of retrokit's source, and of the files of the objects' classes that are a plugin's; ``None`` if a class
    is in no file. The version does not suffice: a checkout changes without it."""
    try:
        files = {Path(inspect.getfile(type(instance))) for instance in objects}
    except (TypeError, OSError):  # made in an interactive session
        return None
    plugins = sorted(file for file in files if not file.is_relative_to(_PACKAGE))
    return " ".join([_package_source(), *map(digest, plugins)])


@cache
def _package_source() -> str:
    """A digest of retrokit's source, but for what only shows results. Extensions count: a system may contain a part of
    one, behind views and first stages."""
    names = [path.relative_to(_PACKAGE) for path in _PACKAGE.rglob("*.py")]
    counted = [name.as_posix() for name in names if name.parts[0] not in ("cli", "report")]
    return digest(_PACKAGE, counted)
