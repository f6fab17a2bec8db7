"""Snakemake runs the steps: it has the graph, parallel jobs, retries and clusters.

Its rules are generated from the plan, and name no file but the marks of steps. A step is done if it has its mark and
its inputs are unchanged; one whose command has changed has another name. Neither a date in the future nor braces in a
path reach the engine. It runs a step by ``python -m retrokit.extensions.studies.engine FOLDER NAME``.
"""

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
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

from filelock import FileLock

from retrokit.core import system
from retrokit.core.errors import DataError, Interrupted, RetrokitError, ServiceError, check_extra
from retrokit.core.files import digest, writing
from retrokit.core.interrupts import stopping_by
from retrokit.core.notices import notice
from retrokit.core.outputs import check_own, locked
from retrokit.core.processor import processor_in_words
from retrokit.data.jsonl import read_json, write_json
from retrokit.data.runs import FINISHED, is_run, read_run
from retrokit.evaluation.comparison.results_folder import ResultsFolder, software
from retrokit.extensions.studies.forks import ForkedCommand, forking
from retrokit.extensions.studies.settings import MODULES
from retrokit.extensions.studies.state import (
    DONE,
    ENGINE,
    FAILED,
    MISSING,
    PLAN,
    STEPS,
    State,
    StudyPlan,
    check_study_folder,
)
from retrokit.extensions.studies.steps import Step, comparing, evaluations_of

LOOK_EVERY, OWNER_EVERY = 0.3, 1.0  # seconds
LINES = 5
"""Last lines of a failed step's standard error that its state keeps."""
OWNER = "RETROKIT_STUDY_OF"
"""Environment variable: host and process of the study that a step belongs to."""
STOPPED = (Interrupted.exit_code, 128 + signal.SIGTERM)  # of a command, and of one that had hardly begun

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


def run(plan: StudyPlan, jobs: int = 1, retries: int = 0, further: Sequence[str] = ()) -> list[State]:
    """Do what is not done, and return the state of each step.

    Args:
        jobs: steps at once.
        retries: further tries of a step that fails.
        further: options of Snakemake, such as those of a cluster's executor.

    Raises:
        MissingExtra: Snakemake is not installed.
        ServiceError: Snakemake fails.
        UsageError: another command works in the folder, or it contains files that no study wrote.
        Interrupted: stopped by the user.
    """
    check_extra("study", "study", MODULES)
    with locked(plan.folder):
        check_study_folder(plan.folder, {step.table for step in plan.steps})
        plan.folder.mkdir(parents=True, exist_ok=True)
        check_own(plan.folder / PLAN)
        plan.write()
        _drop_outdated(plan)
        _work(plan, jobs, retries, further)
    return plan.states()


def _drop_outdated(plan: StudyPlan) -> None:
    """Remove the marks of steps that failed, and of those whose files or earlier steps have changed. All others get one
    date, so that none is newer than what depends on it."""
    now = time.time()
    valid: set[str] = set()
    for state in plan.states():
        step = state.step
        if state.state == DONE and _same_files(plan, step) and valid.issuperset(step.after):
            valid.add(step.name)
            os.utime(plan.marker(step), (now, now))
        elif state.state != MISSING:
            plan.marker(step, "json" if state.state == DONE else "failed.json").unlink()


