"""Every encoder under every similarity on every task; and what a results folder has of that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING

from retrokit import encoders, similarities
from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.core.outputs import check_settings
from retrokit.core.registry import Registry, parse_all
from retrokit.core.settings import taking
from retrokit.data.check import quick_line
from retrokit.data.dtypes import quantization_name
from retrokit.data.jsonl import is_gathering, strictly
from retrokit.data.pairs import registry as training_data
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.comparison.comparison import Evaluation, evaluation_of, explanations
from retrokit.evaluation.comparison.correlations import METRICS as CORRELATED
from retrokit.evaluation.comparison.correlations import check_correlated
from retrokit.evaluation.comparison.gates import Baseline, gates_of, read_baseline, write_gates
from retrokit.evaluation.comparison.results_folder import Record, ResultsFolder
from retrokit.evaluation.comparison.trained import Training, overlaps_with_training, training_of
from retrokit.evaluation.settings import EvaluationSettings, requested
from retrokit.evaluation.task import (
    Request,
    Task,
    check_measured,
    check_searched,
    check_tunable,
    measures,
    needs_embeddings,
    tuned,
)
from retrokit.ranking import retrieval

if TYPE_CHECKING:  # what was evaluated before is compared and shown without loading a model
    from retrokit.data.beir import RetrievalData
    from retrokit.encoders.base import Encoder
    from retrokit.evaluation.result import Result
    from retrokit.ranking.retrieval.base import Searcher


def evaluate_systems(settings: EvaluationSettings) -> Evaluation:
    """Evaluate every encoder under every similarity on every task; without encoders, show what ``results`` has.

    Searchers (BM25, a TREC run, two stages) may be among the encoders; they have scores of their own. Without ``sim``
    each encoder scores with its own similarity; with ``cross`` under the training similarities of all model folders
    among the encoders. Each task computes those of ``metrics`` that it measures, else its usual ones; those of
    ``fail_under`` are computed too, and not compared. With ``baseline``, a file of ``save_baseline``, every system is
    compared with its counterpart there. Gates that fail raise nothing:
    :func:`~retrokit.evaluation.comparison.gates.check_gates` does.

    Raises:
        UsageError: no task, wrong names (all of them in one message), metrics that no task measures, dims, ``cross``
            without anything to cross, a searcher on a task that needs embeddings, an ``index`` or ``quantize`` that
            does not fit or where nothing is searched, a baseline of other data, an output that is an input, or nothing
            to show.
        DataError: a task's files, the baseline, a folder of results that is none, or an output that cannot be written.
    """
    _check_request(settings)
    check_settings(settings)
    baseline = read_baseline(settings.baseline) if settings.baseline is not None else None
    with strictly(settings.strict), encoders.showing_inputs(settings.show_inputs):
        evaluation = _measured(settings, baseline) if settings.encoders else _stored(settings)
    if baseline is not None:
        evaluation = baseline.compared(evaluation)
    evaluation = replace(evaluation, gates=gates_of(evaluation, settings))
    if settings.save_run is not None:
        from retrokit.evaluation.tasks.retrieval import save_runs

        save_runs(evaluation.results, settings.save_run)
    write_gates(evaluation, settings)
    return evaluation


evaluate = taking(EvaluationSettings)(evaluate_systems)


def _check_request(settings: EvaluationSettings) -> None:
    """Raise :class:`UsageError` for encoders without a task, or settings of a computation without encoders."""
    if settings.encoders:
        if not settings.on:
            raise UsageError("give a task: `on=` TASK, as in `on=` beir:data/scifact")
        return
    if settings.results is None:
        raise UsageError("give encoders and `on=` TASK; or only `results=` FOLDER, to show earlier results")
    default = EvaluationSettings()
    names = "precision dims device index quantize explain trained_on overlap_examples show_inputs save_run"
    changed = [f"`{name}=`" for name in names.split() if getattr(settings, name) != getattr(default, name)]
    if changed:
        raise UsageError(f"{', '.join(changed)}: nothing is computed without encoders")


def _measured(settings: EvaluationSettings, baseline: Baseline | None) -> Evaluation:
    """Every encoder under every similarity on every task."""
    embedding = _parsed(settings)
    trainings = {str(encoders.registry.parse(spec)): training_of(spec) for spec in embedding}
    columns = _columns(settings, trainings.values())
    loaded: list[Task] = [tasks.create_on(spec, settings.device) for spec in settings.on]
    _check(settings, loaded, embedding, columns)
    digests = {task.spec: cache(task.digest) for task in loaded}
    for task in loaded:
        if baseline is not None:
            baseline.measured_on(task.spec, digests[task.spec]())
        _describe(task)
    overlaps = overlaps_with_training(loaded, settings.trained_on, embedding, settings.overlap_examples)
    searchers = {spec: retrieval.create(spec, settings.device) for spec in settings.encoders if spec not in embedding}
    judged = {task.spec: data for task in loaded if (data := task.judged()) is not None}
    check_searchers([*searchers.values()], judged.values())

    def requested_of(spec: str) -> Request:
        return Request(searcher=searchers[spec]) if spec in searchers else _request(spec, settings, columns)

    shown = {task.spec: shown_metrics(task, settings.metrics, task.shown_metrics) for task in loaded}
    evaluation = evaluation_of(
        _results(settings, loaded, shown, trainings, requested_of),
        shown,
        trainings,
        is_cross=settings.cross,
        correlate=settings.correlations,
        baseline_system=_baseline_system(settings, searchers),
        gate_metric=settings.gate_metric,
    )
    evaluation = replace(evaluation, digests=digests, overlaps=overlaps)
    if settings.explain is not None:
        explained = explanations(evaluation.results, judged, shown, settings.explain)
        evaluation = replace(evaluation, explanations=explained)
    return evaluation


def _results(
    settings: EvaluationSettings,
    loaded: Sequence[Task],
    shown: Mapping[str, Sequence[str]],
    trainings: Mapping[str, Training | None],
    requested_of: Callable[[str], Request],
) -> list[Result]:
    """The results of all encoders, task by task."""
    folder = ResultsFolder(settings.results) if settings.results is not None else None
    keep_runs = settings.keep_runs or (settings.save_run, settings.explain) != (None, None)
    results: dict[str, list[Result]] = {task.spec: [] for task in loaded}
    for spec in settings.encoders:  # one is loaded at a time
        request = requested_of(spec)
        for task in loaded:
            metrics = _metrics(settings, task, shown[task.spec])
            searcher = request.searcher and tuned(request.searcher, spec, task, shown[task.spec])
            own = replace(request, metrics=metrics, searcher=searcher)
            if folder is None:
                results[task.spec] += task.evaluate(own)
            else:
                results[task.spec] += folder.evaluate(task, own, trainings.get(request.name), keep_runs)
    if folder is not None:
        folder.report()
    return list(chain.from_iterable(results.values()))


def _metrics(settings: EvaluationSettings, task: Task, shown: Sequence[str]) -> list[str]:
    """The metrics to compute on a task."""
    usual = shown if settings.metrics else task.default_metrics
    further = [name for name in requested(settings) if name not in settings.metrics]
    if settings.correlations:
        further += CORRELATED
    return list(dict.fromkeys([*usual, *(name for name in further if measures(task, name))]))


def _parsed(settings: EvaluationSettings) -> list[str]:
    """Those of the encoders that embed. Raises :class:`UsageError` for wrong names, all of them in one message."""
    requests = [(retrieval.registry_of(spec), spec) for spec in settings.encoders]
    requests += [(training_data, spec) for spec in settings.trained_on]
    requests += [*((tasks, spec) for spec in settings.on), *((similarities.registry, spec) for spec in settings.sim)]
    parse_all(requests)
    return [spec for spec in settings.encoders if retrieval.registry_of(spec) is encoders.registry]


def _describe(task: Task) -> None:
    """Say what the task contains, and what is wrong with its data."""
    notice(task.describe())
    data = task.judged()
    if data is not None and not is_gathering() and (faults := quick_line(data)) is not None:
        notice(faults)


def _baseline_system(settings: EvaluationSettings, searchers: Mapping[str, Searcher]) -> str | None:
    """The name of the system that the others are compared with, if it was given as one of ``encoders``."""
    name = settings.baseline_system
    for spec in settings.encoders:
        if name in _spellings(spec):
            searcher = searchers.get(spec)
            return f"{searcher.spec} {searcher.similarity}" if searcher is not None else _spellings(spec)[1]
    return name


def _columns(settings: EvaluationSettings, trainings: Iterable[Training | None]) -> list[str]:
    """The similarities that every encoder is scored under; none: its own."""
    columns = list(settings.sim)
    if settings.cross and not columns:
        columns = list(dict.fromkeys(one.similarity for one in trainings if one and one.similarity))
        if not columns:
            raise UsageError("`cross=`: no encoder here is a run of finetune; name the similarities with `sim=`")
    return columns


def _check(
    settings: EvaluationSettings, loaded: Sequence[Task], embedding: Sequence[str], columns: Sequence[str]
) -> None:
    """Raise :class:`UsageError`, before a model is loaded, for what does not fit the tasks or the encoders."""
    for name in requested(settings):
        check_measured(loaded, name)
    if settings.correlations:
        count = len(settings.encoders) + len(embedding) * (max(1, len(columns)) - 1)
        check_correlated({task.spec: task.main_metric for task in loaded}, count)
    if settings.baseline_system is not None:
        check_baseline(settings.baseline_system, settings.encoders)
    if settings.explain is not None and all(task.judged() is None for task in loaded):
        raise UsageError("`explain=` is about retrieval, and no task here is (beir:…, bright:…)")
    searching = [spec for spec in settings.encoders if spec not in embedding]
    for task in loaded:
        if searching and not task.searches:
            raise UsageError(needs_embeddings(task, searching))
    given = {"index": settings.index, "quantize": quantization_name(settings.quantize)}
    check_searched(loaded, **given)
    for name, value in given.items():
        if value is not None and not embedding:
            raise UsageError(f"`{name}=` {value}: no encoder is evaluated, and nothing else has embeddings to search")
    for task in loaded:
        for spec in filter(retrieval.leaves_open, settings.encoders):
            check_tunable(task, spec, task.main_metric)


def _request(spec: str, settings: EvaluationSettings, columns: Sequence[str]) -> Request:
    """An encoder under the similarities of all ``columns``, or its own. One that another encoder has learned is no
    column of a cross-evaluation."""
    encoder: Encoder = encoders.registry.create(spec, device=settings.device)
    chosen = [encoder.similarity_of(name) for name in columns]
    if settings.cross and not settings.sim:
        chosen = [s for s in chosen if s is encoder.similarity or not any(True for _ in s.parameters())]
    return Request(
        encoder,
        chosen or [encoder.similarity],
        precision=settings.precision,
        dims=settings.dims,
        index=settings.index,
        quantize=quantization_name(settings.quantize),
    )


def check_baseline(name: str, specs: Sequence[str]) -> None:
    """Raise :class:`UsageError`, before a model is loaded, unless ``name`` is one of the ``specs`` of what is
    evaluated, or begins with one as the names of systems do."""
    if not any(name == head or name.startswith(f"{head} ") for spec in specs for head in _spellings(spec)):
        raise UsageError(f"`baseline_system=` {name} is none of {', '.join(specs)}")


def _spellings(spec: str) -> tuple[str, str]:
    """The spec of a system as it was given, and as results spell it."""
    return spec, str(retrieval.registry_of(spec).parse(spec))


def check_searchers(searchers: Sequence[Searcher], judged: Iterable[RetrievalData]) -> None:
    """Raise :class:`DataError` for a searcher that cannot rank these data, before any of them works."""
    from retrokit.ranking.retrieval.base import TextList

    for data in judged:
        documents, queries = TextList(data.documents, data.document_ids), TextList(data.queries, data.query_ids)
        for searcher in searchers:
            searcher.check(documents, queries)


def shown_metrics(task: Task, metrics: Sequence[str], usual: Sequence[str]) -> list[str]:
    """The columns of a task: those of ``metrics`` that it measures, else its ``usual`` ones."""
    return [metric for metric in metrics if measures(task, metric)] or list(usual)


def _stored(settings: EvaluationSettings) -> Evaluation:
    """What a results folder has, without computing anything; only of ``on`` and ``sim`` if those are given."""
    assert settings.results is not None
    records = _stored_records(ResultsFolder(settings.results), settings)
    task_order = list(dict.fromkeys(record.result.task for record in records))
    results = sorted((record.result for record in records), key=lambda result: task_order.index(result.task))
    shown = _stored_columns(settings, records)
    trainings = {record.result.name: record.training for record in records}
    options = (settings.cross, settings.correlations, settings.baseline_system, settings.gate_metric)
    evaluation = evaluation_of(results, shown, trainings, *options)
    digests = {record.result.task: partial(record.key.get, "data") for record in records}
    if settings.correlations:
        main_metrics = {task: evaluation.main_metric(task) for task in evaluation.tasks}
        check_correlated(main_metrics, max(len(evaluation.systems_on(task)) for task in evaluation.tasks))
    return replace(evaluation, digests=digests, keys=[record.key for record in records])


def _stored_records(folder: ResultsFolder, settings: EvaluationSettings) -> list[Record]:
    """Those of the folder; only of ``on`` and ``sim`` if those are given. Raises :class:`UsageError` if there
    is none."""
    requests: list[tuple[Registry, str]] = [(tasks, spec) for spec in settings.on]
    requests += [(similarities.registry, spec) for spec in settings.sim]
    names = list(map(str, parse_all(requests)))
    on_tasks, scored_with = names[: len(settings.on)], names[len(settings.on) :]
    records = folder.read()
    if on_tasks:
        records = [record for record in records if record.result.task in on_tasks]
    if scored_with:
        records = [record for record in records if record.result.similarity in scored_with]
    if not records:
        raise UsageError(f"{settings.results} contains no result of {', '.join(names)}")
    return records


def _stored_columns(settings: EvaluationSettings, records: Sequence[Record]) -> dict[str, list[str]]:
    """The metrics to show, by task: those of ``metrics`` that a stored result has, else the usual ones. Raises
    :class:`UsageError` for a requested metric that no result has."""
    usual = {record.result.task: record.shown for record in records}
    stored: dict[str, list[str]] = {task: [] for task in usual}
    for record in records:
        stored[record.result.task] += record.result.metrics
    all_names = set(chain.from_iterable(stored.values()))
    if unknown := [name for name in requested(settings) if name not in all_names]:
        raise UsageError(f"{settings.results} contains no {', '.join(unknown)}; evaluate the encoders for it")
    shown = {}
    for task, names in stored.items():
        shown[task] = _among(names, settings.metrics) or _among(names, usual[task]) or names[:1]
    return shown


def _among(names: Sequence[str], metrics: Sequence[str]) -> list[str]:
    return [metric for metric in metrics if metric in names]
