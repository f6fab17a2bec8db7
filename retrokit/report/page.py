"""One page to read: what was asked, what was run, what came of it, in one HTML file that loads nothing.

Its tables and pictures are those of the commands. All texts are escaped; its policy lets no other script run than its
own, and nothing be loaded or sent.
"""

from __future__ import annotations

import platform
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

from markupsafe import Markup

from retrokit.core.errors import RetrokitError, UsageError
from retrokit.core.figures import CURVES, color_of, fitting, legend_above, line_of, panels, save, wrapped
from retrokit.core.files import writing
from retrokit.core.outputs import check_outputs
from retrokit.core.settings import FILE
from retrokit.core.sheet import Sheet
from retrokit.core.version import __version__
from retrokit.data.jsonl import checked, restored
from retrokit.data.runs import RUN_FILE
from retrokit.evaluation.comparison.comparison import Evaluation, counted
from retrokit.evaluation.comparison.correlations import check_correlated, correlations
from retrokit.evaluation.comparison.systems import comparable, in_common
from retrokit.evaluation.comparison.trained import training_of
from retrokit.evaluation.two_stage import Reranking
from retrokit.report.deployment import COSTS, deployment_plot
from retrokit.report.evaluation import evaluation_sheets
from retrokit.report.html import number_pictures_anew, pictures, template, to_html, write
from retrokit.report.plots import (
    cross_plots,
    curves_of,
    curves_plots,
    evaluation_plots,
    ranking_rows,
    rows_plots,
    task_map_plot,
)
from retrokit.report.reranking import cost_sheet, near_miss_sheets
from retrokit.report.sources import EvaluationSource, ProbeSource, RunSource, Sources, read_sources
from retrokit.report.words import sentences
from retrokit.study.state import DONE, FAILED, MISSING, StudyPlan
from retrokit.sure.audit import code_source
from retrokit.training.history import Outcome, tenths

OUTERMOST = 3
"""Queries that are named on each side."""


@dataclass(frozen=True)
class QueryChanges:
    """By how much each query is better under ``system`` than under ``baseline``, in one metric of a task."""

    task: str
    metric: str
    baseline: str
    system: str
    change: Mapping[str, float]


def query_changes(evaluation: Evaluation, task: str) -> list[QueryChanges]:
    """Of each system on ``task`` but the first, where values of queries are there, in the task's leading metric."""
    first, *others = evaluation.systems_on(task)
    metric = evaluation.leading_metric(task)
    before = first.per_item(metric)
    changes = []
    for other in others:
        after = other.per_item(metric)
        if before is not None and after is not None and comparable(first, other, metric):
            change = {item: after[item] - value for item, value in before.items() if item in after}
            changes.append(QueryChanges(task, metric, first.name, other.name, change))
    return changes


def changes_sheet(changes: Sequence[QueryChanges]) -> Sheet:
    """A line for each system: how many queries are better, worse, equal, and which changed most."""
    rows = []
    for entry in changes:
        order = sorted(entry.change, key=lambda item: -entry.change[item])
        best = [f"{item} ({entry.change[item]:+.3f})" for item in order[:OUTERMOST] if entry.change[item] > 0]
        worst = [f"{item} ({entry.change[item]:+.3f})" for item in order[::-1][:OUTERMOST] if entry.change[item] < 0]
        counts = [f"{count:,}" for count in counted(entry.change.values())]
        rows.append([entry.system, ", ".join(best) or "–", ", ".join(worst) or "–", *counts])
    first = changes[0]
    columns = ["system", "gain most", "lose most", "better", "worse", "equal"]
    return Sheet(f"{first.metric} by query: {first.task}", columns, 3, rows, f"against the first row, {first.baseline}")


