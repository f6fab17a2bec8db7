"""What happens in a run: a line of ``metrics.jsonl`` for every logged step and evaluation; and the outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from retrokit.core.errors import disk_errors
from retrokit.core.frames import flat, frame
from retrokit.data.jsonl import json_line
from retrokit.data.records import PrintedRecord
from retrokit.training.evaluations import lower_is_better

if TYPE_CHECKING:
    from pandas import DataFrame

CONVERGED_OVER = 5  # evaluations
CONVERGED_DEVIATION, CONVERGED_DISTANCE = 0.002, 0.02


class History:
    """The lines so far, in the file and in memory; ``log`` gets each new line too."""

    def __init__(self, path: Path, rows: Sequence[dict[str, Any]], metric: str, writes: bool) -> None:
        self.path, self.rows, self.metric, self._writes = path, list(rows), metric, writes
        self.log: Callable[[dict[str, Any]], None] = lambda row: None

    def add(self, row: dict[str, Any]) -> None:
        """Append a line."""
        self.rows.append(row)
        if self._writes:
            with disk_errors(self.path), open(self.path, "a", encoding="utf-8") as file:
                file.write(json_line(row))
        self.log(row)

    @property
    def evaluations(self) -> list[tuple[int, float]]:
        """(step, value of the metric that selects weights) of each evaluation; step 0 is the start."""
        return [(row["step"], row["evaluation"][self.metric]) for row in self.rows if "evaluation" in row]

    @property
    def best(self) -> tuple[int, float] | None:
        """The best evaluation after step 0; the earliest of equals."""
        after = (evaluation for evaluation in self.evaluations if evaluation[0] > 0)
        return max(after, key=lambda evaluation: self.worth(evaluation[1]), default=None)

    def worth(self, value: float) -> float:
        """The higher, the better."""
        return -value if lower_is_better(self.metric) else value

    def converged_at(self) -> int | None:
        """The first step at which the last five evaluations deviate by less than 0.002 and the latest lies within 0.02
        of the best so far (MAG, C.1); ``None``: not yet."""
        values = [self.worth(value) for _, value in self.evaluations]
        for i in range(CONVERGED_OVER, len(values) + 1):
            steady = float(np.std(values[i - CONVERGED_OVER : i])) < CONVERGED_DEVIATION
            if steady and max(values[:i]) - values[i - 1] < CONVERGED_DISTANCE:
                return self.evaluations[i - 1][0]
        return None


def tenths(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, float]]:
    """The mean training loss over the first and over the last tenth of the steps, given the lines of ``metrics.jsonl``.

    Each tenth has as many whole lines as it needs, weighted by their examples (``epoch``; without it, by their steps).
    ``from_step`` and ``step`` are its first and last step. One mean, of all steps, if the two tenths would overlap.

    >>> tenths([{"step": 10, "loss": 4.0}, {"step": 20, "loss": 2.0}, {"step": 21, "loss": 13.0}])
    [{'from_step': 1, 'step': 10, 'loss': 4.0}, {'from_step': 11, 'step': 21, 'loss': 3.0}]
    """
    logged = [row for row in rows if "loss" in row]
    steps = np.array([0] + [row["step"] for row in logged])
    tenth = -(-steps[-1] // 10)
    end = int(np.flatnonzero(steps >= tenth)[0])
    start = int(np.flatnonzero(steps[-1] - steps >= tenth)[-1])
    ranges = [(0, end), (start, len(logged))] if end <= start else [(0, len(logged))]
    seen = [0.0] + [row.get("epoch", row["step"]) for row in logged]  # examples up to each step
    means = []
    for first, last in ranges:
        if seen[first] < seen[last]:
            total = sum(logged[i]["loss"] * (seen[i + 1] - seen[i]) for i in range(first, last))
            mean = total / (seen[last] - seen[first])
            means.append({"from_step": int(steps[first]) + 1, "step": int(steps[last]), "loss": mean})
    return means


def loss_change(losses: Sequence[Mapping[str, float]]) -> str:
    """A result of :func:`tenths` in words.

    >>> loss_change([{"from_step": 1, "step": 10, "loss": 4.0}, {"from_step": 91, "step": 100, "loss": 2.0}])
    '4 → 2 (mean of steps 1–10 → 91–100)'
    """
    means = " → ".join(f"{tenth['loss']:.4g}" for tenth in losses)
    steps = " → ".join(f"{tenth['from_step']}–{tenth['step']}" for tenth in losses)
    return f"{means} (mean of steps {steps})"


@dataclass(frozen=True)
class Outcome(PrintedRecord):
    """The outcome of a finished run.

    Attributes:
        stopped_because: the reason, if it stopped before the planned end.
        best_step: the step of the saved weights, if the run was evaluated.
        metric: that selected them; empty without an evaluation.
        converged_at: first step that meets MAG's criterion (C.1), if any.
        losses: result of :func:`tenths`.
        baseline: similarity and metrics of the encoder at the start under its own similarity, if that is another one.
        gain: improvement of the metric over the start, under the encoder's own similarity. It is no test: the set of
            ``selection`` chose the step.
        selection: the ``task`` that chose the step, the numbers of its ``steps`` evaluated, and of its texts that are
            in the training data exactly or nearly (``overlap``; ``None``: not counted), and the command that tests the
            gain (``test``).
    """

    folder: str
    steps: int
    stopped_because: str | None
    best_step: int | None
    converged_at: int | None
    evaluations: list[Annotated[dict[str, Any], {"step": int, "evaluation": dict[str, float]}]]
    losses: list[dict[str, float]]
    baseline: dict[str, Any] | None = None
    gain: float | None = None
    metric: str = ""
    selection: dict[str, Any] | None = None

    @property
    def best(self) -> dict[str, Any]:
        """The evaluation of the saved weights."""
        for row in self.evaluations:
            if row["step"] == self.best_step:
                return row
        return self.evaluations[-1]

    @property
    def loss_change(self) -> str:
        """The training loss over the first and the last tenth of the steps, in words."""
        return loss_change(self.losses)

    def to_frame(self) -> DataFrame:
        """A row for each evaluation: its step and metrics."""
        return frame(flat({"step": row["step"], **row["evaluation"]}) for row in self.evaluations)

    @classmethod
    def of(
        cls,
        folder: Path,
        steps: int,
        stopped_because: str | None,
        history: History,
        selection: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """The outcome of a run, given its ``history``, and of what chose its weights."""
        rows, best = [row for row in history.rows if "evaluation" in row], history.best
        baseline = next((row["baseline"] for row in rows if "baseline" in row), None)
        gain = None
        if best is not None and rows[0]["step"] == 0:
            start_metrics = _start_metrics(rows[0], baseline)
            gain = history.worth(best[1]) - history.worth(start_metrics[history.metric])
        if selection is not None:
            selection = None if gain is None else {"steps": len(rows) - 1, **selection}
        return cls(
            folder=str(folder),
            steps=steps,
            stopped_because=stopped_because,
            best_step=best[0] if best else None,
            converged_at=history.converged_at(),
            evaluations=rows,
            losses=tenths(history.rows),
            baseline=baseline,
            gain=gain,
            metric=history.metric,
            selection=selection,
        )


def _start_metrics(row: Mapping[str, Any], baseline: Mapping[str, Any] | None) -> dict[str, Any]:
    """The metrics before the first step; those of the ``baseline`` replace what the encoder's own ``row`` has."""
    metrics = dict(row["evaluation"])
    if baseline is not None:
        metrics |= baseline["evaluation"]
    return metrics
