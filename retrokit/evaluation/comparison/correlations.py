"""How alike SURE's metrics rank systems: between its testbeds (SURE, Figure 5), and with retrieval (Table 5).

Each SURE task is a data set. Other tasks, if there are any, belong to the SURE tasks in their order. Over several data
sets the metrics of each system are averaged, as in SURE's Figure 3, and correlated once more.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from retrokit.core.errors import UsageError
from retrokit.data.sure import TESTBEDS
from retrokit.evaluation.comparison.systems import System

LEAST = 3
"""Systems: two are in the same order or in the reverse."""
MEASURES = ("rdc", "roc")
METRICS = (*MEASURES, *(f"{testbed}_{measure}" for testbed in TESTBEDS for measure in MEASURES))
"""What is correlated of a SURE task."""

Values = Mapping[str, Mapping[str, float]]
"""System → metric → value."""


@dataclass(frozen=True)
class Correlation:
    """Spearman's rank correlation of two metrics over systems.

    Attributes:
        tasks: the SURE tasks: one, or those whose metrics are averaged.
        systems: how many have both metrics.
        spearman: from −1 to 1; ``None`` of fewer than :data:`LEAST` systems, or where a metric is the same for all.
    """

    tasks: tuple[str, ...]
    first: str
    second: str
    systems: int
    spearman: float | None


def check_correlated(main_metrics: Mapping[str, str], systems: int) -> None:
    """See before the work that there will be correlations, given each task's main metric. Raises
    :class:`UsageError` for no SURE task, other tasks that are not one for each, or fewer than three systems."""
    sure, others = _sides(main_metrics)
    if not sure:
        raise UsageError("`correlations=` is of SURE's metrics: give a task sure:FOLDER")
    if others and len(others) != len(sure):
        problem = f"here are {len(sure)} and {len(others)}"
        raise UsageError(f"`correlations=` takes one other task for each SURE task, in their order, or none: {problem}")
    if systems < LEAST:
        needed = f"at least {LEAST} systems (encoders × similarities)"
        raise UsageError(f"`correlations=` needs {needed}, here are {systems}")


def correlations(systems: Sequence[System]) -> list[Correlation]:
    """The correlations of each SURE task, then those of its metrics' means if there are several."""
    sure, others = _sides({system.task: system.first.main_metric for system in systems})
    results, sets = [], []
    for position, task in enumerate(sure):
        values: dict[str, dict[str, float]] = {}
        other = others[position] if others else None
        for system in systems:
            if system.task == task:
                own = {name: value for name, value in system.metrics.items() if name in METRICS}
                values.setdefault(system.name, {}).update(own)
            elif system.task == other:
                metric = system.first.main_metric
                values.setdefault(system.name, {})[metric] = system.metrics[metric]
        sets.append(values)
        results += _of((task,), values)
    return results + (_of(tuple(sure), _means(sets)) if len(sets) > 1 else [])


def _sides(main_metrics: Mapping[str, str]) -> tuple[list[str], list[str]]:
    sure = [task for task, metric in main_metrics.items() if metric == MEASURES[0]]
    return sure, [task for task in main_metrics if task not in sure]


def _means(sets: Sequence[Values]) -> Values:
    """The mean over data sets of what each system has in all of them."""
    return {
        name: {
            metric: statistics.fmean(values[name][metric] for values in sets)
            for metric in sets[0][name]
            if all(metric in values[name] for values in sets)
        }
        for name in sets[0]
        if all(name in values for values in sets)
    }


def _of(tasks: tuple[str, ...], values: Values) -> list[Correlation]:
    there = list(dict.fromkeys(name for metrics in values.values() for name in metrics))
    pairs = [(f"{a}_{measure}", f"{b}_{measure}") for measure in MEASURES for a, b in combinations(TESTBEDS, 2)]
    pairs += [(measure, other) for other in there if other not in METRICS for measure in MEASURES]
    return [_correlation(tasks, *pair, values) for pair in pairs if set(pair) <= set(there)]


def _correlation(tasks: tuple[str, ...], first: str, second: str, values: Values) -> Correlation:
    from scipy.stats import spearmanr

    both = [(metrics[first], metrics[second]) for metrics in values.values() if first in metrics and second in metrics]
    known = np.array([pair for pair in both if np.isfinite(pair).all()]).reshape(-1, 2)
    defined = len(known) >= LEAST and (np.ptp(known, axis=0) > 0).all()
    return Correlation(tasks, first, second, len(known), float(spearmanr(*known.T).statistic) if defined else None)
