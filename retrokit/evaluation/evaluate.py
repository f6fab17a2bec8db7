"""Every encoder under every similarity on every task; and what a results folder has of that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from retrokit import encoders, similarities
from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.core.registry import parse_all
from retrokit.core.settings import taking
from retrokit.data.check import quick_line
from retrokit.data.dtypes import quantization_name
from retrokit.data.jsonl import is_gathering, strictly
from retrokit.data.pairs import registry as training_data
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.comparison.comparison import Evaluation, evaluation_of, explanations
from retrokit.evaluation.comparison.correlations import METRICS as CORRELATED
from retrokit.evaluation.comparison.correlations import check_correlated
from retrokit.evaluation.comparison.gates import read_baseline
from retrokit.evaluation.comparison.results_folder import ResultsFolder
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
    among the encoders. Each task computes those of ``metrics`` that it measures, else its usual ones; ``also`` names
    more, which are not compared. With ``baseline``, a file of
    :func:`~retrokit.evaluation.comparison.gates.save_baseline`, every system is compared with its counterpart there.

    Raises:
        UsageError: wrong names (all of them in one message), metrics that no task measures, dims, ``cross`` without
            anything to cross, a searcher on a task that needs embeddings, an ``index`` or ``quantize`` that does not
            fit or where nothing is searched, a baseline of other data, or nothing to show.
        DataError: a task's files, the baseline, or a folder of results that is none.
    """
    baseline = read_baseline(settings.baseline) if settings.baseline is not None else None
    with strictly(settings.strict), encoders.showing_inputs(settings.show_inputs):
        if not settings.encoders:
            evaluation = _stored(settings)
            return evaluation if baseline is None else baseline.compared(evaluation)
        embedding = _parsed(settings)
        trainings = {str(encoders.registry.parse(spec)): training_of(spec) for spec in embedding}
        columns = _columns(settings, trainings.values())
        loaded: list[Task] = [tasks.create_on(spec, settings.device) for spec in settings.on]
        also = [name for name in requested(settings) if name not in settings.metrics]
        also += CORRELATED if settings.correlations else ()
        _check(settings, loaded, embedding, columns)
        digests = {task.spec: cache(task.digest) for task in loaded}
        for task in loaded:
            if baseline is not None:
                baseline.measured_on(task.spec, digests[task.spec]())
            _describe(task)
        overlaps = overlaps_with_training(loaded, settings.trained_on, embedding, settings.overlap_examples)
        searchers = {
            spec: retrieval.create(spec, settings.device) for spec in settings.encoders if spec not in embedding
        }
        judged = {task.spec: data for task in loaded if (data := task.judged()) is not None}
        check_searchers([*searchers.values()], judged.values())

        def requested_of(spec: str) -> Request:
            return Request(searcher=searchers[spec]) if spec in searchers else _request(spec, settings, columns)

        if settings.abstain is not None:
            check_calibrations(settings, loaded, map(requested_of, settings.encoders))
        shown = {task.spec: shown_metrics(task, settings.metrics, task.shown_metrics) for task in loaded}
        folder = ResultsFolder(settings.results) if settings.results is not None else None
        results: dict[str, list[Result]] = {task.spec: [] for task in loaded}
        for spec in settings.encoders:  # one is loaded at a time
            request = requested_of(spec)
            for task in loaded:
                usual = shown[task.spec] if settings.metrics else task.default_metrics
                metrics = list(dict.fromkeys([*usual, *(metric for metric in also if measures(task, metric))]))
                searcher = request.searcher and tuned(request.searcher, spec, task, shown[task.spec])
                own = replace(request, metrics=metrics, searcher=searcher)
                own = replace(own, abstain=settings.abstain, calibrations=settings.calibration)
                if folder is None:
                    results[task.spec] += task.evaluate(own)
                else:
                    keep_runs = settings.keep_runs or settings.explain is not None or settings.abstain is not None
                    results[task.spec] += folder.evaluate(task, own, trainings.get(request.name), keep_runs)
        if folder is not None:
            folder.report()

        first = _baseline_system(settings, searchers)
        evaluation = evaluation_of(
            [result for of_task in results.values() for result in of_task],
            *(shown, trainings, settings.cross, settings.correlations, first, settings.gate_metric),
        )
        evaluation = replace(evaluation, digests=digests, overlaps=overlaps)
        if settings.explain is not None:
            explained = explanations(evaluation.results, judged, shown, settings.explain)
            evaluation = replace(evaluation, explanations=explained)
    return evaluation if baseline is None else baseline.compared(evaluation)


