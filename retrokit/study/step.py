"""Run one step of a study: ``python -m retrokit.study.step FOLDER NAME``, which is what the engine calls."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from filelock import FileLock

from retrokit.core.errors import Interrupted
from retrokit.core.outputs import check_own
from retrokit.data.jsonl import read_json, write_json
from retrokit.data.processor import processor_in_words
from retrokit.data.runs import FINISHED, is_run, read_run
from retrokit.study.state import LINES, StudyPlan
from retrokit.study.steps import Step

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
