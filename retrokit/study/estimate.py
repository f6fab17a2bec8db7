"""How long the steps of a study take, by what was measured: a few steps of training, some texts, or the step itself."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from retrokit import encoders, evaluation
from retrokit.core.errors import RetrokitError
from retrokit.core.notices import notice
from retrokit.ranking import retrieval
from retrokit.study.state import DONE, StudyPlan
from retrokit.study.steps import Step

SAMPLE = 64
_ALIKE = {"seed", "sim", "sim-lr", "lr", "scale", "temperature", "steps", "epochs"}
"""Options of a training on which the time of a step hardly depends."""


def estimates(plan: StudyPlan) -> dict[str, float | None]:
    """Seconds of each step, by its name; ``None`` where nothing tells.

    A step that is done tells by itself; a training by a few steps of one of its kind; an evaluation of retrieval by the
    encoding of some of its texts, with the encoder that a training starts from in place of one that is not there yet;
    any other by the mean of those of its table that are done. What a command takes to start is not counted.
    """
    done: dict[str, float | None] = {state.step.name: state.seconds for state in plan.states() if state.state == DONE}
    measured = _Measured(plan)
    durations = {}
    for step in plan.steps:
        alike = [seconds for other in plan.steps if other.table == step.table and (seconds := done.get(other.name))]
        known = done[step.name] if step.name in done else measured.seconds(step)
        durations[step.name] = fmean(alike) if known is None and alike else known
    return durations


@dataclass
class _Measured:
    """What was timed, each thing once."""

    plan: StudyPlan
    trainings: dict[tuple[str, ...], dict[str, float] | None] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    texts: dict[str, int] = field(default_factory=dict)
    samples: dict[str, list[str]] = field(default_factory=dict)

    def seconds(self, step: Step) -> float | None:
        if step.command[0] == "finetune":
            return self._training(step)
        return self._evaluation(step) if step.command[0] == "eval" else None

    def _training(self, step: Step) -> float | None:
        options = dict(word[2:].partition("=")[::2] for word in step.command if word.startswith("--"))
        if "time-budget" in options:
            return None
        kind = tuple(word for word in step.command[:-2] if word[2:].partition("=")[0] not in _ALIKE)
        if kind not in self.trainings:
            self.trainings[kind] = self._timed(step)
        timed = self.trainings[kind]
        if timed is None:
            return None
        epochs = float(options.get("epochs", 1))
        steps = float(options["steps"]) if "steps" in options else math.ceil(epochs * timed["per_epoch"])
        return steps * timed["seconds_each"]

    def _timed(self, step: Step) -> dict[str, float] | None:
        """Steps of an epoch, and seconds of one; ``None`` where its data are still to be made."""
        words = [sys.executable, "-m", "retrokit", *step.command[:-2], "--dry-run", "--time", "--json"]
        ended = subprocess.run(words, cwd=self.plan.started_in, capture_output=True, text=True)
        if ended.returncode:
            notice(f"{step.name} cannot be timed yet: {(ended.stderr.strip().splitlines() or ['no word'])[-1]}")
            return None
        return dict(json.loads(ended.stdout)["steps"])

    def _evaluation(self, step: Step) -> float | None:
        system = step.command[1]
        starts = {
            training.output: training.command[1] for training in self.plan.steps if training.command[0] == "finetune"
        }
        system = starts.get(system, system)
        if retrieval.registry_of(system) is not encoders.registry:
            return None
        try:
            tasks = [word.partition("=")[2] for word in step.command if word.startswith("--on=")]
            counts = [self._texts_of(task) for task in tasks]
            return None if 0 in counts else sum(counts) / self._rate(system, tasks[0])
        except RetrokitError as error:
            notice(f"{step.name} cannot be timed yet: {error}")
            return None

    def _texts_of(self, spec: str) -> int:
        """Documents and queries of a task; 0 of one that is no retrieval."""
        if spec not in self.texts:
            data: Any = evaluation.registry.create(spec).judged()
            self.texts[spec] = 0 if data is None else len(data.documents) + len(data.queries)
            self.samples[spec] = [] if data is None else list(data.documents[:: max(1, len(data.documents) // SAMPLE)])
        return self.texts[spec]

    def _rate(self, spec: str, task: str) -> float:
        """Documents of the task that the encoder reads in a second."""
        if spec not in self.rates:
            encoder, sample = encoders.registry.create(spec), self.samples[task]
            encoder.embed(sample[:8], "document")
            began = time.perf_counter()
            encoder.embed(sample, "document")
            self.rates[spec] = len(sample) / (time.perf_counter() - began)
        return self.rates[spec]
