"""The parts of a report's page: the tables and pictures of the commands, each under the heading that it belongs to."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import Markup

from retrokit.core.errors import RetrokitError, UsageError
from retrokit.core.sheet import Sheet
from retrokit.data.jsonl import checked
from retrokit.data.runs import RUN_FILE
from retrokit.evaluation.comparison.comparison import Evaluation
from retrokit.evaluation.comparison.correlations import check_correlated, correlations
from retrokit.evaluation.comparison.systems import in_common
from retrokit.evaluation.comparison.trained import training_of
from retrokit.evaluation.two_stage import Reranking
from retrokit.report.deployment import COSTS, deployment_plot
from retrokit.report.evaluation import evaluation_sheets
from retrokit.report.evaluation_plots import cross_plots, evaluation_plots, task_map_plot
from retrokit.report.html import pictures, to_html, write
from retrokit.report.plots import curves_of, curves_plots
from retrokit.report.queries import changes_plot, changes_sheet, query_changes
from retrokit.report.reranking import cost_sheet, near_miss_sheets
from retrokit.report.reranking_plots import ranking_rows, rows_plots
from retrokit.report.sources import EvaluationSource, ProbeSource, RunSource, Sources
from retrokit.training.history import Outcome, tenths

SHORT = 12  # letters of a digest that tell it from others


# --- what was run


def provenance(sources: Sources) -> Iterator[Markup]:
    """Data, encoders, versions and runs: all that the results come from."""
    evaluations = [source.found for source in (*sources.evaluations, *sources.rerankings)]
    if data := _data_rows(evaluations):
        yield to_html(Sheet("data", ["task", "digest", "what is in it"], 3, data, ""))
    if systems := _system_rows(evaluations):
        columns = ["encoder", "similarity", "precision", "device", "fingerprint", "retrokit", "dimensions"]
        yield to_html(Sheet("systems", columns, 6, systems, _libraries(evaluations)))
    if sources.runs:
        yield to_html(_training_sheet(sources.runs))
    for path, sheets in sources.builds:
        yield write("heading", path)
        yield from map(to_html, sheets)


def _data_rows(evaluations: Iterable[Evaluation]) -> list[list[str]]:
    rows = {}
    for evaluation in evaluations:
        for task in evaluation.tasks:
            digest = evaluation.digests[task]() if task in evaluation.digests else None
            counts = evaluation.systems_on(task)[0].first.counts
            text = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items() if count)
            rows[task, digest] = [task, digest or "–", text]
    digested = {task for task, digest in rows if digest}
    return [row for (task, digest), row in rows.items() if digest or task not in digested]


def _system_rows(evaluations: Iterable[Evaluation]) -> list[list[str]]:
    rows = {}
    for evaluation in evaluations:
        for result in evaluation.results:
            of = result.configuration
            digest = str(of.get("fingerprint", "–"))[:SHORT]
            cells = [str(of.get(name) or "–") for name in ("precision", "device")]
            row = [result.encoder, result.similarity, *cells, digest, str(of.get("retrokit", "–"))]
            rows[tuple(row)] = [*row, str(of.get("dims") or "–")]
    return list(rows.values())


def _libraries(evaluations: Iterable[Evaluation]) -> str:
    return "; or ".join(
        dict.fromkeys(_versions(key.get("libraries", {})) for evaluation in evaluations for key in evaluation.keys)
    )


def _versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _training_sheet(runs: Sequence[RunSource]) -> Sheet:
    rows = []
    versions: dict[str, None] = {}
    processors: dict[str, None] = {}
    releases: dict[str, None] = {}
    for source in runs:
        run = source.run
        shown = {"data?": [{"name": str, "digest": str}], "git?": dict[str, Any] | None}
        notes, identity = checked(shown, run.notes, Path(source.path, RUN_FILE), "notes of a run"), run.identity
        data = ", ".join(
            f"{entry['name']} {entry['digest'].removeprefix('sha256:')[:SHORT]}" for entry in notes.get("data", [])
        )
        commit = (notes.get("git") or {}).get("commit", "–")
        seconds = "–" if (taken := seconds_of(source)) is None else f"{taken:,.0f}"
        cells = [run.encoder or run.verifier or "–", run.similarity, data or "–", str(commit)[:SHORT], run.status]
        rows.append([source.path, *cells, str(identity.get("seed", "–")), f"{run.steps or 0:,}", seconds])
        versions[_versions(notes.get("versions", {}))] = None
        releases[notes.get("retrokit", "")] = None
        processors[notes.get("processor", "")] = None
    columns = ["run", "started from", "similarity", "data", "commit", "status", "seed", "steps", "seconds"]
    release = f"retrokit {' or '.join(filter(None, releases))}" if any(releases) else ""
    caption = "; ".join(
        filter(None, [release, *versions, *processors, "the options of a run: --config FOLDER/config.toml"])
    )
    return Sheet("trainings", columns, 6, rows, caption)


def seconds_of(source: RunSource) -> float | None:
    """How long a run has trained, as far as is known."""
    return next((row["seconds"] for row in reversed(source.rows) if "seconds" in row), None)


# --- results


def evaluation(source: EvaluationSource) -> Iterator[Markup]:
    """The tables and pictures of one evaluation."""
    evaluation = replace(source.found, is_cross=False)
    yield write("heading", source.path)
    if len(evaluation.tasks) > 1 and len({system.name for system in evaluation.systems}) > 1:
        yield pictures(task_map_plot, evaluation, "Systems and tasks: the leading metric of each task")
    for sheet in evaluation_sheets(_correlated(evaluation), every_test=True):
        yield to_html(sheet)
    if (costs := cost_sheet(evaluation.results)).rows:
        yield to_html(costs)
    titles = {
        f"{number:02}-": f"{evaluation.main_metric(task)} of each system on {task}"
        for number, task in enumerate(evaluation.tasks, start=1)
    }
    yield pictures(evaluation_plots, evaluation, "", titles)


def _correlated(evaluation: Evaluation) -> Evaluation:
    """With the correlations of SURE's metrics, where there are systems enough."""
    try:
        most = max(len(evaluation.systems_on(task)) for task in evaluation.tasks)
        check_correlated({task: evaluation.main_metric(task) for task in evaluation.tasks}, most)
    except UsageError:
        return evaluation
    return replace(evaluation, correlations=evaluation.correlations or correlations(evaluation.systems))


