"""Every encoder under every similarity on every task; and what a results folder has of that."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from retrokit import encoders, similarities
from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.core.outputs import check_folder, check_settings
from retrokit.core.registry import Registry, parse_all
from retrokit.core.settings import taking
from retrokit.data.dtypes import quantization_name
from retrokit.data.jsonl import is_gathering, strictly
from retrokit.evaluation import RANKING
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.comparison.comparison import Evaluation, evaluation_of, explanations
from retrokit.evaluation.comparison.gates import Baseline, gates_of, read_baseline, write_gates
from retrokit.evaluation.comparison.results_folder import Record, ResultsFolder
from retrokit.evaluation.comparison.trained import Training, training_of_stages
from retrokit.evaluation.settings import EvaluationSettings, requested
from retrokit.evaluation.task import (
    Task,
    check_measured,
    check_searched,
    check_tunable,
    measures,
    needs_embeddings,
)
from retrokit.metrics.names import METRICS, leading_metric
from retrokit.ranking import retrieval
from retrokit.ranking.retrieval import Stages

if TYPE_CHECKING:  # what was evaluated before is compared and shown without loading a model
    from retrokit.data.beir import RetrievalData
    from retrokit.data.overlap import Overlap
    from retrokit.evaluation.measuring import Bench, Measured
    from retrokit.ranking.reranking.base import Reranker
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
    if settings.junit is not None and os.path.isfile(settings.junit):
        os.remove(settings.junit)  # if the run fails, nobody reads the gates of an earlier one
    baseline = read_baseline(settings.baseline) if settings.baseline is not None else None
    with strictly(settings.strict), encoders.showing_inputs(settings.show_inputs):
        evaluation = _measured(settings, baseline) if settings.encoders else _stored(settings)
    if baseline is not None:
        evaluation = baseline.compared(evaluation)
    evaluation = replace(evaluation, gates=gates_of(evaluation, settings))
    if settings.save_run is not None:
        from retrokit.evaluation.tasks.retrieval import save_runs

        saved = evaluation.results
        if settings.saves_reranked:
            saved = [result for result in saved if "reranker" in result.configuration]
        save_runs(saved, settings.save_run)
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
    """Every system under every similarity on every task."""
    systems = _parsed(settings)
    trainings = [training_of_stages(system.first, system.reranker) for system in systems]
    columns = _columns(settings, trainings)
    loaded: list[Task] = [tasks.create_on(spec, settings.device) for spec in settings.on]
    _check(settings, loaded, systems, columns)
    digests = {task.spec: cache(task.digest) for task in loaded}
    for task in loaded:
        if baseline is not None:
            metric = _gated_metric(settings, task)
            baseline.check_metric(metric, baseline.measured_on(task.spec, digests[task.spec]()))
            _check_max_drop(settings, metric)
        _describe(task)
    overlaps = _overlaps(settings, loaded, systems)
    with _kept_scores(systems):
        bench = _loaded(settings, loaded, systems, columns)
        measured = bench.measure(systems)
    evaluation = evaluation_of(
        [result for task in loaded for system in _in_order(task, systems) for result in measured[task.spec, system]],
        bench.shown,
        bench.trainings,
        is_cross=settings.cross,
        correlate=settings.correlations,
        baseline_system=_baseline_system(settings, measured),
        gate_metric=settings.gate_metric,
    )
    evaluation = replace(evaluation, digests=digests, overlaps=overlaps)
    if settings.explain is not None:
        explained = explanations(evaluation.results, _judged(loaded), bench.shown, settings.explain)
        evaluation = replace(evaluation, explanations=explained)
    return evaluation


def _gated_metric(settings: EvaluationSettings, task: Task) -> str:
    """What gates will look at on the task."""
    if settings.gate_metric is not None and measures(task, settings.gate_metric):
        return settings.gate_metric
    return leading_metric(task.main_metric, shown_metrics(task, settings.metrics, task.shown_metrics))


def _check_max_drop(settings: EvaluationSettings, metric: str) -> None:
    """Raise :class:`UsageError` for a drop that a metric between 0 and 1 cannot have."""
    is_ranking = metric.partition("@")[0] in METRICS
    if settings.max_drop is not None and settings.max_drop > 1 and is_ranking:
        raise UsageError(f"`max_drop=` {settings.max_drop:g}: {metric} is between 0 and 1; 0.02 is 2 points")


def _judged(loaded: Iterable[Task]) -> dict[str, RetrievalData]:
    """The data of each task that ranks documents, by its spec."""
    judged = {}
    for task in loaded:
        data = task.judged()
        if data is not None:
            judged[task.spec] = data
    return judged


def _in_order(task: Task, systems: Sequence[Stages]) -> Sequence[Stages]:
    """The systems as they are given; without a search, encoders go before rerankers."""
    if task.searches:
        return systems
    return sorted(systems, key=lambda system: system.reranker is not None)


def _parsed(settings: EvaluationSettings) -> list[Stages]:
    """The systems. Raises :class:`UsageError` for wrong names, all of them in one message."""
    requests: list[tuple[Registry, str]] = []
    for spec in settings.encoders:
        requests += _names(spec)
    requests += [(tasks, spec) for spec in settings.on]
    requests += [(similarities.registry, spec) for spec in settings.sim]
    if settings.trained_on:
        from retrokit.data.pairs import registry as training_data

        requests += [(training_data, spec) for spec in settings.trained_on]
    parse_all(list(dict.fromkeys(requests)))
    systems = [retrieval.stages_of(spec) for spec in settings.encoders]
    _check_labels(systems)
    return systems


def _check_labels(systems: Sequence[Stages]) -> None:
    """Raise :class:`UsageError` for two systems of one name, which may be another one's spec."""
    specs_by_name: dict[str, str] = {}
    for system in systems:
        parsed = retrieval.registry_of(system.spec).parse(system.spec)
        named = system.spec if parsed.label or system.first is None else system.first
        name = system.label or str(parsed)
        if specs_by_name.setdefault(name, named) != named:
            raise UsageError(f"{named} and {specs_by_name[name]}: two systems have the name {name}")


