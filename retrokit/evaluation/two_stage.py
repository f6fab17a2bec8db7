"""Two-stage retrieval, measured: a search or a TREC run proposes candidates, rerankers order the best of them.

COMP, D.4: stage 1 retrieves the top 100 of every query, stage 2 scores them again. What is below the reranked depth
keeps its place. Each reranker is compared with the first stage by paired tests over queries, under Holm's correction
over all rerankers. Rerankers are measured on near-misses as well (COMP, Evaluation 2), next to the pooled score of the
first stage's encoder. The two stages themselves are a searcher (:mod:`retrokit.ranking.retrieval.two_stage`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrokit import encoders, similarities
from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.core.outputs import check_folder, check_own, check_settings
from retrokit.core.registry import Registry, parse_all
from retrokit.core.shards import Shards
from retrokit.data.jsonl import COUNT, restored, strictly
from retrokit.data.records import PrintedRecord
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.comparison.comparison import Evaluation, evaluation_of
from retrokit.evaluation.comparison.gates import gates_of, read_baseline, write_gates
from retrokit.evaluation.comparison.results_folder import ResultsFolder
from retrokit.evaluation.comparison.systems import System
from retrokit.evaluation.comparison.trained import Training, training_of_stages
from retrokit.evaluation.evaluate import check_baseline, check_searchers, shown_metrics
from retrokit.evaluation.result import Result
from retrokit.evaluation.settings import TwoStageOptions as TwoStageOptions
from retrokit.evaluation.settings import requested
from retrokit.evaluation.task import Request, Task, check_measured, check_tunable, measures, tuned
from retrokit.evaluation.tasks.pairs import FALSE_ACCEPTS, read_reference
from retrokit.evaluation.tasks.retrieval import save_runs
from retrokit.ranking import reranking, retrieval
from retrokit.ranking.reranking.base import Reranker
from retrokit.ranking.reranking.kept import KeptReranker, scores_in
from retrokit.ranking.retrieval.base import Shared
from retrokit.ranking.retrieval.run import RunSearcher
from retrokit.ranking.retrieval.two_stage import TwoStage

if TYPE_CHECKING:
    from pandas import DataFrame

METRICS = ("ndcg@10", "accuracy@1", "mrr@10")
"""What is shown of a ranking by default; the first two are COMP's (D.4)."""


@dataclass(frozen=True)
class Reranking(PrintedRecord):
    """The evaluation of all results, the first stage's first on each task; and its parts on rankings and on
    near-misses, each ``None`` if there is none."""

    whole: Evaluation
    rows: list[dict[str, Any]] | None = None
    """Rows of near-misses that were read; ``None``: they are computed."""

    @property
    def rankings(self) -> Evaluation | None:
        """The tasks that rank documents."""
        return self._part(False)

    @property
    def near_misses(self) -> Evaluation | None:
        """The tasks of near-misses."""
        return self._part(True)

    def _part(self, gated: bool) -> Evaluation | None:
        tasks = {result.task for result in self.whole.results if (FALSE_ACCEPTS in result.metrics) is gated}
        return self.whole.part(tasks) if tasks else None

    def to_frame(self) -> DataFrame:
        """All results, as :meth:`Evaluation.to_frame` gives them."""
        return self.whole.to_frame()

    def near_miss_rows(self) -> list[dict[str, Any]]:
        """A row per scorer and family of near-misses, and one of all families; ``None`` where there is no value."""
        if self.rows is not None:
            return self.rows
        systems = self.near_misses.systems if self.near_misses is not None else []
        return [_row(system, name) for system in systems for name in system.metrics if name.startswith("near_miss")]

    def to_json(self, with_queries: bool = False) -> dict[str, Any]:
        """Plain values for strict JSON; ``with_queries``: the values of every query too."""
        return {**self.whole.to_json(with_queries), "near_misses": self.near_miss_rows()}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Reranking:
        """What :meth:`to_json` gave."""
        return cls(Evaluation.from_json(plain), restored({"near_misses": [_ROW]}, plain)["near_misses"])


