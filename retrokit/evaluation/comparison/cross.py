"""Cross-evaluation: what an encoder was trained with against what it is scored with (MAG, 4.2 and Figure 3).

It separates what a similarity does to training from what it does at inference: a column compares trainings under one
score, a row compares scores of one training.
"""

from dataclasses import dataclass
from typing import Any

from retrokit.evaluation.comparison.comparison import Evaluation
from retrokit.evaluation.comparison.systems import System
from retrokit.evaluation.result import known


@dataclass(frozen=True)
class Cross:
    """One task's main ``metric`` by encoder (``rows``) and similarity (``columns``). ``cells`` lacks what was not
    scored, such as a learned similarity on an encoder that has not learned it."""

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
        """Names of the rows: the training similarity if only one row has it, else with the encoder."""
        names = [trained or "" for trained in self.trained_with]
        return [
            name if name and names.count(name) == 1 else f"{row} ({name or 'not a run'})"
            for name, row in zip(names, self.rows, strict=True)
        ]

    def to_json(self) -> dict[str, Any]:
        """Plain values for strict JSON; a cell that was not scored is null."""
        encoders = []
        for row, trained in zip(self.rows, self.trained_with, strict=True):
            values = [self.value(row, column) for column in self.columns]
            cells = [self.cells.get((row, column)) for column in self.columns]
            deviations = [known(system.deviation(self.metric)) if system else None for system in cells]
            encoders.append({"encoder": row, "trained_with": trained, "values": values, "deviations": deviations})
        return {"task": self.task, "metric": self.metric, "similarities": self.columns, "encoders": encoders}


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
