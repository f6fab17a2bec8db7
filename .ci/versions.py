"""The suite with other versions: `lowest`, the lower bounds of pyproject.toml; `newest`, without its upper bounds.

torch is that of constraints.txt. The suite runs in a copy of the project, in an environment of its own.

    .ci/lowest [PYTEST ARGUMENTS]        (default: the whole suite)
    .ci/newest [PYTEST ARGUMENTS]        prints then which upper bounds may be raised
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENT = re.compile(r"([\w.-]+)(?:\[.*?\])?>=([\w.]+)(?:,<([\w.]+))?")
BOUNDS = [
    f"{file}::test_a_minor_version_that_was_not_tried_is_not_taken"
    for file in ("tests/test_private_members.py", "tests/extensions/graphs/test_graphs.py")
]


def requirements(project: Path) -> list[tuple[str, str, str | None]]:
    """Name, lower bound and upper bound of all that the package and its extras require."""
    described = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    lines = [
        *described["dependencies"],
        *(line for extra in described["optional-dependencies"].values() for line in extra),
    ]
    return [found.groups() for line in lines if (found := REQUIREMENT.match(line))]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main(which: str, arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        project, environment = Path(scratch) / "retrokit", Path(scratch) / "venv"
        shutil.copytree(
            ROOT, project, symlinks=True, ignore=shutil.ignore_patterns("*.egg-info", "__pycache__", ".*_cache")
        )
        if (ROOT.parent / "shared").is_dir():
            (Path(scratch) / "shared").symlink_to(ROOT.parent / "shared")
        required = requirements(project)
        constraints = Path(scratch) / "constraints.txt"
        lines = [f"{name}=={lower}" for name, lower, _ in required if name != "torch"] if which == "lowest" else []
        constraints.write_text("\n".join([*lines, (project / ".ci/constraints.txt").read_text()]))
        print(constraints.read_text(), flush=True)
        if which == "newest":
            description = project / "pyproject.toml"
            description.write_text(re.sub(r"(>=[\w.]+),<[\w.]+", r"\1", description.read_text()))
            arguments = [*arguments, *(f"--deselect={test}" for test in BOUNDS)]
        venv.create(environment, with_pip=True)
        left_out = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
        own = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "PIP_CONSTRAINT": str(constraints)}
        own |= {"PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"}
        variables = {name: value for name, value in os.environ.items() if name not in left_out} | own

        def run(*words: str) -> int:
            command = [str(environment / "bin" / "python"), "-m", *words]
            return subprocess.run(command, cwd=project, env=variables).returncode

        status = run("pip", "install", "-e", ".[test]") or run("pytest", *arguments)
        if which == "newest":
            report(required, environment, status == 0)
    return status


def report(required: list[tuple[str, str, str | None]], environment: Path, passed: bool) -> None:
    """Print, of each library with an upper bound, the version that was installed and what follows for the bound."""
    command = [environment / "bin" / "python", "-m", "pip", "list", "--format=json"]
    listed = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    versions = {canonical(one["name"]): one["version"] for one in listed}
    print(f"\nthe suite {'passed' if passed else 'FAILED'}; upper bounds:")
    for name, _, bound in required:
        version = versions.get(canonical(name))
        if bound is None:
            continue
        numbers = [int(number) for number in re.findall(r"\d+", version or "")[:2]]
        if not numbers:
            told = "not installed"
        elif numbers < [int(number) for number in bound.split(".")]:
            told = "stays"
        elif passed:
            told = f"may be raised to <{numbers[0]}.{numbers[1] + 1}"
        else:
            told = "stays until the suite passes"
        print(f"  {name} {version or ''} (<{bound}): {told}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the copy and the environment are removed
    sys.exit(main(sys.argv[1], sys.argv[2:]))