ALL = "all"
"""The family of a row that is about all families."""
_ROW = {
    **dict.fromkeys(("task", "scorer", "similarity", "family"), str),
    **{"near_misses": COUNT, "positive": float | None},
    **dict.fromkeys(("near_miss", "roc_auc", "roc_auc_low", "roc_auc_high", FALSE_ACCEPTS), float),
}
"""What is read of a row of near-misses."""


def _row(system: System, name: str) -> dict[str, Any]:
    _, slash, family = name.partition("/")
    area, accepted = f"roc_auc{slash}{family}", f"{FALSE_ACCEPTS}{slash}{family}"
    drawn = system.draws(area)
    low, high = drawn.interval if drawn is not None else (None, None)
    return {
        "task": system.task,
        "scorer": system.encoder,
        "similarity": system.similarity,
        "family": family or ALL,
        "near_misses": len(system.per_item(name) or {}),
        "near_miss": system.metrics[name],
        "positive": system.metrics.get(f"positive{slash}{family}"),
        "roc_auc": system.metrics[area],
        "roc_auc_low": low,
        "roc_auc_high": high,
        FALSE_ACCEPTS: system.metrics[accepted],
    }


def rerank(
    encoder: str | Sequence[str] | None,
    on: Sequence[str],
    rerankers: Sequence[str],
    options: TwoStageOptions | None = None,
    **more: Any,
) -> Reranking:
    """Rerank what a first stage finds on every task, and measure both stages.

    Args:
        encoder: spec of the first stage, or of several: encoders or searchers; ``None`` where a run takes its place,
            or where all tasks are of near-misses.
        on: tasks that rank documents, or ``pairs:FILE`` of near-misses.
        rerankers: what to rerank with, one after the other: rerankers, or encoders, which score under their own
            similarity.
        options: how, and what is written; by default as in COMP. ``work`` is a folder for scores, so that the same
            call resumes after a break, and other metrics or fusions need no new scores. By default it is next to
            ``save_run``, and is removed in the end; without that there is none. Gates that fail raise nothing.
        more: fields of the options, in place of those in ``options``.

    Raises:
        UsageError: wrong names (all of them in one message), a task that is of neither kind, no first stage, or dims
            or a similarity that does not fit, a baseline of other data, or an output that is an input.
        DataError: a task's files, the run, the baseline, what a reranker is loaded from, or an output that cannot be
            written.
        Interrupted: Ctrl-C; finished work stays in ``work``.
    """
    options = replace(options or TwoStageOptions(), **more)
    baseline = read_baseline(options.baseline) if options.baseline is not None else None
    firsts = [] if encoder is None else [encoder] if isinstance(encoder, str) else list(dict.fromkeys(encoder))
    with strictly(options.strict):
        loaded = _tasks(firsts, on, rerankers, options)
    if baseline is not None:
        for task in loaded:
            baseline.measured_on(task.spec, task.digest())
    if options.save_run is not None:
        _check_run(options.save_run, firsts, loaded, rerankers)
    check_settings(options, firsts, on, rerankers)
    folder = _folder_of_scores(options)
    with strictly(options.strict), scores_in(folder, "reranking", stay=options.work is not None) as store:
        scorers = _scorers(rerankers, loaded, options)
        results, trainings = _measured(firsts, loaded, scorers, options, store)
        for line in filter(None, (scorer.describe() for scorer in scorers)):
            notice(line)
        shown, gate = {task.spec: _shown(task, options) for task in loaded}, options.gate_metric
        whole = evaluation_of(results, shown, trainings, baseline_system=options.baseline_system, gate_metric=gate)
        if options.save_run is not None:
            reranked = [result for result in results if result.run and "reranker" in result.configuration]
            save_runs(reranked, options.save_run)
    whole = replace(whole, digests={task.spec: task.digest for task in loaded})
    if baseline is not None:
        whole = baseline.compared(whole)
    whole = replace(whole, gates=gates_of(whole, options))
    write_gates(whole, options)
    return Reranking(whole)