def crossed(sources: Sequence[EvaluationSource]) -> Iterator[Markup]:
    """Training similarities against evaluation similarities, where a run was scored with several."""
    for source in sources:
        scored: dict[str, set[str]] = {}
        for system in source.found.systems:
            if system.trained_with is not None:
                scored.setdefault(system.encoder, set()).add(system.similarity)
        if any(len(similarities) > 1 for similarities in scored.values()):
            keep = [system for system in source.found.systems if system.encoder in scored]
            evaluation = replace(source.found, systems=keep, is_cross=True, correlations=[])
            yield from (to_html(sheet) for sheet in evaluation_sheets(evaluation))
            yield pictures(cross_plots, evaluation, "Training similarity down, evaluation similarity across")


def by_query(sources: Sequence[EvaluationSource]) -> Iterator[Markup]:
    """What queries gain and lose."""
    for source in sources:
        for task in source.found.tasks:
            if changes := query_changes(source.found, task):
                yield to_html(changes_sheet(changes))
                yield pictures(changes_plot, changes, f"Change of every query against the first system: {task}")


def reranking(source: EvaluationSource) -> Iterator[Markup]:
    """Both stages, near-misses, and what the second stage took."""
    whole, rows = source.found, source.near_misses or []
    others = {row["task"] for row in rows}
    ranking = replace(
        whole,
        results=[result for result in whole.results if result.task not in others],
        systems=[system for system in whole.systems if system.task not in others],
        comparisons=[comparison for comparison in whole.comparisons if comparison.task not in others],
    )
    rankings = ranking if ranking.results else None
    yield write("heading", source.path)
    for sheet in [*(evaluation_sheets(ranking, every_test=True) if rankings else []), *near_miss_sheets(rows)]:
        yield to_html(sheet)
    yield to_html(cost_sheet(whole.results))
    tables = {"reranking": ranking_rows(Reranking(whole, rankings, None)), "near-misses": rows}
    titles = {"reranking": "Rerankers and the first stage", "near-misses": "Scores of near-misses, and areas"}
    yield pictures(rows_plots, tables, "", titles)


