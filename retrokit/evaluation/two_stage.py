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
from typing import Any

import numpy as np

import retrokit
from retrokit import encoders, reranking, retrieval, similarities
from retrokit.data.outputs import check_file, check_folder, locked
from retrokit.data.shards import Shards
from retrokit.encoders.base import Encoder
from retrokit.errors import Interrupted, UsageError
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.comparison.comparison import Evaluation, evaluation_of
from retrokit.evaluation.evaluate import registry_of
from retrokit.evaluation.first_stage import ranking_of_run
from retrokit.evaluation.result import Result, draws_of
from retrokit.evaluation.task import Request, check_measured, measures
from retrokit.evaluation.tasks.near_misses import NearMisses, Verification, read_reference
from retrokit.evaluation.tasks.retrieval import Retrieval, save_runs
from retrokit.metrics.ranking import DEEPEST, trec_order
from retrokit.notices import notice
from retrokit.registry import Registry, parse_all
from retrokit.reranking.base import Reranker
from retrokit.reranking.kept import KeptReranker
from retrokit.retrieval.base import OWN_SIMILARITY, Retriever
from retrokit.retrieval.fusion import blend, reciprocal_rank_fusion

METRICS = ("ndcg@10", "accuracy@1", "mrr@10")
"""What is shown of a ranking by default; the first two are COMP's (D.4)."""
FUSIONS = ("rrf",)


