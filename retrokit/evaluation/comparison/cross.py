"""Cross-evaluation: what an encoder was trained with against what it is scored with (MAG, 4.2 and Figure 3).

It takes apart what a similarity does to training and what it does at inference: a column compares trainings under one
score, a row compares scores of one training.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from retrokit.evaluation.comparison.comparison import Evaluation
from retrokit.evaluation.comparison.systems import System
from retrokit.evaluation.result import known


@dataclass(frozen=True)
class Cross:
    """One task's main ``metric`` by encoder (``rows``) and similarity (``columns``).

    ``cells`` lacks what was not scored, such as a learned similarity on an encoder that has not learned it.
    """

    task: str
    metric: str
    rows: list[str]
    trained_with: list[str | None]
    columns: list[str]
    cells: dict[tuple[str, str], System]

    def value(self, row: str, column: str) -> float | None:
        """The metric of an encoder under a similarity; ``None`` if it was not scored, or is undefined."""
        system = self.cells.get((row, column))
        return known(system.metrics[self.metric]) if system is not None else None

    def labels(self) -> list[str]:
        """What to call the rows: the training similarity where it tells them apart, with the encoder where not."""
        named = [trained or "" for trained in self.trained_with]
        return [
            name if name and named.count(name) == 1 else f"{row} ({name or 'not a run'})"
            for name, row in zip(named, self.rows, strict=True)
        ]

    def to_json(self) -> dict[str, Any]:
        """Plain values for strict JSON; a cell that was not scored is null."""
        return {
            "task": self.task,
            "metric": self.metric,
            "similarities": self.columns,
            "encoders": [
                {
                    "encoder": row,
                    "trained_with": trained,
                    "values": [self.value(row, column) for column in self.columns],
                    "deviations": [
                        known(self.cells[row, column].deviation(self.metric)) if (row, column) in self.cells else None
                        for column in self.columns
                    ],
                }
                for row, trained in zip(self.rows, self.trained_with, strict=True)
            ],
        }


def cross_of(evaluation: Evaluation) -> list[Cross]:
    """One table for each task, encoders and similarities in the order in which they were evaluated."""
    tables = []
    for task in evaluation.tasks:
        systems = evaluation.systems_on(task)
        trained = {system.encoder: system.trained_with for system in systems}
        columns = list(dict.fromkeys(system.similarity for system in systems))
        cells = {(system.encoder, system.similarity): system for system in systems}
        tables.append(Cross(task, evaluation.main_metric(task), list(trained), list(trained.values()), columns, cells))
    return tables
