"""Two-stage retrieval, measured: a search or a run proposes candidates, rerankers put the best of them in order.

COMP, D.4: stage 1 retrieves the top 100 of every query, stage 2 scores them anew. What lies below the depth that is
reranked keeps its place behind it. Each reranker is compared with the first stage by paired tests over queries, under
Holm's correction over all rerankers. Rerankers are measured on near-misses as well (COMP, Evaluation 2), beside the
pooled score of the first stage's encoder.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from retrokit import encoders, reranking, retrieval, similarities
from retrokit.data.outputs import check_file, check_folder, locked
from retrokit.data.shards import Shards
from retrokit.encoders.base import Encoder
from retrokit.errors import Interrupted, UsageError
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.comparison.comparison import Evaluation, evaluation_of
from retrokit.evaluation.result import Result, draws_of
from retrokit.evaluation.settings import TwoStageOptions as TwoStageOptions
from retrokit.evaluation.task import Request, check_measured, measures
from retrokit.evaluation.tasks.near_misses import NearMisses, Verification, read_reference
from retrokit.evaluation.tasks.retrieval import Retrieval, save_runs
from retrokit.notices import notice
from retrokit.registry import Registry, parse_all
from retrokit.reranking.base import Reranker
from retrokit.reranking.kept import KeptReranker
from retrokit.retrieval.base import OWN_SIMILARITY, Searcher
from retrokit.retrieval.run import RunSearcher
from retrokit.retrieval.two_stage import Shared, TwoStage

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

    @property
    def reranked(self) -> list[Result]:
        """The rankings of the second stage."""
        return [result for result in self.whole.results if result.run and "reranker" in result.configuration]


def rerank(
    encoder: str | None,
    on: Sequence[str],
    rerankers: Sequence[str],
    options: TwoStageOptions | None = None,
    work: str | None = None,
    save_run: str | None = None,
) -> Reranking:
    """Rerank what a first stage finds on every task, and measure both stages.

    Args:
        encoder: spec of the first stage: an encoder, or a retriever without embeddings; ``None`` where a run takes its
            place, or where all tasks are of near-misses.
        on: tasks that rank documents, or ``pairs:FILE`` of near-misses.
        rerankers: what to rerank with, one after the other.
        options: default: those of COMP.
        work: folder in which scores are kept, so that the same call after a break goes on where it was, to the same
            result, and other metrics or fusions need no new scores. Default: with ``save_run`` a folder beside it,
            which is removed in the end; else nothing is kept.
        save_run: where the second stage's rankings are written as TREC runs: a file, ``-``, or a folder for several.

    Raises:
        UsageError: wrong names (all of them in one message), a task that is of neither kind, no first stage, or dims
            or a similarity that does not fit.
        DataError: a task's files, the run, or what a reranker is loaded from.
        Interrupted: Ctrl-C; what is done is kept in ``work``.
    """
    options = options or TwoStageOptions()
    loaded = _tasks(encoder, on, rerankers, options)
    if save_run is not None:
        _check_output(save_run, loaded, rerankers, options.run)
    place = f"{save_run.rstrip('/')}.work" if work is None and save_run not in (None, "-") else work
    folder = None if place is None else Path(place)
    if folder is not None:
        check_folder(folder)
    with locked(folder) if folder is not None else nullcontext():
        return _in_two_stages(encoder, loaded, rerankers, options, Shards(folder), work is not None, save_run)


def _in_two_stages(
    encoder: str | None,
    loaded: Sequence[Retrieval | Verification],
    rerankers: Sequence[str],
    options: TwoStageOptions,
    store: Shards,
    keeps: bool,
    save_run: str | None,
) -> Reranking:
    """With ``keeps`` the scores stay in ``store``."""
    if store.goes_on:
        notice(f"going on with the scores kept in {store.folder}")
    try:
        scorers = [reranking.registry.create_on(spec, options.device) for spec in dict.fromkeys(rerankers)]
        _prepare(scorers, loaded, store)
        results = _measured(encoder, loaded, scorers, options, store)
    except KeyboardInterrupt:
        kept = "nothing is kept, a work folder would" if store.folder is None else f"scores are kept in {store.folder}"
        raise Interrupted(f"reranking stopped; {kept}") from None
    for scorer in scorers:
        if line := scorer.describe():
            notice(line)
    found = _reranking(results, loaded, options)
    if save_run is not None:
        save_runs(found.reranked, save_run)
    if not keeps:
        store.remove()
    return found


def _prepare(scorers: Sequence[Reranker], loaded: Sequence[Retrieval | Verification], store: Shards) -> None:
    """Tell what keeps its own work where to do so. What ranks lists has no score for a pair alone, which near-misses
    need."""
    for scorer in scorers:
        near_misses = [task.spec for task in loaded if isinstance(task, Verification)]
        if near_misses and scorer.listwise:
            raise UsageError(f"{scorer.spec} orders lists and scores no pair by itself: {near_misses[0]} is not for it")
        if store.folder is not None:
            scorer.keep_in(store.folder)


def _check_output(
    path: str, loaded: Sequence[Retrieval | Verification], rerankers: Sequence[str], run: str | None
) -> None:
    """Hours of scoring should not end with a place that cannot be written to."""
    rankings = sum(isinstance(task, Retrieval) for task in loaded)
    if not rankings:
        raise UsageError(f"{path} would hold a run, and no task here ranks documents")
    several = rankings * len(set(rerankers)) > 1
    if path == "-" and several:
        raise UsageError("standard output takes one run: give one task and one reranker, or a folder")
    if several or os.path.isdir(path):
        check_folder(path)
    else:
        check_file(path, [] if run is None else [run])


# --- what has to be done


def _tasks(
    encoder: str | None, on: Sequence[str], rerankers: Sequence[str], options: TwoStageOptions
) -> list[Retrieval | Verification]:
    """The tasks, once everything that can be wrong with the request has been looked at."""
    requests: list[tuple[Registry, str]] = [] if encoder is None else [(retrieval.registry_of(encoder), encoder)]
    requests += [(tasks, spec) for spec in on] + [(reranking.registry, spec) for spec in rerankers]
    requests += [(similarities.registry, options.sim)] if options.sim is not None else []
    parse_all(requests)
    loaded = [_task(spec, options) for spec in dict.fromkeys(on)]
    rankings = [task for task in loaded if isinstance(task, Retrieval)]
    _check_first_stage(encoder, rankings, len(loaded) > len(rankings), options)
    for name in (*options.metrics, *options.also):
        check_measured(loaded, name)
    for task in loaded:
        notice(task.describe())
    return loaded


def _task(spec: str, options: TwoStageOptions) -> Retrieval | Verification:
    made = tasks.create(spec)
    if isinstance(made, Retrieval):
        return made
    if not isinstance(made, NearMisses):
        raise UsageError(f"{spec} neither ranks documents, as beir:PATH does, nor holds near-misses, as pairs:FILE may")
    reference = read_reference(options.reference, options.reference_pairs) if options.reference is not None else []
    task = Verification(made.name, made.examples, [(pair.anchor, pair.positive) for pair in reference])
    task.spec = made.spec
    return task


def _check_first_stage(
    encoder: str | None, rankings: Sequence[Retrieval], has_near_misses: bool, options: TwoStageOptions
) -> None:
    is_searcher = encoder is not None and retrieval.registry_of(encoder) is retrieval.registry
    if options.run is None:
        if rankings and encoder is None:
            raise UsageError(f"{rankings[0].spec} needs a first stage: an encoder, bm25, or a TREC run (`run` FILE)")
    elif len(rankings) != 1:
        raise UsageError(f"a run ranks the documents of one task; {len(rankings)} are given")
    elif encoder is not None and not has_near_misses:
        raise UsageError(f"the run {options.run} takes the place of {encoder}: give one of them")
    searches = encoder is not None and not is_searcher and (options.run is None or has_near_misses)
    of_encoder = (options.sim, options.dims, options.index) != (None, None, None) or options.precision != "auto"
    if not searches and of_encoder:
        raise UsageError("a similarity, dimensions, precision and an index are an encoder's, and none is used here")
    if options.index is not None and not rankings:
        raise UsageError(f"`index` {options.index} is for what is searched, and no task here is")
    if options.reference is not None and not has_near_misses:
        raise UsageError("a reference is for near-misses (pairs:FILE), and there are none here")
    if not rankings and (options.blend is not None or options.fusion is not None):
        raise UsageError("blend and fusion are for rankings, and no task here has any")


def _names(task: Retrieval, options: TwoStageOptions) -> list[str]:
    """The metrics to compute of a ranking; the last is the share of relevant documents that reranking can bring up."""
    also = [name for name in options.also if measures(task, name)]
    return list(dict.fromkeys([task.main_metric, *_shown(task, options), *also, f"recall@{options.depth}"]))


def _shown(task: Retrieval | Verification, options: TwoStageOptions) -> list[str]:
    asked = [name for name in options.metrics if measures(task, name)]
    return asked or list(METRICS if isinstance(task, Retrieval) else task.shown_metrics)


# --- both stages


def _measured(
    spec: str | None,
    loaded: Sequence[Retrieval | Verification],
    scorers: Sequence[Reranker],
    options: TwoStageOptions,
    store: Shards,
) -> list[Result]:
    """All results, by task, the first stage's first."""
    encoder: Encoder | None = None
    searcher: Searcher | None = None
    if spec is not None and retrieval.registry_of(spec) is retrieval.registry:
        searcher = retrieval.create(spec, options.device)
    elif spec is not None:
        encoder = encoders.registry.create(spec, device=options.device)
    asked = Request(encoder, (), (), options.precision, options.dims, options.index, searcher)
    if encoder is not None:
        asked = replace(asked, similarities=[encoder.similarity_of(options.sim)])
    run = RunSearcher(options.run) if options.run is not None else None
    begun = [_begun(task, replace(asked, searcher=run or searcher), options) for task in loaded]
    results: list[Result] = []
    for task, (first, result) in zip(loaded, begun, strict=True):
        results += [] if result is None else [result]
        for scorer in scorers:
            kept = KeptReranker(scorer, store)
            if isinstance(task, Verification):
                found = task.evaluate_scorer(kept, OWN_SIMILARITY, {})
                results.append(replace(found, configuration=kept.configuration()))
            elif first is not None:
                second = TwoStage(first, kept, options.together)
                results.append(task.measured(second, _names(task, options), whole=run is not None))
    return results