def _names(spec: str) -> list[tuple[Registry, str]]:
    """The names to parse in a system's spec: its own and, where that can be read, those of its stages."""
    names = [(retrieval.registry_of(spec), spec)]
    with suppress(UsageError):  # parsing the spec reports it
        system = retrieval.stages_of(spec)
        if system.first is not None:
            names.append((retrieval.registry_of(system.first), system.first))
        if system.reranker is not None:
            from retrokit.ranking import reranking

            names.append((reranking.registry_of(system.reranker), system.reranker))
    return names


def _columns(settings: EvaluationSettings, trainings: Iterable[Training | None]) -> list[str]:
    """The similarities that every encoder is scored under; none: its own."""
    columns = list(settings.sim)
    if settings.cross and not columns:
        columns = list(dict.fromkeys(training.similarity for training in trainings if training and training.similarity))
        if not columns:
            raise UsageError("`cross=`: no encoder here is a run of finetune; name the similarities with `sim=`")
    return columns


def _check(
    settings: EvaluationSettings, loaded: Sequence[Task], systems: Sequence[Stages], columns: Sequence[str]
) -> None:
    """Raise :class:`UsageError` or :class:`DataError`, before a model is loaded, for what does not fit the tasks or the
    systems."""
    for task in loaded:
        _check_fits(task, systems)
    for name in requested(settings):
        check_measured(loaded, name)
    _check_compared(settings, loaded, systems, columns)
    if settings.baseline_system is not None:
        check_baseline(settings.baseline_system, settings.encoders)
    if not any(system.embeds for system in systems):
        _check_nothing_of_encoders(settings)
    check_searched(loaded, settings.index, quantization_name(settings.quantize))
    if settings.save_run is not None:
        from retrokit.evaluation.tasks.retrieval import check_run_ids

        check_run_ids(loaded, settings.save_run)
    for system in systems:
        _check_system(system, loaded)


def _check_compared(
    settings: EvaluationSettings, loaded: Sequence[Task], systems: Sequence[Stages], columns: Sequence[str]
) -> None:
    """Raise :class:`UsageError` if there will be no correlations, nothing to explain, or no reranker that could be
    idle."""
    count = sum(max(1, len(columns)) if system.embeds else 1 for system in systems)
    if settings.correlations:
        from retrokit.evaluation.comparison.correlations import check_correlated

        check_correlated({task.spec: task.main_metric for task in loaded}, count)
    if settings.explain is not None:
        _check_explained(loaded, count)
    if settings.fail_if_idle and not any(system.reranker is not None for system in systems):
        raise UsageError("`fail_if_idle=` is about rerankers, and no system here has one")


