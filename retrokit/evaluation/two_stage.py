"""``retrokit rerank``: the evaluation of first stages, and of each with each reranker behind it (COMP, D.4).

Stage 1 retrieves the top 100 of every query, stage 2 scores them again. What is below the reranked depth keeps its
place. Each system is compared with the first stage by paired tests over queries, under Holm's correction. Rerankers are
measured on near-misses as well (COMP, Evaluation 2), next to the pooled score of the first stage's encoder. This is an
evaluation of the searchers ``two-stage`` (:mod:`retrokit.ranking.retrieval.two_stage`), with their options in place of
specs.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from retrokit.core.errors import UsageError
from retrokit.core.outputs import check_folder, check_own, check_settings
from retrokit.core.registry import Spec, head_of
from retrokit.core.settings import Value
from retrokit.core.shards import Shards
from retrokit.evaluation import RANKING
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.comparison.comparison import Evaluation
from retrokit.evaluation.evaluate import evaluate_systems
from retrokit.evaluation.settings import EvaluationSettings
from retrokit.evaluation.settings import TwoStageOptions as TwoStageOptions

METRICS = ("ndcg@10", "accuracy@1", "mrr@10")
"""What is shown of a ranking by default; the first two are COMP's (D.4)."""


def rerank(
    encoder: str | Sequence[str] | None,
    on: Sequence[str],
    rerankers: Sequence[str],
    options: TwoStageOptions | None = None,
    **more: Any,
) -> Evaluation:
    """Rerank what a first stage finds on every task, and measure both stages.

    Args:
        encoder: spec of the first stage, or of several: encoders or searchers; ``None`` where a run takes its place,
            or where all tasks are of near-misses.
        on: tasks that search, or ``pairs:FILE`` of near-misses.
        rerankers: what to rerank with, one after the other: rerankers, or encoders, which score under their own
            similarity.
        options: how, and what is written; by default as in COMP. ``work`` is a folder for scores, so that the same
            call resumes after a break, and other metrics or fusions need no new scores. By default it is next to
            ``save_run``, and is removed in the end; without that there is none. Gates that fail raise nothing.
        more: fields of the options, in place of those in ``options``.

    Raises:
        UsageError, DataError: as for :func:`retrokit.evaluation.evaluate.evaluate_systems`; no first stage, a run next
            to one, or a run to save of nothing.
        Interrupted: Ctrl-C; finished work stays in ``work``.
    """
    options = replace(options or TwoStageOptions(), **more)
    firsts = _first_stages(encoder, options)
    on_gates = [_as_gate(spec, options) for spec in dict.fromkeys(on)]
    check_settings(options, firsts, on, rerankers)
    _check_outputs(firsts, on, rerankers, options)
    work = _folder_of_scores(options)
    systems = _systems(firsts, rerankers, options, work)
    evaluation = evaluate_systems(_settings(options, systems, on_gates))
    if work is not None and options.work is None:
        Shards(work).remove()
    return evaluation


def _settings(options: TwoStageOptions, systems: Sequence[str], on: Sequence[str]) -> EvaluationSettings:
    """The options as settings of the evaluation."""
    names = {field.name for field in fields(EvaluationSettings)} & {field.name for field in fields(options)}
    settings = {name: getattr(options, name) for name in names}
    settings |= {
        "encoders": systems,
        "on": on,
        "sim": () if options.sim is None else (options.sim,),
        "metrics": options.metrics or _usual_metrics(on),
        "saves_reranked": True,
    }
    return EvaluationSettings(**settings)


def _first_stages(encoder: str | Sequence[str] | None, options: TwoStageOptions) -> list[str]:
    """The specs of the first stages; a run is one too."""
    if encoder is None:
        firsts = []
    elif isinstance(encoder, str):
        firsts = [encoder]
    else:
        firsts = list(dict.fromkeys(encoder))
    if options.run is None:
        return firsts
    if firsts:
        raise UsageError(f"the run {options.run} takes the place of {', '.join(firsts)}: give it as run:{options.run}")
    return [str(Spec("run", {"path": options.run}, "path"))]


def _systems(firsts: Sequence[str], rerankers: Sequence[str], options: TwoStageOptions, work: Path | None) -> list[str]:
    """The specs of all systems: each first stage, then the same with each reranker behind it."""
    systems: list[str] = []
    starts: Sequence[str | None] = firsts or [None]
    for first in starts:
        if first is not None:
            systems.append(first)
        for reranker in dict.fromkeys(rerankers):
            options_by_name: dict[str, Value | None] = {
                "first": first,
                "reranker": reranker,
                "depth": options.depth,
                "blend": options.blend,
                "fusion": options.fusion,
                "work": str(work) if work is not None else None,
            }
            params = {name: value for name, value in options_by_name.items() if value is not None}
            systems.append(str(Spec("two-stage", params, "first")))
    return systems


def _as_gate(spec: str, options: TwoStageOptions) -> str:
    """The task of near-misses as the test of a gate; any other as it is."""
    with suppress(UsageError):  # the evaluation reports a wrong name, with all others
        parsed = tasks.parse(spec)
        if parsed.name == "pairs":
            gate = parsed.changed(gate=True)
            if options.paraphrases is not None:
                gate = gate.changed(paraphrases=options.paraphrases, max_paraphrases=options.max_paraphrases)
            return str(gate)
    return spec


def _usual_metrics(on: Sequence[str]) -> Sequence[str]:
    """COMP's metrics, where a task ranks documents."""
    return METRICS if any(head_of(spec) in RANKING for spec in on) else ()


def _check_outputs(
    firsts: Sequence[str], on: Sequence[str], rerankers: Sequence[str], options: TwoStageOptions
) -> None:
    """Raise :class:`UsageError` or :class:`DataError`, before hours of scoring, for paraphrases without near-misses, or
    reranked runs that cannot be written."""
    rankings = sum(head_of(spec) != "pairs" for spec in on)
    if options.paraphrases is not None and rankings == len(on):
        raise UsageError("`paraphrases=` is for near-misses (pairs:FILE), and there are none here")
    if options.save_run is None:
        return
    if not rankings:
        raise UsageError(f"{options.save_run} would hold a run, and no task here ranks documents")
    if rankings * len(firsts) * len(set(rerankers)) <= 1:
        return
    if options.save_run == "-":
        raise UsageError("standard output takes one run: give one task, first stage and reranker, or a folder")
    check_folder(options.save_run)


def _folder_of_scores(options: TwoStageOptions) -> Path | None:
    """The folder for scores; ``None`` if they are not stored."""
    if options.work is not None:
        return Path(options.work)
    if options.save_run is None or options.save_run == "-":
        return None
    folder = Path(f"{options.save_run.rstrip('/')}.work")
    check_own(folder)
    return folder
