"""An evaluation as tables for people, Markdown, LaTeX, CSV, and strict JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from retrokit.core.errors import UsageError, did_you_mean
from retrokit.core.files import writing
from retrokit.core.frames import to_csv
from retrokit.core.sheet import Cell, Sheet
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
from retrokit.evaluation.comparison.near_misses import near_miss_rows, tests_gate
from retrokit.evaluation.comparison.systems import System, comparable, precisions_of
from retrokit.evaluation.result import known
from retrokit.metrics.significance import DRAWS, EXACT_UP_TO
from retrokit.report.reranking import cost_sheet, near_miss_sheets
from retrokit.report.sheets import SHOWN, in_markdown, overlap_sheets, to_latex, to_markdown

if TYPE_CHECKING:
    from retrokit.evaluation.two_stage import Reranking

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
    correlated = [_correlations_sheet(evaluation.correlations)] if evaluation.correlations else []
    if evaluation.is_cross:
        return [*(_cross_sheet(cross) for cross in cross_of(evaluation)), *correlated]
    sheets = table_sheets(evaluation, every_test)
    sheets += near_miss_sheets(near_miss_rows(evaluation.systems))
    costs = [result for result in evaluation.results if "cost" in result.configuration]
    return [*sheets, *gate_sheets(evaluation), *correlated, *([cost_sheet(costs)] if costs else [])]


def table_sheets(evaluation: Evaluation, every_test: bool = False) -> list[Sheet]:
    """The tables of :func:`evaluation_sheets` on all tasks but gates."""
    others = list(dict.fromkeys(system.task for system in evaluation.systems if not tests_gate(system)))
    if len(others) < len(evaluation.tasks):
        evaluation = evaluation.part(others)
    sheets = [_task_sheet(evaluation, task) for task in evaluation.tasks]
    if evaluation.over_tasks:
        sheets.append(_over_tasks_sheet(evaluation))
    tested = _tests_on_tasks(evaluation, every_test)
    tested += [entry.comparison for entry in evaluation.over_tasks if entry.comparison is not None]
    if tested:
        sheets.append(_tests_sheet(evaluation, tested))
    sheets += [_explanation_sheet(explanation) for explanation in evaluation.explanations]
    return [*sheets, *overlap_sheets([vars(overlap) for overlap in evaluation.overlaps if overlap.examples])]


def reranking_sheets(reranking: Reranking) -> list[Sheet]:
    """The tables of what ``rerank`` measured."""
    sheets = table_sheets(reranking.whole) + near_miss_sheets(reranking.near_miss_rows())
    return [*sheets, *gate_sheets(reranking.whole), cost_sheet(reranking.whole.results)]


def gate_sheets(evaluation: Evaluation) -> list[Sheet]:
    """How far systems are from the stored baseline, and the verdicts of the gates, if any."""
    changes = [_changes_sheet(evaluation.changes)] if evaluation.changes else []
    return [*changes, *([gates_sheet(evaluation.gates)] if evaluation.gates else [])]


def evaluation_csv(evaluation: Evaluation) -> str:
    """A line per system and metric on each task, then a line per system over tasks, with the comparison, if any; then
    a line per correlation, whose items are the systems."""
    return to_csv(evaluation.to_frame()).rstrip("\n")


FORMATS: dict[str, Form] = {
    "table": lambda evaluation, _: evaluation_sheets(evaluation),
    "json": lambda evaluation, with_queries: [to_json(evaluation.to_json(with_queries), kind="evaluation")],
    "csv": lambda evaluation, _: [evaluation_csv(evaluation)],
    "markdown": lambda evaluation, _: list(map(to_markdown, evaluation_sheets(evaluation))),
    "latex": lambda evaluation, _: list(map(to_latex, evaluation_sheets(evaluation))),
}


def _task_sheet(evaluation: Evaluation, task: str) -> Sheet:
    first, *others = systems = evaluation.systems_on(task)
    metrics = [name for name in evaluation.shown[task] if any(name in system.metrics for system in systems)]
    tests = {(c.result, c.metric): c for c in evaluation.comparisons if c.task == task}
    rows: list[list[str | Cell]] = [[first.encoder, first.similarity, *(_value(first, name) for name in metrics)]]
    for other in others:
        cells = [_compared(other, first, metric, tests.get((other.name, metric))) for metric in metrics]
        rows.append([other.encoder, other.similarity, *cells])
    apart = any(metric in system.first.own_scale for system in systems for metric in metrics)
    methods = sorted({comparison.method for key, comparison in tests.items() if key[1] in metrics}, reverse=True)
    caption = [
        _sizes(first),
        *([_how_compared(methods)] if others else []),
        *(["scores are on scales of their own, so their means are not compared"] if others and apart else []),
        *_about_seeds(systems),
        *_about_indexes(systems),
        *(note for system in systems for note in _about_searchers(system)),
        *_about_precisions(systems),
        *_about_cuts(systems),
    ]
    return Sheet(task, ["system", "similarity", *metrics], 2, rows, "; ".join(part for part in caption if part))


def _value(system: System, metric: str) -> str:
    if known(system.metrics.get(metric)) is None:
        return "–"
    deviation = system.deviation(metric)
    return f"{system.metrics[metric]:.4f}" + (f" ± {deviation:.4f}" if deviation is not None else "")


def _compared(system: System, first: System, metric: str, comparison: Comparison | None) -> Cell:
    value = _value(system, metric)
    if comparison is not None:
        return value, difference_of(comparison), f"p={comparison.corrected_p:.2g}"
    if comparable(first, system, metric):
        return value, f"{system.metrics[metric] - first.metrics[metric]:+.4f} "
    return (value,)


def difference_of(comparison: Comparison) -> str:
    """The difference, with a star where it is significant."""
    return f"{comparison.test.difference:+.4f}{'*' if comparison.significant else ' '}"


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
    notes = []
    for system in systems:
        counts = system.first.counts
        cuts = {name.removesuffix("_cut"): count for name, count in counts.items() if name.endswith("_cut") and count}
        shares = (
            f"{count:,} {name}" + (f" ({count / counts[name]:.1%})" if counts.get(name) else "")
            for name, count in cuts.items()
        )
        if cuts:
            notes.append(
                f"{system.encoder} reads the beginning of {' and '.join(shares)}, which are longer than it takes"
            )
    return list(dict.fromkeys(notes))


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
        tested = (difference_of(c), f"p={c.corrected_p:.2g}") if c is not None else ()
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
    rows = []
    for c in tested:
        randomised = f"{c.randomisation_p:.2g}" if c.randomisation_p is not None else "–"
        interval = f"{c.test.low:+.4f} … {c.test.high:+.4f}"
        numbers = [difference_of(c), interval, f"{c.test.p:.2g}", randomised, f"{c.corrected_p:.2g}"]
        rows.append([c.task, c.result, c.metric, c.method, *numbers])
    columns = ["task", "system", "metric", "test", "difference", "95% interval", "p", "randomisation p", "Holm p"]
    families = {c.metric: sum(other.metric == c.metric for other in evaluation.comparisons) for c in tested}
    corrected = ", ".join(f"{count} in {metric}" for metric, count in families.items())
    caption = (
        "difference from the first row of the task; randomisation: signs of the differences flipped, all ways where "
        f"at most {EXACT_UP_TO} items differ, else {DRAWS:,} draws (seed 0); Holm: the larger p, corrected over all "
        f"comparisons in the metric ({corrected}), means over tasks separately; * where it is below {SIGNIFICANCE}"
    )
    return Sheet("tests", columns, 4, rows, caption)


def _explanation_sheet(explanation: Explanation) -> Sheet:
    rows = []
    for query in explanation.queries:
        cells = [query.id, _short(query.query), f"{query.before:.4f} → {query.after:.4f}"]
        for document in query.documents:
            places = ["–" if rank is None else str(rank) for rank in (document.before, document.after)]
            rows.append([*cells, document.id, _short(document.text), " → ".join(places)])
            cells = ["", "", ""]
        if query.others:
            rows.append(["", "", "", f"and {query.others:,} more", "", ""])
    columns = ["query", "text", explanation.metric, "relevant document", "text", "rank"]
    caption = (
        f"{explanation.metric} of {explanation.baseline} → {explanation.system}; {explanation.better:,} queries are "
        f"better, {explanation.worse:,} worse, {explanation.equal:,} equal; –: not found"
    )
    return Sheet(f"{explanation.task}: what changed most", columns, 6, rows, caption)


def _short(text: str) -> str:
    return textwrap.shorten(text, SHOWN, placeholder="…")


def _changes_sheet(changes: Sequence[BaselineChange]) -> Sheet:
    rows = []
    for change in changes:
        test = ["–", "–", "–", "–"]
        if (c := change.comparison) is not None:
            seen = f"{change.visible:.4f}" if change.visible is not None else "–"
            test = [difference_of(c), f"{c.test.low:+.4f} … {c.test.high:+.4f}", f"{c.corrected_p:.2g}", seen]
        values = ["–" if known(value) is None else f"{value:.4f}" for value in (change.before, change.after)]
        rows.append([change.task, change.system, change.baseline, change.metric, *values, *test])
    names = ["task", "system", "baseline", "metric"]
    columns = [*names, "before", "after", "difference", "95% interval", "Holm p", "visible"]
    caption = (
        "difference from the stored baseline; visible: the smallest drop that as many items show with 80% power; "
        f"* where the p, corrected over the lines of a metric, is below {SIGNIFICANCE}"
    )
    return Sheet("since the baseline", columns, 4, rows, caption)


def _cross_sheet(cross: Cross) -> Sheet:
    rows = []
    for row, trained in zip(cross.rows, cross.trained_with, strict=True):
        by_column = {column: cross.cells.get((row, column)) for column in cross.columns}
        own = {trained: " <"}
        cells = [
            "–" if system is None else f"{_value(system, cross.metric)}{own.get(column, '')}"
            for column, system in by_column.items()
        ]
        rows.append([row, trained or "–", *cells])
    caption = f"{cross.metric}; columns: evaluated with; < where that is what it was trained with"
    systems = list(cross.cells.values())
    caption = "; ".join([caption, _sizes(systems[0]), *_about_seeds(systems), *_about_precisions(systems)])
    return Sheet(cross.task, ["system", "trained with", *cross.columns], 2, rows, caption)


def _correlations_sheet(correlations: Sequence[Correlation]) -> Sheet:
    sets = list(dict.fromkeys(correlation.data_set for correlation in correlations))
    cells: dict[tuple[str, str], dict[str, Cell]] = {}
    for correlation in correlations:
        value = f"{correlation.spearman:.2f}" if correlation.spearman is not None else "–"
        row = cells.setdefault((correlation.first, correlation.second), {})
        row[correlation.data_set] = (value, f"n={correlation.systems}")
    rows = [[*pair, *(row.get(name, "–") for name in sets)] for pair, row in cells.items()]
    caption = "Spearman's rank correlation of two metrics over n systems (SURE, Figure 5 and Table 5)"
    return Sheet("correlations", ["metric", "and", *sets], 2, rows, caption)


def gates_sheet(gates: Sequence[Gate]) -> Sheet:
    """A table with a line for each gate."""
    rows = []
    for gate in gates:
        value = "–" if gate.value is None else f"{gate.value:.4f}"
        rows.append([gate.task, gate.system, gate.metric, gate.asked, gate.verdict, value])
    columns = ["task", "system", "metric", "required", "verdict", "value"]
    return Sheet("gates", columns, 5, rows, ", ".join(f"{count} {word}" for word, count in verdicts(gates).items()))


def write_summary(gates: Sequence[Gate], sheets: Sequence[Sheet], path: str) -> None:
    """Write ``path`` as GitHub's Markdown: how many gates hold, what the others say, and the tables. Raises
    :class:`DataError` if it cannot be written."""
    summary = ", ".join(f"{count} {verdict}" for verdict, count in verdicts(gates).items())
    said = [f"- {in_markdown(gate.message)}" for gate in gates if gate.verdict == FAILED]
    with writing(path) as stream:
        title = f"### retrokit: gates: {summary}" if gates else "### retrokit"
        stream.write("\n".join([title, "", *said, *([""] if said else []), *map(to_markdown, sheets)]))
