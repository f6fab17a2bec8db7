"""Run a claim's command and compare its figures with the recorded ones: ok, near or fail.

python docs/results/reproduce.py CLAIM [--read]
python docs/results/reproduce.py --list

A figure is ok within the claim's tolerance, near within three times that, else fail. The last line is the worst.
OUT is where runs write (default: runs/ and the run's name). A run without files of its own leaves its output there.
Exit status: 0 for ok and near, 1 for fail, 2 for an unknown claim, a package or data that are missing, or a test that
is skipped, 130 after Ctrl-C.
"""

import argparse
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

from retrokit.core.errors import did_you_mean

ROOT = make.FOLDER.parents[1]
WORDS = ("ok", "near", "fail")
EXTRAS = {
    "retrokit study": ("snakemake", "study"),
    "-m pytest": ("pytest", "test"),
    "scifact_without_leaks.py": ("bm25s", "bm25"),
}
"""Words of a command, the module that it needs, and the extra that installs it."""
REFUSED = (2, 3, 4, 127)
"""Exit statuses of a command that did not run: wrong input, a missing extra, a missing model, no such command."""


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
                problem = f"={path}: does not exist" if path else ": not set"
                how = "; ".join(folder[field] for field in ("contents", "address", "make") if field in folder)
                missing.append(f"{folder['variable']}{problem}; {how}")
            else:
                is_within = "file" in folder and Path(path).is_dir()
                environment[folder["variable"]] = str(Path(path, folder["file"] if is_within else "").resolve())
        elif not missing and not all((ROOT / path).exists() for path in folder["path"].split()):
            try:
                shell(folder["make"], environment)
            except subprocess.CalledProcessError as error:
                script = "; ".join(folder["make"].strip().splitlines())
                missing.append(f"{name}: not created, exit status {error.returncode}: {script}")
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


def rerun(claim: dict[str, Any], run: dict[str, Any], only_read: bool) -> int:
    """Run what a claim rests on and judge its figures; the exit status."""
    out = Path(os.environ.get("OUT") or ROOT / "runs" / run.get("out", claim["run"])).resolve()
    environment = {**os.environ, "OUT": str(out)}
    read, saved = claim.get("read", run.get("read", "")), out / f"{claim['run']}.txt"
    if only_read and not (any(out.glob("*")) if read else saved.is_file()):
        print(f"{out}: no finished run; leave out --read", file=sys.stderr)
        return 2
    command = "" if only_read else run["command"]
    missing = [
        f"the command needs an extra: python -m pip install -e '.[{extra}]'"
        for words, (module, extra) in EXTRAS.items()
        if words in command + read and importlib.util.find_spec(module) is None
    ]
    missing += prepare(run["data"], environment) if command or read else []
    if missing:
        print(*dict.fromkeys(missing), sep="\n", file=sys.stderr)
        return 2
    try:
        if command:
            out.mkdir(parents=True, exist_ok=True)
            output = shell(command, environment)
        if read:
            output = shell(read, environment)
        elif only_read:
            output = saved.read_text("utf-8")
    except subprocess.CalledProcessError as error:
        if not any(out.iterdir()):
            out.rmdir()
        is_refused = error.returncode in REFUSED
        print(f"{'not run: ' if is_refused else 'fail  '}exit status {error.returncode}: {error.cmd[-1].strip()}")
        return 2 if is_refused else 1
    if skipped := re.findall("^SKIPPED .*", output, flags=re.MULTILINE):
        print("not run:", *skipped, sep="\n")
        return 2
    if command and not read:
        saved.write_text(output, "utf-8")
    word = judge(output, claim["checks"])
    print(word)
    return int(word == "fail")


def main(arguments: list[str]) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("claim", nargs="?", metavar="CLAIM", help="name of a claim")
    parser.add_argument("--read", action="store_true", help="only read the figures of a finished run")
    parser.add_argument("--list", action="store_true", help="list the claims with their minutes and data")
    given, claims, runs = parser.parse_args(arguments), make.records("claims"), make.records("runs")
    known = {name: runs[claim["run"]] for name, claim in claims.items() if "checks" in claim}
    if given.list:
        times = {name: make.minutes({"minutes": run["minutes"]}).partition(",")[0] for name, run in known.items()}
        print("\n".join(f"{name:<24} {times[name]:<23} {', '.join(known[name]['data'])}".rstrip() for name in known))
        return 0
    name = given.claim
    if name is None:
        parser.error("name a claim; --list prints their names")
    if name not in known:
        problem = "has no figure that a command can check; see its page"
        if name not in claims:
            problem = f"unknown claim{did_you_mean(name, known)}"
        print(f"{name}: {problem}; --list prints the names", file=sys.stderr)
        return 2
    return rerun(claims[name], known[name], given.read)


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
