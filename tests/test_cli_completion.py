"""Completion of values, through the protocol by which bash, zsh and fish ask for them."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from retrokit import cli

HEAVY = {"torch", "numpy", "pandas", "transformers", "sentence_transformers", "huggingface_hub", "matplotlib"}


def asked(shell: str, line: str) -> dict[str, str]:
    """What the environment of a shell says when the last word of a line is to be completed."""
    words = shlex.split(line) if not line.endswith(" ") else [*shlex.split(line), ""]
    told = {"_RETROKIT_COMPLETE": f"complete_{shell}"}
    if shell == "bash":
        return {**told, "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    told |= {"_TYPER_COMPLETE_ARGS": line}
    return {**told, "_TYPER_COMPLETE_FISH_ACTION": "get-args", "_TYPER_COMPLETE_WORD_TO_COMPLETE": words[-1]}


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """What a shell is given for a line, in a folder with two runs."""
    for run in ("mine", "runs/qnorm", "runs/qnorm/checkpoints/checkpoint-3"):
        (tmp_path / run).mkdir(parents=True)
        (tmp_path / run / "retrokit.json").touch()
    monkeypatch.chdir(tmp_path)

    def completed(line: str, shell: str = "bash") -> list[str]:
        for name, value in asked(shell, line).items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        cli.run([])
        return capsys.readouterr().out.splitlines()

    return completed


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("retrokit ev", ["eval"]),
        ("retrokit eval --met", ["--metrics"]),
        ("retrokit eval minilm --sim qn", ["qnorm"]),
        ("retrokit eval mini", ["minilm"]),
        ("retrokit eval runs", ["runs/qnorm"]),
        ("retrokit eval min", ["minilm", "mine"]),
        ("retrokit eval minilm --on bei", ["beir:"]),
        ("retrokit eval minilm --metrics ndcg@10,mr", ["ndcg@10,mrr@10"]),
        ("retrokit eval minilm --format ", ["table", "json", "csv", "markdown", "latex"]),
        ("retrokit eval minilm --precision b", ["bf16"]),
        ("retrokit rerank minilm --on x --with maxs", ["maxsim"]),
        ("retrokit probe fisher runs/q", ["runs/qnorm"]),
        ("retrokit report runs", ["runs/qnorm"]),
        ("retrokit rerank verify runs", ["runs/qnorm"]),
        ("retrokit probe magnitude minilm --on bei", ["beir:"]),
        ("retrokit finetune minilm --data bei", ["beir:"]),
        ("retrokit finetune minilm --schedule c", ["cosine", "constant"]),
        ("retrokit names sim", ["similarities"]),
        ("retrokit rerank ", ["run", "train", "calibrate", "shrink", "verify"]),
    ],
)
def test_values_in_bash(line, found, complete):
    assert complete(line) == found


def test_choices_stand_in_the_help_and_nothing_else_is_taken(capsys):
    assert cli.run(["finetune", "--help-all"]) == 0
    assert "[linear|cosine|constant]" in capsys.readouterr().out
    assert cli.run(["finetune", "minilm", "--data", "x.jsonl", "-o", "x", "--schedule", "cubic"]) == 2
    assert "--schedule cubic is none of linear, cosine, constant" in capsys.readouterr().err


def test_completion_imports_little():
    program = "import sys; from retrokit.cli import main\ntry: main()\nexcept SystemExit: pass\n"
    program += "print(*sys.modules, file=sys.stderr)"
    environment = {**os.environ, **asked("bash", "retrokit eval minilm --sim qn")}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["qnorm"]
    loaded = set(done.stderr.split())
    assert not loaded & HEAVY
    assert len([name for name in loaded if name.split(".")[0] == "retrokit"]) < 85


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_itself_completes(tmp_path):
    script = typer.completion.get_completion_script(
        prog_name="retrokit", complete_var="_RETROKIT_COMPLETE", shell="bash"
    )
    (tmp_path / "retrokit").write_text(f'#!/bin/sh\nexec {sys.executable} -m retrokit "$@"\n')
    (tmp_path / "retrokit").chmod(0o755)
    ask = "COMP_WORDS=(retrokit eval minilm --sim qn); COMP_CWORD=4; _retrokit_completion retrokit qn --sim"
    line = f'{script}\n{ask}; echo "${{COMPREPLY[@]}}"'
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", line], env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["qnorm"], done.stderr
