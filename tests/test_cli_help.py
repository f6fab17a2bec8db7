"""The help of the program, of every group and of every command."""

import re
import subprocess
import sys

import pytest
import typer

from retrokit import cli
from tests.test_docs import COMMANDS

LEVELS = sorted({(), *(tuple(name.split()[:depth]) for name in COMMANDS for depth in (1, 2))})
DEFAULTS = {"build-sure": ("build-sure", "build"), "rerank": ("rerank", "run")}
RUNNABLE = {name: (*DEFAULTS.get(name, name.split()),) for name in COMMANDS}


@pytest.fixture
def page(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """A help page at 80 columns."""

    def of(*words: str, columns: int = 80) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        assert cli.run(words) == 0
        return capsys.readouterr().out

    return of


def test_no_help_shows_types_of_python(page) -> None:
    for words in LEVELS:
        for option in ("--help", "--help-all") if words in RUNNABLE.values() else ("--help",):
            shown = page(*words, option, columns=140)
            assert re.search(r"--help\b.* +Show", shown), words
            assert re.findall(r"<(?:str|bool|int|float|list)\b.*?>", shown) == [], words


def test_a_group_has_one_page(page) -> None:
    groups = [words for words in LEVELS if words not in RUNNABLE.values() and " ".join(words) not in COMMANDS]
    assert () in groups
    for words in groups:
        assert page(*words, "--help-all") == page(*words, "--help") != ""


@pytest.mark.parametrize("name", RUNNABLE)
def test_the_first_page_is_short_and_the_whole_one_whole(name: str, page) -> None:
    """At most twelve options (the required ones among them) and 45 lines; examples can be copied."""
    params = [param for param in COMMANDS[name].params if param.param_type_name == "option"]
    first = page(*RUNNABLE[name], "--help")
    shown = [param for param in params if re.search(rf"^  (-\w, )?{param.opts[0]}\b", first, re.MULTILINE)]
    assert len(first.splitlines()) <= 45
    assert len(shown) <= 12
    assert {param.name for param in params if param.required} <= {param.name for param in shown}
    assert len(shown) == len(params) or f"{len(params) - len(shown)} more options: --help-all" in first
    joined = re.sub(r" \\\n +", " ", first)
    examples = [" ".join(text.split()) for text in COMMANDS[name].help.split("\n\n") if text.startswith("retrokit ")]
    assert examples
    assert [example for example in examples if example not in joined] == []
    whole = page(*RUNNABLE[name], "--help-all")
    assert [param.opts[0] for param in params if param.opts[0] not in whole] == []


def test_the_first_options_of_finetune_are_those_of_a_first_run(page) -> None:
    options = re.findall(r"^  (?:-\w, )?--([\w-]+)", page("finetune", "--help"), re.MULTILINE)
    expected = "data output eval holdout sim epochs batch-size max-length lr seed dry-run resume help"
    assert options == expected.split()
    panels = re.findall(r"^╭─ ([A-Z][\w ]+) ─", page("finetune", "--help-all"), re.MULTILINE)
    assert panels == [
        *("Arguments", "Options", "Common options", "Evaluation", "Loss", "Batches"),
        *("Optimizer", "Adapters", "Checkpoints", "Output"),
    ]


def test_a_value_has_a_placeholder_and_a_switch_has_none(page) -> None:
    shown = page("finetune", "--help-all", columns=140)
    assert "Usage: retrokit finetune [OPTIONS] [ENCODER]" in shown
    for line in (r"ENCODER +[A-Z]", r"--data +DATA +[A-Z]", r"--steps +N +[A-Z]", r"--lr +X +[A-Z]", r"--tf32 +[A-Z]"):
        assert re.search(line, shown), line


@pytest.mark.parametrize(
    ("given", "said"), [("0,1", "--lr 0,1: expected a number"), ("1.5", "--steps 1.5: expected a whole number")]
)
def test_what_is_no_number_is_shown(given: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["finetune", "minilm", "--data", "x.jsonl", "-o", "run", said.split()[0], given]) == 2
    assert capsys.readouterr().err == f"retrokit: {said} (see retrokit finetune --help)\n"


def test_what_is_missing_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["augment", "mask", "pairs.jsonl"]) == 2
    assert capsys.readouterr().err == "retrokit: Missing option '--encoder' (see retrokit augment mask --help)\n"


EMPTY = """
import typer
app = typer.Typer()
@app.command()
def one(name: str): "Do one thing."
@app.command()
def two(name: str): "Do another."
main = app
"""
COUNT = """
import sys
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(*sorted(sys.modules), file=sys.stderr)
"""


def modules(program: str) -> set[str]:
    """The modules that are imported when the program has shown its help."""
    words = [sys.executable, "-c", program + COUNT, "--help"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout
    return set(done.stderr.split())


def test_help_imports_little() -> None:
    """Little more than a Typer program that does nothing: its time depends on that."""
    more = modules("from retrokit.cli import main") - modules(EMPTY)
    own = {name for name in more if name.split(".")[0] == "retrokit"}
    assert len(own) < 70, sorted(own)
    assert {name.split(".")[0] for name in more - own} <= set(sys.stdlib_module_names)
    assert len(more - own) < 60, sorted(more - own)  # those of importlib.metadata, which lists third parties' commands


def test_the_first_help_page_is_that_of_the_whole_application(capsys: pytest.CaptureFixture[str]) -> None:
    typer.main.get_command(cli.app).main(["--help"], prog_name="retrokit", standalone_mode=False)
    whole = capsys.readouterr().out
    assert "doctor" in whole
    assert cli.run(["--help"]) == 0
    assert capsys.readouterr().out == whole