def changes_plot(changes: Sequence[QueryChanges], folder: str | Path) -> list[Path]:
    """The change of every query, from the one that gains most to the one that loses most, a line for each system."""
    figure, (axes,) = panels(1, 3.6)
    axes.axhline(0, color="black", linewidth=0.8)
    for number, entry in enumerate(fitting(changes, CURVES, "systems", "changes")):
        values = sorted(entry.change.values(), reverse=True)
        style = line_of(number)
        color = color_of(number)
        axes.step(range(1, len(values) + 1), values, style, where="mid", color=color, label=wrapped(entry.system))
    axes.set_xlabel("queries, from the largest gain to the largest loss")
    axes.set_ylabel(f"change in {wrapped(changes[0].metric)}")
    axes.grid(alpha=0.3)
    legend_above(figure, axes, columns=2)
    return save(figure, folder, "changes")


SHORT = 12  # letters of a digest that tell it from others


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


def lost(sources: Sources) -> list[str]:
    """What is not there, or not whole, in words."""
    messages = [
        f"{source.path}: its training is not finished" for source in sources.runs if source.run.status != "finished"
    ]
    return [*sources.notices, *messages]


STATES = (DONE, FAILED, MISSING)
TITLE = "retrokit report"


@dataclass(frozen=True)
class ReportedStep:
    """A step of a study: ``command`` as one would type it, word by word; ``state`` is one of :data:`STATES`;
    ``seconds`` that it took; ``error``: the last lines of what a failed one said; ``processor`` that it ran on."""

    name: str
    kind: str
    command: Sequence[str]
    state: str = DONE
    seconds: float | None = None
    error: str = ""
    processor: str = ""

    def __post_init__(self) -> None:
        if self.state not in STATES:
            raise UsageError(f"step {self.name}: state {self.state!r}; expected {', '.join(STATES)}")


@dataclass(frozen=True)
class ReportedStudy:
    """What was asked and run: the ``text`` of the study's file, and its steps."""

    title: str
    text: str
    steps: Sequence[ReportedStep]

    @classmethod
    def from_json(cls, plain: Any) -> ReportedStudy:
        """A study from plain values (``dataclasses.asdict`` gives them). Raises :class:`TypeError` for others."""
        return restored(cls, plain)


def reported(plan: StudyPlan) -> ReportedStudy:
    """A study for its page."""
    steps = [
        ReportedStep(
            name=state.step.name,
            kind=state.step.table,
            command=["retrokit", *state.step.command],
            state=state.state,
            seconds=state.seconds,
            error=state.error or "",
            processor=state.processor,
        )
        for state in plan.states()
    ]
    return ReportedStudy(plan.title, plan.text, steps)


@dataclass(frozen=True)
class PagePart:
    """A part of the page, with a heading of its own; one that holds nothing is left out."""

    title: str
    blocks: list[Markup]


def write_page(
    paths: Sequence[str | Path],
    output: str | Path,
    title: str | None = None,
    study: ReportedStudy | None = None,
    price_per_hour: float | None = None,
) -> None:
    """Write the report of all that lies at the ``paths`` as one HTML file, whole or not at all.

    Args:
        paths: results folders, runs' folders, and files that ``--json`` of a command was sent to.
        output: the file; ``-`` is standard output.
        title: of the page; by default the study's.
        study: what was asked and run, if these are the results of a study.
        price_per_hour: of the machine, in any currency; the page then says what the hours of runs or steps cost.

    Raises:
        UsageError: there is neither a path nor a study, or a price of hours that nothing tells.
        DataError: a path holds nothing that a report is made from, or the page cannot be written.
    """
    if not paths and study is None:
        raise UsageError("give results to report: folders, or files of --json")
    check_outputs([(output, FILE)], [[str(path) for path in paths]])
    page = page_of(read_sources([str(path) for path in paths]), title, study, price_per_hour)
    with writing(output) as stream:
        stream.write(page)


