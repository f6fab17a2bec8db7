"""Studies that answer one question each, given pairs, texts, an encoder or a time to spend; and how long the steps of
any study take."""

import itertools
import json
import math
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean

from retrokit import encoders, evaluation
from retrokit.augmentation.texts import Texts
from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.encoders.base import Encoder, read_characters
from retrokit.extensions.studies.state import DONE, StudyPlan
from retrokit.extensions.studies.steps import Step
from retrokit.ranking import retrieval
from retrokit.training.config import FinetuneConfig
from retrokit.training.finetune import plan
from retrokit.training.preflight import texts_of
from retrokit.training.run import timed

SIMILARITIES = ("cosine", "sfs:16", "qnorm", "dnorm", "dot", "learn")
"""What is tried, the first to be dropped last; the others are compared with the first."""
SEEDS = 3
FEW_STEPS = 30
MOST_EPOCHS = 3
SLACK = 2
"""How many times the budget the smallest sweep may take and still be run: a busy machine is timed no better."""
TESTED = 0.2
"""Share of the pairs that is held out to test on."""
SAMPLE = 64
_ALIKE = {"seed", "sim", "sim-lr", "lr", "scale", "temperature", "steps", "epochs"}
"""Options of a training on which the time of a step hardly depends."""


def which_similarity(data: str, encoder: str, budget: float, batch_size: int) -> str:
    """The largest sweep over similarities and seeds, on a split of pairs, that fits into ``budget`` seconds by measured
    speed; the smallest if none fits.

    Raises:
        UsageError: two similarities would take more than twice the budget.
    """
    speed = _speed(data, encoder, batch_size)
    max_steps = math.ceil(MOST_EPOCHS * speed.per_epoch)
    few = min(FEW_STEPS, max_steps)
    sweeps = []
    for seeds, count in itertools.product(range(SEEDS, 0, -1), range(len(SIMILARITIES), 1, -1)):
        steps = speed.steps(budget, seeds * count)
        if steps >= few:
            sweeps.append((seeds, count, steps))
    seeds, count, steps = sweeps[0] if sweeps else (1, 2, few)
    steps, runs = min(steps, max_steps), seeds * count
    takes = runs * (steps * speed.each + speed.besides)
    if takes > SLACK * budget:
        raise UsageError(f"`budget=` {budget:g} s is too little: two similarities and {few} steps take {takes:,.0f} s")
    notice(f"{runs} trainings of {steps} steps ({speed.each:.2g} s each) and their tests take about {takes:,.0f} s")
    if takes > budget:
        notice(f"that is more than `budget=` {budget:g} s, and the least that compares two similarities")
    return _SWEEP.format(
        data=json.dumps(data),
        train=1 - TESTED,
        test=TESTED,
        encoder=json.dumps(encoder),
        steps=steps,
        batch_size=batch_size,
        similarities=json.dumps(SIMILARITIES[:count]),
        seeds=list(range(seeds)),
    )


def better_than_bm25(encoder: str, on: Sequence[str]) -> str:
    """An encoder, BM25, and both fused, on retrieval tasks; both are opened first, so that a wrong one raises."""
    for spec in on:
        if evaluation.registry.create(spec).judged() is None:
            raise UsageError(f"{spec} is no retrieval task; expected one such as beir:data/scifact")
    retrieval.create(encoder)
    systems = ["bm25", encoder, f"hybrid:a=bm25,b={encoder},fusion=rrf"]
    return _BEATS.format(systems=json.dumps(systems), on=json.dumps(list(on)))


def sees_near_misses(encoder: str, texts: str) -> str:
    """A stress test of a system on a user's own texts; texts and system are opened first, so that a wrong one
    raises."""
    next(iter(Texts(texts)), None)
    retrieval.create(encoder)
    return _SEES.format(texts=json.dumps(texts), encoder=json.dumps(encoder))


@dataclass(frozen=True)
class _Speed:
    """Seconds of a step; steps of an epoch; seconds of a run besides its steps: to encode what it is tested on, and to
    start two commands."""

    each: float
    per_epoch: float
    besides: float

    def steps(self, budget: float, runs: int) -> int:
        return int((budget / runs - self.besides) / self.each)