def _check_run(path: str, firsts: Sequence[str], loaded: Sequence[Task], rerankers: Sequence[str]) -> None:
    """Raise :class:`UsageError` or :class:`DataError`, before hours of scoring, if the reranked runs cannot be written
    to ``path``."""
    rankings = sum(task.searches for task in loaded)
    if not rankings:
        raise UsageError(f"{path} would hold a run, and no task here ranks documents")
    if rankings * max(1, len(firsts)) * len(set(rerankers)) <= 1:
        return
    if path == "-":
        raise UsageError("standard output takes one run: give one task, first stage and reranker, or a folder")
    check_folder(path)


def _folder_of_scores(options: TwoStageOptions) -> Path | None:
    """The folder for scores, which can be written to; ``None`` if they are not stored."""
    if options.work is not None:
        folder = Path(options.work)
    elif options.save_run is None or options.save_run == "-":
        return None
    else:
        folder = Path(f"{options.save_run.rstrip('/')}.work")
        check_own(folder)
    check_folder(folder)
    return folder


def _tasks(firsts: Sequence[str], on: Sequence[str], rerankers: Sequence[str], options: TwoStageOptions) -> list[Task]:
    """The tasks, once everything that can be wrong with the request has been checked."""
    requests: list[tuple[Registry, str]] = [(retrieval.registry_of(spec), spec) for spec in firsts]
    requests += [(tasks, spec) for spec in on] + [(reranking.registry_of(spec), spec) for spec in rerankers]
    parse_all(requests + ([(similarities.registry, options.sim)] if options.sim is not None else []))
    if options.baseline_system is not None:
        check_baseline(options.baseline_system, [*firsts, *([] if options.run is None else [f"run:{options.run}"])])
    loaded = []
    for spec in dict.fromkeys(on):
        task: Task | None = tasks.create(spec).staged()
        if task is None:
            expected = "ranks documents, as beir:PATH does, nor contains near-misses, as pairs:FILE may"
            raise UsageError(f"{spec} neither {expected}")
        if not task.searches and options.paraphrases is not None:
            pairs = read_reference(options.paraphrases, options.max_paraphrases)
            task = task.staged([(pair.anchor, pair.positive) for pair in pairs]) or task
        loaded.append(task)
    _check_stages(firsts, loaded, options)
    for name in requested(options):
        check_measured(loaded, name)
    for task in loaded:
        for spec in filter(retrieval.leaves_open, firsts if task.searches else ()):  # before a model is loaded
            check_tunable(task, spec, task.main_metric)
        notice(task.describe())
    return loaded


def _check_stages(firsts: Sequence[str], loaded: Sequence[Task], options: TwoStageOptions) -> None:
    """Raise :class:`UsageError` for options or first stages that do not fit the tasks."""
    rankings = [task for task in loaded if task.searches]
    has_near_misses = len(loaded) > len(rankings)
    if options.run is None:
        if rankings and not firsts:
            raise UsageError(f"{rankings[0].spec} needs a first stage: an encoder, bm25, or a TREC run (`run=` FILE)")
    elif len(rankings) != 1:
        raise UsageError(f"a run ranks the documents of one task; {len(rankings)} are given")
    elif firsts and not has_near_misses:
        raise UsageError(f"the run {options.run} takes the place of {', '.join(firsts)}: give it as run:{options.run}")
    embeds = any(retrieval.registry_of(spec) is not retrieval.registry for spec in firsts)
    of_encoder = (options.sim, options.dims, options.index) != (None, None, None) or options.precision != "auto"
    if of_encoder and not (embeds and (options.run is None or has_near_misses)):
        raise UsageError("a similarity, dimensions, precision and an index are an encoder's, and none is used here")
    if options.index is not None and not rankings:
        raise UsageError(f"`index=` {options.index} is for what is searched, and no task here is")
    if options.paraphrases is not None and not has_near_misses:
        raise UsageError("`paraphrases=` is for near-misses (pairs:FILE), and there are none here")
    if not rankings and (options.blend is not None or options.fusion is not None):
        raise UsageError("blend and fusion are for rankings, and no task here has any")