@dataclass(frozen=True)
class TwoStageOptions:
    """How the second stage works, and how the first one is made.

    Attributes:
        depth: how many of each query's best documents are reranked.
        blend: the reranker's share in a weighted sum with the first stage's scores, both min-max normalised over the
            documents that are reranked; ``None``: the reranker alone decides.
        fusion: ``rrf`` fuses the ranks of both stages in place of scores.
        sim: spec of the first stage's similarity; default: the encoder's own.
        run: a TREC run in place of a search.
        metrics: to compute and show of rankings; default: :data:`METRICS`.
        also: further metrics to compute.
        precision: of encoding in the first stage.
        dims: the first dimensions of embeddings that are used in it.
        device: default: the best there is.
        reference: pairs that mean the same, in the grammar of training data, for tasks of near-misses.
        reference_pairs: at most so many of them.

    Raises:
        UsageError: a value out of its range, or options that exclude each other.
    """

    depth: int = 100
    blend: float | None = None
    fusion: str | None = None
    sim: str | None = None
    run: str | None = None
    metrics: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    precision: str = "auto"
    dims: int | None = None
    device: str | None = None
    reference: str | None = None
    reference_pairs: int = 10_000

    def __post_init__(self) -> None:
        if not 1 <= self.depth <= DEEPEST:
            raise UsageError(f"depth must be from 1 to {DEEPEST:,}, not {self.depth}")
        if self.blend is not None and not 0 <= self.blend <= 1:
            raise UsageError(f"blend must be from 0 (the first stage alone) to 1, not {self.blend:g}")
        if self.fusion is not None and self.fusion not in FUSIONS:
            raise UsageError(f"fusion {self.fusion!r} is none of {', '.join(FUSIONS)}")
        if self.fusion is not None and self.blend is not None:
            raise UsageError("blend sums scores and fusion goes by ranks: give one of them")

    @property
    def name(self) -> str:
        """How the scores of both stages become one; empty where the reranker alone decides."""
        return f", blend {self.blend:g}" if self.blend is not None else f", {self.fusion}" if self.fusion else ""


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
    task_specs: Sequence[str],
    reranker_specs: Sequence[str],
    options: TwoStageOptions | None = None,
    work: str | None = None,
    save_run: str | None = None,
) -> Reranking:
    """Rerank what a first stage finds on every task, and measure both stages.

    Args:
        encoder: spec of the first stage: an encoder, or a retriever without embeddings; ``None`` where a run takes its
            place, or where all tasks are of near-misses.
        task_specs: tasks that rank documents, or ``pairs:FILE`` of near-misses.
        reranker_specs: what to rerank with, one after the other.
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
    loaded = _tasks(encoder, task_specs, reranker_specs, options)
    if save_run is not None:
        _check_output(save_run, loaded, reranker_specs, options.run)
    place = f"{save_run.rstrip('/')}.work" if work is None and save_run not in (None, "-") else work
    folder = None if place is None else Path(place)
    if folder is not None:
        check_folder(folder)
    with locked(folder) if folder is not None else nullcontext():
        return _in_two_stages(encoder, loaded, reranker_specs, options, Shards(folder), work is not None, save_run)


def _in_two_stages(
    encoder: str | None,
    loaded: Sequence[Retrieval | Verification],
    reranker_specs: Sequence[str],
    options: TwoStageOptions,
    store: Shards,
    keeps: bool,
    save_run: str | None,
) -> Reranking:
    """With ``keeps`` the scores stay in ``store``."""
    if store.goes_on:
        notice(f"going on with the scores kept in {store.folder}")
    try:
        scorers = [reranking.registry.create(spec, device=options.device) for spec in dict.fromkeys(reranker_specs)]
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
    path: str, loaded: Sequence[Retrieval | Verification], reranker_specs: Sequence[str], run: str | None
) -> None:
    """Hours of scoring should not end with a place that cannot be written to."""
    rankings = sum(isinstance(task, Retrieval) for task in loaded)
    if not rankings:
        raise UsageError(f"{path} would hold a run, and no task here ranks documents")
    several = rankings * len(set(reranker_specs)) > 1
    if path == "-" and several:
        raise UsageError("standard output takes one run: give one task and one reranker, or a folder")
    if several or os.path.isdir(path):
        check_folder(path)
    else:
        check_file(path, [] if run is None else [run])


# --- what has to be done


def _tasks(
    encoder: str | None, task_specs: Sequence[str], reranker_specs: Sequence[str], options: TwoStageOptions
) -> list[Retrieval | Verification]:
    """The tasks, once everything that can be wrong with the request has been looked at."""
    requests: list[tuple[Registry, str]] = [] if encoder is None else [(registry_of(encoder), encoder)]
    requests += [(tasks, spec) for spec in task_specs] + [(reranking.registry, spec) for spec in reranker_specs]
    requests += [(similarities.registry, options.sim)] if options.sim is not None else []
    parse_all(requests)
    loaded = [_task(spec, options) for spec in dict.fromkeys(task_specs)]
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
    is_retriever = encoder is not None and registry_of(encoder) is retrieval.registry
    if options.run is None:
        if rankings and encoder is None:
            raise UsageError(f"{rankings[0].spec} needs a first stage: an encoder, bm25, or a TREC run (--run FILE)")
    elif len(rankings) != 1:
        raise UsageError(f"a run ranks the documents of one task; {len(rankings)} are given")
    elif encoder is not None and not has_near_misses:
        raise UsageError(f"the run {options.run} takes the place of {encoder}: give one of them")
    searches = encoder is not None and not is_retriever and (options.run is None or has_near_misses)
    if not searches and (options.sim is not None or options.dims is not None or options.precision != "auto"):
        raise UsageError("a similarity, dimensions and precision are an encoder's, and no encoder is used here")
    if options.reference is not None and not has_near_misses:
        raise UsageError("a reference is for near-misses (pairs:FILE), and there are none here")
    if not rankings and (options.blend is not None or options.fusion is not None):
        raise UsageError("blend and fusion are for rankings, and no task here has any")


def _names(task: Retrieval, options: TwoStageOptions) -> list[str]:
    """The metrics to compute of a ranking; the last is the share of relevant documents that reranking can bring up."""
    also = [name for name in options.also if measures(task, name)]
    return list(dict.fromkeys([*_shown(task, options), *also, f"recall@{options.depth}"]))


def _shown(task: Retrieval | Verification, options: TwoStageOptions) -> list[str]:
    asked = [name for name in options.metrics if measures(task, name)]
    return asked or list(METRICS if isinstance(task, Retrieval) else task.shown_metrics)


# --- both stages


def _measured(
    encoder: str | None,
    loaded: Sequence[Retrieval | Verification],
    scorers: Sequence[Reranker],
    options: TwoStageOptions,
    store: Shards,
) -> list[Result]:
    """All results, by task, the first stage's first."""
    first_stage = _FirstStage(encoder, options)
    results: list[Result] = []
    firsts = [first_stage.result(task) for task in loaded]
    for task, first in zip(loaded, firsts, strict=True):
        results += [first] if first is not None else []
        for scorer in scorers:
            kept = KeptReranker(scorer, store)
            if isinstance(task, Verification):
                result = task.evaluate_scorer(kept, OWN_SIMILARITY, {})
                results.append(replace(result, configuration=_configuration(kept, None)))
            elif first is not None:
                results.append(_reranked(task, first, kept, options))
    return results