def _speed(data: str, encoder: str, batch_size: int) -> _Speed:
    job = timed(plan(FinetuneConfig(encoder, (data,), batch_size=batch_size)))
    anchors, sample = texts_of(job.batches.data, SAMPLE, seed=0)
    trained: Encoder = encoders.registry.create(encoder)
    trained.embed(sample[:8], "document")
    began = time.perf_counter()
    trained.embed(sample, "document")
    seconds = time.perf_counter() - began
    lengths = {"documents": read_characters(sample), "anchors": TESTED * read_characters(anchors)}
    characters = sum(
        source[name] * of_sample.mean() for source in job.preflight.sources for name, of_sample in lengths.items()
    )
    encoding = seconds * characters / lengths["documents"].sum()
    steps = job.preflight.steps
    return _Speed(steps["seconds_each"], (1 - TESTED) * steps["per_epoch"], encoding + 2 * _start())


@cache
def _start() -> float:
    """Seconds that the start of a command takes."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import sentence_transformers"], check=True)
    return time.perf_counter() - began


def estimates(plan: StudyPlan) -> dict[str, float | None]:
    """Seconds of each step, by its name: as measured, if it is done; of a training, by its start and a few
    steps of one of its kind; else the mean of the finished steps of its table, ``None`` if there are none."""
    done = {state.step.name: state.seconds for state in plan.states() if state.state == DONE and state.seconds}
    means = _table_means(plan, done)
    trainings: dict[tuple[str, ...], dict[str, float] | None] = {}
    durations: dict[str, float | None] = {}
    for step in plan.steps:
        seconds = done.get(step.name)
        if seconds is None and step.command[0] == "finetune":
            kind = _kind_of_training(step)
            if kind not in trainings:
                trainings[kind] = _timed(plan, step)
            seconds = _training(step, trainings[kind])
        if seconds is None:
            seconds = means.get(step.table)
        durations[step.name] = seconds
    return durations


def _table_means(plan: StudyPlan, done: Mapping[str, float]) -> dict[str, float]:
    by_table: dict[str, list[float]] = {}
    for step in plan.steps:
        if step.name in done:
            by_table.setdefault(step.table, []).append(done[step.name])
    return {table: fmean(seconds) for table, seconds in by_table.items()}


def _kind_of_training(step: Step) -> tuple[str, ...]:
    """The words that decide how long a step of a training takes."""
    return tuple(word for word in step.command[:-2] if word[2:].partition("=")[0] not in _ALIKE)


def _training(step: Step, timed: dict[str, float] | None) -> float | None:
    options = dict(word[2:].partition("=")[::2] for word in step.command if word.startswith("--"))
    if timed is None or "time-budget" in options:
        return None
    steps = options.get("steps") or math.ceil(float(options.get("epochs", 1)) * timed["per_epoch"])
    return _start() + float(steps) * timed["seconds_each"]


def _timed(plan: StudyPlan, step: Step) -> dict[str, float] | None:
    """Steps of an epoch, and seconds of one; ``None`` while its data are missing."""
    words = [sys.executable, "-m", "retrokit", *step.command[:-2], "--dry-run", "--time", "--json"]
    ended = subprocess.run(words, cwd=plan.working_folder(), capture_output=True, text=True)
    if ended.returncode:
        notice(f"{step.name} cannot be timed yet: {(ended.stderr.strip().splitlines() or ['no message'])[-1]}")
        return None
    return dict(json.loads(ended.stdout)["steps"])


_SWEEP = """title = "Which similarity for these pairs?"

[augment.split]
data = {data}
shares = "{train:g},0,{test:g}"

[finetune]
encoder = {encoder}
data = "beir:{{augment-split}},split=train"
scale = "auto" # every similarity starts as sharp as cosine at scale 20
batch-size = {batch_size}
steps = {steps}

[finetune.matrix]
sim = {similarities}
seed = {seeds}

[eval]
encoders = ["{{finetune}}"]
on = "beir:{{augment-split}}"
"""

_BEATS = """title = "Is it better than BM25?"

[eval]
encoders = {systems}
on = {on}
"""

_SEES = """title = "Does it see near-misses?"

[probe.stress]
encoders = {encoder}
texts = {texts}
"""
