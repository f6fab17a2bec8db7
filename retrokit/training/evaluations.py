"""The evaluations of a run, and the metric that selects the weights to save.

A metric of a run is named ``TASK:METRIC`` with the task's short name: ``scifact:ndcg@10``.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.core.registry import Spec
from retrokit.data import DOCSTRINGS
from retrokit.data.beir import splits_of
from retrokit.data.pairs import Source, built_in_folder
from retrokit.evaluation import registry
from retrokit.evaluation.task import Task
from retrokit.training.config import TrainingConfig

if TYPE_CHECKING:  # a run without evaluations compares no texts
    from retrokit.data.overlap import JudgedTexts

LOSS = "loss"
HOLDOUT = "holdout"
"""Name of the held-out examples; the trainer measures their loss."""
TEST_SPLIT = "beir:DATA"
"""The test split that ``retrokit augment split`` writes, for a run whose held-out examples have no file."""


def lower_is_better(metric: str) -> bool:
    """Whether the metric is a loss."""
    return metric.rpartition(":")[2] == LOSS


@dataclass(frozen=True)
class Evaluations:
    """The ``tasks`` by their names, and the metric that ``decides``; empty without tasks."""

    tasks: Mapping[str, Task]
    decides: str

    @classmethod
    def of(cls, tasks: Mapping[str, Task], best_metric: str | None) -> Evaluations:
        """With the metric ``[TASK:]METRIC`` to decide; ``None``: the main one of the first task.

        Raises:
            UsageError: an unknown task or metric, or several tasks that measure a metric without a task.
        """
        if best_metric is None:
            main_metrics = [f"{name}:{task.main_metric}" for name, task in tasks.items()]
            return cls(tasks, main_metrics[0] if main_metrics else "")
        name, _, metric = best_metric.rpartition(":")
        if name and name not in tasks:
            raise UsageError(f"`best_metric=` {best_metric}: expected one of the tasks {', '.join(tasks)}")
        measuring = _measuring(metric, {name: tasks[name]} if name else tasks)
        if len(measuring) > 1:
            raise UsageError(f"`best_metric=` {best_metric}: several tasks measure it; give {' or '.join(measuring)}")
        return cls(tasks, measuring[0])

    def metrics_of(self, name: str) -> list[str]:
        """The metrics of a task: those that it shows, and the one that decides."""
        task, _, metric = self.decides.rpartition(":")
        decides = [metric] if task == name and (task, metric) != (HOLDOUT, LOSS) else []
        return list(dict.fromkeys([*decides, *self.tasks[name].shown_metrics]))

    def overlaps(self, sources: Sequence[Source], held_out: JudgedTexts | None = None) -> list[dict[str, Any]]:
        """The overlap of tests and of held-out examples with training data; warns of each."""
        tests = {name: texts for name, task in self.tasks.items() if (texts := task.judged_texts()) is not None}
        if held_out is not None:
            tests[HOLDOUT] = held_out
        if not tests:
            return []
        from retrokit.data.overlap import overlaps

        results = overlaps(tests, sources)
        for result in results:
            if warning := result.warning():
                notice(warning)
        return [vars(result) for result in results]

    def selection(self, config: TrainingConfig, overlaps: Sequence[Mapping[str, Any]], folder: Path) -> dict[str, Any]:
        """The task that chooses the step of a run that writes ``folder``, its texts that are in the training data
        exactly or nearly, and the command that tests a gain."""
        name = self.decides.rpartition(":")[0]
        task = self.tasks[name].spec
        counts = next((overlap["counts"] for overlap in overlaps if overlap["test"] == name), None)
        overlap = None
        if counts is not None:
            overlap = {
                "queries": counts["queries"],
                "queries_in_training": counts["queries_seen"] + counts["queries_near"],
                "documents": counts["documents"],
                "documents_in_training": counts["documents_seen"] + counts["documents_near"],
            }
        words = ["retrokit", "eval", config.encoder, str(folder), "--on", _test_of(task)]
        return {"task": task, "overlap": overlap, "test": shlex.join(words)}


def _measuring(metric: str, tasks: Mapping[str, Task]) -> list[str]:
    """The metric by its names in the tasks that measure it; raises :class:`UsageError` if none does."""
    problems, measuring = dict[str, None](), []
    for name, task in tasks.items():
        try:
            if (name, metric) != (HOLDOUT, LOSS):
                task.check_metrics([metric])
            measuring.append(f"{name}:{metric}")
        except UsageError as error:
            problems[str(error)] = None
    if not measuring:
        raise UsageError("\n".join(problems))
    return measuring


def _test_of(task: str) -> str:
    """The spec of a task that tests what ``task`` has chosen: the test split of the same folder if it has one."""
    if task == HOLDOUT:
        return TEST_SPLIT
    spec = registry.parse(task)
    if spec.name in ("beir", DOCSTRINGS) and "split" in spec.params:
        path = str(built_in_folder(task) or spec.path)
        if os.path.isdir(path) and "test" in splits_of(path):
            other_params = {name: value for name, value in spec.params.items() if name != "split"}
            return str(replace(spec, params=other_params))
    return task


def task_names(specs: Sequence[str]) -> list[str]:
    """A unique name for each spec of a task: the last part of its path, with its options if two would be the same.

    >>> task_names(["beir:data/scifact", "sts:stsb/test.jsonl"])
    ['scifact', 'test']
    >>> task_names(["beir:data/scifact,split=dev", "beir:data/scifact"])
    ['scifact,split=dev', 'scifact']
    """
    parsed = [registry.parse(spec) for spec in specs]
    names = [_short_name(spec) for spec in parsed]
    counts = Counter(names)
    for index, spec in enumerate(parsed):
        if counts[names[index]] > 1:
            options = [f",{key}={value}" for key, value in sorted(spec.params.items()) if key != spec.positional]
            names[index] += "".join(options)
    counts = Counter([HOLDOUT, *names])
    return [str(spec) if counts[name] > 1 else name for name, spec in zip(names, parsed, strict=True)]


def _short_name(spec: Spec) -> str:
    path = str(spec.params.get(spec.positional or "", spec.name)).removesuffix("/")
    return Path(path).name.removesuffix(".gz").removesuffix(".jsonl") or spec.name
