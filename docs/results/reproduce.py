"""Run a claim's command and compare its figures with the recorded ones: ok, near or fail.

python docs/results/reproduce.py CLAIM [--read]

A figure is ok within the claim's tolerance, near within three times that, else fail. The last line is the worst.
With --read only the command that prints the figures runs. OUT is where runs write (default: runs/ and the run's name).
Exit status: 0 for ok and near, 1 for fail, 2 for an unknown claim, or a package or data that are missing, 130 after
Ctrl-C.
"""

import fnmatch
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import make

ROOT = make.FOLDER.parents[1]
WORDS = ("ok", "near", "fail")


def figure(output: str, check: dict[str, Any]) -> float:
    """The figure of a check: the group of the first match of ``line``, or what ``at`` leads to in JSON.

    A step of ``at`` is a key, an index, or FIELD=PATTERN: the records of a list that match, of which the first counts.
    """
    if "line" in check:
        found = re.search(check["line"], output, flags=re.MULTILINE)
        if found is None:
            raise LookupError(f"no line matches {check['line']}")
        return float(found[1].replace("−", "-"))
    value = json.loads(output[output.index("{") :])
    for step in check["at"]:
        if isinstance(step, str) and "=" in step and isinstance(value, list):
            field, _, pattern = step.partition("=")
            value = [record for record in value if fnmatch.fnmatchcase(str(record[field]), pattern)]
            continue
        if isinstance(value, list) and not isinstance(step, int):
            value = value[0]
        value = value[step]
    return float(value[0] if isinstance(value, list) else value)


def judge(output: str, checks: list[dict[str, Any]]) -> str:
    """Print each figure next to the recorded one; the worst word of all."""
    worst = 0
    for check in checks:
        name = check.get("name") or check.get("line") or ", ".join(map(str, check["at"]))
        try:
            value = figure(output, check)
        except (LookupError, ValueError) as error:
            print(f"fail  {name}: no figure ({error})")
            worst = 2
            continue
        distance = abs(value - check["value"]) * (1 - 1e-9)
        verdict = 0 if distance <= check["within"] else 1 if distance <= 3 * check["within"] else 2
        print(f"{WORDS[verdict]:<5} {name}: {value:g}, recorded {check['value']:g} ± {check['within']:g}")
        worst = max(worst, verdict)
    return WORDS[worst]


def prepare(names: list[str], environment: dict[str, str]) -> list[str]:
    """What is missing of the data; what has a command and no variable is created."""
    missing = []
    for name in names:
        folder = make.data()[name]
        missing += prepare(folder.get("needs", []), environment)
        if "variable" in folder:
            path = environment.get(folder["variable"], "")
            if not path or not Path(path).exists():
                how = folder.get("make", folder["address"])
                missing.append(f"{folder['variable']}: not set to a path that exists; {folder['contents']}; {how}")
            else:
                is_within = "file" in folder and Path(path).is_dir()
                environment[folder["variable"]] = str(Path(path, folder["file"] if is_within else "").resolve())
        elif not missing and not all((ROOT / path).exists() for path in folder["path"].split()):
            shell(folder["make"], environment)
    return missing


def shell(script: str, environment: dict[str, str]) -> str:
    """A script's standard output. What stops this process stops all that the script has started."""
    command, process = ["bash", "-euo", "pipefail", "-c", script], None
    try:
        with signals_after():
            process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
            )
        output, _ = process.communicate()
    except BaseException:
        if process is not None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
        raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return output


@contextmanager
def signals_after() -> Iterator[None]:
    """A signal to stop takes effect after the block: a process that starts in it is then known, and can be ended."""
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: came.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)


def main(arguments: list[str]) -> int:
    """Run one claim."""
    if not arguments or {"-h", "--help"} & {*arguments}:
        print(__doc__)
        return 0
    name, claims = next((word for word in arguments if word != "--read"), ""), make.records("claims")
    claim = claims.get(name)
    if claim is None or "checks" not in claim:
        problem = "unknown claim" if claim is None else "has no figure that a command can check; see its page"
        known = ", ".join(claim for claim, record in claims.items() if "checks" in record)
        print(f"{name}: {problem}; one of: {known}", file=sys.stderr)
        return 2
    run = make.records("runs")[claim["run"]]
    environment = {**os.environ}
    environment.setdefault("OUT", str(ROOT / "runs" / run.get("out", claim["run"])))
    if "--read" in arguments and not Path(environment["OUT"]).is_dir():
        print(f"{environment['OUT']}: no finished run; leave out --read", file=sys.stderr)
        return 2
    needs_study = "retrokit study" in run["command"] and importlib.util.find_spec("snakemake") is None
    missing = ["the command needs an extra: python -m pip install -e '.[study]'"] if needs_study else []
    missing += prepare(run["data"], environment)
    if missing:
        print(*dict.fromkeys(missing), sep="\n", file=sys.stderr)
        return 2
    Path(environment["OUT"]).mkdir(parents=True, exist_ok=True)
    read = claim.get("read", run.get("read"))
    try:
        output = "" if read and "--read" in arguments else shell(run["command"], environment)
        output = shell(read, environment) if read else output
    except subprocess.CalledProcessError as error:
        is_refused = error.returncode in (2, 3, 4)
        print(f"{'not run: ' if is_refused else 'fail  '}exit status {error.returncode}: {error.cmd[-1].strip()}")
        return 2 if is_refused else 1
    word = judge(output, claim["checks"])
    print(word)
    return int(word == "fail")


def run(arguments: list[str]) -> int:
    """:func:`main`, with one line after Ctrl-C or SIGTERM."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the first is ignored in a background job
        signal.signal(number, signal.default_int_handler)
    try:
        return main(arguments)
    except KeyboardInterrupt:
        print("stopped; the same command resumes", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