def _check_explained(loaded: Sequence[Task], systems: int) -> None:
    """Raise :class:`UsageError` if no difference of the systems in retrieval could be explained."""
    if not _judged(loaded):
        raise UsageError(f"`explain=` is about retrieval, and no task here is ({', '.join(RANKING)})")
    if systems == 1:
        raise UsageError("`explain=` compares systems with the first, and only one is given")


def _check_system(system: Stages, loaded: Sequence[Task]) -> None:
    """Raise :class:`UsageError` for a fusion without a search, or parameters that cannot be tuned, and
    :class:`DataError` if scores cannot be cached."""
    is_fused = system.blend is not None or system.fusion is not None
    if is_fused and not any(task.searches for task in loaded):
        raise UsageError("blend and fusion are for rankings, and no task here has any")
    if is_fused:
        from retrokit.ranking.retrieval.two_stage import fusion_of

        fusion_of(system)  # raises for both
    if system.work is not None:
        check_folder(system.work)
    if retrieval.leaves_open(system.spec):
        for task in loaded:
            if task.searches:
                check_tunable(task, system.spec, task.main_metric)


def _check_fits(task: Task, systems: Sequence[Stages]) -> None:
    """Raise :class:`UsageError` for a task that does not take some system. A gate takes rerankers, and leaves other
    searchers out."""
    if task.searches:
        if any(system.first is None for system in systems):
            raise UsageError(f"{task.spec} needs a first stage: an encoder, bm25, or a TREC run (run:FILE)")
        return
    rerankers = [system.spec for system in systems if system.reranker is not None]
    searchers = [system.spec for system in systems if system.reranker is None and not system.embeds]
    if task.takes_rerankers:
        refused = searchers if len(searchers) == len(systems) else []
    else:
        refused = [*searchers, *rerankers]
    if refused:
        raise UsageError(needs_embeddings(task, refused))


def _check_nothing_of_encoders(settings: EvaluationSettings) -> None:
    """Raise :class:`UsageError` for a setting of encoders, if there are none."""
    of_encoders = {
        "sim": ", ".join(settings.sim) or None,
        "dims": settings.dims,
        "precision": settings.precision if settings.precision != "auto" else None,
        "index": settings.index,
        "quantize": quantization_name(settings.quantize),
    }
    for name, value in of_encoders.items():
        if value is not None:
            raise UsageError(f"`{name}=` {value}: no encoder is evaluated, and nothing else has embeddings to search")


def _describe(task: Task) -> None:
    """Say what the task contains, and what is wrong with its data."""
    notice(task.describe())
    data = task.judged()
    if data is None or is_gathering():
        return
    from retrokit.data.check import quick_line

    if (faults := quick_line(data)) is not None:
        notice(faults)


def _overlaps(settings: EvaluationSettings, loaded: Sequence[Task], systems: Sequence[Stages]) -> list[Overlap]:
    """Texts of the tasks in the training data of the encoders."""
    from retrokit.evaluation.comparison.leaks import overlaps_with_training

    embedding = dict.fromkeys(system.first for system in systems if system.embeds and system.first is not None)
    return overlaps_with_training(loaded, settings.trained_on, list(embedding), settings.overlap_examples)


@contextmanager
def _kept_scores(systems: Sequence[Stages]) -> Iterator[None]:
    """Lock the folders of scores while the systems are measured."""
    from retrokit.ranking.reranking.kept import scores_in

    with ExitStack() as stack:
        folders = {os.path.realpath(system.work): system.work for system in systems if system.work is not None}
        for folder in folders.values():
            stack.enter_context(scores_in(Path(folder), "reranking", stay=True))
        yield


def _loaded(
    settings: EvaluationSettings, loaded: Sequence[Task], systems: Sequence[Stages], columns: Sequence[str]
) -> Bench:
    """What measures the systems, with searchers and rerankers loaded. Raises :class:`UsageError` or
    :class:`DataError` for those that do not fit the tasks."""
    from retrokit.ranking import reranking

    rerankers: dict[str, Reranker] = {}
    for system in systems:
        if system.reranker is not None and system.reranker not in rerankers:
            rerankers[system.reranker] = reranking.create(system.reranker, settings.device)
    _check_listwise(loaded, rerankers.values())
    searchers = _loaded_searchers(settings, systems) if any(task.searches for task in loaded) else {}
    check_searchers(list(searchers.values()), _judged(loaded).values())
    shown: dict[str, list[str]] = {}
    metrics: dict[str, list[str]] = {}
    for task in loaded:
        shown[task.spec] = shown_metrics(task, settings.metrics, task.shown_metrics)
        metrics[task.spec] = _metrics(settings, task, shown[task.spec], systems)
    from retrokit.evaluation.measuring import Bench

    return Bench(
        settings,
        loaded,
        metrics=metrics,
        shown=shown,
        columns=columns,
        searchers=searchers,
        rerankers=rerankers,
        folder=ResultsFolder(settings.results) if settings.results is not None else None,
    )