def _work(plan: StudyPlan, jobs: int, retries: int, further: Sequence[str]) -> None:
    folder = (plan.folder / ENGINE).absolute()
    rules, snakefile, log_path = folder / "rules.json", folder / "Snakefile", folder / "log"
    marks = plan.folder / STEPS
    for path in (folder, rules, snakefile, log_path, marks):
        check_own(path)
    marks.mkdir(exist_ok=True)
    write_json(rules, _rules(plan), indent=1)
    with writing(snakefile) as file:
        file.write(_RULES)
    words = ["--snakefile", str(snakefile), "--cores", str(jobs), "--retries", str(retries), "--keep-going", "--nolock"]
    words += ["--rerun-incomplete", "--rerun-triggers", "mtime"]
    words += ["--scheduler", "greedy", *further]  # the other one needs a solver of linear programs
    was_stopped = False

    def stop() -> None:
        """Stop the engine and its steps, which keep what they can resume from."""
        nonlocal was_stopped
        system.stop(engine, at_once=was_stopped)
        was_stopped = True

    environment = {**os.environ, OWNER: f"{socket.gethostname()}:{os.getpid()}"}
    trainings = [step for step in plan.steps if step.command[0] == "finetune"]
    with open(log_path, "w", encoding="utf-8") as log, ExitStack() as stack:
        if len(trainings) > 1:
            environment = stack.enter_context(forking(environment, log))
        engine = subprocess.Popen(
            [sys.executable, "-m", "snakemake", *words],
            cwd=folder,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches it through us, once
        )
        with stopping_by(stop):
            _watch_marks(plan, engine)
    if was_stopped:
        raise Interrupted(f"stopped; finished steps are in {plan.folder}")
    if engine.returncode and not any(state.state == FAILED for state in plan.states()):
        last = " / ".join(log_path.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:])
        raise ServiceError(f"Snakemake ended with {engine.returncode}: {last}; see {log_path}")


def _watch_marks(plan: StudyPlan, engine: subprocess.Popen[bytes]) -> None:
    """Report each step that ends, until the engine does."""
    seen = {state.step.name for state in plan.states() if state.state == DONE}
    is_running, seen_at = True, 0
    while is_running:
        is_running = engine.poll() is None
        time.sleep(LOOK_EVERY * is_running)
        changed = os.stat(plan.folder / STEPS).st_mtime_ns
        if changed != seen_at or not is_running:  # a long study has hundreds of marks to read
            _report(plan, seen)
            seen_at = changed


def _rules(plan: StudyPlan) -> list[dict[str, Any]]:
    start = [sys.executable, "-m", "retrokit.extensions.studies.engine", str(plan.folder.absolute())]
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
    """A notice for each step that has ended and is not yet among ``seen``."""
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


# --- one step, in a process of its own


def work(folder: str, name: str) -> int:
    """Run the step, write its mark, and return the exit code of its command."""
    plan = StudyPlan.read(folder)
    step = next(step for step in plan.steps if step.name == name)
    done, failed = plan.marker(step), plan.marker(step, "failed.json")
    check_own(done.parent)
    with FileLock(plan.marker(step, "lock")):  # of a study that was killed, a step may still be ending
        failed.unlink(missing_ok=True)
        os.chdir(plan.working_folder())
        began = time.time()
        # a run may have been finished, from the same files, before a kill kept it from being marked
        is_finished = step.resumes and is_run(step.output) and read_run(step.output).status == FINISHED
        code = 0 if is_finished and _same_files(plan, step) else _run(plan, step)
        if code not in STOPPED:
            record = {"command": ["retrokit", *step.command], "seconds": round(time.time() - began, 3), "code": code}
            record["processor"] = processor_in_words()
            if code:
                last = plan.marker(step, "log").read_text(encoding="utf-8", errors="replace").splitlines()[-LINES:]
                record["error"] = "\n".join(last)
            write_json(failed if code else done, record, indent=1, kind="step")
    return code


def _same_files(plan: StudyPlan, step: Step) -> bool:
    """Whether the files that the step reads are as they were when it last began."""
    begun = plan.marker(step, "begun.json")
    try:
        files: dict[str, str] = read_json(begun, "the files that a step has read", {"files": dict[str, str]})["files"]
    except DataError:  # there is none, or it is damaged: nothing is known of them
        return False
    return files == _contents(step)


def _contents(step: Step) -> dict[str, str]:
    """The digest of each file that the step reads. A copy or a checkout of the same files has other dates. An
    evaluation also depends on the software: a result of another is not used again, so comparing would compute it."""
    stats = {path: os.stat(path) for path in step.reads if os.path.exists(path)}
    contents = {path: _digest(path, stat.st_size, stat.st_mtime_ns) for path, stat in stats.items()}
    return {**contents, "software": software()} if step.command[0] == "eval" else contents


@cache
def _digest(path: str, size: int, changed: int) -> str:
    return digest(path)


