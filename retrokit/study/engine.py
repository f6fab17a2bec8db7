"""Snakemake works through the steps: it owns the graph, parallel jobs, retries and clusters.

Its rules are made from the plan, and name no file but the marks of steps. A step is done if it has its mark and what it
reads is unchanged; one whose command has changed has another name. So neither a date in the future nor braces in a path
reach the engine.
"""

import importlib.util
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from retrokit.core.errors import Interrupted, MissingExtra, ServiceError
from retrokit.core.files import writing
from retrokit.core.interrupts import stopping_by
from retrokit.core.notices import notice
from retrokit.core.outputs import check_own, locked
from retrokit.study.state import DONE, FAILED, MISSING, PLAN, State, StudyPlan
from retrokit.study.step import OWNER, same_files

LOOKED = 0.3

_RULES = """import json

with open("rules.json") as file:
    rules = json.load(file)

rule all:
    input: [one["mark"] for one in rules]

for one in rules:
    rule:
        name: one["name"]
        input: one["after"]
        output: one["mark"]
        params: command=lambda wildcards, one=one: one["command"]
        priority: one["first"]
        shell: "{params.command}"
"""


def check_engine() -> None:
    """Raise :class:`MissingExtra` where Snakemake is not installed."""
    if importlib.util.find_spec("snakemake") is None:
        raise MissingExtra("study", "study")


def run(plan: StudyPlan, jobs: int = 1, retries: int = 0, further: Sequence[str] = ()) -> list[State]:
    """Do what is not done: as many steps at once as ``jobs``, a step that fails ``retries`` times more; what became of
    each. ``further`` are options of Snakemake, such as those of a cluster's executor. Raises :class:`MissingExtra`
    without Snakemake, :class:`ServiceError` if it fails, :class:`UsageError` if another command works in the folder."""
    check_engine()
    with locked(plan.folder):
        plan.folder.mkdir(parents=True, exist_ok=True)
        check_own(plan.folder / PLAN)
        plan.write()
        _drop_outdated(plan)
        _work(plan, jobs, retries, further)
    return plan.states()


def _drop_outdated(plan: StudyPlan) -> None:
    """Remove the marks of steps that failed, or are to be done again: since their files or a step before have changed.
    All others get one date, by which none of them is newer than what depends on it."""
    now = time.time()
    valid: set[str] = set()
    for state in plan.states():
        step = state.step
        if state.state == DONE and same_files(plan, step) and valid.issuperset(step.after):
            valid.add(step.name)
            os.utime(plan.marker(step), (now, now))
        elif state.state != MISSING:
            plan.marker(step, "json" if state.state == DONE else "failed.json").unlink()


def _work(plan: StudyPlan, jobs: int, retries: int, further: Sequence[str]) -> None:
    folder = (plan.folder / "engine").absolute()
    rules, snakefile, log_path = folder / "rules.json", folder / "Snakefile", folder / "log"
    for path in (folder, rules, snakefile, log_path):
        check_own(path)
    folder.mkdir(exist_ok=True)
    for path, text in ((rules, json.dumps(_rules(plan), indent=1)), (snakefile, _RULES)):
        with writing(path) as file:
            file.write(text)
    words = ["--cores", str(jobs), "--retries", str(retries), "--keep-going", "--nolock", "--rerun-incomplete"]
    words += ["--scheduler", "greedy"]  # the other one needs a solver of linear programs that is not everywhere
    words += ["--rerun-triggers", "mtime", *further]
    with open(log_path, "w", encoding="utf-8") as log:
        engine = subprocess.Popen(
            [sys.executable, "-m", "snakemake", "--snakefile", str(snakefile), *words],
            cwd=folder,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            env={**os.environ, OWNER: f"{socket.gethostname()}:{os.getpid()}"},
            start_new_session=True,  # Ctrl-C reaches it through us, once
        )
        seen = {state.step.name for state in plan.states() if state.state == DONE}
        with _stopping(engine) as signals:
            is_running = True
            while is_running:
                is_running = engine.poll() is None
                time.sleep(LOOKED * is_running)
                _report(plan, seen)
    if signals:
        raise Interrupted(f"stopped; what is done is kept in {plan.folder}: the same command goes on")
    if engine.returncode and not any(state.state == FAILED for state in plan.states()):
        last = " / ".join(log_path.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:])
        raise ServiceError(f"Snakemake ended with {engine.returncode}: {last} (all it said: {log_path})")


def _rules(plan: StudyPlan) -> list[dict[str, Any]]:
    start = [sys.executable, "-m", "retrokit.study.step", str(plan.folder.absolute())]
    return [
        {
            "name": f"{re.sub(r'[^A-Za-z0-9]', '_', step.name)}_{number}",
            "first": len(plan.steps) - number,
            "mark": f"../steps/{step.name}.json",
            "after": [f"../steps/{name}.json" for name in step.after],
            "command": shlex.join([*start, step.name]),
        }
        for number, step in enumerate(plan.steps)
    ]


def _report(plan: StudyPlan, seen: set[str]) -> None:
    """A notice for each step that has ended since, and is not yet among ``seen``."""
    states = plan.states()
    done = sum(state.state == DONE for state in states)
    for state in states:
        name = state.step.name
        if state.state == MISSING:  # is tried again
            seen.discard(name)
        elif name not in seen:
            seen.add(name)
            why = f": {state.last_word}" if state.state == FAILED else ""
            notice(f"{name} {state.state} in {state.seconds:.0f} s{why} ({done} of {len(plan.steps)} done)")


@contextmanager
def _stopping(engine: subprocess.Popen[bytes]) -> Iterator[list[int]]:
    """Within it, Ctrl-C and SIGTERM stop the engine and its steps, which keep what they can resume from."""
    signals: list[int] = []

    def stop() -> None:
        signals.append(signal.SIGTERM if not signals else signal.SIGKILL)
        os.killpg(engine.pid, signals[-1])

    with stopping_by(stop):
        yield signals