def _begun(
    task: Retrieval | Verification, request: Request, options: TwoStageOptions
) -> tuple[Searcher | None, Result | None]:
    """The first stage on ``task``, and its result; of near-misses that of the encoder, if there is one."""
    if isinstance(task, Retrieval):
        (searcher,) = request.searchers(task)
        first = Shared(searcher)
        return first, task.measured(first, _names(task, options), whole=options.run is not None)
    if request.encoder is None:
        return None, None
    return None, task.evaluate(replace(request, searcher=None, index=None, metrics=task.default_metrics))[0]


def _reranking(
    results: Sequence[Result], loaded: Sequence[Retrieval | Verification], options: TwoStageOptions
) -> Reranking:
    # drawn once for all that is made of them
    drawn = [
        replace(result, resampled={name: draws_of(one) for name, one in result.resampled.items()}) for result in results
    ]

    def evaluation(kind: type) -> Evaluation | None:
        shown = {task.spec: _shown(task, options) for task in loaded if isinstance(task, kind)}
        own = [result for result in drawn if result.task in shown]
        return evaluation_of(own, shown, {}) if own else None

    whole = evaluation(object)
    assert whole is not None  # there is at least one task and one reranker
    return Reranking(whole, evaluation(Retrieval), evaluation(Verification))
