"""One HTML file that loads nothing: the results of commands in words, tables and plots, and where they come from.

All texts are escaped. The page's policy lets no other script run than its own, and nothing be loaded or sent.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

from markupsafe import Markup

from retrokit.core.errors import RetrokitError, UsageError
from retrokit.core.files import writing
from retrokit.core.judging import code_source
from retrokit.core.outputs import check_outputs
from retrokit.core.settings import FILE
from retrokit.core.sheet import Sheet, digits
from retrokit.core.version import __version__
from retrokit.data.jsonl import checked
from retrokit.data.runs import RUN_FILE
from retrokit.evaluation.comparison.comparison import Evaluation, counted
from retrokit.evaluation.comparison.names import for_people, short_names
from retrokit.evaluation.comparison.systems import System, comparable, in_common
from retrokit.evaluation.comparison.trained import training_of
from retrokit.extensions.page.curves import curves_of, curves_plots
from retrokit.extensions.page.html import pictures, template, to_html, write
from retrokit.extensions.page.sources import RunSource, Sources, read_sources
from retrokit.probing.base import Findings
from retrokit.report.evaluation import evaluation_sheets
from retrokit.report.plots import (
    cross_plots,
    evaluation_plots,
    reranking_plots,
)
from retrokit.report.records import RecordSource, whole
from retrokit.training.history import Outcome, tenths

_WITH_SECTIONS = (Evaluation, Findings)
"""Records that have sections of the page to themselves."""
OUTERMOST = 3  # queries that are named on each side
SHORT = 12  # letters of a digest that tell it from others


def provenance(sources: Sources) -> Iterator[Markup]:
    """Data, encoders, versions and runs: all that the results come from."""
    evaluations = _evaluations(sources).values()
    if data := _data_rows(evaluations):
        yield to_html(Sheet("data", ["task", "digest", "contents"], 3, data, ""))
    if systems := _system_rows(evaluations):
        columns = ["system", "similarity", "precision", "device", "fingerprint", "retrokit", "dimensions"]
        keys = (key for evaluation in evaluations for key in evaluation.keys)
        libraries = "; or ".join(dict.fromkeys(_versions(key.get("libraries", {})) for key in keys))
        yield to_html(Sheet("systems", columns, 6, systems, libraries))
    if sources.runs:
        yield to_html(_training_sheet(sources.runs))


def _evaluations(sources: Sources) -> dict[str, Evaluation]:
    """All evaluations by their paths."""
    return {source.path: source.record for source in sources.of(Evaluation)}


def _contents(counts: Mapping[str, float]) -> str:
    return ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items() if count)


def _data_rows(evaluations: Iterable[Evaluation]) -> list[list[str]]:
    rows = {}
    for evaluation in evaluations:
        for task in evaluation.tasks:
            digest = evaluation.digests[task]() if task in evaluation.digests else None
            rows[task, digest] = [task, digest or "–", _contents(evaluation.systems_on(task)[0].first.counts)]
    with_digest = {task for task, digest in rows if digest}
    return [row for (task, digest), row in rows.items() if digest or task not in with_digest]


def _system_rows(evaluations: Iterable[Evaluation]) -> list[list[str]]:
    rows = {}
    for evaluation in evaluations:
        for result in evaluation.results:
            configuration = result.configuration
            row = [
                result.encoder,
                result.similarity,
                str(configuration.get("precision") or "–"),
                str(configuration.get("device") or "–"),
                str(configuration.get("fingerprint", "–"))[:SHORT],
                str(configuration.get("retrokit", "–")),
            ]
            rows[tuple(row)] = [*row, str(configuration.get("dims") or "–")]
    return list(rows.values())


def _versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _training_sheet(runs: Sequence[RunSource]) -> Sheet:
    rows: list[list[str]] = []
    circumstances: dict[str, None] = {}
    for source in runs:
        run, notes = source.run, source.run.notes
        data = [f"{entry['name']} {entry['digest'].removeprefix('sha256:')[:SHORT]}" for entry in notes.get("data", [])]
        rows.append(
            [
                source.path,
                run.encoder or run.verifier or "–",
                run.similarity,
                ", ".join(data) or "–",
                str((notes.get("git") or {}).get("commit", "–"))[:SHORT],
                run.status,
                str(run.identity.get("seed", "–")),
                f"{run.steps or 0:,}",
                digits(seconds_of(source), ",.0f"),
            ]
        )
        release = f"retrokit {notes['retrokit']}" if "retrokit" in notes else ""
        circumstances |= dict.fromkeys((release, _versions(notes.get("versions", {})), notes.get("processor", "")))
    columns = ["run", "started from", "similarity", "data", "commit", "status", "seed", "steps", "seconds"]
    return Sheet("trainings", columns, 6, rows, "; ".join(filter(None, circumstances)))


def seconds_of(source: RunSource) -> float | None:
    """How long a run has trained, as far as is known."""
    return next((row["seconds"] for row in reversed(source.rows) if "seconds" in row), None)


def evaluation(source: RecordSource) -> Iterator[Markup]:
    """The tables and pictures of one evaluation."""
    evaluation = replace(for_people(source.record), is_cross=False)
    yield write("heading", source.path)
    for sheet in evaluation_sheets(evaluation, every_test=True):
        yield to_html(sheet)
    reranked = {result.encoder for result in evaluation.results if "reranker" in result.configuration}
    if reranked and all(result.encoder in reranked for result in evaluation.results):
        titles = {"reranking": "Rerankers and the first stage", "near-misses": "Scores of near-misses, and ROC-AUC"}
        yield pictures(reranking_plots, evaluation, "", titles)
        return
    titles = {
        f"{number:02}-": f"{evaluation.main_metric(task)} of each system on {task}"
        for number, task in enumerate(evaluation.tasks, start=1)
    }
    yield pictures(evaluation_plots, evaluation, "", titles)


def crossed(sources: Sequence[RecordSource]) -> Iterator[Markup]:
    """Training similarities against evaluation similarities, where a run was scored with several."""
    for source in sources:
        record = for_people(source.record)
        scored: dict[str, set[str]] = {}
        for system in record.systems:
            if system.trained_with is not None:
                scored.setdefault(system.encoder, set()).add(system.similarity)
        if any(len(similarities) > 1 for similarities in scored.values()):
            keep = [system for system in record.systems if system.encoder in scored]
            evaluation = replace(record, systems=keep, is_cross=True, correlations=[])
            yield from (to_html(sheet) for sheet in evaluation_sheets(evaluation))
            yield pictures(cross_plots, evaluation, "Training similarity down, evaluation similarity across")


def changes_sheets(evaluation: Evaluation) -> Iterator[Sheet]:
    """What queries gain and lose in a task's leading metric: a line for each system but the first, of those values that
    are there."""
    for task in evaluation.tasks:
        (first, *others), metric = evaluation.systems_on(task), evaluation.leading_metric(task)
        rows = []
        for other in others:
            if changes := _changes(first, other, metric):
                counts = [f"{count:,}" for count in counted(changes.values())]
                rows.append([other.name, _outermost(changes, sign=1), _outermost(changes, sign=-1), *counts])
        if rows:
            columns = ["system", "gain most", "lose most", "better", "worse", "equal"]
            yield Sheet(f"{metric} by query: {task}", columns, 3, rows, f"against the first row, {first.name}")


def _changes(first: System, other: System, metric: str) -> dict[str, float]:
    """The change of each item from the first system to the other; empty if they cannot be compared."""
    before, after = first.per_item(metric), other.per_item(metric)
    if not before or after is None or not comparable(first, other, metric):
        return {}
    return {item: after[item] - value for item, value in before.items() if item in after}


def _outermost(changes: Mapping[str, float], sign: int) -> str:
    """The queries that gained most, or with a negative sign lost most, and how much."""
    ordered = sorted(changes, key=lambda item: -changes[item])[::sign]
    changed = [f"{item} ({changes[item]:+.3f})" for item in ordered[:OUTERMOST] if sign * changes[item] > 0]
    return ", ".join(changed) or "–"


def trainings(runs: Sequence[RunSource]) -> Iterator[Markup]:
    """What runs yielded, and their curves, seeds of one training in one colour."""
    if not runs:
        return
    paths = [source.path for source in runs]
    names = {path: path for path in paths} | short_names(paths)
    if finished := [[names[source.path], *cells] for source in runs if (cells := _outcome_cells(source))]:
        columns = ["run", "metric", "start", "best", "at step", "gain over the start", "loss, first", "loss, last"]
        note = (
            "gain: over the encoder as it came, under its own similarity. "
            "loss: training loss, means over the first and last tenth of the steps"
        )
        yield to_html(Sheet("what training yielded", columns, 2, finished, note))
    groups: dict[str, list[RunSource]] = {}
    for source in runs:
        groups.setdefault(_group(source), []).append(source)
    curves = curves_of(list(_named(groups.values(), names)))
    titles = {f"{number:02}-": f"Through training: {quantity}" for number, quantity in enumerate(curves, start=1)}
    yield pictures(curves_plots, curves, "", titles)


def _named(groups: Iterable[list[RunSource]], names: Mapping[str, str]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The lines of each run, by what its group has in common."""
    for group in groups:
        name = in_common([names[source.path] for source in group])
        if len(group) > 1:
            name = f"{name} ({len(group)} seeds)"
        for source in group:
            yield name, source.rows


