"""Two-stage retrieval, measured: a search or a run proposes candidates, rerankers put the best of them in order.

COMP, D.4: stage 1 retrieves the top 100 of every query, stage 2 scores them anew. What lies below the depth that is
reranked keeps its place behind it. Each reranker is compared with the first stage by paired tests over queries, under
Holm's correction over all rerankers. Rerankers are measured on near-misses as well (COMP, Evaluation 2), beside the
pooled score of the first stage's encoder. The two stages themselves are a searcher
(:mod:`retrokit.ranking.retrieval.two_stage`); what measures them takes tasks and comparisons, so it stands with those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from retrokit import encoders, similarities
from retrokit.core.errors import Interrupted, UsageError
from retrokit.core.notices import notice
from retrokit.core.outputs import check_folder, check_outputs, check_own, locked
from retrokit.core.registry import Registry, parse_all
from retrokit.core.settings import EITHER, FOLDER
from retrokit.core.shards import Shards
from retrokit.data.faults import strictly
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.comparison.baseline import read_baseline
from retrokit.evaluation.comparison.comparison import Evaluation, evaluation_of
from retrokit.evaluation.comparison.results_folder import ResultsFolder
from retrokit.evaluation.comparison.trained import Training, training_of_stages
from retrokit.evaluation.evaluate import check_baseline, check_searchers
from retrokit.evaluation.result import Result, draws_of
from retrokit.evaluation.settings import TwoStageOptions as TwoStageOptions
from retrokit.evaluation.task import Request, Task, check_measured, check_tunable, measures, tuned
from retrokit.evaluation.tasks.near_misses import read_reference
from retrokit.evaluation.tasks.retrieval import save_runs
from retrokit.ranking import reranking, retrieval
from retrokit.ranking.reranking.base import Reranker
from retrokit.ranking.reranking.kept import KeptReranker
from retrokit.ranking.retrieval.run import RunSearcher
from retrokit.ranking.retrieval.shared import Shared
from retrokit.ranking.retrieval.two_stage import TwoStage

if TYPE_CHECKING:
    from pandas import DataFrame

METRICS = ("ndcg@10", "accuracy@1", "mrr@10")
"""What is shown of a ranking by default; the first two are COMP's (D.4)."""


@dataclass(frozen=True)
class Reranking:
    """What came of it.

    Attributes:
        whole: all results, the first stage's first on each task, and how the others differ from it.
        rankings: the same of the tasks that rank documents; ``None`` if there is none.
        near_misses: the same of the tasks of near-misses; ``None`` if there is none.
    """

    whole: Evaluation
    rankings: Evaluation | None
    near_misses: Evaluation | None

    def to_frame(self) -> DataFrame:
        """All results, as :meth:`Evaluation.to_frame` gives them."""
        return self.whole.to_frame()


def rerank(
    encoder: str | Sequence[str] | None,
    on: Sequence[str],
    rerankers: Sequence[str],
    options: TwoStageOptions | None = None,
    work: str | None = None,
    save_run: str | None = None,
) -> Reranking:
    """Rerank what a first stage finds on every task, and measure both stages.

    Args:
        encoder: spec of the first stage, or of several: encoders or searchers; ``None`` where a run takes its place,
            or where all tasks are of near-misses.
        on: tasks that rank documents, or ``pairs:FILE`` of near-misses.
        rerankers: what to rerank with, one after the other: rerankers, or encoders, which score under their own
            similarity.
        options: default: those of COMP.
        work: folder in which scores are kept, so that the same call after a break goes on where it was, to the same
            result, and other metrics or fusions need no new scores. Default: with ``save_run`` a folder beside it,
            which is removed in the end; else nothing is kept.
        save_run: where the second stage's rankings are written as TREC runs: a file, ``-``, or a folder for several.

    Raises:
        UsageError: wrong names (all of them in one message), a task that is of neither kind, no first stage, or dims
            or a similarity that does not fit, or a baseline of other data.
        DataError: a task's files, the run, the baseline, or what a reranker is loaded from.
        Interrupted: Ctrl-C; what is done is kept in ``work``.
    """
    options = options or TwoStageOptions()
    baseline = read_baseline(options.baseline) if options.baseline is not None else None
    given = [] if encoder is None else [encoder] if isinstance(encoder, str) else list(dict.fromkeys(encoder))
    with strictly(options.strict):
        loaded = _tasks(given, on, rerankers, options)
    if baseline is not None:
        for task in loaded:
            baseline.check(task.spec, task.digest())
    if save_run is not None:
        read = [given, on, rerankers, *vars(options).values()]
        _check_output(save_run, loaded, max(1, len(given)) * len(set(rerankers)), read)
    place = f"{save_run.rstrip('/')}.work" if work is None and save_run not in (None, "-") else work
    folder = None if place is None else Path(place)
    if folder is not None:
        if work is None:
            check_own(folder)
        check_folder(folder)
    with strictly(options.strict), locked(folder) if folder is not None else nullcontext():
        evaluation = _in_two_stages(given, loaded, rerankers, options, Shards(folder), work is not None, save_run)
    return evaluation if baseline is None else replace(evaluation, whole=baseline.compared(evaluation.whole))


