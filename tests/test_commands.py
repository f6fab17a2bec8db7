"""The registry of commands: what the core's table says is what the functions say, and third parties add their own."""

import subprocess
import sys

import pytest

from retrokit import cli
from retrokit.cli.commands import CommandEntry, CommandRegistry, GroupEntry, registry
from retrokit.cli.root import LazyCommand, application
from retrokit.core.errors import UsageError

ENTRIES = {entry.name: entry for entry in registry.entries()}
LEAVES = [name for name, entry in ENTRIES.items() if not isinstance(entry, GroupEntry)]
CARD = ["augment", "finetune", "eval", "probe", "rerank", "build-sure"]


def command_of(name):
    command = application()
    for word in name.split():
        command = command.commands[word]
    return command


@pytest.mark.parametrize("name", LEAVES)
def test_the_summary_is_the_first_line_of_the_help(name):
    command = command_of(name)
    assert isinstance(command, LazyCommand)
    assert " ".join(command.help.split("\n\n")[0].split()) == ENTRIES[name].summary


def test_the_page_has_the_six_of_the_card_first(capsys):
    assert cli.run(["--help"]) == 0
    page = capsys.readouterr().out
    shown = [name for name in ENTRIES if " " not in name]
    assert shown[:6] == CARD
    positions = [page.index(f"\u2502 {name} ") for name in shown]
    assert positions == sorted(positions)
    for line in ("retrokit doctor", "retrokit names similarities encoders", "retrokit help finetune"):
        assert line in page
        assert cli.run(line.split()[1:]) in (0, 1), "doctor may report what is broken"


def test_listing_imports_no_command():
    code = "import sys; from retrokit import cli; cli.run(['--help']); print(*sorted(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = [name for name in done.stderr.split() if name.startswith("retrokit.")]
    rooms = {name.split(".")[1] for name in loaded}
    assert rooms - {"extensions"} == {"cli", "core", "kinds"}
    assert all(name.count(".") <= 2 for name in loaded if name.startswith("retrokit.extensions")), "entries only"
    assert not {name for name in loaded if name.split(".")[1] == "cli"} & {
        entry.target.partition(":")[0] for entry in ENTRIES.values()
    }


@pytest.mark.parametrize("words", [["finetune"], ["augment", "crops"]])
def test_help_of_a_command(words, capsys):
    assert cli.run(["help", *words]) == 0
    first = capsys.readouterr().out
    assert cli.run([*words, "--help"]) == 0
    assert first == capsys.readouterr().out


def test_help_without_a_command_is_the_page(capsys):
    assert cli.run(["help"]) == 0
    assert "Train, stress-test and rerank" in capsys.readouterr().out
    assert cli.run(["help", "nothing"]) == 2


def test_a_name_is_taken_once_and_a_group_exists():
    own = CommandRegistry("command", "nowhere", [GroupEntry("group", "A group.", "")])
    own.add(CommandEntry("group one", "One.", "here:one"))
    with pytest.raises(UsageError, match="'group one' is registered twice \\(here:one and there:one\\)"):
        own.add(CommandEntry("group one", "One.", "there:one"))
    with pytest.raises(UsageError, match="there is no group of commands 'other'"):
        own.add(CommandEntry("other one", "One.", "here:one"))
    with pytest.raises(UsageError, match="must be"):
        own.add(CommandEntry("Group", "One.", "here:one"))
    assert [entry.name for entry in own.below("group")] == ["group one"]
    assert own.find("group two") is None


def test_entry_points_are_loaded_only_for_a_name_that_the_core_lacks(monkeypatch):
    own = CommandRegistry("command", "retrokit.commands", [CommandEntry("mine", "Mine.", "here:mine")])
    scans = []
    monkeypatch.setattr(own, "_scan", lambda: scans.append(True))
    assert own.find("mine").target == "here:mine"
    assert scans == []
    assert own.find("theirs") is None
    assert scans
