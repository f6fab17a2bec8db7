"""An evaluation as tables for people, Markdown, LaTeX, CSV, and strict JSON."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from retrokit.core.errors import UsageError, did_you_mean
from retrokit.core.files import writing
from retrokit.core.frames import to_csv
from retrokit.core.sheet import Cell, Sheet, digits, record_sheet
from retrokit.data.jsonl import to_json
from retrokit.evaluation.comparison.comparison import (
    BOOTSTRAP,
    FAILED,
    SIGNIFICANCE,
    T_TEST,
    BaselineChange,
    Comparison,
    Cross,
    Evaluation,
    Explanation,
    Gate,
    cross_of,
)
from retrokit.evaluation.comparison.correlations import Correlation
from retrokit.evaluation.comparison.gates import verdicts
from retrokit.evaluation.comparison.names import for_people
from retrokit.evaluation.comparison.near_misses import tests_gate
from retrokit.evaluation.comparison.systems import System, comparable, precisions_of
from retrokit.metrics.significance import DRAWS, EXACT_UP_TO
from retrokit.report.reranking import cost_sheet, near_miss_sheets
from retrokit.report.sheets import in_markdown, overlap_sheets, short, to_latex, to_markdown

Form = Callable[[Evaluation, bool], list[Any]]


def form(name: str) -> Form:
    """How to write an evaluation in the format ``name``: a function of it, and of whether the values of every query
    belong to it (only JSON), that returns what to print by parts. Raises :class:`UsageError` for an unknown name."""
    if name not in FORMATS:
        raise UsageError(f"unknown format {name!r}{did_you_mean(name, FORMATS)}; known: {', '.join(FORMATS)}")
    return FORMATS[name]


def evaluation_sheets(evaluation: Evaluation, every_test: bool = False) -> list[Sheet]:
    """A table per task, then one over tasks and one of the tests, where there are any; of a cross-evaluation, one per
    task of training against evaluation similarity. Near-misses that test a gate have tables of their own. Correlations
    and the cost of reranking come last. The tests are those in each task's main metric and in that of gates, or with
    ``every_test`` in all metrics that are shown."""
    evaluation = for_people(evaluation)
    correlated = [_correlations_sheet(evaluation.correlations)] if evaluation.correlations else []
    if evaluation.is_cross:
        return [*map(_cross_sheet, cross_of(evaluation)), *correlated]
    sheets = table_sheets(evaluation, every_test)
    sheets += near_miss_sheets(evaluation.near_misses)
    costs = [result for result in evaluation.results if "cost" in result.configuration]
    return [*sheets, *gate_sheets(evaluation), *correlated, *([cost_sheet(costs)] if costs else [])]


def table_sheets(evaluation: Evaluation, every_test: bool = False) -> list[Sheet]:
    """The tables of :func:`evaluation_sheets` on all tasks but gates."""
    evaluation = _without_gates(evaluation)
    sheets = [_task_sheet(evaluation, task) for task in evaluation.tasks]
    if evaluation.over_tasks:
        sheets.append(_over_tasks_sheet(evaluation))
    tested = _tests_on_tasks(evaluation, every_test)
    tested += [entry.comparison for entry in evaluation.over_tasks if entry.comparison is not None]
    if tested:
        sheets.append(_tests_sheet(evaluation, tested))
    sheets += map(_explanation_sheet, evaluation.explanations)
    sheets += overlap_sheets([vars(overlap) for overlap in evaluation.overlaps if overlap.examples])
    return sheets


def _without_gates(evaluation: Evaluation) -> Evaluation:
    others = list(dict.fromkeys(system.task for system in evaluation.systems if not tests_gate(system)))
    return evaluation.part(others) if len(others) < len(evaluation.tasks) else evaluation


def gate_sheets(evaluation: Evaluation) -> list[Sheet]:
    """How far systems are from the stored baseline, and the verdicts of the gates, if any."""
    sheets = []
    if evaluation.changes:
        sheets.append(_changes_sheet(evaluation.changes))
    if evaluation.gates:
        sheets.append(gates_sheet(evaluation.gates))
    return sheets


FORMATS: dict[str, Form] = {
    "table": lambda evaluation, _: evaluation_sheets(evaluation),
    "json": lambda evaluation, with_queries: [to_json(evaluation.to_json(with_queries), kind="evaluation")],
    "csv": lambda evaluation, _: [to_csv(evaluation.to_frame()).rstrip("\n")],
    "markdown": lambda evaluation, _: list(map(to_markdown, evaluation_sheets(evaluation))),
    "latex": lambda evaluation, _: list(map(to_latex, evaluation_sheets(evaluation))),
}


def _task_sheet(evaluation: Evaluation, task: str) -> Sheet:
    first, *others = systems = evaluation.systems_on(task)
    metrics = [name for name in evaluation.shown[task] if any(name in system.metrics for system in systems)]
    tests = {metric: evaluation.tests_on(task, metric) for metric in metrics}
    rows: list[list[str | Cell]] = [[first.encoder, first.similarity, *(value_of(first, name) for name in metrics)]]
    for other in others:
        cells = [_compared(other, first, metric, tests[metric].get(other.name)) for metric in metrics]
        rows.append([other.encoder, other.similarity, *cells])
    methods = {test.method for by_system in tests.values() for test in by_system.values()}
    notes = _task_notes(systems, metrics, sorted(methods, reverse=True))
    return Sheet(task, ["system", "similarity", *metrics], 2, rows, "; ".join(filter(None, notes)))


def _task_notes(systems: Sequence[System], metrics: Sequence[str], methods: Sequence[str]) -> Iterator[str]:
    """How large the task is, how its systems were compared, and remarks on single systems."""
    yield _sizes(systems[0])
    if len(systems) > 1:
        yield _how_compared(methods)
        scales = {metric for system in systems for metric in system.first.own_scale}
        if not scales.isdisjoint(metrics):
            yield "scores are on scales of their own, so their means are not compared"
    yield from _about_seeds(systems)
    yield from _about_indexes(systems)
    for system in systems:
        yield from _about_searchers(system)
    yield from _about_precisions(systems)
    yield from _about_cuts(systems)


def value_of(system: System, metric: str, absent: str = "–") -> str:
    """The metric of a system, and its SD over seeds."""
    value = digits(system.metrics.get(metric), absent=absent)
    if value == absent:
        return value
    deviation = system.deviation(metric)
    return value if deviation is None else f"{value} ± {deviation:.4f}"


def _compared(system: System, first: System, metric: str, comparison: Comparison | None) -> Cell:
    value = value_of(system, metric)
    if comparison is not None:
        return value, comparison.starred, f"p={comparison.corrected_p:.2g}"
    if comparable(first, system, metric):
        return value, f"{system.metrics[metric] - first.metrics[metric]:+.4f} "
    return (value,)


_SIZES = ("queries", "documents", "near_misses", "pairs", "texts", "test_texts", "train_texts", "labels")
_P_OF = {T_TEST: "the larger of paired t-test and randomisation test", BOOTSTRAP: "paired bootstrap"}


def _sizes(system: System) -> str:
    counts = system.first.counts
    return ", ".join(f"{counts[key]:,} {key.replace('_', ' ')}" for key in _SIZES if key in counts)


def _how_compared(methods: Sequence[str]) -> str:
    if not methods:
        return "difference from the first row"
    tests = " or ".join(_P_OF[method] for method in methods)
    return f"difference from the first row, * where p < {SIGNIFICANCE} ({tests}; Holm's correction)"


def _about_seeds(systems: Sequence[System]) -> list[str]:
    has_seeds = any(len(system.results) > 1 for system in systems)
    return ["± SD over seeds, which are averaged before testing"] * has_seeds


def _about_indexes(systems: Sequence[System]) -> list[str]:
    """Recall of the indexes against exact search."""
    notes = []
    for system in systems:
        for result in system.results:
            index, recall = (result.configuration.get(name) for name in ("index", "index_recall"))
            if recall:
                shares = ", ".join(f"{name} {share:.3f}" for name, share in recall.items() if name != "queries")
                notes.append(f"{result.name}: {index} against exact search: {shares} ({recall['queries']:,} queries)")
            elif index:
                notes.append(f"{result.name}: searched through {index}; how much it finds was not measured")
    return notes


def _about_cuts(systems: Sequence[System]) -> list[str]:
    """How many texts are longer than an encoder takes."""
    notes: dict[str, None] = {}
    for system in systems:
        counts = system.first.counts
        cuts = []
        for name, count in counts.items():
            texts = name.removesuffix("_cut")
            if texts == name or not count:
                continue
            share = f" ({count / counts[texts]:.1%})" if counts.get(texts) else ""
            cuts.append(f"{count:,} {texts}{share}")
        if cuts:
            text = f"{system.encoder} reads the beginning of {' and '.join(cuts)}, which are longer than it takes"
            notes[text] = None
    return list(notes)


def _about_searchers(system: System) -> Iterator[str]:
    """The notes of a system's searchers, and the weights that were tuned."""
    for configuration in _configurations(system.first.configuration):
        for note in configuration.get("notes", ()):
            yield f"{system.name}: {note}"
        on = configuration.get("tuned_on")
        if on is not None and "weight" in configuration:
            queries = f"{on['queries']:,} queries of the split {on['split']}"
            yield f"{system.name}: weight {configuration['weight']:g} by {on['metric']} of {queries}"


