"""How long the steps of a study take, by what was measured: a few steps of training, some texts, or the step itself."""

import json
import math
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cache
from statistics import fmean
from typing import Any

from retrokit import encoders, evaluation
from retrokit.core.errors import RetrokitError
from retrokit.core.notices import notice
from retrokit.encoders.base import Encoder
from retrokit.ranking import retrieval
from retrokit.study.state import DONE, StudyPlan
from retrokit.study.steps import Step

SAMPLE = 64
_ALIKE = {"seed", "sim", "sim-lr", "lr", "scale", "temperature", "steps", "epochs"}
"""Options of a training on which the time of a step hardly depends."""


def estimates(plan: StudyPlan) -> dict[str, float | None]:
    """Seconds of each step, by its name; ``None`` where nothing tells.

    A step that is done tells for itself; a training by a few steps of one of its kind; an evaluation of retrieval by
    the encoding of some of its texts, with the encoder that a training starts from in place of one that is not there
    yet; any other by the mean of those of its table that are done. What a command takes to start is not counted.
    """
    done = {state.step.name: state.seconds for state in plan.states() if state.state == DONE}
    starts = {step.output: step.command[1] for step in plan.steps if step.command[0] == "finetune"}
    trainings: dict[tuple[str, ...], dict[str, float] | None] = {}
    rates: dict[str, float] = {}

    def seconds(step: Step) -> float | None:
        if step.name in done:
            return done[step.name]
        if step.command[0] == "finetune":
            kind = tuple(word for word in step.command[:-2] if word[2:].partition("=")[0] not in _ALIKE)
            if kind not in trainings:
                trainings[kind] = _timed(plan, step)
            return _training(step, trainings[kind])
        if step.command[0] == "eval":
            system = starts.get(step.command[1], step.command[1])
            try:
                return _evaluation(step, system, rates)
            except RetrokitError as error:
                notice(f"{step.name} cannot be timed yet: {error}")
        return None

    durations = {}
    for step in plan.steps:
        alike = [known for other in plan.steps if other.table == step.table and (known := done.get(other.name))]
        known = seconds(step)
        durations[step.name] = fmean(alike) if known is None and alike else known
    return durations


def _training(step: Step, timed: dict[str, float] | None) -> float | None:
    options = dict(word[2:].partition("=")[::2] for word in step.command if word.startswith("--"))
    if timed is None or "time-budget" in options:
        return None
    steps = options.get("steps") or math.ceil(float(options.get("epochs", 1)) * timed["per_epoch"])
    return float(steps) * timed["seconds_each"]


def _timed(plan: StudyPlan, step: Step) -> dict[str, float] | None:
    """Steps of an epoch, and seconds of one; ``None`` where its data are still to be made."""
    words = [sys.executable, "-m", "retrokit", *step.command[:-2], "--dry-run", "--time", "--json"]
    ended = subprocess.run(words, cwd=plan.started_in, capture_output=True, text=True)
    if ended.returncode:
        notice(f"{step.name} cannot be timed yet: {(ended.stderr.strip().splitlines() or ['no word'])[-1]}")
        return None
    return dict(json.loads(ended.stdout)["steps"])


def _evaluation(step: Step, system: str, rates: dict[str, float]) -> float | None:
    """From the texts of its tasks, and the texts that the encoder reads in a second, which ``rates`` caches."""
    if retrieval.registry_of(system) is not encoders.registry:
        return None
    specs = [word.partition("=")[2] for word in step.command if word.startswith("--on=")]
    tasks = [_judged(spec) for spec in specs]
    if any(data is None for data in tasks):  # no retrieval
        return None
    if system not in rates:
        encoder, documents = encoders.registry.create(system), tasks[0].documents
        rates[system] = texts_per_second(encoder, documents[:: max(1, len(documents) // SAMPLE)])
    return sum(len(data.documents) + len(data.queries) for data in tasks) / rates[system]


@cache
def _judged(spec: str) -> Any:
    return evaluation.registry.create(spec).judged()


def texts_per_second(encoder: Encoder, texts: Sequence[str]) -> float:
    """How many of such texts the encoder reads in a second, once warm."""
    encoder.embed(texts[:8], "document")
    began = time.perf_counter()
    encoder.embed(texts, "document")
    return len(texts) / (time.perf_counter() - began)