def _group(source: RunSource) -> str:
    """What runs of different seeds have in common."""
    try:
        training = training_of(source.path)
    except RetrokitError:  # of a run that is not finished, nothing is known
        training = None
    return training.group if training is not None and training.seed else source.path


def _outcome_cells(source: RunSource) -> list[str]:
    if source.run.outcome is None or "evaluations" not in source.run.outcome:
        return []
    outcome: Outcome = checked(Outcome, source.run.outcome, Path(source.path, RUN_FILE), "the outcome of a training")
    losses = [f"{row['loss']:.4g}" for row in tenths(source.rows)] or ["–"]
    cells = ["–", "–", "–", "–", "–"]
    if outcome.evaluations:
        first = outcome.evaluations[0]
        best = outcome.best
        metric = outcome.metric or next(iter(first["evaluation"]), "–")
        values = [digits(row["evaluation"].get(metric)) for row in (first, best)]
        cells = [metric, *values, f"{best['step']:,}", digits(outcome.gain, "+.4f")]
    return [*cells, losses[0], losses[-1]]


def probe(source: RecordSource) -> Iterator[Markup]:
    """What a probe found, in words, tables and pictures."""
    yield write("heading", f"{source.entry.name.removeprefix('probe-')}: {source.path}")
    record = for_people(source.record)
    yield write("paragraph", record.conclusion)
    yield from map(to_html, source.sheets)
    yield pictures(type(record).plot, record, "", record.pictures)