def page_of(
    sources: Sources,
    title: str | None = None,
    study: ReportedStudy | None = None,
    price_per_hour: float | None = None,
) -> str:
    """The page as text. Arguments and errors are those of :func:`write_page`."""
    title = title or (study.title if study is not None else TITLE)
    files = resources.files("retrokit.report")
    style, script = ((files / f"page.{ending}").read_text("utf-8") for ending in ("css", "js"))
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src {code_source(script)}"
    )
    origin = f"Made by retrokit {__version__} at {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    number_pictures_anew()
    shown = [part for part in _parts(sources, study, price_per_hour) if any(part.blocks)]
    return template().render(
        title=title,
        policy=policy,
        style=Markup(style),
        script=Markup(script),
        summary=list(summary(sources, study)),
        parts=shown,
        made=f"{origin}, on {platform.system()} {platform.machine()} with Python {platform.python_version()}.",
    )


def summary(sources: Sources, study: ReportedStudy | None = None) -> Iterator[str]:
    """What the page begins with: what was found, in words, and what is missing."""
    for source in (*sources.evaluations, *sources.rerankings):
        if texts := list(sentences(source.found)):
            yield " ".join(texts)
    for probe in sources.probes:
        yield f"Probe {probe.name}: {probe.found.conclusion}"
    if study is not None and (lost := [step for step in study.steps if step.state != DONE]):
        counts = ", ".join(f"{sum(step.state == state for step in lost)} {state}" for state in (FAILED, MISSING))
        names = ", ".join(step.name for step in lost[:5]) + (", …" if len(lost) > 5 else "")
        yield f"Of {len(study.steps)} steps: {len(study.steps) - len(lost)} done, {counts} ({names})."


def _parts(sources: Sources, study: ReportedStudy | None, price_per_hour: float | None) -> Iterator[PagePart]:
    evaluated = sources.evaluations
    steps = study.steps if study is not None else []
    yield PagePart(
        "What was asked", [write("preformatted", study.text)] if study is not None and study.text.strip() else []
    )
    yield PagePart("Results", [block for source in evaluated for block in evaluation(source)])
    yield PagePart("Cross-evaluation", list(crossed(evaluated)))
    yield PagePart("Reranking", [block for source in sources.rerankings for block in reranking(source)])
    yield PagePart("Wins and losses by query", list(by_query([*evaluated, *sources.rerankings])))
    yield PagePart("Training", list(trainings(sources.runs)))
    yield PagePart("Probes", [block for source in sources.probes for block in probe(source)])
    yield PagePart("Deployment", list(deployments(sources)))
    failed = [write("failure", step, shlex.join(step.command)) for step in steps if step.state != DONE]
    yield PagePart("What is missing or failed", [*failed, *(write("paragraph", text) for text in lost(sources))])
    hours = _hours(sources, steps, price_per_hour)
    shown = [to_html(_steps_sheet(steps))] if steps else []
    yield PagePart("What was run", [*hours, *shown, *provenance(sources)])


def _hours(sources: Sources, steps: Sequence[ReportedStep], price_per_hour: float | None) -> list[Markup]:
    """How long the steps of a study took, or runs without one, and what that cost."""
    seconds = [step.seconds for step in steps] if steps else [seconds_of(run) for run in sources.runs]
    hours = sum(filter(None, seconds)) / 3600
    if price_per_hour is None:
        return [write("paragraph", f"{hours:,.2f} hours, added up.")] if hours else []
    if not hours:
        raise UsageError("`price_per_hour=` is of the hours of runs and of a study's steps: give one that tells them")
    cost = f"at {price_per_hour:,g} an hour, {hours * price_per_hour:,.2f}"
    return [write("paragraph", f"{hours:,.2f} hours, added up; {cost}.")]


def _steps_sheet(steps: Sequence[ReportedStep]) -> Sheet:
    rows = [
        [
            step.name,
            step.kind,
            step.state,
            shlex.join(step.command),
            "–" if step.seconds is None else f"{step.seconds:,.1f}",
        ]
        for step in steps
    ]
    processors = "; or ".join(dict.fromkeys(step.processor for step in steps if step.processor))
    return Sheet("steps", ["step", "kind", "state", "command", "seconds"], 4, rows, processors)