def _in_two_stages(
    firsts: Sequence[str],
    loaded: Sequence[Task],
    rerankers: Sequence[str],
    options: TwoStageOptions,
    store: Shards,
    keeps: bool,
    save_run: str | None,
) -> Reranking:
    """With ``keeps`` the scores stay in ``store``."""
    if store.goes_on:
        notice(f"going on with the scores kept in {store.folder}")
    gates = [task.spec for task in loaded if not task.searches]
    try:
        scorers = [reranking.create(spec, options.device) for spec in dict.fromkeys(rerankers)]
        for scorer in scorers:
            if gates and scorer.listwise:  # no score for a pair alone
                raise UsageError(f"{scorer.spec} orders lists and scores no pair by itself: {gates[0]} is not for it")
            if store.folder is not None:
                scorer.keep_in(store.folder)
        results, trainings = _measured(firsts, loaded, scorers, options, store, save_run is not None)
    except KeyboardInterrupt:
        message = (
            "nothing is kept, a work folder would" if store.folder is None else f"scores are kept in {store.folder}"
        )
        raise Interrupted(f"reranking stopped; {message}") from None
    for scorer in scorers:
        if line := scorer.describe():
            notice(line)
    evaluation = _reranking(results, trainings, loaded, options)
    if save_run is not None:
        save_runs([result for result in results if result.run and "reranker" in result.configuration], save_run)
    if not keeps:
        store.remove()
    return evaluation


def _check_output(path: str, loaded: Sequence[Task], systems: int, read: Sequence[object]) -> None:
    """Hours of scoring should not end with a place that cannot be written to."""
    rankings = sum(task.searches for task in loaded)
    if not rankings:
        raise UsageError(f"{path} would hold a run, and no task here ranks documents")
    several = rankings * systems > 1
    if path == "-" and several:
        raise UsageError("standard output takes one run: give one task, first stage and reranker, or a folder")
    check_outputs([(path, FOLDER if several else EITHER)], read)


def _tasks(firsts: Sequence[str], on: Sequence[str], rerankers: Sequence[str], options: TwoStageOptions) -> list[Task]:
    """The tasks, once everything that can be wrong with the request has been looked at."""
    requests: list[tuple[Registry, str]] = [(retrieval.registry_of(spec), spec) for spec in firsts]
    requests += [(tasks, spec) for spec in on] + [(reranking.registry_of(spec), spec) for spec in rerankers]
    requests += [(similarities.registry, options.sim)] if options.sim is not None else []
    parse_all(requests)
    if options.baseline_system is not None:
        check_baseline(options.baseline_system, [*firsts, *([] if options.run is None else [f"run:{options.run}"])])
    loaded = [_task(spec, options) for spec in dict.fromkeys(on)]
    rankings = [task for task in loaded if task.searches]
    _check_first_stage(firsts, rankings, len(loaded) > len(rankings), options)
    for name in _asked(options):
        check_measured(loaded, name)
    for task in loaded:
        for spec in filter(retrieval.leaves_open, firsts if task.searches else ()):  # before a model is loaded
            check_tunable(task, spec, task.main_metric)
        notice(task.describe())
    return loaded


def _task(spec: str, options: TwoStageOptions) -> Task:
    task: Task | None = tasks.create(spec).staged()
    if task is None:
        raise UsageError(f"{spec} neither ranks documents, as beir:PATH does, nor holds near-misses, as pairs:FILE may")
    if task.searches or options.reference is None:
        return task
    pairs = read_reference(options.reference, options.reference_pairs)
    return task.staged([(pair.anchor, pair.positive) for pair in pairs]) or task


def _check_first_stage(
    firsts: Sequence[str], rankings: Sequence[Task], has_near_misses: bool, options: TwoStageOptions
) -> None:
    embedding = [spec for spec in firsts if retrieval.registry_of(spec) is not retrieval.registry]
    if options.run is None:
        if rankings and not firsts:
            raise UsageError(f"{rankings[0].spec} needs a first stage: an encoder, bm25, or a TREC run (`run=` FILE)")
    elif len(rankings) != 1:
        raise UsageError(f"a run ranks the documents of one task; {len(rankings)} are given")
    elif firsts and not has_near_misses:
        raise UsageError(f"the run {options.run} takes the place of {', '.join(firsts)}: give it as run:{options.run}")
    searches = bool(embedding) and (options.run is None or has_near_misses)
    of_encoder = (options.sim, options.dims, options.index) != (None, None, None) or options.precision != "auto"
    if not searches and of_encoder:
        raise UsageError("a similarity, dimensions, precision and an index are an encoder's, and none is used here")
    if options.index is not None and not rankings:
        raise UsageError(f"`index=` {options.index} is for what is searched, and no task here is")
    if options.reference is not None and not has_near_misses:
        raise UsageError("a reference is for near-misses (pairs:FILE), and there are none here")
    if not rankings and (options.blend is not None or options.fusion is not None):
        raise UsageError("blend and fusion are for rankings, and no task here has any")


