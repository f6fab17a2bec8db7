"""Inputs and outputs that a command names are checked before its work."""

import pytest

from retrokit import cli
from retrokit.core.errors import UsageError
from retrokit.core.outputs import paths_in


@pytest.mark.parametrize(
    "command",
    [
        "augment mix - - -o out.jsonl",
        "augment split - - -o out",
    ],
)
def test_standard_input_is_read_once(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.run(command.split()) == 2
    assert "standard input can be read once only" in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


def test_standard_input_once_is_no_path():
    assert paths_in(["-", None, 3]) == []
    with pytest.raises(UsageError, match="standard input can be read once only"):
        paths_in(["-", ["texts", "-"]])
