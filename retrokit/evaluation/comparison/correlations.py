"""How alike SURE's metrics rank systems: between its testbeds (SURE, Figure 5), and with retrieval (Table 5).

Each SURE task is a data set. Other tasks, if there are any, belong to the SURE tasks in their order. Over several data
sets the metrics of each system are averaged, as in SURE's Figure 3, and correlated once more.
"""

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

    @property
    def data_set(self) -> str:
        """The task, or how many it is over."""
        return self.tasks[0] if len(self.tasks) == 1 else f"mean of {len(self.tasks)} tasks"


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
    if len(sets) > 1:  # the mean over data sets of what each system has in all of them
        names = [name for name in sets[0] if all(name in values for values in sets)]
        means: dict[str, dict[str, float]] = {}
        for name in names:
            shared = [metric for metric in sets[0][name] if all(metric in values[name] for values in sets)]
            means[name] = {metric: statistics.fmean(values[name][metric] for values in sets) for metric in shared}
        results += _of(tuple(sure), means)
    return results


def _sides(main_metrics: Mapping[str, str]) -> tuple[list[str], list[str]]:
    sure = [task for task, metric in main_metrics.items() if metric == MEASURES[0]]
    return sure, [task for task in main_metrics if task not in sure]


def _of(tasks: tuple[str, ...], values: Mapping[str, Mapping[str, float]]) -> list[Correlation]:
    """The correlations, given the metrics of each system."""
    from scipy.stats import spearmanr

    there = dict.fromkeys(name for metrics in values.values() for name in metrics)
    pairs = [(f"{a}_{measure}", f"{b}_{measure}") for measure in MEASURES for a, b in combinations(TESTBEDS, 2)]
    pairs += [(measure, other) for other in there if other not in METRICS for measure in MEASURES]
    results = []
    for first, second in pairs:
        if first in there and second in there:
            both = [[metrics.get(first, np.nan), metrics.get(second, np.nan)] for metrics in values.values()]
            known = np.array([pair for pair in both if np.isfinite(pair).all()]).reshape(-1, 2)
            defined = len(known) >= LEAST and (np.ptp(known, axis=0) > 0).all()
            spearman = float(spearmanr(*known.T).statistic) if defined else None
            results.append(Correlation(tasks, first, second, len(known), spearman))
    return results
