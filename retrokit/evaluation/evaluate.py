"""Every encoder under every similarity on every task; and what a results folder holds of that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from retrokit import encoders as encoder_names
from retrokit import similarities
from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.core.registry import parse_all
from retrokit.core.settings import taking
from retrokit.data.dtypes import quantization_name
from retrokit.data.faults import strictly
from retrokit.data.pairs import registry as training_data
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.comparison.baseline import Baseline, read_baseline
from retrokit.evaluation.comparison.comparison import Evaluation, evaluation_of
from retrokit.evaluation.comparison.correlations import METRICS as CORRELATED
from retrokit.evaluation.comparison.correlations import check_correlated
from retrokit.evaluation.comparison.explain import explanations
from retrokit.evaluation.comparison.results_folder import ResultsFolder
from retrokit.evaluation.comparison.trained import Training, training_of
from retrokit.evaluation.settings import EvaluationSettings
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
    from retrokit.similarities.base import Similarity


@taking(EvaluationSettings)
def evaluate(settings: EvaluationSettings) -> Evaluation:
    """Evaluate every encoder under every similarity on every task; without encoders, show what ``results`` holds.

    Searchers (BM25, a run, two stages) may stand among the encoders; they have scores of their own.
    Without ``sim`` each encoder scores with its own; with ``cross`` under the training similarities of
    all runs among the encoders. Each task computes those of ``metrics`` that it measures; its usual ones without
    ``metrics``, and the ones it shows where it measures none of them. ``also`` names more to compute, which are not
    compared. Results are kept in ``results`` and taken from there while nothing that matters has changed;
    ``keep_runs`` asks for rankings too, which are not kept there, so that everything is computed. With ``index``, a
    faiss index (:mod:`ranking.retrieval.approximate`), documents are searched by that and not exactly, and results
    tell its recall. With ``quantize``, documents are searched as a store keeps them, in fewer bits
    (:mod:`retrokit.ranking.retrieval.stored`). With ``correlations``, SURE's metrics are correlated over the systems
    (:mod:`retrokit.evaluation.comparison.correlations`). With ``baseline``, a file of
    :func:`~retrokit.evaluation.comparison.baseline.save_baseline`, every system is compared with its counterpart there.

    Raises:
        UsageError: wrong names (all of them in one message), metrics that no task measures, dims, ``cross`` without
            anything to cross, a searcher on a task that needs embeddings, an ``index`` or ``quantize``
            where nothing is searched or which does not fit, a baseline of other data, or nothing to show.
        DataError: a task's files, the baseline, or a folder of results that is none.
    """
    baseline = read_baseline(settings.baseline) if settings.baseline is not None else None
    with strictly(settings.strict):
        evaluation = _computed(settings, baseline) if settings.encoders else _stored_results(settings)
    return evaluation if baseline is None else baseline.compared(evaluation)


def _computed(settings: EvaluationSettings, baseline: Baseline | None) -> Evaluation:
    encoders, device = settings.encoders, settings.device
    index, quantize = settings.one("index"), quantization_name(settings.one("quantize"))
    embedding = _parsed(settings)
    trainings = {str(encoder_names.registry.parse(spec)): training_of(spec) for spec in embedding}
    columns = list(settings.sim) or (_trained_similarities(trainings) if settings.cross else [])
    loaded: list[Task] = [tasks.create_on(spec, device) for spec in settings.on]
    also = _also_computed(settings, loaded, len(encoders) + len(embedding) * (max(1, len(columns)) - 1))
    if settings.baseline_system is not None:
        check_baseline(settings.baseline_system, encoders)
    judged = {task.spec: data for task in loaded if (data := task.judged()) is not None}
    if settings.explain is not None and not judged:
        raise UsageError("`explain=` is about retrieval, and no task here is (beir:…, bright:…)")
    searching = [spec for spec in encoders if spec not in embedding]
    _check_searches(loaded, searching, index, quantize, embedding)
    digests = {task.spec: cache(task.digest) for task in loaded}
    for task in loaded:
        for spec in filter(retrieval.leaves_open, encoders):  # before a model is loaded
            check_tunable(task, spec, task.main_metric)
        if baseline is not None:
            baseline.check(task.spec, digests[task.spec]())
        notice(task.describe())
    from retrokit.evaluation.comparison.overlapping import overlaps_with_training  # what was kept is shown without it

    overlapping = overlaps_with_training(loaded, settings.trained_on, embedding, settings.overlap_examples)
    ranking = {spec: retrieval.create(spec, device) for spec in searching}
    check_searchers([*ranking.values()], judged.values())
    shown = {task.spec: _shown(task, settings.metrics) for task in loaded}

    def request(spec: str) -> Request:
        if spec in ranking:
            return Request(searcher=ranking[spec])
        return replace(_request(spec, settings, columns), index=index, quantize=quantize)

    computed = _results(settings, loaded, request, also, trainings)
    first = settings.baseline_system
    for spec, searcher in ranking.items():
        first = full_name(searcher) if first in _spellings(spec) else first
    for spec in embedding:
        first = _spellings(spec)[1] if first == spec else first
    evaluation = evaluation_of(
        computed, shown, trainings, settings.cross, settings.correlations, first, settings.gate_metric
    )
    evaluation = replace(evaluation, digests=digests, overlaps=overlapping)
    if settings.explain is None:
        return evaluation
    return replace(evaluation, explanations=explanations(evaluation.results, judged, shown, settings.explain))


def _results(
    settings: EvaluationSettings,
    loaded: Sequence[Task],
    request_of: Callable[[str], Request],
    also: Sequence[str],
    trainings: Mapping[str, Training | None],
) -> list[Result]:
    """What every encoder reaches on each task, computed or taken from the folder; by task. One is loaded at a time."""
    folder = ResultsFolder(settings.results) if settings.results is not None else None
    keep_runs = settings.keep_runs or settings.explain is not None
    computed: dict[str, list[Result]] = {task.spec: [] for task in loaded}
    for spec in settings.encoders:
        request = request_of(spec)
        for task in loaded:
            task_request = replace(request, metrics=_asked(task, settings.metrics, also))
            if task_request.searcher is not None:
                task_request = replace(
                    task_request, searcher=tuned(task_request.searcher, spec, task, _shown(task, settings.metrics))
                )
            if folder is None:
                computed[task.spec] += task.evaluate(task_request)
            else:
                computed[task.spec] += folder.evaluate(task, task_request, trainings.get(request.name), keep_runs)
    if folder is not None:
        folder.report()
    return [result for results in computed.values() for result in results]


def _parsed(settings: EvaluationSettings) -> list[str]:
    """Those of the encoders that embed. Raises :class:`UsageError` for wrong names, all of them in one message."""
    requests = [(retrieval.registry_of(spec), spec) for spec in settings.encoders]
    requests += [(training_data, spec) for spec in settings.trained_on]
    requests += [*((tasks, spec) for spec in settings.on), *((similarities.registry, spec) for spec in settings.sim)]
    parse_all(requests)
    embedding = [spec for spec in settings.encoders if retrieval.registry_of(spec) is encoder_names.registry]
    for spec in embedding:
        encoder_names.check_precision(spec, settings.precision)
    return embedding


def _also_computed(settings: EvaluationSettings, loaded: Sequence[Task], systems: int) -> list[str]:
    """The metrics that are computed beside those that are compared, if all that is asked for can be."""
    also = [*settings.also, *([settings.gate_metric] if settings.gate_metric is not None else [])]
    for name in dict.fromkeys([*settings.metrics, *also]):
        check_measured(loaded, name)
    if settings.correlations:
        check_correlated({task.spec: task.main_metric for task in loaded}, systems)
        also += CORRELATED
    return also


def _request(spec: str, settings: EvaluationSettings, columns: Sequence[str]) -> Request:
    """An encoder under the similarities of all ``columns``, or its own."""
    encoder: Encoder = encoder_names.registry.create(spec, device=settings.device)
    chosen = [encoder.similarity_of(name) for name in columns]
    if settings.cross and not settings.sim:
        chosen = [similarity for similarity in chosen if similarity is encoder.similarity or not _learns(similarity)]
    return Request(encoder, chosen or [encoder.similarity], precision=settings.precision, dims=settings.one("dims"))


def check_baseline(name: str, specs: Sequence[str]) -> None:
    """Raise :class:`UsageError`, before a model is loaded, unless ``name`` is one of the ``specs`` of what is
    evaluated, or begins with one as the names of systems do."""
    for spec in specs:
        if any(name == head or name.startswith(f"{head} ") for head in _spellings(spec)):
            return
    raise UsageError(f"`baseline_system=` {name} is none of {', '.join(specs)}")


def _spellings(spec: str) -> tuple[str, str]:
    """The spec of a system as it was given, and as results spell it."""
    return spec, str(retrieval.registry_of(spec).parse(spec))


def check_searchers(searchers: Sequence[Searcher], judged: Iterable[RetrievalData]) -> None:
    """Raise :class:`DataError` for a searcher that cannot rank what it is to rank, before any of them works."""
    from retrokit.ranking.retrieval.base import TextList

    for data in judged:
        documents, queries = TextList(data.documents, data.document_ids), TextList(data.queries, data.query_ids)
        for searcher in searchers:
            searcher.check(documents, queries)


def full_name(searcher: Searcher) -> str:
    """The name of its results."""
    return f"{searcher.spec} {searcher.similarity}"


def _shown(task: Task, metrics: Sequence[str]) -> list[str]:
    """The columns of a task: those of ``metrics`` that it measures, else its usual ones."""
    return [metric for metric in metrics if measures(task, metric)] or list(task.shown_metrics)


def _asked(task: Task, metrics: Sequence[str], also: Sequence[str]) -> list[str]:
    """What a task computes: its columns where ``metrics`` are given, else all that it has by default; and ``also``."""
    usual = _shown(task, metrics) if metrics else task.default_metrics
    return list(dict.fromkeys([*usual, *(metric for metric in also if measures(task, metric))]))


def _check_searches(
    loaded: Sequence[Task],
    searchers: Sequence[str],
    index: str | None,
    quantize: str | None,
    embedding: Sequence[str],
) -> None:
    """Raise :class:`UsageError`, before a model is loaded, for searchers without embeddings where a task needs those,
    or for an index or stored numbers where nothing searches embeddings."""
    for task in loaded:
        if searchers and not task.searches:
            raise UsageError(needs_embeddings(task, searchers))
    check_searched(loaded, index, quantize)
    for name, given in (("index", index), ("quantize", quantize)):
        if given is not None and not embedding:
            raise UsageError(f"`{name}=` {given}: no encoder is evaluated, and nothing else has embeddings to search")


def _stored_results(settings: EvaluationSettings) -> Evaluation:
    """What a results folder holds, without computing anything; of ``on`` and ``sim`` alone where those are given."""
    on, sim, metrics, results = settings.on, settings.sim, settings.metrics, settings.results
    if results is None:
        raise UsageError("give `encoders` to evaluate, or `results=`, a folder of what was evaluated before")
    parse_all([(tasks, spec) for spec in on] + [(similarities.registry, spec) for spec in sim])
    wanted = [str(tasks.parse(spec)) for spec in on]
    scored = [str(similarities.registry.parse(spec)) for spec in sim]
    records = [
        record
        for record in ResultsFolder(results).read()
        if (not wanted or record.result.task in wanted) and (not scored or record.result.similarity in scored)
    ]
    if not records:
        raise UsageError(f"{results} holds no result of {', '.join([*wanted, *scored])}")
    shown = {record.result.task: record.shown for record in records}
    computed = [record.result for record in records]
    computed.sort(key=lambda result: list(shown).index(result.task))
    names = [*metrics, *settings.also, *([] if settings.gate_metric is None else [settings.gate_metric])]
    unknown = [name for name in names if not any(name in result.metrics for result in computed)]
    if unknown:
        raise UsageError(f"{results} holds no {', '.join(unknown)}; evaluate the encoders for it")
    for task in shown:
        there = [name for result in computed if result.task == task for name in result.metrics]
        shown[task] = [m for m in metrics if m in there] or [m for m in shown[task] if m in there] or there[:1]
    trainings = {record.result.name: record.training for record in records}
    evaluation = evaluation_of(
        computed,
        shown,
        trainings,
        settings.cross,
        settings.correlations,
        settings.baseline_system,
        settings.gate_metric,
    )
    digests = {record.result.task: partial(record.key.get, "data") for record in records}
    evaluation = replace(evaluation, digests=digests, keys=[record.key for record in records])
    if settings.correlations:
        main_metrics = {task: evaluation.main_metric(task) for task in evaluation.tasks}
        check_correlated(main_metrics, max(len(evaluation.systems_on(task)) for task in evaluation.tasks))
    return evaluation


def _trained_similarities(trainings: Mapping[str, Training | None]) -> list[str]:
    trained = [training.similarity for training in trainings.values() if training and training.similarity]
    if not trained:
        raise UsageError("`cross=`: no encoder here is a run of finetune; name the similarities with `sim=`")
    return list(dict.fromkeys(trained))


def _learns(similarity: Similarity) -> bool:
    """Whether the similarity has parameters of its own: of another run, they are not what that one has learned."""
    return any(True for _ in similarity.parameters())