def _configurations(configuration: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The configuration of a system, and those of the searchers that it consists of."""
    yield configuration
    for role in ("a", "b", "first_stage"):
        if role in configuration:
            yield from _configurations(configuration[role])


def _about_precisions(systems: Sequence[System]) -> list[str]:
    """Which systems were computed in which precision, where they were not all computed in the same."""
    by_precision = precisions_of(systems)
    text = "; ".join(f"{precision}: {', '.join(names)}" for precision, names in by_precision.items())
    return [f"COMPARED ACROSS PRECISIONS, which differ by their rounding too: {text}"] if by_precision else []


def _over_tasks_sheet(evaluation: Evaluation) -> Sheet:
    by_name = {system.name: system for system in evaluation.systems}
    rows = []
    for entry in evaluation.over_tasks:
        system, c = by_name[entry.system], entry.comparison
        tested = (c.starred, f"p={c.corrected_p:.2g}") if c is not None else ()
        cell = (f"{entry.mean:.4f} ± {entry.deviation:.4f}", *tested)
        rows.append([system.encoder, system.similarity, entry.metric, str(len(entry.tasks)), cell])
    caption = f"mean ± SD over tasks, which are the items of the test (MAG, Q.1); {_how_compared([T_TEST])}"
    caption = "; ".join([caption, *_about_precisions(evaluation.systems)])
    return Sheet("over tasks", ["system", "similarity", "metric", "tasks", "mean"], 3, rows, caption)


def _tests_on_tasks(evaluation: Evaluation, every_test: bool) -> list[Comparison]:
    if every_test:
        return [c for c in evaluation.comparisons if c.metric in evaluation.shown[c.task]]
    main = {task: evaluation.main_metric(task) for task in evaluation.tasks}
    deciding = {task: {metric, evaluation.gated_metric(task, metric)} for task, metric in main.items()}
    return [c for c in evaluation.comparisons if c.metric in deciding[c.task]]


def _tests_sheet(evaluation: Evaluation, tested: Sequence[Comparison]) -> Sheet:
    families = {c.metric: sum(other.metric == c.metric for other in evaluation.comparisons) for c in tested}
    corrected = ", ".join(f"{count} in {metric}" for metric, count in families.items())
    caption = (
        "difference from the first row of the task; randomisation: signs of the differences flipped, all ways where "
        f"at most {EXACT_UP_TO} items differ, else {DRAWS:,} draws (seed 0); Holm: the larger p, corrected over all "
        f"comparisons in the metric ({corrected}), means over tasks separately; * where it is below {SIGNIFICANCE}"
    )
    order = ("task", "result", "metric", "method", "test", "randomisation_p", "corrected_p")
    return record_sheet("tests", tested, caption, order)


def _explanation_sheet(explanation: Explanation) -> Sheet:
    rows = []
    for query in explanation.queries:
        cells = [query.id, short(query.query), f"{query.before:.4f} → {query.after:.4f}"]
        for document in query.documents:
            ranks = f"{digits(document.before, '')} → {digits(document.after, '')}"
            rows.append([*cells, document.id, short(document.text), ranks])
            cells = ["", "", ""]
        if query.others:
            rows.append(["", "", "", f"and {query.others:,} more", "", ""])
    columns = ["query", "text", explanation.metric, "relevant document", "text", "rank"]
    caption = (
        f"{explanation.metric} of {explanation.baseline} → {explanation.system}; {explanation.better:,} queries are "
        f"better, {explanation.worse:,} worse, {explanation.equal:,} equal; –: not found"
    )
    return Sheet(f"{explanation.task}: what changed most", columns, 6, rows, caption)


def _changes_sheet(changes: Sequence[BaselineChange]) -> Sheet:
    caption = (
        "difference from the stored baseline; visible: the smallest drop that as many items show with 80% power; "
        f"* where the p, corrected over the lines of a metric, is below {SIGNIFICANCE}"
    )
    order = ("task", "system", "baseline", "metric", "before", "after", "comparison")
    return record_sheet("since the baseline", changes, caption, order)


def _cross_sheet(cross: Cross) -> Sheet:
    rows = []
    for row, trained in zip(cross.rows, cross.trained_with, strict=True):
        cells = [row, trained or "–"]
        for column in cross.columns:
            system = cross.cells.get((row, column))
            mark = " <" if column == trained else ""
            cells.append("–" if system is None else f"{value_of(system, cross.metric)}{mark}")
        rows.append(cells)
    caption = f"{cross.metric}; columns: evaluated with; < where that is what it was trained with"
    systems = list(cross.cells.values())
    caption = "; ".join([caption, _sizes(systems[0]), *_about_seeds(systems), *_about_precisions(systems)])
    return Sheet(cross.task, ["system", "trained with", *cross.columns], 2, rows, caption)


def _correlations_sheet(correlations: Sequence[Correlation]) -> Sheet:
    sets = list(dict.fromkeys(correlation.data_set for correlation in correlations))
    cells: dict[tuple[str, str], dict[str, Cell]] = {}
    for correlation in correlations:
        value = digits(correlation.spearman, ".2f")
        row = cells.setdefault((correlation.first, correlation.second), {})
        row[correlation.data_set] = (value, f"n={correlation.systems}")
    rows = [[*pair, *(row.get(name, "–") for name in sets)] for pair, row in cells.items()]
    caption = "Spearman's rank correlation of two metrics over n systems (SURE, Figure 5 and Table 5)"
    return Sheet("correlations", ["metric", "and", *sets], 2, rows, caption)


def gates_sheet(gates: Sequence[Gate]) -> Sheet:
    """A table with a line for each gate."""
    return record_sheet("gates", gates, verdicts(gates), ("task", "system", "metric", "asked", "verdict", "value"))


def write_summary(gates: Sequence[Gate], sheets: Sequence[Sheet], path: str) -> None:
    """Write ``path`` as GitHub's Markdown: how many gates hold, what the others say, and the tables. Raises
    :class:`DataError` if it cannot be written."""
    said = [f"- {in_markdown(gate.message)}" for gate in gates if gate.verdict == FAILED]
    with writing(path) as stream:
        title = f"### retrokit: gates: {verdicts(gates)}" if gates else "### retrokit"
        stream.write("\n".join([title, "", *said, *([""] if said else []), *map(to_markdown, sheets)]))
