"""How alike SURE's metrics rank systems: between its testbeds (SURE, Figure 5), and with retrieval (Table 5).

Each SURE task is a data set. Other tasks, if there are any, belong to the SURE tasks in their order. Over several data
sets the metrics of each system are averaged, as in SURE's Figure 3, and correlated once more.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product

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
    data_sets = []
    results = []
    for number, task in enumerate(sure):
        metrics = _metrics_on(task, others[number] if others else None, systems)
        data_sets.append(metrics)
        results += _correlated((task,), metrics)
    if len(data_sets) > 1:
        results += _correlated(tuple(sure), _means(data_sets))
    return results


Metrics = Mapping[str, Mapping[str, float]]
"""Metrics by the names of system and metric."""


def _sides(main_metrics: Mapping[str, str]) -> tuple[list[str], list[str]]:
    sure = [task for task, metric in main_metrics.items() if metric == MEASURES[0]]
    return sure, [task for task in main_metrics if task not in sure]


def _metrics_on(task: str, other: str | None, systems: Sequence[System]) -> Metrics:
    """SURE's metrics on a task, and the main one of the ``other`` task that belongs to it."""
    by_system: dict[str, dict[str, float]] = {}
    for system in systems:
        if system.task == task:
            names = [name for name in system.metrics if name in METRICS]
        elif system.task == other:
            names = [system.first.main_metric]
        else:
            continue
        by_system.setdefault(system.name, {}).update({name: system.metrics[name] for name in names})
    return by_system


def _means(data_sets: Sequence[Metrics]) -> Metrics:
    """The mean over data sets of what each system has in all of them."""
    means = {}
    for system, metrics in data_sets[0].items():
        if all(system in others for others in data_sets):
            shared = [name for name in metrics if all(name in others[system] for others in data_sets)]
            means[system] = {name: statistics.fmean(others[system][name] for others in data_sets) for name in shared}
    return means


def _correlated(tasks: tuple[str, ...], metrics: Metrics) -> list[Correlation]:
    """The correlations of the metrics that some system has."""
    measured = dict.fromkeys(chain.from_iterable(metrics.values()))
    pairs = [(f"{a}_{measure}", f"{b}_{measure}") for measure, (a, b) in product(MEASURES, combinations(TESTBEDS, 2))]
    pairs += [(measure, other) for other, measure in product(measured, MEASURES) if other not in METRICS]
    results = []
    for first, second in pairs:
        if first in measured and second in measured:
            values = [(of_system.get(first, np.nan), of_system.get(second, np.nan)) for of_system in metrics.values()]
            finite = np.array([pair for pair in values if np.isfinite(pair).all()]).reshape(-1, 2)
            results.append(Correlation(tasks, first, second, len(finite), _spearman(finite)))
    return results


def _spearman(pairs: np.ndarray) -> float | None:
    """Spearman's rank correlation of pairs ``[n, 2]``; ``None`` of fewer than three, or if a side is constant."""
    from scipy.stats import spearmanr

    if len(pairs) < LEAST or (np.ptp(pairs, axis=0) == 0).any():
        return None
    return float(spearmanr(*pairs.T).statistic)