def _asked(options: TwoStageOptions) -> list[str]:
    """The metrics that are named."""
    return [*options.metrics, *options.also, *([] if options.gate_metric is None else [options.gate_metric])]


def _shown(task: Task, options: TwoStageOptions) -> list[str]:
    names = [name for name in options.metrics if measures(task, name)]
    return names or list(METRICS if task.searches else task.shown_metrics)


def _measured(
    firsts: Sequence[str],
    loaded: Sequence[Task],
    scorers: Sequence[Reranker],
    options: TwoStageOptions,
    store: Shards,
    keep_runs: bool,
) -> tuple[list[Result], dict[str, Training | None]]:
    """All results, by task and first stage, which comes first itself: of near-misses those of the encoders, and then
    those of the rerankers. Results of rankings are kept in ``options.results``, and used again. And how that which made
    each came about, by its name."""
    run = RunSearcher(options.run) if options.run is not None else None
    requests = [_first_stage(spec, options) for spec in firsts]
    on_rankings = requests if run is None else [Request(searcher=run, whole=True)]
    ranking = [request.searcher for request in on_rankings if request.searcher is not None]
    check_searchers(ranking, [data for task in loaded if (data := task.judged()) is not None])
    folder = ResultsFolder(options.results) if options.results is not None else None
    trainings: dict[str, Training | None] = {}

    def evaluate(task: Task, request: Request) -> list[Result]:
        training = _training(request)
        results_folder = folder if task.searches else None
        measured = (
            task.evaluate(request)
            if results_folder is None
            else results_folder.evaluate(task, request, training, keep_runs)
        )
        trainings.update(dict.fromkeys((result.name for result in measured), training))
        return measured

    begun: list[tuple[Task, Request | None, list[Result]]] = []
    for task in loaded:
        named = [name for name in _asked(options) if measures(task, name)]
        # the last is the share of relevant documents that reranking can bring up
        names = [task.main_metric, *_shown(task, options), *named, f"recall@{options.depth}"]
        for request in on_rankings if task.searches else []:
            (searcher,) = request.searchers(task)
            searcher = tuned(searcher, searcher.spec, task, _shown(task, options))
            first = replace(request, searcher=Shared(searcher), metrics=names)
            begun.append((task, first, evaluate(task, first)))
        if not task.searches:
            embedding = [
                replace(request, index=None, metrics=task.default_metrics) for request in requests if request.encoder
            ]
            begun.append((task, None, [result for request in embedding for result in evaluate(task, request)]))
    results: list[Result] = []
    for task, begun_with, first_results in begun:
        results += first_results
        for scorer in scorers:
            reranker = KeptReranker(scorer, store)
            if begun_with is not None and begun_with.searcher is not None:
                second = TwoStage(begun_with.searcher, reranker, options.together)
                results += evaluate(task, Request(searcher=second, metrics=begun_with.metrics, whole=begun_with.whole))
            else:
                (result,) = evaluate(task, Request(reranker=reranker, metrics=task.default_metrics))
                results.append(replace(result, configuration=reranker.configuration()))
    if folder is not None:
        folder.report()
    return results, trainings


def _training(request: Request) -> Training | None:
    """How that which is asked to score came about."""
    system = request.encoder or request.searcher
    if isinstance(system, TwoStage):
        return training_of_stages(system.spec, system.reranker.spec)
    return training_of_stages(system.spec if system else None, request.reranker.spec if request.reranker else None)


def _first_stage(spec: str, options: TwoStageOptions) -> Request:
    """What asks a task for the results of a first stage."""
    if retrieval.registry_of(spec) is retrieval.registry:
        return Request(searcher=retrieval.create(spec, options.device))
    encoder = encoders.registry.create(spec, device=options.device)
    request = Request(encoder, [encoder.similarity_of(options.sim)], precision=options.precision)
    return replace(request, dims=options.dims, index=options.index)


def _reranking(
    results: Sequence[Result],
    trainings: Mapping[str, Training | None],
    loaded: Sequence[Task],
    options: TwoStageOptions,
) -> Reranking:
    shown = {task.spec: _shown(task, options) for task in loaded}
    # drawn once for all that is made of them
    drawn = [
        replace(result, resampled={name: draws_of(metric) for name, metric in result.resampled.items()})
        for result in results
    ]
    gate = options.gate_metric
    whole = evaluation_of(drawn, shown, trainings, baseline_system=options.baseline_system, gate_metric=gate)
    whole = replace(whole, digests={task.spec: task.digest for task in loaded})

    def part(searched: bool) -> Evaluation | None:
        specs = [task.spec for task in loaded if task.searches is searched]
        own = [result for result in whole.results if result.task in specs]
        return evaluation_of(own, shown, trainings, gate_metric=gate) if own else None

    return Reranking(whole, part(True), part(False))