evaluate = taking(EvaluationSettings)(evaluate_systems)


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
    if settings.abstain is not None and (task := next((task for task in loaded if task.judged() is None), None)):
        raise UsageError(f"{task.spec}: `abstain=` is for retrieval with judged documents (beir:…, bright:…)")
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


def check_calibrations(settings: EvaluationSettings, loaded: Sequence[Task], requests: Iterable[Request]) -> None:
    """Raise :class:`UsageError` for a system that no calibration fits, before any of them works. A system whose
    weight is tuned is checked after its tuning."""
    from retrokit.ranking.abstention import Abstainer
    from retrokit.ranking.retrieval.base import TextList

    assert settings.abstain is not None
    judged = [(task, data) for task in loaded if (data := task.judged()) is not None]
    for request in requests:  # one is loaded at a time
        for task, data in judged if not retrieval.leaves_open(request.name) else ():
            for searcher in request.searchers(task):
                documents = TextList(data.documents, data.document_ids)
                abstainer = Abstainer(settings.calibration, settings.abstain, searcher, documents)
                abstainer.abstention.unseen(data.queries, task.spec)


def shown_metrics(task: Task, metrics: Sequence[str], usual: Sequence[str]) -> list[str]:
    """The columns of a task: those of ``metrics`` that it measures, else its ``usual`` ones."""
    return [metric for metric in metrics if measures(task, metric)] or list(usual)


def _stored(settings: EvaluationSettings) -> Evaluation:
    """What a results folder has, without computing anything; only of ``on`` and ``sim`` if those are given."""
    if settings.results is None:
        raise UsageError("give `encoders` to evaluate, or `results=`, a folder of earlier results")
    sim = similarities.registry
    parse_all([*((tasks, spec) for spec in settings.on), *((sim, spec) for spec in settings.sim)])
    wanted, scored = [str(tasks.parse(spec)) for spec in settings.on], [str(sim.parse(spec)) for spec in settings.sim]
    records = [
        record
        for record in ResultsFolder(settings.results).read()
        if (not wanted or record.result.task in wanted) and (not scored or record.result.similarity in scored)
    ]
    if not records:
        raise UsageError(f"{settings.results} contains no result of {', '.join([*wanted, *scored])}")
    shown = {record.result.task: record.shown for record in records}
    results = sorted((record.result for record in records), key=lambda result: list(shown).index(result.task))
    if unknown := [name for name in requested(settings) if not any(name in result.metrics for result in results)]:
        raise UsageError(f"{settings.results} contains no {', '.join(unknown)}; evaluate the encoders for it")
    for task, usual in shown.items():
        there = [name for result in results if result.task == task for name in result.metrics]
        shown[task] = [m for m in settings.metrics if m in there] or [m for m in usual if m in there] or there[:1]
    trainings = {record.result.name: record.training for record in records}
    options = (settings.cross, settings.correlations, settings.baseline_system, settings.gate_metric)
    evaluation = evaluation_of(results, shown, trainings, *options)
    digests = {record.result.task: partial(record.key.get, "data") for record in records}
    if settings.correlations:
        main_metrics = {task: evaluation.main_metric(task) for task in evaluation.tasks}
        check_correlated(main_metrics, max(len(evaluation.systems_on(task)) for task in evaluation.tasks))
    return replace(evaluation, digests=digests, keys=[record.key for record in records])
