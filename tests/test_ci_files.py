"""What users take into their own CI: the action, the workflow, the pre-commit hook and the Dockerfile."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.evaluation import test_baseline
from tests.test_docs import COMMANDS, retrokit_lines

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
WORKFLOW: dict[str, Any] = yaml.safe_load((ROOT / "examples" / "ci" / "workflow.yml").read_text(encoding="utf-8"))
GITLAB: dict[str, Any] = yaml.safe_load((ROOT / "examples" / "ci" / "gitlab.yml").read_text(encoding="utf-8"))
HOOKS = yaml.safe_load((ROOT / "examples" / "ci" / "pre-commit.yaml").read_text(encoding="utf-8"))
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
data, baseline = test_baseline.data, test_baseline.baseline
GATE = next(step for step in WORKFLOW["jobs"]["gate"]["steps"] if step.get("id") == "gate")
STUB = """
retrokit() {
    printf '%s\\0' "$@" > "$RUNNER_TEMP/words"
    while (( $# )); do
        if [[ $1 == --markdown-summary ]]; then echo "a table" > "$2"; fi
        shift
    done
    return "$CODE"
}
"""

MINE = f"""
retrokit() {{ {sys.executable} -m retrokit "$@"; }}
"""
PYTHON = f"""
python() {{
    if [[ $1 == -c ]]; then {sys.executable} "$@"; else printf '%s\\n' "$@" >> "$RUNNER_TEMP/installed"; fi
}}
"""


def stepped(run: str, folder: Path, env: dict[str, str], **inputs: str) -> subprocess.CompletedProcess[str]:
    """One ``run:`` of the action as GitHub runs it, in the shell of its step with the inputs that its `env` names."""
    (step,) = [step for step in ACTION["runs"]["steps"] if run in step.get("run", "")]
    given = {name: one.get("default", "") for name, one in ACTION["inputs"].items()} | inputs
    value = re.compile(r"\$\{\{ inputs\.([\w-]+) \}\}")
    own = {name: value.sub(lambda found: given[found[1]], text) for name, text in step["env"].items()}
    places = {name: str(folder / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    about = {"PATH": os.environ["PATH"], "RUNNER_TEMP": str(folder), "GITHUB_ACTION_PATH": str(ROOT)}
    prelude = PYTHON + (STUB if "CODE" in env else MINE)
    words = ["bash", "-e", "-o", "pipefail", "-c", prelude + step["run"]]
    return subprocess.run(words, env=about | env | own | places, cwd=folder, capture_output=True, text=True)


def parsed(words: list[str]) -> dict[str, Any]:
    """The options of a command line, which must be one."""
    return COMMANDS[words[0]].make_context(words[0], words[1:]).params


def words_of(folder: Path) -> list[str]:
    return (folder / "words").read_text().split("\0")[:-1]


def test_every_line_of_the_arguments_counts(tmp_path):
    lines = (
        "--fail-under recall@100=0.5\n\n  --fail-under 'mrr@10=0.2' --sim \"cosine\" \\\n--metrics 'ndcg@10, mrr@10'\n"
    )
    assert stepped("retrokit eval", tmp_path, {"CODE": "0"}, **{**GATE["with"], "arguments": lines}).returncode == 0
    params = parsed(words_of(tmp_path))
    assert (params["fail_under"], params["sim"]) == (["recall@100=0.5", "mrr@10=0.2"], ["cosine"])
    assert params["metrics"] == "ndcg@10, mrr@10"
    assert stepped("retrokit eval", tmp_path, {"CODE": "0"}, **{**GATE["with"], "arguments": ""}).returncode == 0
    assert not parsed(words_of(tmp_path))["fail_under"]
    assert stepped("retrokit eval", tmp_path, {"CODE": "0"}, **{**GATE["with"], "arguments": "--sim 'x"}).returncode


@pytest.mark.parametrize(("wrong", "code", "failures"), [(0, 0, 0), (16, 1, 1)])
def test_the_action_holds_a_system_against_the_baseline(data, baseline, tmp_path, wrong, code, failures):
    env = {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "RETROKIT_CACHE": str(tmp_path / "cache")}
    inputs = {
        "encoder": test_baseline.run_with(tmp_path / "now", wrong),
        "task": f"beir:{data}",
        "baseline": str(baseline),
    }
    done = stepped("retrokit eval", tmp_path, env, metric="mrr@10", **inputs, arguments="--metrics mrr@10")
    assert done.returncode == code, done.stderr
    said = dict(line.split("=") for line in (tmp_path / "GITHUB_OUTPUT").read_text().splitlines())
    summary = Path(said["summary"]).read_text()
    assert (tmp_path / "GITHUB_STEP_SUMMARY").read_text() == summary
    assert "mrr@10" in summary
    suite = xml.etree.ElementTree.parse(said["junit"]).getroot()
    assert len(suite.findall(".//testcase")) >= 1
    assert len(suite.findall(".//failure")) == failures


def test_the_workflow_gives_what_the_action_takes():
    required = {name for name, one in ACTION["inputs"].items() if one.get("required")}
    assert required <= set(GATE["with"]) <= set(ACTION["inputs"])
    used = set(re.findall(r"steps\.gate\.outputs\.([\w-]+)", yaml.safe_dump(WORKFLOW)))
    assert used <= set(ACTION["outputs"])
    assert set(ACTION["inputs"]["extras"]["default"].split(",")) <= set(EXTRAS)
    page = (ROOT / "docs" / "tutorials" / "gate.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^\| `([\w-]+)` \| ([^|]*?) ?\|", page, flags=re.MULTILINE))
    assert {name: default.strip("`") or None for name, default in shown.items()} == {
        name: "required" if name in required else one["default"] or None for name, one in ACTION["inputs"].items()
    }


def test_nothing_that_users_take_needs_a_copy_of_this_repository():
    steps = WORKFLOW["jobs"]["gate"]["steps"]
    assert GATE["uses"].startswith("OWNER/retrokit@v")
    assert [
        step for step in steps if "submodules" in step.get("with", {}) or step.get("uses", "").startswith("./")
    ] == []
    setup = next(step for step in ACTION["runs"]["steps"] if step.get("uses", "").startswith("actions/setup-python"))
    assert "cache" not in setup["with"]  # its key is of files in the workspace, which has none of ours
    *installs, gate = GITLAB["retrieval"]["script"]
    assert [shlex.split(line)[:4] for line in installs] == [["python", "-m", "pip", "install"]] * 2
    params = parsed(shlex.split(gate)[1:])
    assert (params["baseline"], params["max_drop"], params["junit"]) == ("baseline.json", 0.02, "junit.xml")


def test_the_hook_is_the_gate():
    (hook,) = HOOKS["repos"][0]["hooks"]
    program, *words = shlex.split(hook["entry"])
    assert (program, hook["pass_filenames"]) == ("retrokit", False)
    assert parsed(words)["baseline"] == GATE["with"]["baseline"]
    assert re.match(hook["files"], "models/encoder/model.safetensors")


def test_the_dockerfile_copies_what_is_there():
    lines = [line.split() for line in DOCKERFILE.splitlines() if line and not line.startswith("#")]
    assert {line[0] for line in lines} == {"ARG", "FROM", "RUN", "WORKDIR", "COPY", "ENTRYPOINT", "CMD"}
    sources = [name for line in lines if line[0] == "COPY" for name in line[1:-1]]
    let_through = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), flags=re.MULTILINE)
    assert sorted(sources) == sorted(let_through)
    assert all((ROOT / name).exists() for name in sources)
    arguments = dict(line[1].split("=") for line in lines if line[0] == "ARG")
    assert set(arguments["EXTRAS"].split(",")) <= set(EXTRAS)
    assert 'ENTRYPOINT ["retrokit"]' in DOCKERFILE
    assert retrokit_lines("\n".join(line for line in DOCKERFILE.splitlines() if line.startswith("RUN"))) == [
        ["--version"]
    ]