class _FirstStage:
    """Proposes candidates, and gives the pooled score of near-misses; what it needs is loaded once."""

    def __init__(self, spec: str | None, options: TwoStageOptions) -> None:
        self._options = options
        self._encoder: Encoder | None = None
        self._retriever: Retriever | None = None
        if spec is not None and registry_of(spec) is retrieval.registry:
            self._retriever = retrieval.registry.create(spec)
        elif spec is not None:
            self._encoder = encoders.registry.create(spec, device=options.device)

    def result(self, task: Retrieval | Verification) -> Result | None:
        """The first stage's result on ``task``; ``None`` for near-misses if there is no encoder."""
        options = self._options
        if isinstance(task, Retrieval):
            names = _names(task, options)
            if options.run is not None:
                return ranking_of_run(options.run, task, names)
            if self._retriever is not None:
                return task.evaluate(Request(searcher=self._retriever, metrics=names))[0]
        else:
            names = list(task.default_metrics)
        if self._encoder is None:
            return None
        chosen = [self._encoder.similarity_of(options.sim)]
        (result,) = task.evaluate(Request(self._encoder, chosen, names, options.precision, options.dims))
        return result


def _reranked(task: Retrieval, first: Result, scorer: KeptReranker, options: TwoStageOptions) -> Result:
    """The result of ``first`` after ``scorer`` has reranked the best of each query."""
    text_of_query = dict(zip(task.data.query_ids, task.data.queries, strict=True))
    text_of = dict(zip(task.data.document_ids, task.data.documents, strict=True))
    orders = {query: trec_order(first.run.get(query, {})) for query in task.data.query_ids}
    tops = {query: order[: options.depth] for query, order in orders.items() if order}
    lists = [[text_of[document] for document in top] for top in tops.values()]
    scores = scorer.rank_lists([text_of_query[query] for query in tops], lists)
    run = {}
    for (query, top), second in zip(tops.items(), scores, strict=True):
        before = np.array([first.run[query][document] for document in top])
        fused = _fused(top, before, second, options)
        run[query] = _above(dict(zip(top, fused.tolist(), strict=True)), orders[query][len(top) :])
    result = task.evaluate_ranking(
        first.encoder, f"{first.similarity} + {scorer.spec}{options.name}", run, _names(task, options)
    )
    counts = {
        "reranked_pairs": scorer.pairs,
        "queries_without_candidates": len(orders) - len(tops),
        "documents_below_depth": sum(len(order) for order in orders.values()) - scorer.pairs,
    }
    configuration = {
        **{"first_stage": first.configuration, "depth": options.depth, "blend": options.blend},
        **{"fusion": options.fusion, **_configuration(scorer, len(tops))},
    }
    return replace(result, counts={**first.counts, **counts}, norms=first.norms, configuration=configuration)


def _fused(top: Sequence[str], first: np.ndarray, second: np.ndarray, options: TwoStageOptions) -> np.ndarray:
    """The scores ``[n]`` that order the documents ``top``, which the first stage has in this order."""
    if options.blend is not None:
        return blend(first, second, options.blend)
    if options.fusion is None:
        return second
    place = {document: rank for rank, document in enumerate(trec_order(dict(zip(top, second, strict=True))), start=1)}
    return reciprocal_rank_fusion(np.arange(1, len(top) + 1), np.array([place[document] for document in top]))


def _above(top: dict[str, float], below: Sequence[str]) -> dict[str, float]:
    """Scores of ``top``, and behind them ``below`` in its order: each one lower than what is before it, by 1 or, where
    scores are so large that 1 would be lost in single precision, by a millionth of their size."""
    lowest = min(top.values())
    step = max(1.0, abs(lowest) * 1e-6)
    return {**top, **{document: lowest - step * place for place, document in enumerate(below, start=1)}}


def _configuration(scorer: KeptReranker, queries: int | None) -> dict[str, Any]:
    """What made the scores, and what they cost; of scores kept from a run before, the time is not known."""
    per_pair = scorer.seconds / scorer.computed if scorer.computed else None
    cost = {"pairs": scorer.pairs, "pairs_computed": scorer.computed, "seconds": round(scorer.seconds, 3)}
    if per_pair is not None:
        cost["milliseconds_per_pair"] = round(1000 * per_pair, 4)
        if queries:
            cost["milliseconds_per_query"] = round(1000 * per_pair * scorer.pairs / queries, 3)
    return {
        **({"precision": scorer.computes_in} if scorer.computes_in else {}),
        "reranker": scorer.spec,
        "reranker_fingerprint": scorer.fingerprint(),
        "cost": cost,
        **({"reranker_counts": scorer.counts} if scorer.counts else {}),
        "retrokit": retrokit.__version__,
    }


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