def _run(plan: StudyPlan, step: Step) -> int:
    """The exit code of the command. It resumes what it had begun with the same files, and replaces any other output."""
    words = [*step.command, *_treatment_of_output(plan, step)]
    write_json(plan.marker(step, "begun.json"), {"files": _contents(step)}, kind="begun")
    with open(plan.marker(step, "log"), "wb") as log:
        child = _command(words, step, log)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda received, frame: child.send_signal(signal.SIGTERM))
        threading.Thread(target=_watch, args=(child,), daemon=True).start()
        text, _ = child.communicate()
    code = child.returncode
    assert code is not None
    if step.prints and code == 0:
        with writing(step.output) as file:
            file.write(text.decode())
    return code if code >= 0 else 128 - code


def _command(words: Sequence[str], step: Step, log: IO[bytes]) -> subprocess.Popen[bytes] | ForkedCommand:
    """The command, begun: by a fork if it trains and there is a process for that."""
    if step.command[0] == "finetune":
        with suppress(OSError):
            return ForkedCommand(words, log)
    printed = subprocess.PIPE if step.prints else log
    python = [sys.executable, "-m", "retrokit"]
    return subprocess.Popen([*python, *words], stdout=printed, stderr=log, stdin=subprocess.DEVNULL)


def _treatment_of_output(plan: StudyPlan, step: Step) -> list[str]:
    if step.resumes and is_run(step.output) and _same_files(plan, step):
        return ["--resume"]
    if step.replaces and os.path.lexists(step.output):
        return ["--overwrite"]
    return []


def _watch(child: subprocess.Popen[bytes] | ForkedCommand) -> None:
    """Stop the command, which keeps what it can resume from, once the study that it belongs to has been killed."""
    while child.poll() is None:
        if not _is_owned():
            child.terminate()
            return
        time.sleep(OWNER_EVERY)


def _is_owned() -> bool:
    host, _, process = os.environ.get(OWNER, "").partition(":")
    if host != socket.gethostname():  # a cluster's: the engine there stops it
        return True
    return system.is_running(int(process))


# --- results


def results_of(plan: StudyPlan) -> tuple[list[Path], bool]:
    """The paths of the results of finished steps, and whether the gates hold. The systems of an evaluation are compared
    by one command, which reads their results, into a JSON file next to the folder of results."""
    done = [state.step for state in plan.states() if state.state == DONE]
    paths = [Path(step.output) for step in done if step.command[0] != "eval" and (step.prints or is_run(step.output))]
    compared = {plan.folder / f"{table}.json": steps for table, steps in evaluations_of(done).items()}
    hold = [_compare(plan, steps, path) for path, steps in compared.items()]
    return [*compared, *paths], all(hold)


def _compare(plan: StudyPlan, steps: Sequence[Step], path: Path) -> bool:
    """Write the evaluation of all systems as JSON; whether the gates hold."""
    words = comparing(steps, plan.gates)
    ended = subprocess.run([sys.executable, "-m", "retrokit", *words], cwd=plan.working_folder(), capture_output=True)
    if ended.returncode not in (0, 1):
        last = ended.stderr.decode(errors="replace").strip().splitlines()[-1]
        error = RetrokitError(last.removeprefix("retrokit: "))
        error.exit_code = ended.returncode
        raise error
    text = ended.stdout.decode()
    with writing(path) as file:
        file.write(text)
    _report_others(steps[0].output, {result["encoder"] for result in json.loads(text)["results"]}, path)
    return ended.returncode == 0


def _report_others(folder: str, compared: set[str], path: Path) -> None:
    """A notice of systems with results in the folder that are not among those compared, such as those of a former
    plan."""
    if any(Path(folder).glob("*.json")):  # a result that depends on a service is not kept
        names = dict.fromkeys(record.result.encoder for record in ResultsFolder(folder).read())
        if others := [name for name in names if name not in compared]:
            which = ", ".join(others[:3])
            if len(others) > 3:
                which += ", …"
            notice(f"{folder} also contains results of {len(others)} not in this study ({which}); read {path}")


if __name__ == "__main__":
    sys.exit(work(*sys.argv[1:]) if _is_owned() else Interrupted.exit_code)