def tables(source: RecordSource) -> Iterator[Markup]:
    """The tables of any other record."""
    yield write("heading", f"{source.entry.name}: {source.path}")
    yield from map(to_html, source.sheets)


def write_page(
    paths: Sequence[str | Path], output: str | Path, title: str | None = None, price_per_hour: float | None = None
) -> None:
    """Write the report of all that lies at the ``paths`` as one HTML file, whole or not at all.

    Args:
        paths: results folders, model folders, and files with the ``--json`` output of a command.
        output: the file; ``-`` is standard output.
        title: of the page.
        price_per_hour: of the machine, in any currency; the page then reports what the hours of training cost.

    Raises:
        UsageError: there is no path, or a price without hours.
        DataError: a path contains nothing that a report can show, or the page cannot be written.
    """
    if not paths:
        raise UsageError("give results to report: folders, or files of --json")
    names = [str(path) for path in paths]
    check_outputs([(output, FILE)], [names])
    page = page_of(read_sources(names), title, price_per_hour=price_per_hour)
    with writing(output) as stream:
        stream.write(page)


def page_of(sources: Sources, title: str | None = None, price_per_hour: float | None = None) -> str:
    """The page as text. Errors are those of :func:`write_page`."""
    files = resources.files("retrokit.extensions.page")
    style, script = ((files / f"page.{ending}").read_text("utf-8") for ending in ("css", "js"))
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src {code_source(script)}"
    )
    origin = f"Made by retrokit {__version__} at {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    sections = [(name, blocks) for name, blocks in _sections(sources, price_per_hour) if any(blocks)]
    return template().render(
        title=title or "retrokit report",
        policy=policy,
        style=Markup(style),
        script=Markup(script),
        summary=summary(sources),
        parts=sections,
        made=f"{origin}, on {platform.system()} {platform.machine()} with Python {platform.python_version()}.",
    )


def summary(sources: Sources) -> list[str]:
    """What the page begins with: the results in words."""
    return [text for source in sources.records if (text := source.conclusion)]


def _sections(sources: Sources, price_per_hour: float | None) -> Iterator[tuple[str, list[Markup]]]:
    """The sections by their headings; the page leaves out those without a block."""
    evaluations = sources.of(Evaluation)
    others = [source for source in sources.records if not isinstance(source.record, _WITH_SECTIONS)]
    yield "Results", _drawn(evaluations, evaluation)
    yield "Cross-evaluation", list(crossed(evaluations))
    yield "Wins and losses by query", list(_wins_and_losses(sources))
    yield "Training", list(trainings(sources.runs))
    yield "Probes", _drawn(sources.of(Findings), probe)
    yield "Other results", _drawn(others, tables)
    yield "Missing or failed", list(_missing(sources))
    yield "Provenance", [*_hours(sources, price_per_hour), *provenance(sources)]


def _drawn(sources: Iterable[RecordSource], draw: Callable[[RecordSource], Iterator[Markup]]) -> list[Markup]:
    """The blocks of all records; raises :class:`DataError` if the values of a file do not fit each other."""
    blocks: list[Markup] = []
    for source in sources:
        with whole(source.path):
            blocks += draw(source)
    return blocks


def _wins_and_losses(sources: Sources) -> Iterator[Markup]:
    for evaluation in _evaluations(sources).values():
        yield from map(to_html, changes_sheets(for_people(evaluation)))


def _missing(sources: Sources) -> Iterator[Markup]:
    """Failures, notices from reading the sources, and trainings that are not finished."""
    for source in sources.records:
        yield from map(to_html, source.record.missing())
    for notice in sources.notices:
        yield write("paragraph", notice)
    for run in sources.runs:
        if run.run.status != "finished":
            yield write("paragraph", f"{run.path}: its training is not finished")


def _hours(sources: Sources, price_per_hour: float | None) -> Iterator[Markup]:
    """How long all took, and what it cost: by the records, or else by the runs, which a record may be of."""
    durations = [source.record.seconds for source in sources.records if source.record.seconds is not None]
    if not durations:
        durations = [seconds_of(run) or 0.0 for run in sources.runs]
    hours = sum(durations) / 3600
    if hours:
        cost = "" if price_per_hour is None else f"; at {price_per_hour:,g} an hour, {hours * price_per_hour:,.2f}"
        yield write("paragraph", f"{hours:,.2f} hours, added up{cost}.")
    elif price_per_hour is not None:
        raise UsageError("`price_per_hour=`: no run or other result here has hours")
