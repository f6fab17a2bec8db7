"""What a run is evaluated on, and which metric decides which weights are kept.

A metric of a run is named ``TASK:METRIC``, as ``scifact:ndcg@10``, where the task goes by its short name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from retrokit.core.errors import UsageError
from retrokit.evaluation import registry
from retrokit.evaluation.task import Task

LOSS = "loss"
HOLDOUT = "holdout"
"""Name of what is held out of the training data; its loss is measured by the trainer."""


def lower_is_better(metric: str) -> bool:
    """Of two values of a metric; of all but a loss the higher one is better."""
    return metric.rpartition(":")[2] == LOSS


@dataclass(frozen=True)
class Evaluations:
    """The ``tasks`` by their names, and the metric that ``decides``; empty where there are none."""

    tasks: Mapping[str, Task]
    decides: str

    @classmethod
    def of(cls, tasks: Mapping[str, Task], best_metric: str | None) -> Evaluations:
        """With the metric ``[TASK:]METRIC`` to decide; ``None``: the main one of the first task.

        Raises:
            UsageError: no such task, a metric that it does not measure, or one that several measure, of no task.
        """
        if best_metric is None:
            return cls(tasks, next((f"{name}:{task.main_metric}" for name, task in tasks.items()), ""))
        name, _, metric = best_metric.rpartition(":")
        if name and name not in tasks:
            raise UsageError(f"`best_metric=` {best_metric}: {name} is none of the tasks, {', '.join(tasks)}")
        problems, measuring = [], []
        for task_name, task in tasks.items():
            if name in ("", task_name):
                try:
                    if (task_name, metric) != (HOLDOUT, LOSS):
                        task.check_metrics([metric])
                    measuring.append(f"{task_name}:{metric}")
                except UsageError as error:
                    problems.append(str(error))
        if not measuring:
            raise UsageError("\n".join(dict.fromkeys(problems)))
        if len(measuring) > 1:
            several = f"is measured by several tasks: give {' or '.join(measuring)}"
            raise UsageError(f"`best_metric=` {best_metric} {several}")
        return cls(tasks, measuring[0])

    def specs(self) -> dict[str, str]:
        """The tasks' specs by their names."""
        return {name: task.spec for name, task in self.tasks.items()}

    def metrics_of(self, name: str) -> list[str]:
        """What a task measures: what it shows, and what decides."""
        task, _, metric = self.decides.rpartition(":")
        decides = [metric] if task == name and (task, metric) != (HOLDOUT, LOSS) else []
        return list(dict.fromkeys([*decides, *self.tasks[name].shown_metrics]))


def task_names(specs: Sequence[str]) -> list[str]:
    """A name for each of the specs of tasks, which are all different: the last part of its path, with its options where
    two would be called so.

    >>> task_names(["beir:data/scifact", "sts:stsb/test.jsonl"])
    ['scifact', 'test']
    >>> task_names(["beir:data/scifact,split=dev", "beir:data/scifact"])
    ['scifact,split=dev', 'scifact']
    """
    parsed = [registry.parse(spec) for spec in specs]
    short = []
    for spec in parsed:
        path = str(spec.params.get(spec.positional or "", spec.name)).removesuffix("/")
        short.append(Path(path).name.removesuffix(".gz").removesuffix(".jsonl") or spec.name)
    full = []
    for name, spec in zip(short, parsed, strict=True):
        options = [f",{key}={value}" for key, value in sorted(spec.params.items()) if key != spec.positional]
        full.append(name + "".join(options) if short.count(name) > 1 else name)
    times = Counter([HOLDOUT, *full])
    return [str(spec) if times[name] > 1 else name for name, spec in zip(full, parsed, strict=True)]