def _scorers(rerankers: Sequence[str], loaded: Sequence[Task], options: TwoStageOptions) -> list[Reranker]:
    """The rerankers. Raises :class:`UsageError` if one is listwise, and a task is of near-misses."""
    scorers = [reranking.create(spec, options.device) for spec in dict.fromkeys(rerankers)]
    near_misses = [task.spec for task in loaded if not task.searches]
    for scorer in scorers:
        if near_misses and scorer.listwise:
            raise UsageError(f"{scorer.spec} is listwise and cannot score the pairs of {near_misses[0]}")
    return scorers


def _shown(task: Task, options: TwoStageOptions) -> list[str]:
    return shown_metrics(task, options.metrics, METRICS if task.searches else task.shown_metrics)


def _measured(
    firsts: Sequence[str],
    loaded: Sequence[Task],
    scorers: Sequence[Reranker],
    options: TwoStageOptions,
    store: Shards,
) -> tuple[list[Result], dict[str, Training | None]]:
    """All results, by task and first stage, its own before those of its rerankers; of near-misses those of the
    encoders, then those of the rerankers. And the training behind each, by its name."""
    requests = []
    for spec in firsts:
        if retrieval.registry_of(spec) is retrieval.registry:
            requests.append(Request(searcher=retrieval.create(spec, options.device)))
        else:
            encoder = encoders.registry.create(spec, device=options.device)
            request = Request(encoder, [encoder.similarity_of(options.sim)], precision=options.precision)
            requests.append(replace(request, dims=options.dims, index=options.index))
    on_rankings = requests if options.run is None else [Request(searcher=RunSearcher(options.run), whole=True)]
    searchers = [request.searcher for request in on_rankings if request.searcher is not None]
    check_searchers(searchers, [data for task in loaded if (data := task.judged()) is not None])
    folder = ResultsFolder(options.results) if options.results is not None else None
    trainings: dict[str, Training | None] = {}

    def evaluate(task: Task, request: Request) -> list[Result]:
        system = request.encoder or request.searcher
        reranker = system.reranker if isinstance(system, TwoStage) else request.reranker
        training = training_of_stages(system.spec if system else None, reranker.spec if reranker else None)
        if folder is not None and task.searches:
            measured = folder.evaluate(task, request, training, keep_runs=options.save_run is not None)
        else:
            measured = task.evaluate(request)
        trainings.update(dict.fromkeys((result.name for result in measured), training))
        return measured

    results: list[Result] = []
    for task in loaded:
        if task.searches:
            named = [name for name in requested(options) if measures(task, name)]
            # the last is the share of relevant documents that reranking can bring up
            names = [task.main_metric, *_shown(task, options), *named, f"recall@{options.depth}"]
            for request in on_rankings:
                (searcher,) = request.searchers(task)
                first = Shared(tuned(searcher, searcher.spec, task, _shown(task, options)))
                results += evaluate(task, replace(request, searcher=first, metrics=names))
                for scorer in scorers:
                    second = TwoStage(first, KeptReranker(scorer, store), options.together)
                    results += evaluate(task, Request(searcher=second, metrics=names, whole=request.whole))
        else:
            for request in (request for request in requests if request.encoder is not None):
                results += evaluate(task, replace(request, index=None, metrics=task.default_metrics))
            for scorer in scorers:
                reranker = KeptReranker(scorer, store)
                (result,) = evaluate(task, Request(reranker=reranker, metrics=task.default_metrics))
                results.append(replace(result, configuration=reranker.configuration()))
    if folder is not None:
        folder.report()
    return results, trainings