def deployments(sources: Sources) -> Iterator[Markup]:
    """Sheets of dimensions, quantisations and indexes."""
    for deployment, sheet in sources.deployments:
        yield to_html(sheet)
        title = f"{deployment.metric} against {' and '.join(COSTS.values())}: {deployment.encoder} on {deployment.task}"
        yield pictures(partial(deployment_plot, name="deployment"), deployment, title)


# --- training and probes


def trainings(runs: Sequence[RunSource]) -> Iterator[Markup]:
    """What runs yielded, and their curves, seeds of one training in one colour."""
    groups: dict[str, list[RunSource]] = {}
    for source in runs:
        groups.setdefault(_group(source), []).append(source)
    if not runs:
        return
    if finished := [row for source in runs if (row := _outcome_row(source))]:
        columns = ["run", "metric", "start", "best", "at step", "gain over the start", "loss, first", "loss, last"]
        note = (
            "gain: over the encoder as it came, under its own similarity. "
            "loss: training loss, means over the first and last tenth of the steps"
        )
        yield to_html(Sheet("what training yielded", columns, 2, finished, note))
    named = [
        (in_common([run.path for run in own]) + f" ({len(own)} seeds)" if len(own) > 1 else own[0].path, source.rows)
        for own in groups.values()
        for source in own
    ]
    curves = curves_of(named)
    titles = {f"{number:02}-": f"Through training: {quantity}" for number, quantity in enumerate(curves, start=1)}
    yield pictures(curves_plots, curves, "", titles)


def _group(source: RunSource) -> str:
    """What runs of different seeds have in common."""
    try:
        training = training_of(source.path)
    except RetrokitError:  # of a run that is not finished, nothing is known
        training = None
    return training.group if training is not None and training.seed else source.path


def _outcome_row(source: RunSource) -> list[str]:
    if source.run.outcome is None or "evaluations" not in source.run.outcome:
        return []
    outcome: Outcome = checked(Outcome, source.run.outcome, Path(source.path, RUN_FILE), "the outcome of a training")
    losses = [f"{row['loss']:.4g}" for row in tenths(source.rows)] or ["–"]
    cells = ["–", "–", "–", "–", "–"]
    if outcome.evaluations:
        first = outcome.evaluations[0]
        best = next((row for row in outcome.evaluations if row["step"] == outcome.best_step), outcome.evaluations[-1])
        metric = outcome.metric or next(iter(first["evaluation"]))
        values = [f"{row['evaluation'][metric]:.4f}" for row in (first, best)]
        cells = [metric, *values, f"{best['step']:,}", "–" if outcome.gain is None else f"{outcome.gain:+.4f}"]
    return [source.path, *cells, losses[0], losses[-1]]


def probe(source: ProbeSource) -> Iterator[Markup]:
    """What a probe found, in words, tables and pictures."""
    yield write("heading", f"{source.name}: {source.path}")
    yield write("paragraph", source.found.conclusion)
    yield from map(to_html, source.found.sheets())
    yield pictures(type(source.found).plot, source.found, "", source.found.pictures)


# --- what is missing


def lost(sources: Sources) -> list[str]:
    """What is not there, or not whole, in words."""
    messages = [
        f"{source.path}: its training is not finished" for source in sources.runs if source.run.status != "finished"
    ]
    return [*sources.notices, *messages]
