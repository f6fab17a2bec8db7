"""What each query, text or pair gains or loses against the first system of a task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from retrokit.core.figures import CURVES, color_of, fitting, legend_above, line_of, panels, save, wrapped
from retrokit.core.sheet import Sheet
from retrokit.evaluation.comparison.comparison import Evaluation
from retrokit.evaluation.comparison.explain import counted
from retrokit.evaluation.comparison.systems import comparable

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
