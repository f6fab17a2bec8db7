"""The help of the program, of every group and of every command."""

import re

import pytest

from retrokit import cli
from tests.test_docs import COMMANDS

LEVELS = sorted({(), *(tuple(name.split()[:depth]) for name in COMMANDS for depth in (1, 2))})


def test_no_help_shows_types_of_python(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    for words in LEVELS:
        assert cli.run([*words, "--help"]) == 0
        shown = capsys.readouterr().out
        assert re.search(r"--help +Show", shown), words
        assert re.findall(r"<(?:str|bool|int|float|list)\b.*?>", shown) == [], words


def test_a_value_has_a_placeholder_and_a_switch_has_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    assert cli.run(["finetune", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Usage: retrokit finetune [OPTIONS] {ENCODER}" in shown
    for line in (
        r"ENCODER +Encoder to",
        r"--data +TEXT +Training",
        r"--steps +N +Opt",
        r"--lr +X +High",
        r"--tf32 +Let",
    ):
        assert re.search(line, shown), line


@pytest.mark.parametrize(
    ("given", "said"), [("0,1", "--lr 0,1: expected a number"), ("1.5", "--steps 1.5: expected a whole number")]
)
def test_what_is_no_number_is_shown(given: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["finetune", "minilm", "--data", "x.jsonl", "-o", "run", said.split()[0], given]) == 2
    assert capsys.readouterr().err == f"retrokit: {said} (see retrokit finetune --help)\n"


def test_what_is_missing_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["finetune", "minilm"]) == 2
    assert capsys.readouterr().err == "retrokit: Missing option '--data' (see retrokit finetune --help)\n"
