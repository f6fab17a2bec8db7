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
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock

from retrokit.core.errors import Interrupted, MissingExtra, RetrokitError, ServiceError
from retrokit.core.files import writing
from retrokit.core.interrupts import stopping_by
from retrokit.core.notices import notice
from retrokit.core.outputs import check_own, locked
from retrokit.data.jsonl import read_json, write_json
from retrokit.data.processor import processor_in_words
from retrokit.data.runs import FINISHED, is_run, read_run
from retrokit.study.state import DONE, FAILED, LINES, MISSING, PLAN, State, StudyPlan
from retrokit.study.steps import Step

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
    start = [sys.executable, "-m", "retrokit.study.engine", str(plan.folder.absolute())]
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


OWNER = "RETROKIT_STUDY_OF"
"""Environment variable: host and process of the study that steps belong to; without it they go on."""
WATCHED = 1.0
STOPPED = (Interrupted.exit_code, 128 + signal.SIGTERM)  # by a command, and by one that had hardly begun


def work(folder: str, name: str) -> int:
    """Run the step, and leave its mark: the exit code of its command."""
    plan = StudyPlan.read(folder)
    step = next(step for step in plan.steps if step.name == name)
    done, failed = plan.marker(step), plan.marker(step, "failed.json")
    check_own(done.parent)
    done.parent.mkdir(exist_ok=True)
    with FileLock(plan.marker(step, "lock")):  # of a study that was killed, a step may still be ending
        failed.unlink(missing_ok=True)
        os.chdir(plan.started_in)
        began = time.time()
        # a run may have been finished, from the same files, before a kill kept it from being marked
        is_finished = step.resumes and is_run(step.output) and read_run(step.output).status == FINISHED
        code = 0 if is_finished and same_files(plan, step) else _run(plan, step)
        if code in STOPPED:  # it is as if it had not been begun, but for what it goes on from
            return code
        seconds = round(time.time() - began, 3)
        record = {"command": ["retrokit", *step.command], "seconds": seconds, "code": code}
        record["processor"] = processor_in_words()
        if code:
            last = plan.marker(step, "log").read_text(encoding="utf-8", errors="replace").splitlines()[-LINES:]
            record["error"] = "\n".join(last)
        write_json(failed if code else done, record, indent=1)
    return code


def same_files(plan: StudyPlan, step: Step) -> bool:
    """Whether the files that the step reads are as they were when it was last begun."""
    begun = plan.marker(step, "begun.json")
    return begun.is_file() and read_json(begun, "the files that a step has read") == _stamps(step)


def _stamps(step: Step) -> dict[str, list[int]]:
    stats = {path: os.stat(path) for path in step.reads if os.path.exists(path)}
    return {path: [stat.st_size, stat.st_mtime_ns] for path, stat in stats.items()}


def _run(plan: StudyPlan, step: Step) -> int:
    """The exit code of the command; it goes on with what it had begun with the same files, and replaces anything else
    of its own."""
    more: list[str] = []
    if step.resumes and is_run(step.output) and same_files(plan, step):
        more = ["--resume"]
    elif step.replaces and os.path.lexists(step.output):
        more = ["--overwrite"]
    write_json(plan.marker(step, "begun.json"), _stamps(step))
    part_path, log_path = Path(f"{step.output}.part"), plan.marker(step, "log")
    for path in (part_path, log_path):
        path.unlink(missing_ok=True)
    part_path.parent.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "retrokit", *step.command, *more]
    with open(log_path, "ab") as log, open(part_path if step.prints else log_path, "ab") as printed:
        child = subprocess.Popen(words, stdout=printed, stderr=log, stdin=subprocess.DEVNULL)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda received, frame: child.send_signal(signal.SIGTERM))
        threading.Thread(target=_watch, args=(child,), daemon=True).start()
        code = child.wait()
    if step.prints and code == 0:
        os.replace(part_path, step.output)
    part_path.unlink(missing_ok=True)
    return code if code >= 0 else 128 - code


def _watch(child: subprocess.Popen[bytes]) -> None:
    """Stop the command when the study that it belongs to has been killed; it keeps what it can go on from."""
    while child.poll() is None:
        if not _is_owned():
            child.terminate()
            return
        time.sleep(WATCHED)


def _is_owned() -> bool:
    host, _, process = os.environ.get(OWNER, "").partition(":")
    if host != socket.gethostname():  # a cluster's: the engine there says when to stop
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        pass
    return True


if __name__ == "__main__":
    if not _is_owned():
        sys.exit(130)
    sys.exit(work(*sys.argv[1:]))


def results_of(plan: StudyPlan) -> tuple[list[Path], bool]:
    """The paths of what is done, and whether the gates hold.

    The systems of an evaluation are compared by one command, which computes nothing anew; as JSON it lies beside the
    folder of results.
    """
    done = [state.step for state in plan.states() if state.state == DONE]
    evaluations: dict[str, list[Step]] = {}
    paths = []
    for step in done:
        if step.command[0] == "eval":
            evaluations.setdefault(step.table, []).append(step)
        elif step.prints or is_run(step.output):
            paths.append(Path(step.output))
    compared = {plan.folder / f"{table}.json": steps for table, steps in evaluations.items()}
    hold = [_compare(plan, steps, path) for path, steps in compared.items()]
    return [*compared, *paths], all(hold)


def _compare(plan: StudyPlan, steps: Iterable[Step], path: Path) -> bool:
    """Write the evaluation of all systems as JSON; whether the gates hold."""
    systems = [step.command[1] for step in steps]
    options = next(iter(steps)).command[2:]
    words = ["eval", *systems, *options, *plan.gates, "--json", "--per-query"]
    part_path = path.with_suffix(".part")
    check_own(part_path)
    with open(part_path, "wb") as file:
        ended = subprocess.run(
            [sys.executable, "-m", "retrokit", *words], cwd=plan.started_in, stdout=file, stderr=subprocess.PIPE
        )
    if ended.returncode not in (0, 1):
        part_path.unlink()
        error = RetrokitError(ended.stderr.decode(errors="replace").strip().splitlines()[-1])
        error.exit_code = ended.returncode
        raise error
    os.replace(part_path, path)
    return ended.returncode == 0