def _loaded_searchers(settings: EvaluationSettings, systems: Sequence[Stages]) -> dict[str, Searcher]:
    """The first stages that are no encoders, by spec."""
    searchers: dict[str, Searcher] = {}
    for system in systems:
        if system.first is not None and not system.embeds and system.first not in searchers:
            searchers[system.first] = retrieval.create(system.first, settings.device)
    return searchers


def _check_listwise(loaded: Sequence[Task], rerankers: Iterable[Reranker]) -> None:
    """Raise :class:`UsageError` if a reranker orders lists only, and a task has pairs."""
    pairs = [task.spec for task in loaded if not task.searches]
    for reranker in rerankers:
        if pairs and reranker.listwise:
            raise UsageError(f"{reranker.spec} is listwise and cannot score the pairs of {pairs[0]}")


def _metrics(settings: EvaluationSettings, task: Task, shown: Sequence[str], systems: Sequence[Stages]) -> list[str]:
    """The metrics to compute on a task; with rerankers, the share of relevant documents that each can bring up too."""
    usual = shown if settings.metrics and not task.takes_rerankers else task.default_metrics
    further = [name for name in requested(settings) if name not in settings.metrics]
    if settings.correlations:
        from retrokit.evaluation.comparison.correlations import METRICS

        further += METRICS
    further += [f"recall@{system.depth}" for system in systems if system.reranker is not None]
    return list(dict.fromkeys([*usual, *(name for name in further if measures(task, name))]))


def _baseline_system(settings: EvaluationSettings, measured: Measured) -> str | None:
    """The name of the system that the others are compared with, if it was given as one of ``encoders``."""
    name = settings.baseline_system
    for (_, system), results in measured.items():
        canonical = str(retrieval.registry_of(system.spec).parse(system.spec))
        if results and name in (system.spec, canonical, system.label):
            one_similarity = system.reranker is not None or not system.embeds
            return results[0].name if one_similarity else results[0].encoder
    return name


def check_baseline(name: str, specs: Sequence[str]) -> None:
    """Raise :class:`UsageError`, before a model is loaded, unless ``name`` is one of the ``specs`` of what is
    evaluated, or begins with one as the names of systems do."""
    spellings = [spelling for spec in specs for spelling in _spellings(spec)]
    if not any(name == spelling or name.startswith(f"{spelling} ") for spelling in spellings):
        raise UsageError(f"`baseline_system=` {name} is none of {', '.join(specs)}")


def _spellings(spec: str) -> list[str]:
    """The spec of a system as it was given, and as results spell it; of several stages, each of these."""
    specs = [spec]
    system = retrieval.stages_of(spec)
    if system.first is not None:
        specs.append(system.first)
    spellings = [
        *filter(None, [system.label]),
        *specs,
        *(str(retrieval.registry_of(spec).parse(spec)) for spec in specs),
    ]
    if system.reranker is not None:
        from retrokit.ranking import reranking

        spellings.append(str(reranking.registry_of(system.reranker).parse(system.reranker)))
    return spellings


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
    columns_by_task = _stored_columns(settings, records)
    trainings = {record.result.name: record.training for record in records}
    evaluation = evaluation_of(
        results,
        columns_by_task,
        trainings,
        is_cross=settings.cross,
        correlate=settings.correlations,
        baseline_system=settings.baseline_system,
        gate_metric=settings.gate_metric,
    )
    digests = {record.result.task: partial(record.key.get, "data") for record in records}
    if settings.correlations:
        from retrokit.evaluation.comparison.correlations import check_correlated

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
    columns_by_task = {}
    for task, names in stored.items():
        columns_by_task[task] = _among(names, settings.metrics) or _among(names, usual[task]) or names[:1]
    return columns_by_task


def _among(names: Sequence[str], metrics: Sequence[str]) -> list[str]:
    return [metric for metric in metrics if metric in names]
