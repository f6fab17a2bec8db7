"""Run what is behind a row, and compare its figures with the recorded ones: ok, near or fail.

python docs/reproduction/reproduce.py MAG:12                a table of a paper; MAG:F5 is Figure 5
python docs/reproduction/reproduce.py mag-t12-auto          a row
python docs/reproduction/reproduce.py --paper SFS --cheap   the rows that take under ten minutes
python docs/reproduction/reproduce.py --list
python docs/reproduction/reproduce.py --show mag-t12-auto   all that was recorded of a row, or of a benchmark
python docs/reproduction/reproduce.py --check               refuse a verdict that its intervals do not carry

A figure is ok within the claim's tolerance, near within three times that, else fail. A count, such as that of tests
that pass, is ok if it is at least the recorded one. The last line is the worst.
OUT is where runs write (default: runs/ and the run's name). A run without files of its own leaves its output there.
Exit status: 0 for ok and near, 1 for fail, 2 for an unknown row, a package or data that are missing, or a test that
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
CHEAP = 10
"""Minutes."""
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
        if "least" in check:
            verdict = 0 if value >= check["least"] else 2
            print(f"{WORDS[verdict]:<5} {name}: at least {check['least']:g}, now {value:g}")
            worst = max(worst, verdict)
            continue
        distance = abs(value - check["value"]) * (1 - 1e-9)
        verdict = 0 if distance <= check["within"] else 1 if distance <= 3 * check["within"] else 2
        print(f"{WORDS[verdict]:<5} {name}: recorded {check['value']:g} ± {check['within']:g}, now {value:g}")
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


def rerun(name: str, claim: dict[str, Any], run: dict[str, Any], only_read: bool) -> int:
    """Run what a claim rests on; print the paper's figures, the recorded ones, and those of now. The exit status."""
    print(f"{name}: {claim['claim']}\npaper: {claim['published']}\nrecorded: {claim['figure']}", flush=True)
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


def selected(name: str, claims: dict[str, dict[str, Any]]) -> list[str]:
    """The claims of a name, or of a table such as ``MAG:12``."""
    paper, _, key = name.lower().partition(":")
    if not key:
        return [name] if name in claims else []
    return [
        one
        for one, claim in claims.items()
        if claim["paper"].lower() == paper and key in map(str.lower, make.keys(claim["where"]))
    ]


def is_cheap(run: dict[str, Any]) -> bool:
    """Whether a run took less than ``CHEAP`` minutes; one without a recorded time did not."""
    return isinstance(run["minutes"], int | float) and run["minutes"] < CHEAP


def listed(names: list[str], claims: dict[str, dict[str, Any]], runs: dict[str, dict[str, Any]]) -> Iterator[str]:
    """A line for each claim: its table, name, minutes, verdict and data."""
    for name in names:
        claim = claims[name]
        run = runs[claim["run"]]
        table = ", ".join(f"{claim['paper']}:{key}" for key in make.keys(claim["where"])[-1:])
        cells = f"{table:<10} {name:<24} {make.minutes(run):<27} {claim['verdict']:<18} {', '.join(run['data'])}"
        yield cells.rstrip()


def shown(record: dict[str, Any]) -> Iterator[str]:
    """The fields of a record, texts of several lines below their names."""
    for field, value in record.items():
        text = str(value).strip()
        yield f"{field}:\n{text}\n" if "\n" in text else f"{field}: {text}"


def arguments_of(words: list[str]) -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a row, or a table of a paper: MAG:12")
    parser.add_argument("--paper", type=str.lower, help="the rows of a paper: " + ", ".join(make.PAPERS))
    parser.add_argument("--cheap", action="store_true", help=f"only rows that take under {CHEAP} minutes")
    parser.add_argument("--read", action="store_true", help="only read the figures of a finished run")
    parser.add_argument("--list", action="store_true", help="list the rows with their minutes, verdicts and data")
    parser.add_argument("--show", action="store_true", help="print all that was recorded of rows or benchmarks")
    parser.add_argument("--check", action="store_true", help="check the records and each verdict; run nothing")
    options = parser.parse_args(words)
    if not (options.names or options.paper or options.cheap or options.list or options.check):
        parser.error("name a row; --list prints their names")
    if options.paper and options.paper not in map(str.lower, make.PAPERS):
        parser.error(f"--paper {options.paper}: unknown; one of {', '.join(make.PAPERS)}")
    return options


def main(words: list[str]) -> int:
    """The command line; returns the exit status."""
    options, claims, runs = arguments_of(words), make.records("claims"), make.records("runs")
    if options.check:
        wrong = list(make.problems())
        for problem in wrong:
            print(problem, file=sys.stderr)
        return int(bool(wrong))
    benchmarks = make.read("benchmarks")
    testable = {name: claim for name, claim in claims.items() if "checks" in claim}
    names = [] if options.names else list(claims if options.show else testable)
    for name in options.names:
        rows = selected(name, claims if options.show else testable)
        if options.show and name in benchmarks:
            print(*shown(benchmarks[name]), sep="\n")
        elif not rows:
            problem = f"unknown row{did_you_mean(name, testable)}"
            if selected(name, claims):
                problem = "has no figure that a command can check; see its page"
            print(f"{name}: {problem}; --list prints the names", file=sys.stderr)
            return 2
        names += rows
    if options.paper:
        names = [name for name in names if claims[name]["paper"].lower() == options.paper]
    if options.cheap:
        names = [name for name in names if name in testable and is_cheap(runs[claims[name]["run"]])]
    if options.list:
        print(*listed(names, claims, runs), sep="\n")
        return 0
    if options.show:
        for name in names:
            run = runs.get(claims[name].get("run", ""), {})
            print(name, *shown(claims[name]), *shown(run), "", sep="\n")
        return 0
    statuses, finished = [0], set[str]()
    for name in names:
        run = claims[name]["run"]
        statuses.append(rerun(name, claims[name], runs[run], options.read or run in finished))
        if statuses[-1] < 2:
            finished.add(run)
        print()
    return 1 if 1 in statuses else max(statuses)


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
